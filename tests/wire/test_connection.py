"""The connection loop over real Unix sockets: what is asked, what goes wrong, what the caller is told."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.examples import examples
from tests.wire.lab import LIMITS, LongPoll, get, head, once, talk, text, unix_server
from tests.world import elapsed
from wire.request import HttpError, Request, Response
from wire.routes import HttpRoute


def body_of(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


def code_of(answer: bytes) -> tuple[int, str]:
    return int(answer.split(b" ", 2)[1]), json.loads(body_of(answer))["code"]


async def test_requests_follow_each_other_on_one_connection(tmp_path: Path) -> None:
    async with unix_server(tmp_path) as (server, path):
        answer = await talk(path, head() + head() + head(connection="close"))
        assert answer.count(b"HTTP/1.1 200 OK") == 3
        assert server.statistics().answered == 3
        assert server.statistics().accepted == 1


async def test_a_body_comes_back_whole(tmp_path: Path) -> None:
    async with unix_server(tmp_path) as (_, path):
        data = bytes(range(256)) * 200
        answer = await once(path, head("/echo", "POST", content_length=str(len(data))) + data)
        assert body_of(answer) == data


async def test_a_chunked_body_is_read(tmp_path: Path) -> None:
    async with unix_server(tmp_path) as (_, path):
        answer = await once(
            path, head("/echo", "POST", transfer_encoding="chunked") + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        )
        assert body_of(answer) == b"abcde"


async def test_a_body_over_the_limit_is_refused_and_the_next_is_served(tmp_path: Path) -> None:
    """threats D-51: 64 KiB, announced or met; what is refused reads no body and harms no other request."""
    async with unix_server(tmp_path) as (_, path):
        announced = await once(path, head("/echo", "POST", content_length=str(10**12)))
        assert code_of(announced) == (413, "too_large")
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        met = await once(path, head("/echo", "POST", transfer_encoding="chunked") + chunk * 2)
        assert code_of(met) == (413, "too_large")
        assert b"200 OK" in await once(path, head())


async def test_an_import_streams_in_flat_memory(tmp_path: Path) -> None:
    """threats D-51: a route's own limit lifts the listener's, and the body comes piece by piece."""
    largest = 0

    async def take(request: Request) -> Response:
        nonlocal largest
        total = 0
        async for piece in request.chunks():
            largest = max(largest, len(piece))
            total += len(piece)
        return Response.json({"bytes": total})

    async with unix_server(tmp_path, HttpRoute("POST", "/import", take, body_bytes=8 << 20)) as (_, path):
        size = 5 << 20
        answer = await once(path, head("/import", "POST", content_length=str(size)) + b"x" * size)
        assert json.loads(body_of(answer)) == {"bytes": size}
        assert largest <= 65536


async def test_an_unread_small_body_does_not_end_the_connection(tmp_path: Path) -> None:
    async with unix_server(tmp_path) as (_, path):
        request = head("/unread", "POST", content_length="50000") + b"x" * 50000
        answer = await talk(path, request + head(connection="close"))
        assert answer.count(b"200 OK") == 2


async def test_a_large_unread_body_ends_the_connection_after_its_answer(tmp_path: Path) -> None:
    async with unix_server(tmp_path) as (_, path):
        request = head("/unread", "POST", content_length=str(10 << 20)) + b"x" * (1 << 20)
        answer = await talk(path, request)
        assert answer.count(b"200 OK") == 1


async def test_expect_100_continue(tmp_path: Path) -> None:
    async with unix_server(tmp_path) as (_, path):
        async with await trio.open_unix_socket(path) as stream:
            await stream.send_all(head("/echo", "POST", content_length="3", expect="100-continue"))
            assert (await stream.receive_some(4096)).startswith(b"HTTP/1.1 100 ")
            await stream.send_all(b"abc")
            assert (await stream.receive_some(4096)).endswith(b"abc")


async def test_a_body_that_is_not_wanted_is_not_asked_for(tmp_path: Path) -> None:
    async with unix_server(tmp_path) as (_, path):
        answer = await talk(path, head("/echo", "POST", content_length="1000000", expect="100-continue"))
        assert code_of(answer) == (413, "too_large")


async def test_head_has_the_headers_of_get_and_no_body(tmp_path: Path) -> None:
    async with unix_server(tmp_path) as (_, path):
        answer = await once(path, head(method="HEAD"))
        assert b"content-length: 4" in answer.lower()
        assert body_of(answer) == b""


async def test_unknown_paths_and_methods(tmp_path: Path) -> None:
    """threats N11: doubled and trailing slashes, and dots, are no way to a path."""
    async with unix_server(tmp_path) as (_, path):
        assert code_of(await once(path, head("/nothing"))) == (404, "not_found")
        assert code_of(await once(path, head("//whoami"))) == (404, "not_found")
        assert code_of(await once(path, head("/items/"))) == (404, "not_found")
        assert code_of(await once(path, head("/items/%2e%2e"))) == (400, "bad_request")
        assert code_of(await once(path, head("/items/%zz"))) == (400, "bad_request")
        assert code_of(await once(path, head("/items/%00"))) == (400, "bad_request")
        refused = await once(path, head("/", "DELETE"))
        assert code_of(refused) == (405, "method_not_allowed")
        assert b"allow: get" in refused.lower()


async def test_a_scope_is_one_segment(tmp_path: Path) -> None:
    """protocol.md 1: the path is split at its slashes before it is decoded."""
    async with unix_server(tmp_path) as (_, path):
        answer = await once(path, head("/items/route_policy%2Fa,b"))
        assert json.loads(body_of(answer))["parameters"] == {"name": "route_policy/a,b"}


async def test_a_fault_of_a_handler_ends_its_connection_and_no_more(tmp_path: Path) -> None:
    """rules P10, A14: 500 `internal_error`, counted, nothing of the cause told; the listener lives."""
    async with unix_server(tmp_path) as (server, path):
        answer = await talk(path, head("/boom") + head())
        assert code_of(answer) == (500, "internal_error")
        assert answer.count(b"HTTP/1.1") == 1
        assert b"own" not in answer
        assert server.statistics().faults == 1
        assert b"200 OK" in await once(path, head())


async def test_a_fault_after_the_answer_began_cuts_it(tmp_path: Path) -> None:
    async def late(request: Request) -> Response:
        async def pieces():
            yield b"half"
            raise ValueError("later")

        return Response(200, (), pieces())

    async with unix_server(tmp_path, get("/late", late)) as (server, path):
        answer = await talk(path, head("/late"))
        assert b"half" in answer
        assert not answer.endswith(b"0\r\n\r\n")
        assert server.statistics().faults == 1
        assert b"200 OK" in await once(path, head())


async def test_a_bad_header_of_a_handler_is_a_500(tmp_path: Path) -> None:
    async def bad(request: Request) -> Response:
        return Response(200, [("x", "a\r\nset-cookie: b")])

    async with unix_server(tmp_path, get("/bad", bad)) as (_, path):
        answer = await talk(path, head("/bad"))
        assert code_of(answer) == (500, "internal_error")
        assert b"set-cookie" not in answer


async def test_an_error_says_when_to_come_again(tmp_path: Path) -> None:
    async def busy(request: Request) -> Response:
        raise HttpError(503, "not_ready", "later", retry_after=7)

    async with unix_server(tmp_path, get("/busy", busy)) as (_, path):
        answer = await once(path, head("/busy"))
        assert code_of(answer) == (503, "not_ready")
        assert b"retry-after: 7" in answer.lower()


async def test_a_stream_goes_out_as_it_comes_and_ends_with_its_caller(tmp_path: Path) -> None:
    closed = trio.Event()

    async def stream(request: Request) -> Response:
        async def pieces():
            try:
                yield b"first"
                with request.waiting():
                    await trio.sleep_forever()
            finally:
                closed.set()

        return Response(200, [("content-type", "text/event-stream")], pieces())

    async with unix_server(tmp_path, get("/stream", stream)) as (server, path):
        async with await trio.open_unix_socket(path) as caller:
            await caller.send_all(head("/stream"))
            received = b""
            with trio.fail_after(30):
                while b"first" not in received:
                    received += await caller.receive_some(4096)
        with trio.fail_after(12):  # less than the deadline of a request
            await closed.wait()
            await server.wait_empty()


async def test_a_long_poll_whose_caller_leaves_is_cancelled(tmp_path: Path) -> None:
    """threats D-51: what nobody waits for any more holds no connection."""
    poll = LongPoll()
    async with unix_server(tmp_path, get("/poll", poll)) as (server, path):
        stay, leave = await trio.open_unix_socket(path), await trio.open_unix_socket(path)
        await stay.send_all(head("/poll"))
        await leave.send_all(head("/poll"))
        await poll.until(waiting=2)
        await leave.aclose()
        await poll.until(waiting=1)
        assert poll.cancelled == 1
        poll.news.set()
        with trio.fail_after(30):
            assert b"news" in await stay.receive_some(4096)
        await stay.aclose()
        assert server.statistics().faults == 0


async def test_a_caller_who_left_between_two_polls_does_not_wait_again(tmp_path: Path) -> None:
    """The second poll is read after its caller has gone: it is cancelled at once."""
    poll, begun, go_on = LongPoll(), trio.Event(), trio.Event()

    async def twice(request: Request) -> Response:
        with request.waiting():
            begun.set()
            await go_on.wait()
        await trio.testing.wait_all_tasks_blocked(0.02)
        return await poll(request)

    async with unix_server(tmp_path, get("/twice", twice)) as (server, path):
        stream = await trio.open_unix_socket(path)
        await stream.send_all(head("/twice"))
        await begun.wait()
        go_on.set()
        await trio.lowlevel.checkpoint()
        await stream.aclose()
        with trio.fail_after(12):  # less than the deadline of a request
            await server.wait_empty()
        assert (poll.waiting, poll.cancelled) == (0, 1)


async def test_a_browser_or_a_proxy_is_refused(tmp_path: Path) -> None:
    """threats U12: a fixed Host, no Origin."""
    async with unix_server(tmp_path) as (_, path):
        assert code_of(await once(path, head(origin="http://evil.example"))) == (403, "forbidden_origin")
        other = b"GET / HTTP/1.1\r\nhost: evil.example\r\n\r\n"
        assert code_of(await once(path, other)) == (421, "misdirected_request")
        for host in (b"[::1]", b"[::1]:80", b"localhost]", b"evil.example:localhost"):
            assert code_of(await once(path, b"GET / HTTP/1.1\r\nhost: " + host + b"\r\n\r\n"))[0] == 421
        assert b"200 OK" in await once(path, b"GET / HTTP/1.1\r\nhost: localhost:80\r\n\r\n")


async def test_a_head_over_the_limit(tmp_path: Path) -> None:
    """threats N07: a huge header is refused, and nothing of it is kept."""
    async with unix_server(tmp_path) as (_, path):
        assert code_of(await talk(path, head(x="y" * 100_000))) == (431, "too_large")
        assert b"200 OK" in await once(path, head())


async def test_garbage_is_answered_400(tmp_path: Path) -> None:
    async with unix_server(tmp_path) as (_, path):
        assert code_of(await talk(path, b"GARBAGE\r\n\r\n")) == (400, "bad_request")
        assert code_of(await talk(path, b"GET / HTTP/1.1\r\n\r\n")) == (400, "bad_request")


async def test_a_length_of_thousands_of_digits_is_no_fault_of_ours(tmp_path: Path) -> None:
    """threats N07: h11 0.14, as Debian has it, takes any number of digits for a number; Python does not."""
    async with unix_server(tmp_path) as (server, path):
        for digits, other in itertools.product((900, 5_000), ({}, {"transfer_encoding": "chunked"})):
            answer = await talk(path, head("/echo", "POST", content_length="9" * digits, **other))
            assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 "))
        assert b"200 OK" in await once(path, head())
        assert server.statistics().faults == 0


async def test_a_request_that_has_two_ends_is_the_last_of_its_connection(tmp_path: Path) -> None:
    """threats N07; RFC 9112, 6.1: what one reads as a body is the next request to another."""
    both = head("/echo", "POST", content_length="3", transfer_encoding="chunked")
    async with unix_server(tmp_path) as (server, path):
        elsewhere = both.replace(b"/echo", b"/../echo")  # refused for its target, or its web page, all the same
        led = both.replace(b"\r\n\r\n", b"\r\norigin: https://page\r\n\r\n")
        for request in (
            both + b"0\r\n\r\n",
            elsewhere + b"0\r\n\r\n",
            led + b"0\r\n\r\n",
            head().replace(b"HTTP/1.1", b"HTTP/3.0"),
        ):
            answer = await talk(path, request + head())
            assert code_of(answer) == (400, "bad_request")
            assert answer.count(b"HTTP/1.1 ") == 1
        assert b"200 OK" in await once(path, head())
        assert server.statistics().faults == 0


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=200),
            st.sampled_from(
                [b"GET / HTTP/1.1\r\n", b"host: x\r\n", b"\r\n", b"content-length: 5\r\n", b"%00", b"0\r\n\r\n"]
            ),
            st.sampled_from([head(), head("/echo", "POST", content_length="4"), head("/items/%C3%28")]),
        ),
        max_size=12,
    )
)
def test_no_bytes_end_the_listener(tmp_path: Path, pieces: list[bytes]) -> None:
    """rules P6, threats N07: garbage ends its connection at most; the next request is served, no fault is counted."""

    async def main() -> None:
        async with unix_server(tmp_path) as (server, path):
            stream = await trio.open_unix_socket(path)
            try:
                for piece in pieces:
                    await stream.send_all(piece)
                await stream.send_eof()
            except trio.BrokenResourceError:
                pass
            with trio.move_on_after(5):
                try:
                    while await stream.receive_some(65536):
                        pass
                except trio.BrokenResourceError:
                    pass
            await trio.aclose_forcefully(stream)
            assert b"200 OK" in await once(path, head())
            assert server.statistics().faults == 0

    trio.run(main)


@pytest.fixture
def autojump_clock() -> MockClock:
    return MockClock(autojump_threshold=0.01)


async def test_a_slow_head_is_told_and_ended(tmp_path: Path, autojump_clock: MockClock) -> None:
    """threats D-51: whole within the local-request time."""
    async with unix_server(tmp_path) as (_, path):
        begun = trio.current_time()
        async with await trio.open_unix_socket(path) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\n")
            await trio.sleep(1)
            await stream.send_all(b"host: localhost\r\n")
            answer = await stream.receive_some(4096)
        assert code_of(answer) == (408, "timed_out")
        assert elapsed.since(begun) == pytest.approx(1 + LIMITS.head_s, abs=2)


async def test_a_slow_body_is_told_and_ended(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with unix_server(tmp_path) as (_, path):
        async with await trio.open_unix_socket(path) as stream:
            await stream.send_all(head("/echo", "POST", content_length="10") + b"abc")
            answer = await stream.receive_some(4096)
        assert code_of(answer) == (408, "timed_out")


async def test_an_idle_connection_is_closed_without_a_word(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with unix_server(tmp_path) as (_, path):
        begun = trio.current_time()
        async with await trio.open_unix_socket(path) as stream:
            assert await stream.receive_some(4096) == b""
        assert elapsed.since(begun) == pytest.approx(LIMITS.idle_s, abs=2)


async def test_a_handler_that_hangs_is_ended_by_the_deadline(tmp_path: Path, autojump_clock: MockClock) -> None:
    """threats D-51: 15 s; rules P13: every wait has a deadline."""

    async def hang(request: Request) -> Response:
        await trio.sleep_forever()
        raise AssertionError

    async with unix_server(tmp_path, get("/hang", hang)) as (_, path):
        begun = trio.current_time()
        assert code_of(await talk(path, head("/hang"))) == (503, "timed_out")
        assert elapsed.since(begun) == pytest.approx(LIMITS.deadline_s, abs=2)


async def test_a_handler_may_say_how_long_its_work_takes(tmp_path: Path, autojump_clock: MockClock) -> None:
    """rules P13: longer than its route has it, and with an end all the same."""

    async def hang(request: Request) -> Response:
        request.allow(2 * LIMITS.deadline_s)
        await trio.sleep_forever()
        raise AssertionError

    async with unix_server(tmp_path, get("/hang", hang)) as (_, path):
        begun = trio.current_time()
        assert code_of(await talk(path, head("/hang"))) == (503, "timed_out")
        assert elapsed.since(begun) == pytest.approx(2 * LIMITS.deadline_s, abs=2)


async def test_a_caller_who_takes_nothing_is_ended(tmp_path: Path, autojump_clock: MockClock) -> None:
    endless = replace(LIMITS, stall_s=30)

    async def flood(request: Request) -> Response:
        return Response(200, (), b"x" * (32 << 20))

    async with unix_server(tmp_path, get("/flood", flood), limits=endless) as (server, path):
        async with await trio.open_unix_socket(path) as stream:
            await stream.send_all(head("/flood"))
            await stream.receive_some(1000)
            with trio.fail_after(100):
                await server.wait_empty()


async def test_queries(tmp_path: Path) -> None:
    async def ask(request: Request) -> Response:
        return Response.json({"scopes": request.query_all("scope"), "wait": request.query_integer("wait", 0, 0, 300)})

    async with unix_server(tmp_path, get("/ask", ask)) as (_, path):
        answer = await once(path, head("/ask?scope=route_policy%2Fa&scope=b&wait=55"))
        assert json.loads(body_of(answer)) == {"scopes": ["route_policy/a", "b"], "wait": 55}
        for bad in (
            "wait=301",
            "wait=-1",
            "wait=1&wait=2",
            "wait=%31%zz",
            "wait=",
            "wait=٣".encode().decode("latin-1"),
        ):
            if bad.isascii():
                assert code_of(await once(path, head(f"/ask?{bad}"))) == (400, "bad_request")
        many = "&".join(["scope=a"] * 300)
        assert code_of(await once(path, head(f"/ask?{many}"))) == (400, "bad_request")


async def test_stopping_lets_running_requests_finish_and_tells_waiting_ones(tmp_path: Path) -> None:
    """rules A14: the running request is answered, the waiting one gets 503, the idle one is closed; then it is over."""
    poll, begun, finish = LongPoll(), trio.Event(), trio.Event()

    async def slow(request: Request) -> Response:
        begun.set()
        await finish.wait()
        return Response(200, (), b"finished")

    routes = (get("/poll", poll), get("/slow", slow))
    async with unix_server(tmp_path, *routes) as (server, path):
        idle, waiting, running = [await trio.open_unix_socket(path) for _ in range(3)]
        await idle.send_all(head())
        assert b"200" in await idle.receive_some(4096)
        await waiting.send_all(head("/poll"))
        await running.send_all(head("/slow"))
        await poll.until(waiting=1)
        await begun.wait()
        server.stop()
        with trio.fail_after(30):
            assert code_of(await waiting.receive_some(4096)) == (503, "shutting_down")
            assert await idle.receive_some(4096) == b""
            finish.set()
            answer = await running.receive_some(4096)
            assert b"connection: close" in answer.lower()
            assert answer.endswith(b"finished")
            await server.wait_empty()
        with pytest.raises(OSError, match="refused"):
            await trio.open_unix_socket(path)
        for stream in (idle, waiting, running):
            await stream.aclose()


async def test_stopping_answers_who_has_just_come(tmp_path: Path, mock_clock: MockClock) -> None:
    """rules A14: a caller that got in before the end, and had no time to say anything yet, is no idle one.

    Time stands still until it has its answer: however slow the machine is, it speaks before its second is over.
    """
    async with unix_server(tmp_path, get("/t", text("words"))) as (server, path):
        fresh = await trio.open_unix_socket(path)
        silent = await trio.open_unix_socket(path)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert server.connections == 2
        server.stop()
        await trio.testing.wait_all_tasks_blocked(0.05)
        await fresh.send_all(head("/t"))
        answer = await fresh.receive_some(4096)
        assert answer.endswith(b"words")
        assert b"connection: close" in answer.lower()
        mock_clock.autojump_threshold = 0.01
        with trio.fail_after(5):
            assert await silent.receive_some(4096) == b""
            await server.wait_empty()
        await fresh.aclose()
        await silent.aclose()


async def test_stopping_ends_a_wait_that_yields_as_if_its_time_were_over(tmp_path: Path, mock_clock: MockClock) -> None:
    """Time stands still: however slow the machine is, the late caller speaks before its second is over."""
    begun = trio.Event()

    async def poll(request: Request) -> Response:
        with request.waiting(yields=True):
            begun.set()
            await trio.sleep_forever()
        return Response(204)

    async with unix_server(tmp_path, get("/poll", poll)) as (server, path):
        waiting, late = await trio.open_unix_socket(path), await trio.open_unix_socket(path)
        await waiting.send_all(head("/poll"))
        await begun.wait()
        server.stop()
        assert b" 204 " in await waiting.receive_some(4096)
        await late.send_all(head("/poll"))
        assert b" 204 " in await late.receive_some(4096)
        await waiting.aclose()
        await late.aclose()


async def test_stopping_has_a_deadline(tmp_path: Path, autojump_clock: MockClock) -> None:
    async def forever(request: Request) -> Response:
        await trio.sleep_forever()
        raise AssertionError

    async with unix_server(tmp_path, get("/forever", forever, deadline_s=1000.0)) as (server, path):
        stream = await trio.open_unix_socket(path)
        await stream.send_all(head("/forever"))
        await trio.sleep(1)
        begun = trio.current_time()
        server.stop()
        assert await stream.receive_some(4096) == b""
        assert elapsed.since(begun) == pytest.approx(LIMITS.grace_s, abs=2)
        await stream.aclose()


async def test_text_is_what_it_was(tmp_path: Path) -> None:
    """A handler of the lab answers as it says, so the other tests mean something."""
    async with unix_server(tmp_path, get("/t", text("words"))) as (_, path):
        assert body_of(await once(path, head("/t"))) == b"words"


async def test_an_empty_body_is_read_at_once(tmp_path: Path) -> None:
    """rules P13: a POST without a body waits for nothing."""
    async with unix_server(tmp_path) as (_, path):
        with trio.fail_after(12):  # less than the deadline of a request
            answer = await once(path, head("/echo", "POST", content_length="0"))
        assert b"200 OK" in answer
        assert body_of(answer) == b""
