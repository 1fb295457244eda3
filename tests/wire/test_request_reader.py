"""Requests out of bytes: whatever they are, and however they come, they are what h11 alone reads in them."""

from collections.abc import Callable, Iterator

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from wire.http1.request_head import LINES_REMEMBERED, MOST_LINES, RequestHead, plain_lines
from wire.http1.request_reader import Ahead, RequestReader

MOST = 2048
Found = list[tuple[object, ...]]

LINES = [
    b"GET / HTTP/1.1\r\n",
    b"POST /v1/heartbeat?a=%20 HTTP/1.1\r\n",
    b"HEAD /x HTTP/1.1\r\n",
    b"GET / HTTP/1.0\r\n",
    b"GET / HTTP/2.0\r\n",
    b"GET  / HTTP/1.1\r\n",
    b"GET / HTTP/1.1 \r\n",
    b"GET /\xff HTTP/1.1\r\n",
    b"GET / HTTP/1.1\n",
    b"GET / x HTTP/1.1\r\n",
    b"get / HTTP/1.1\r\n",
    b"PATCH / HTTP/1.1\r\n",
    b"CONNECT x:1 HTTP/1.1\r\n",
    b"OPTIONS * HTTP/1.1\r\n",
    b"GARBAGE\r\n",
    b"\r\n",
]
HEADERS = [
    b"host: x\r\n",
    b"Host: x\r\n",
    b"host:y\n",
    b"content-length: 5\r\n",
    b"content-length: 5, 5\r\n",
    b"content-length: 0\r\n",
    b"content-length: 6\r\n",
    b"content-length: +5\r\n",
    b"content-length: 5\n\n",
    b"Content-Length : 5\r\n",
    b"content-length: 5 \t\r\n",
    b"transfer-encoding: chunked\r\n",
    b"transfer-encoding: gzip, chunked\r\n",
    b"transfer-encoding:\x0bchunked\r\n",
    b"transfer-encoding: \r\n chunked\r\n",
    b"connection: close\r\n",
    b"connection: keep-alive, Close\r\n",
    b"connection: keep-alive\r\n",
    b"expect: 100-continue\r\n",
    b"upgrade: websocket\r\n",
    b" folded: in\r\n",
    b"\tof a tab\r\n",
    b"x: y\rz\r\n",
    b"x: \x00\r\n",
    b"x: \xff\r\n",
    b"x\r\n",
    b": x\r\n",
    b"x: " + b"y" * MOST_LINES + b"\r\n",
    b"x: " + b"y" * MOST + b"\r\n",
]
ENDS = [b"\r\n", b"\r\n\r\n", b"\n", b"\r\n\n", b""]
BODIES = [b"", b"hello", b"hello!", b"5\r\nhello\r\n0\r\n\r\n", b"hell", b"0\r\n\r\n", b"5;x=y\r\nhello\n0\r\n\r\n"]

messages = st.builds(
    lambda line, headers, end, body: b"".join((line, *headers, end, body)),
    st.sampled_from(LINES) | st.just(LINES[0]) | st.just(LINES[1]),
    st.lists(st.just(HEADERS[0]) | st.sampled_from(HEADERS), max_size=4),
    st.just(ENDS[0]) | st.sampled_from(ENDS),
    st.sampled_from(BODIES),
)


@examples(400)
@given(st.lists(messages | st.binary(max_size=30), min_size=1, max_size=4), st.lists(st.integers(1, 400), max_size=8))
def test_bytes_come_to_what_h11_reads_in_them(said: list[bytes], sizes: list[int]) -> None:
    """threats N07: two readings of where a request ends are how one is hidden in another."""
    pieces = list(cut(b"".join(said), sizes))
    assert by_reader(pieces) == by_h11(pieces)


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("header", HEADERS)
def test_each_line_is_judged_the_same_when_it_is_remembered(line: bytes, header: bytes) -> None:
    """threats N07: also beside what was asked the moment before, and twice on one connection."""
    for headers in (HEADERS[0] + header, header + HEADERS[0], header):
        data = line + headers + b"\r\n" + b"hello"
        for pieces in ([data], [data, data], [data[:-7], data[-7:]]):
            assert by_reader(pieces) == by_h11(pieces)


def test_the_same_lines_are_judged_once() -> None:
    block = b"host: judged-once\r\ncontent-length: 5\r\n\r\n"
    before = plain_lines.cache_info().misses
    for number in range(10):
        assert by_reader([b"POST /%d HTTP/1.1\r\n%bhello" % (number, block)])[0][-1] == b"hello"
    assert plain_lines.cache_info().misses == before + 1


def test_what_is_remembered_is_bounded() -> None:
    """threats D-51: who sends other lines each time takes no more than this."""
    for number in range(2 * LINES_REMEMBERED):
        by_reader([b"GET / HTTP/1.1\r\nhost: x\r\nx: %d\r\n\r\n" % number])
    assert plain_lines.cache_info().currsize <= LINES_REMEMBERED
    before = plain_lines.cache_info().misses
    by_reader([b"GET / HTTP/1.1\r\nhost: x\r\nx: %b\r\n\r\n" % (b"y" * MOST_LINES)])
    assert plain_lines.cache_info().misses == before


def cut(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    for size in sizes:
        if data:
            yield data[:size]
            data = data[size:]
    if data:
        yield data


def by_reader(pieces: list[bytes]) -> Found:
    """What each request says and its body; how it ends."""
    reader, given, found = RequestReader(MOST), iter([*pieces, b""]), []
    try:
        while isinstance(head := _until(reader.next_head, Ahead.UNFINISHED, reader, given), RequestHead):
            body = b""
            found.append((head.method, head.target, head.version, head.lines.headers, body))
            while piece := _until(reader.next_piece, None, reader, given):
                body += piece
                found[-1] = (*found[-1][:-1], body)
            assert not reader.is_in_body
            if not head.keeps_alive:
                return found
            reader.finish()
    except h11.RemoteProtocolError as error:
        assert reader.broken
        return [*found, ("refused", error.error_status_hint)]
    return found


def _until(ask: Callable[[], object], unfinished: object, reader: RequestReader, given: Iterator[bytes]) -> object:
    while (found := ask()) is unfinished:
        reader.receive(next(given))
    return found


def by_h11(pieces: list[bytes]) -> Found:
    http, given, found = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST), iter([*pieces, b""]), []
    try:
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(next(given))
            elif isinstance(event, h11.Request):
                said = tuple((bytes(name), bytes(value)) for name, value in event.headers)
                found.append((event.method.decode(), event.target, event.http_version, said, b""))
            elif isinstance(event, h11.Data):
                found[-1] = (*found[-1][:-1], found[-1][-1] + bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                http.send(h11.Response(status_code=400, headers=[("content-length", "0")]))
                http.send(h11.EndOfMessage())
                if http.our_state is not h11.DONE:
                    return found
                http.start_next_cycle()
            else:
                return found
    except h11.RemoteProtocolError as error:
        return [*found, ("refused", error.error_status_hint)]
