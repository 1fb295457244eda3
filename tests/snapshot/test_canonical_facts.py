"""What ordinary readers let pass, and why there are readers of our own (rules M9)."""

import json
import math

import msgpack
import pytest

from snapshot import canonical
from snapshot.container import ChunkParts
from snapshot.reasons import Rejected


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        (b'{"a":1,"a":2}', {"a": 2}),
        (b"1" + b"0" * 400, 10**400),
        (b'{ "a" : 1 }', {"a": 1}),
    ],
)
def test_json_takes_what_is_not_canonical(text, taken):
    """threats D-2; rules M9"""
    assert json.loads(text) == taken
    with pytest.raises(ValueError, match=r"\w"):
        canonical.loads(text)


def test_json_takes_what_is_no_number():
    """rules M9"""
    assert math.isnan(json.loads("NaN"))
    with pytest.raises(ValueError, match=r"\w"):
        canonical.loads(b"NaN")


@pytest.mark.parametrize("data", [b"\x82\xa1a\x01\xa1a\x02", b"\xcd\x00\x01", b"\xda\x00\x01a"])
def test_msgpack_takes_a_key_twice_and_long_forms(data):
    """rules M9"""
    assert msgpack.unpackb(data) in ({"a": 2}, 1, "a")
    with pytest.raises(Rejected) as refused:
        ChunkParts([data]).opening()
    assert str(refused.value.reason) == "bad_container"
