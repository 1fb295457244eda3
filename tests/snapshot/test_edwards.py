"""Which 32 bytes are a public key (threats D-9): against the curve in another arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot import edwards
from tests.examples import examples
from tests.known_answers import ed25519
from tests.known_answers.ed25519 import BASE, VECTORS, encoded, plus, times, torsion

TORSION = torsion()
KEYS = {name: bytes.fromhex(public) for name, (_, public, _, _) in VECTORS.items()}


def orders():
    return [min(order for order in (1, 2, 4, 8) if times(order, point) == ed25519.ZERO) for point in TORSION]


def test_the_eight_points_were_found():
    assert len(set(TORSION)) == 8
    assert sorted(orders()) == [1, 2, 4, 4, 8, 8, 8, 8]
    assert times(ed25519.L, BASE) == ed25519.ZERO


@pytest.mark.parametrize("point", TORSION, ids=map(str, orders()))
@pytest.mark.parametrize("sign", [None, 0, 1])
def test_small_order(point, sign):
    """threats K07, K12: in either sign, also where x is 0 and has none."""
    data = encoded(point, sign=sign)
    assert edwards.is_small_order(data)
    assert not edwards.is_full_order(data)


def test_no_more_points_than_these_are_called_small():
    ys = {encoded(point, sign=0) for point in TORSION}
    assert ys == edwards._SMALL_ORDER


@pytest.mark.parametrize("public", KEYS.values(), ids=KEYS)
def test_honest_keys(public):
    assert edwards.is_full_order(public)
    assert not edwards.is_small_order(public)


@pytest.mark.parametrize("point", TORSION[1:], ids=map(str, orders()[1:]))
def test_mixed_order(point):
    """threats D-9, K07: an honest key plus a small part, which other readers take."""
    data = encoded(plus(ed25519.decoded(KEYS["test-1"]), point))
    assert not edwards.is_full_order(data)
    assert not edwards.is_small_order(data)


@pytest.mark.parametrize("y", range(19))
@pytest.mark.parametrize("sign", [0, 1])
def test_y_that_is_not_reduced(y, sign):
    """threats D-9: the 19 numbers of 255 bits that are P or more."""
    data = (y + ed25519.P | sign << 255).to_bytes(32, "little")
    assert not edwards.is_canonical(data)
    assert not edwards.is_full_order(data)
    assert edwards.is_canonical((y | sign << 255).to_bytes(32, "little"))


@pytest.mark.parametrize(
    "data", [b"", b"\x01", bytes(31), bytes(33), KEYS["test-1"][:31], KEYS["test-1"] + b"\0"], ids=len
)
def test_another_length(data):
    assert not edwards.is_full_order(data)


@examples(20)
@given(st.integers(0, 2**256 - 1))
def test_any_32_bytes(number):
    """threats K09"""
    data = number.to_bytes(32, "little")
    y = number & (2**255 - 1)
    point = ed25519.with_y(y) if y < ed25519.P else None
    wanted = point is not None and point[0] != 0 and times(ed25519.L, point) == ed25519.ZERO
    assert edwards.is_full_order(data) == wanted


@examples(10)
@given(st.integers(1, ed25519.L - 1), st.sampled_from(TORSION))
def test_any_multiple_of_the_base(factor, small):
    point = times(factor, BASE)
    assert edwards.is_full_order(encoded(point))
    assert edwards.is_full_order(encoded(plus(point, small))) == (small == ed25519.ZERO)
