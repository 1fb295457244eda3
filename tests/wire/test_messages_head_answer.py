"""A head and the documents beside it, as they are sent (wire/messages.py; protocol 1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot import container
from tests.examples import examples
from wire.messages import DOCUMENTS_TYPE, INLINE_BYTES, INLINE_DOCUMENTS, HeadAnswer
from wire.strict_json import BadMessageError

SOME = HeadAnswer(b"head", (b"one", b"two"))


def test_without_documents_it_is_the_head_as_it_always_was() -> None:
    alone = HeadAnswer(b"head")
    assert (alone.media_type, alone.to_bytes()) == (container.MEDIA_TYPE, b"head")
    for media_type in (container.MEDIA_TYPE, "application/octet-stream", ""):
        assert HeadAnswer.parse(media_type, SOME.to_bytes()) == HeadAnswer(SOME.to_bytes())


@given(st.binary(min_size=1), st.lists(st.binary(min_size=1, max_size=99), unique=True, max_size=INLINE_DOCUMENTS))
@examples(50)
def test_what_is_written_is_read(head: bytes, documents: list[bytes]) -> None:
    made = HeadAnswer(head, tuple(documents))
    assert HeadAnswer.parse(made.media_type, made.to_bytes()) == made


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0",
        b"\0\0\0\0",
        b"\0\0\0\5head",
        b"\xff\xff\xff\xffhead",
        SOME.to_bytes() + b"\0",
        SOME.to_bytes() + b"\0\0\0\0",
        SOME.to_bytes()[:-1],
        HeadAnswer(b"head", (b"one", b"one")).to_bytes(),
        HeadAnswer(b"head", (bytes(INLINE_BYTES), b"1")).to_bytes(),
        HeadAnswer(b"head", tuple(b"%d" % number for number in range(INLINE_DOCUMENTS + 1))).to_bytes(),
    ],
    ids=[
        *("nothing", "no length", "an empty head", "a head that ends early", "a length beyond all bounds"),
        *("a byte more", "an empty document", "a byte less", "one twice", "too many bytes", "too many"),
    ],
)
def test_what_is_out_of_form_is_no_answer(data: bytes) -> None:
    """rules K53"""
    with pytest.raises(BadMessageError):
        HeadAnswer.parse(DOCUMENTS_TYPE, data)


def test_of_too_many_documents_no_more_are_looked_at() -> None:
    """threats D-46: an answer of a million documents of one byte would keep everybody waiting for most of a second"""
    too_many = HeadAnswer(b"head", tuple(b"%d" % number for number in range(INLINE_DOCUMENTS + 1))).to_bytes()
    with pytest.raises(BadMessageError, match="more documents"):
        HeadAnswer.parse(DOCUMENTS_TYPE, too_many + b"\xff\xff\xff\xffwhat comes after these is not read")


@given(st.binary(max_size=64))
@examples(200)
def test_any_bytes_are_an_answer_or_none(data: bytes) -> None:
    try:
        made = HeadAnswer.parse(DOCUMENTS_TYPE, data)
    except BadMessageError:
        return
    assert HeadAnswer.parse(made.media_type, made.to_bytes()) == made
