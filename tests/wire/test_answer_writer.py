"""Answers as bytes: what is written is read by a client of h11 as it was meant."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from wire.http1.answer_writer import AnswerWriter

TEXT = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=20)
HEADERS = st.lists(st.tuples(st.sampled_from(["x-one", "etag", "Content-Type"]), TEXT), max_size=4)
STATUSES = st.sampled_from([200, 204, 206, 304, 400, 404, 413, 431, 503, 599])


def read(data: bytes, method: str, *, ended: bool) -> tuple[h11.Response, bytes, bool]:
    """The answer, its body, and whether the connection goes on."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=method, target="/", headers=[("host", "x")]))
    client.send(h11.EndOfMessage())
    client.receive_data(data)
    if ended:
        client.receive_data(b"")
    answer = client.next_event()
    assert isinstance(answer, h11.Response)
    body = b""
    while isinstance(event := client.next_event(), h11.Data):
        body += bytes(event.data)
    assert isinstance(event, h11.EndOfMessage)
    assert not client.trailing_data[0]
    return answer, body, client.their_state is h11.DONE


@examples(200)
@given(STATUSES, HEADERS, st.binary(max_size=300), st.sampled_from(["GET", "HEAD"]), st.booleans(), st.booleans())
def test_an_answer_is_read_as_it_was_meant(
    status: int, headers: list[tuple[str, str]], body: bytes, method: str, closes: bool, streamed: bool
) -> None:
    """protocol.md 1: at hand or in pieces, also as an answer to HEAD."""
    writer = AnswerWriter(is_head=method == "HEAD", closes=closes)
    if streamed:
        pieces = [b"", body[:7], body[7:]] if status not in (204, 304) else []
        data = b"".join([writer.start(status, headers), *map(writer.piece, pieces), writer.end()])
    else:
        data = writer.whole(status, headers, body)
    answer, got, lives = read(data, method, ended=closes)
    assert answer.status_code == status
    said = [(name.decode(), value.decode()) for name, value in answer.headers]
    assert [line for line in said if line[0] in ("x-one", "etag", "content-type")] == [
        (name.lower(), value) for name, value in headers
    ]
    assert got == (b"" if method == "HEAD" or status in (204, 304) else body)
    assert lives is not closes
    assert writer.ended


def test_a_length_that_is_given_is_kept_to() -> None:
    """Else whoever reads would take the next answer for a part of this one."""
    headers = [("content-length", "3")]
    for pieces, word in ([b"ab", b"cd"], "more of a body"), ([b"ab"], "less of a body"):
        writer = AnswerWriter()
        writer.start(200, headers)
        with pytest.raises(ValueError, match=word):
            _send(writer, pieces)
        assert not writer.ended
    with pytest.raises(ValueError, match="that the body has not"):
        AnswerWriter().whole(200, headers, b"abcd")
    assert read(AnswerWriter().whole(200, headers, b"abc"), "GET", ended=False)[1] == b"abc"


def _send(writer: AnswerWriter, pieces: list[bytes]) -> None:
    for piece in pieces:
        writer.piece(piece)
    writer.end()


@pytest.mark.parametrize(
    "headers",
    [
        [("x", "a\r\nb: c")],
        [("x\r\ny", "a")],
        [("x", "a\x00")],
        [("", "a")],
        [("content-length", "-1")],
        [("content-length", "1"), ("Content-Length", "2")],
        [("Connection", "close")],
        [("transfer-encoding", "chunked")],
    ],
)
def test_what_http_does_not_allow_is_not_written(headers: list[tuple[str, str]]) -> None:
    """rules P10: the handler's fault, of which the caller gets a 500 and no byte."""
    for begin in (lambda writer: writer.whole(200, headers, b""), lambda writer: writer.start(200, headers)):
        writer = AnswerWriter()
        with pytest.raises(ValueError, match=r"header|[Ll]ength"):
            begin(writer)
        assert not writer.begun


def test_there_is_one_answer_to_a_request() -> None:
    writer = AnswerWriter()
    writer.start(200, [])
    with pytest.raises(ValueError, match="a second answer"):
        writer.whole(500, [], b"")


def test_who_knows_no_chunks_reads_to_the_end_of_the_connection() -> None:
    """RFC 9112, 6.3: an answer to HTTP/1.0 of unknown length ends with its connection."""
    writer = AnswerWriter(old=True)
    data = writer.start(200, []) + writer.piece(b"abc") + writer.end()
    assert writer.closes
    assert b"chunked" not in data
    assert data.endswith(b"\r\n\r\nabc")
