"""BoundedQueue: so many at once, the others in line."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from tests.wire.lab import LIMITS, get, head, once, text, unix_server
from tests.world import elapsed
from wire.bounded_queue import BoundedQueue
from wire.limits import Tally
from wire.request import Request, Response
from wire.routes import HttpRoute
from wire.shedding import Concern


async def test_who_comes_later_is_served_in_order(autojump_clock: trio.testing.MockClock) -> None:
    turns, served = BoundedQueue(1, 2), []
    assert await turns.take(1)

    async def caller(name: str) -> None:
        assert await turns.take(10)
        served.append(name)
        turns.occupy(-1)

    async with trio.open_nursery() as nursery:
        for name in "ab":
            nursery.start_soon(caller, name)
            await trio.testing.wait_all_tasks_blocked()
        assert not await turns.take(10)  # the line is full
        turns.occupy(-1)
    assert (served, turns.taken) == (["a", "b"], 0)


async def test_patience_ends(autojump_clock: trio.testing.MockClock) -> None:
    turns = BoundedQueue(1, 5)
    assert await turns.take(0)
    began = trio.current_time()
    assert not await turns.take(3)
    assert elapsed.since(began) == pytest.approx(3)
    turns.occupy(-1)
    assert await turns.take(0)


async def test_a_turn_that_comes_to_who_is_leaving_goes_on() -> None:
    """The turn is given in the very moment in which its caller is cancelled."""
    turns, served = BoundedQueue(1, 5), trio.Event()
    assert await turns.take(0)

    async def next_one() -> None:
        assert await turns.take(60)
        served.set()

    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as leaving:
            leaving.start_soon(turns.take, 60)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(next_one)
            await trio.testing.wait_all_tasks_blocked()
            leaving.cancel_scope.cancel()
            turns.occupy(-1)
        with trio.fail_after(60):
            await served.wait()
    assert turns.taken == 1


async def test_a_route_lets_so_many_in_and_the_others_wait(tmp_path, mock_clock: trio.testing.MockClock) -> None:
    """Storm contract: a burst of documents is served one after the other, and nobody is sent away.

    Time stands still, so that nobody's patience ends.
    """
    finish, most = trio.Event(), 0
    at_work = 0

    async def document(request: Request) -> Response:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await finish.wait()
        at_work -= 1
        return Response(200, (), b"document")

    async with unix_server(tmp_path, get("/document", document, most=2, line=3)) as (server, path):
        answers: list[bytes] = []

        async def ask() -> None:
            answers.append(await once(path, head("/document")))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask)
            while sum(len(each._waiting) for each in server._service.turns.values()) < 3:
                await trio.testing.wait_all_tasks_blocked(0.01)
            assert b"503" in (await once(path, head("/document"))).partition(b"\r\n")[0]
            finish.set()
        assert [answer.partition(b"\r\n")[0] for answer in answers] == [b"HTTP/1.1 200 OK"] * 5
        assert (most, server.statistics().refused) == (2, {"overloaded": 1})
        assert [turns.taken for turns in server._service.turns.values()] == [0]


# ---- callers who take their answer slowly


BIG = 8 << 20  # more than the kernel keeps between two ends of a Unix socket


def documents(share: Tally, **more: object) -> HttpRoute:
    async def document(request: Request) -> Response:
        return Response(200, (), b"x" * BIG)

    return get("/document", document, most=2, line=3, each=share, concern=Concern.DOCUMENT, **more)


async def begun(path: Path) -> trio.SocketStream:
    """A caller who takes the first bytes of an answer, and then none."""
    stream = await trio.open_unix_socket(path)
    await stream.send_all(head("/document"))
    assert b" 200 " in (await stream.receive_some(64))
    return stream


async def test_slow_callers_take_no_room_from_the_others(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    """Starve: 16 connections that take nothing; a document still comes at once, and afterwards all is as before."""
    share = Tally(64, 64)
    async with unix_server(tmp_path, documents(share)) as (server, path):
        slow = [await begun(path) for _ in range(16)]
        for _ in range(3):
            answer = await once(path, head("/document"))
            assert answer.startswith(b"HTTP/1.1 200 ") and len(answer) > BIG
        assert (server._service.sending, len(share)) == (16 * BIG, 16)
        assert [turns.taken for turns in server._service.turns.values()] == [0]
        for each in slow:
            await each.aclose()
        await server.wait_empty()
        assert (server._service.sending, len(share), server._service.gate.busy) == (0, 0, 0)


async def test_one_caller_has_so_many_on_the_way_at_once(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    """Occupy: whoever has its two is refused with the code, takes no turn, and is served once one is over."""
    share = Tally(2, 64)
    async with unix_server(tmp_path, documents(share), get("/other", text("other"))) as (server, path):
        slow = [await begun(path) for _ in range(2)]
        refused = await once(path, head("/document"))
        assert refused.startswith(b"HTTP/1.1 429 ") and b'"too_many_requests"' in refused
        assert b"retry-after: 5" in refused.lower()
        assert b" 200 " in (await once(path, head("/other"))).partition(b"\r\n")[0]
        assert len(share) == 2
        await read_all_of(slow[0])
        await until(lambda: len(share) == 1)
        assert (await once(path, head("/document"))).startswith(b"HTTP/1.1 200 ")
        assert server.statistics().refused == {"too_many_requests": 1}
        await slow[1].aclose()


async def test_beyond_so_many_bytes_an_answer_keeps_its_room(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """Fill: what is on the way is bounded, whoever asks; a short answer still goes."""
    limits = replace(LIMITS, sending_bytes=2 * BIG)
    async with unix_server(tmp_path, documents(Tally(64, 64)), limits=limits) as (server, path):
        slow = [await begun(path) for _ in range(4)]
        assert server._service.sending == 2 * BIG
        assert [turns.taken for turns in server._service.turns.values()] == [2]
        assert b" 200 " in (await once(path, head("/"))).partition(b"\r\n")[0]
        for each in slow:
            await each.aclose()
        await server.wait_empty()
        assert server._service.sending == 0
        assert [turns.taken for turns in server._service.turns.values()] == [0]


@pytest.mark.parametrize(("rate", "whole"), [(950, True), (250, False)])
async def test_a_slow_link_is_served_and_a_caller_who_drips_is_not(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, rate: int, whole: bool
) -> None:
    """950 bytes a second are what 8 kbit/s leave; over a window: its pauses do not count."""
    async with unix_server(tmp_path, documents(Tally(2, 64)), limits=replace(LIMITS, least_rate=512)) as (_, path):
        async with await trio.open_unix_socket(path) as stream:
            await stream.send_all(head("/document", connection="close"))
            received = 0
            with suppress(trio.BrokenResourceError):
                while piece := await stream.receive_some(19 * 1024):
                    received += len(piece)
                    await trio.sleep(len(piece) / rate)
    assert (received > BIG) is whole


async def read_all_of(stream: trio.SocketStream) -> None:
    """The rest of an answer whose caller goes then."""
    left = BIG - 64
    while left > 0:
        left -= len(await stream.receive_some(1 << 20))
    await stream.aclose()


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(60):
        while not holds():
            await trio.testing.wait_all_tasks_blocked(0.001)
