"""Turns: so many at once, the others in line."""

import pytest
import trio

from tests.wire.lab import get, head, once, unix_server
from wire.request import Request, Response
from wire.turns import Turns


async def test_who_comes_later_is_served_in_order(autojump_clock: trio.testing.MockClock) -> None:
    turns, served = Turns(1, 2), []
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
    turns = Turns(1, 5)
    assert await turns.take(0)
    began = trio.current_time()
    assert not await turns.take(3)
    assert trio.current_time() - began == pytest.approx(3)
    turns.occupy(-1)
    assert await turns.take(0)


async def test_a_turn_that_comes_to_who_is_leaving_goes_on() -> None:
    """The turn is given in the very moment in which its caller is cancelled."""
    turns, served = Turns(1, 5), trio.Event()
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
        with trio.fail_after(5):
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
