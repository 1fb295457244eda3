"""Where documents came from."""

import pytest

from agent.state.origins import MOST, MOST_GIVERS, Giver, Givers, Origin, after, from_row, row
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


def test_who_gave_it_stays_known_while_it_lies_in_its_slot():
    """The last ones that were judged; more than that would be no bound"""
    givers, relay = Givers(), Giver("https://r:1", "relay", "node-r")
    givers.note("a", relay)
    assert (givers.find("a"), givers.find("b")) == (relay, None)
    for number in range(MOST_GIVERS):
        givers.note(f"n{number}", Giver.by_name("import"))
    assert givers.find("a") is None
    assert Giver.by_name("import") == Giver("import", "import")
    assert Giver.by_name("https://c:1").way == ""


def test_as_it_is_told():
    """A row from before says nothing of the way, and then nothing is told of it"""
    told = Origin.of("a", Giver("https://r:1", "relay", "node-r"), "increment").to_message()
    assert (told.source, told.way, told.node_id, told.kind) == ("https://r:1", "relay", "node-r", "increment")
    before = from_row({"x": {"snapshot_id": "a", "source": "https://c:1", "kind": "snapshot"}})["x"].to_message()
    assert (before.way, before.node_id) == (None, None)
