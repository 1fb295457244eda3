"""JSON from outside, read strictly (rules X14, P6, P23)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.base import requests
from coordinator.base.refusal import Code, Refused, bounded
from coordinator.base.requests import MAX_DEPTH, BodyMember, is_text

TEXT = st.text(max_size=20).filter(lambda text: "\0" not in text)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


def depth(value: object) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inside is None else 1 + max(map(depth, inside), default=0)


@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_an_object_is_read_as_it_is(value) -> None:
    data = json.dumps(value).encode()
    if depth(value) <= MAX_DEPTH:
        assert requests.parse(data, 1 << 20) == value


@given(st.binary(max_size=60))
def test_any_bytes_are_an_object_or_a_typed_refusal(data: bytes) -> None:
    """rules P6"""
    try:
        assert isinstance(requests.parse(data, 100), dict)
    except Refused as refused:
        assert refused.code is Code.BAD_REQUEST


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-32-le", "utf-32", "utf-8-sig"])
def test_it_is_utf_8_and_nothing_else(encoding: str) -> None:
    """rules K53, P23: no other encoding is guessed, and no byte order mark taken (RFC 8259 8.1)"""
    text = '{"a": "\u20ac"}'
    assert requests.parse(text.encode(), 100) == {"a": "\u20ac"}
    with pytest.raises(Refused) as caught:
        requests.parse(text.encode(encoding), 100)
    assert caught.value.code is Code.BAD_REQUEST


@pytest.mark.parametrize(
    "data",
    [
        rb'{"a":"\u0000"}', rb'{"\u0000":1}', rb'{"a":[{"b":["x\u0000"]}]}', b'{"a":"\x00"}', b'{"a":1}\x00',
        rb'{"a":"\ud800"}', rb'{"a":["\udc00\ud800"]}', rb'{"\udfff":1}', b'{"a":"\xed\xa0\x80"}', b'{"a":"\xc0\x80"}',
    ],
)  # fmt: skip
def test_no_text_holds_nul_or_half_a_character(data: bytes) -> None:
    """rules K53, P23: what no database keeps and no file holds is refused where it comes in, however it is written"""
    with pytest.raises(Refused) as caught:
        requests.parse(data, 100)
    assert caught.value.code is Code.BAD_REQUEST


def test_an_escape_that_is_written_out_is_text() -> None:
    assert requests.parse(rb'{"a":"\\u0000 \ud83d\udd12 \u00e9"}', 100) == {"a": "\\u0000 \U0001f512 \xe9"}


@pytest.mark.parametrize("text", ['"[[[[[[[[[[[[[[[[[[[["', '"}{}{}{}{]["', "1"])
def test_brackets_in_strings_are_no_depth(text: str) -> None:
    assert requests.parse(b'{"a":%b}' % text.encode(), 100)


def test_depth_is_bounded() -> None:
    """threats D-56"""
    for count in (MAX_DEPTH - 1, MAX_DEPTH):
        data = b'{"a":' + b"[" * count + b"]" * count + b"}"
        if count < MAX_DEPTH:
            assert requests.parse(data, 1_000)
        else:
            with pytest.raises(Refused):
                requests.parse(data, 1_000)


def test_closed() -> None:
    members = {"a": BodyMember(is_text(3)), "b": BodyMember(is_text(3), required=False)}
    requests.closed({"a": "x"}, members)
    for wrong in ({}, {"b": "x"}, {"a": "x", "c": 1}, {"a": "long"}, {"a": ""}, {"a": 1}, {"a": "\n"}):
        with pytest.raises(Refused):
            requests.closed(wrong, members)


def test_text_from_outside_is_bounded_and_escaped() -> None:
    """threats D-59"""
    assert bounded("plain") == "plain"
    assert bounded("a\x1b[2Jb\x00") == "a\\x1b[2Jb\\x00"
    assert bounded("\ud800") == "\\ud800"
    assert len(bounded("x" * 1_000)) == 256
