"""Who is turned away first, and when to come again."""

import json
from pathlib import Path

import trio
import trio.testing

from tests.wire.lab import LongPoll, get, head, once, text, unix_server
from wire.limits import Tally
from wire.request import Request, Response
from wire.routes import HttpRoute
from wire.shedding import Concern, Gate, Rate


def test_heads_are_served_when_nothing_else_is() -> None:
    """Storm contract: heads before heartbeats before joins before full documents."""
    gate = Gate(100, lambda: 0.0)
    let_in = []
    for busy in (0, 49, 50, 69, 70, 84, 85, 99, 100):
        gate.busy = busy
        let_in.append([concern.name for concern in Concern if gate.wait_s(concern) is None])
    everything = ["HEAD", "HEARTBEAT", "JOIN", "DOCUMENT"]
    assert let_in == [everything] * 2 + [everything[:3]] * 2 + [everything[:2]] * 2 + [everything[:1]] * 2 + [[]]


def test_the_return_of_a_storm_is_spread() -> None:
    chances = iter((0.0, 0.5, 1.0))
    gate = Gate(0, lambda: next(chances))
    assert [gate.wait_s(Concern.HEARTBEAT) for _ in range(3)] == [15, 23, 30]
    assert gate.shed[Concern.HEARTBEAT] == 3


def test_a_rate_for_each_key() -> None:
    """rules, Numbers: joins, 10 a minute for each source address."""
    rate = Rate(10, 60.0)
    assert [rate.wait_s("a", 0.0) for _ in range(10)] == [None] * 10
    assert rate.wait_s("a", 0.0) == 6
    assert rate.wait_s("b", 0.0) is None
    assert rate.wait_s("a", 5.9) == 1
    assert rate.wait_s("a", 6.0) is None
    assert rate.wait_s("a", 6.0) is not None
    assert sum(rate.wait_s("a", 1000.0) is None for _ in range(20)) == 10


def test_a_rate_remembers_a_bounded_number_of_keys() -> None:
    rate = Rate(1, 60.0, keys=100)
    for number in range(1000):
        rate.wait_s(number, 0.0)
    assert len(rate._buckets) == 100
    assert rate.wait_s(999, 0.0) == 60


def test_a_tally() -> None:
    tally = Tally(each=2, in_all=3)
    assert [tally.take(who) for who in "aaabb"] == [True, True, False, True, False]
    tally.give_back("a")
    assert len(tally) == 2
    assert [tally.take(who) for who in "bb"] == [True, False]
    tally.give_back("b")
    tally.give_back("b")
    tally.give_back("a")
    assert (len(tally), tally._counts) == (0, {})


async def test_an_overloaded_listener_sheds_in_order_and_recovers(tmp_path: Path) -> None:
    """Storm contract: with documents at work, documents are shed with Retry-After and heads are served."""
    begun, finish = trio.Event(), trio.Event()
    at_work = 0

    async def document(request: Request) -> Response:
        nonlocal at_work
        at_work += 1
        if at_work == 2:
            begun.set()
        await finish.wait()
        return Response(200, (), b"document")

    gate = Gate(4, lambda: 0.0)
    routes = (
        get("/document", document, concern=Concern.DOCUMENT),
        get("/head", text("head"), concern=Concern.HEAD),
        get("/probe", text("alive")),
    )
    async with unix_server(tmp_path, *routes, gate=gate) as (server, path):
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(once, path, head("/document"))
            await begun.wait()
            shed = await once(path, head("/document"))
            assert shed.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 5" in shed
            assert json.loads(shed.partition(b"\r\n\r\n")[2])["code"] == "overloaded"
            assert b"200 OK" in await once(path, head("/head"))
            assert b"200 OK" in await once(path, head("/probe"))
            finish.set()
        assert b"200 OK" in await once(path, head("/document"))
        assert gate.busy == 0
        assert server.statistics().refused == {"overloaded": 1}


async def test_waiting_polls_are_not_at_work(tmp_path: Path) -> None:
    """Storm contract: any number of held polls leaves the capacity free, and each gives its slot back."""
    poll, gate = LongPoll(), Gate(2, lambda: 0.0)
    routes = (get("/poll", poll, concern=Concern.HEAD), get("/head", text("head"), concern=Concern.HEAD))
    async with unix_server(tmp_path, *routes, gate=gate) as (_, path):
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(once, path, head("/poll"))
            await poll.until(waiting=20)
            assert gate.busy == 0
            assert b"200 OK" in await once(path, head("/head"))
            poll.news.set()
        assert gate.busy == 0


async def test_a_slow_body_holds_no_slot(tmp_path: Path) -> None:
    """threats M13's cousin: who sends slowly keeps nobody else out."""

    async def take(request: Request) -> Response:
        return Response(200, (), await request.body())

    gate = Gate(1, lambda: 0.0)
    routes = (
        HttpRoute("POST", "/heartbeat", take, concern=Concern.HEAD),
        get("/head", text("head"), concern=Concern.HEAD),
    )
    async with unix_server(tmp_path, *routes, gate=gate) as (_, path):
        async with await trio.open_unix_socket(path) as slow:
            await slow.send_all(head("/heartbeat", "POST", content_length="2") + b"a")
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert gate.busy == 0
            assert b"200 OK" in await once(path, head("/head"))
            await slow.send_all(b"b")
            assert (await slow.receive_some(4096)).endswith(b"ab")
        assert gate.busy == 0


async def test_a_route_has_a_limit_of_its_own(tmp_path: Path) -> None:
    begun, finish = trio.Event(), trio.Event()

    async def slow(request: Request) -> Response:
        begun.set()
        await finish.wait()
        return Response()

    async with unix_server(tmp_path, get("/slow", slow, most=1)) as (_, path):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(once, path, head("/slow"))
            await begun.wait()
            assert b"retry-after: 1" in await once(path, head("/slow"))
            finish.set()
        assert b"200 OK" in await once(path, head("/slow"))


async def test_a_route_has_a_rate(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with unix_server(tmp_path, get("/rated", text("x"), rate=Rate(1, 60.0))) as (_, path):
        assert b"200 OK" in await once(path, head("/rated"))
        refused = await once(path, head("/rated"))
        assert refused.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after: 60\r\n" in refused.lower()
