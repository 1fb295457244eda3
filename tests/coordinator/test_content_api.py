"""Uploading parts of declared files: by their hash, whole or not at all (protocol 2)."""

import hashlib
from collections.abc import AsyncIterator

import trio

from coordinator.configs import part_bodies
from coordinator.configs.part_bodies import BODY_BYTES, MEDIA_TYPE
from coordinator.database.uploads import PART_BYTES
from tests.coordinator.daemon import Running, refusal, running
from tests.coordinator.founding import Founded
from wire.client import Call
from wire.operators.operator_messages import ASKED_MAX

OCTETS = ("content-type", "application/octet-stream")


def digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()


async def put(at: Running, name: str, value: bytes | AsyncIterator[bytes], *headers: tuple[str, str]) -> None:
    await at.operator.fetch(at.founded.socket, Call("PUT", f"/v1/contents/{name}", headers=headers, body=value))


async def missing(at: Running, *hashes: str) -> list[str]:
    return (await at.ask("POST", "/v1/contents/missing", {"sha256": hashes}))["missing"]


async def test_a_part_goes_up_once(founded: Founded) -> None:
    async with running(founded) as at:
        value = bytes(range(256)) * 4_096
        assert len(value) == PART_BYTES
        assert await missing(at, digest(value), digest(b"")) == sorted([digest(value), digest(b"")])
        await put(at, digest(value), value, OCTETS)
        assert await missing(at, digest(value), digest(b"")) == [digest(b"")]


REFUSED: list[tuple[str, list[tuple[str, str]], str]] = [
    (digest(b"other"), [OCTETS], "bad_request"),
    (digest(b"one"), [], "bad_request"),
    (digest(b"one"), [("content-type", "application/json")], "bad_request"),
    ("one", [OCTETS], "not_found"),
]


async def test_what_is_refused_is_not_kept(founded: Founded) -> None:
    async with running(founded) as at:
        for number, (name, headers, code) in enumerate(REFUSED):
            assert await refusal(put(at, name, b"one", *headers)) == code, number
            assert await missing(at, digest(b"one")) == [digest(b"one")]
            following = b"next %d" % number
            await put(at, digest(following), following, OCTETS)
            assert await missing(at, digest(following)) == []


async def test_a_part_that_is_too_large_is_refused_by_its_length(founded: Founded) -> None:
    head = f"PUT /v1/contents/{digest(b'')} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {PART_BYTES + 1}\r\n"
    async with running(founded):
        async with await trio.open_unix_socket(str(founded.socket)) as stream:
            await stream.send_all(f"{head}content-type: application/octet-stream\r\n\r\n".encode())
            answer = b"".join([piece async for piece in stream])
    assert answer.startswith(b"HTTP/1.1 413")


async def test_an_upload_that_breaks_off_changes_nothing(founded: Founded) -> None:
    value = b"x" * 100_000
    head = f"PUT /v1/contents/{digest(value)} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(value)}\r\n"
    async with running(founded) as at:
        async with await trio.open_unix_socket(str(founded.socket)) as stream:
            await stream.send_all(f"{head}content-type: application/octet-stream\r\n\r\n".encode() + value[:50_000])
        assert await missing(at, digest(value)) == [digest(value)]
        await put(at, digest(value), value, OCTETS)
        assert await missing(at, digest(value)) == []


async def send(at: Running, body: bytes, kind: str = MEDIA_TYPE) -> None:
    await at.operator.fetch(
        at.founded.socket, Call("POST", "/v1/contents", headers=[("content-type", kind)], body=body)
    )


def body_of(*parts: bytes) -> bytes:
    return b"".join(body for body, _ in part_bodies.join(parts))


async def test_many_parts_go_up_in_one_body(founded: Founded) -> None:
    parts = [bytes([number]) * number for number in range(200)]
    async with running(founded) as at:
        await send(at, body_of(*parts))
        assert await missing(at, *map(digest, parts)) == []
        await send(at, body_of(*parts))


OUT_OF_FORM = [
    (body_of(b"one", b"two")[:-1], MEDIA_TYPE),
    (body_of(b"one") + b"more", MEDIA_TYPE),
    (body_of(b"one") + body_of(b"two").replace(b"two", b"too"), MEDIA_TYPE),
    (body_of(b"one") + bytes(32) + b"\xff" * 4, MEDIA_TYPE),
    (body_of(b"one"), "application/octet-stream"),
]


async def test_of_a_body_out_of_form_nothing_is_kept(founded: Founded) -> None:
    """Not even what came before the fault."""
    async with running(founded) as at:
        for body, kind in OUT_OF_FORM:
            assert await refusal(send(at, body, kind)) == "bad_request", body
            assert await missing(at, digest(b"one")) == [digest(b"one")]


async def test_a_body_of_many_that_breaks_off_changes_nothing(founded: Founded) -> None:
    body = body_of(*(bytes([number]) * 1_000 for number in range(100)))
    head = f"POST /v1/contents HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
    async with running(founded) as at:
        async with await trio.open_unix_socket(str(founded.socket)) as stream:
            await stream.send_all(f"{head}content-type: {MEDIA_TYPE}\r\n\r\n".encode() + body[:50_000])
        assert await missing(at, digest(bytes(1_000))) == [digest(bytes(1_000))]


async def test_a_body_of_many_is_bounded(founded: Founded) -> None:
    assert max(len(body) for body, _ in part_bodies.join([bytes(PART_BYTES)] * 9)) <= BODY_BYTES
    head = f"POST /v1/contents HTTP/1.1\r\nhost: localhost\r\ncontent-length: {BODY_BYTES + 1}\r\n"
    async with running(founded):
        async with await trio.open_unix_socket(str(founded.socket)) as stream:
            await stream.send_all(f"{head}content-type: {MEDIA_TYPE}\r\n\r\n".encode())
            answer = b"".join([piece async for piece in stream])
    assert answer.startswith(b"HTTP/1.1 413")


async def test_a_question_out_of_form(founded: Founded) -> None:
    async with running(founded) as at:
        for body in ({}, {"sha256": "a"}, {"sha256": ["A" * 64]}, {"sha256": [], "more": 1}):
            assert await refusal(at.ask("POST", "/v1/contents/missing", body)) == "bad_request", body


async def test_as_many_as_may_be_asked_for(founded: Founded) -> None:
    hashes = [digest(str(number).encode()) for number in range(ASKED_MAX + 1)]
    async with running(founded) as at:
        assert await missing(at, *hashes[1:]) == sorted(hashes[1:])
        assert await refusal(missing(at, *hashes)) == "bad_request"
