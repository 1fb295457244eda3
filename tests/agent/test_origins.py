"""Where documents came from."""

import pytest

from agent.state.origins import MOST, Origin, after, from_row, row
from store.base.tables import MOST_BYTES

ONE, TWO = Origin("a", "https://c:1", "snapshot"), Origin("b", "import", "increment")


def test_what_is_active_no_more_is_forgotten():
    assert after({"x": ONE, "y": ONE}, {"x": TWO, "z": TWO}, {"x", "z"}) == {"x": TWO, "z": TWO}
    assert after({"x": ONE}, {}, {"x"}) == {"x": ONE}


def test_a_row_comes_back_as_it_was_and_is_bounded():
    """rules L3, S84: of as many scopes as fit a row of the store; anything else in it is not known"""
    assert from_row(row({"x": ONE, "y": TWO})) == {"x": ONE, "y": TWO}
    many = {f"scope/{number:0100}": Origin("i" * 40, "https://" + "h" * 60, "snapshot") for number in range(500)}
    kept = after({}, many, many)
    assert len(kept) == MOST
    assert len(repr(row(kept))) < MOST_BYTES


@pytest.mark.parametrize("value", [None, (), "x", {"x": {}}, {"x": {"source": 1, "more": 2}}, {"x": None}])
def test_what_is_not_in_form_is_not_known(value):
    assert from_row(value) == {}
