"""JSON from outside, read strictly (rules X14, P6, P23)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator import requests
from coordinator.refusal import Code, Refused, bounded
from coordinator.requests import MAX_DEPTH, Member, is_text

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


def depth(value: object) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inside is None else 1 + max(map(depth, inside), default=0)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
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
    members = {"a": Member(is_text(3)), "b": Member(is_text(3), required=False)}
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
