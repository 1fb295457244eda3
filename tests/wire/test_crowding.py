"""Who ends for whom where a listener is full: decided over what is open."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.crowding import OpenConnection, making_room
from wire.limits import Tally

EACH, IN_ALL, RESERVED = 4, 12, 3
FIRST = frozenset({"root"})


def filled(places: list[OpenConnection]) -> Tally:
    tally = Tally(EACH, IN_ALL, RESERVED, FIRST)
    for place in places:
        assert tally.take(place.caller)
    return tally


def test_a_tally_keeps_places_for_the_first() -> None:
    tally = Tally(each=4, in_all=6, reserved=2, first=frozenset({"root"}))
    assert [tally.take(who) for who in "aabbc"] == [True, True, True, True, False]
    assert [tally.take("root") for _ in range(3)] == [True, True, False]
    tally.give_back("root")
    assert not tally.take("c")
    tally.give_back("a")
    assert tally.take("c")


@pytest.mark.parametrize(
    ("newcomer", "places", "goes"),
    [
        ("d", [OpenConnection("a", True, 2.0), OpenConnection("a", True, 1.0), OpenConnection("b", True, 0.0)], 1),
        ("d", [OpenConnection("a", False, 0.0), OpenConnection("a", False, 1.0), OpenConnection("b", True, 9.0)], 2),
        ("d", [OpenConnection("a", False, 5.0), OpenConnection("a", False, 1.0), OpenConnection("b", False, 0.0)], 1),
        ("d", [OpenConnection("a", False, 1.0), OpenConnection("b", False, 0.0)], None),
        ("a", [OpenConnection("a", False, 1.0), OpenConnection("b", False, 0.0)], None),
        (
            "d",
            [OpenConnection("root", True, 0.0), OpenConnection("root", True, 0.0), OpenConnection("root", True, 0.0)],
            None,
        ),
        (
            "root",
            [OpenConnection("root", True, 0.0), OpenConnection("root", True, 0.0), OpenConnection("a", True, 9.0)],
            2,
        ),
        ("root", [OpenConnection("root", True, 0.0), *(OpenConnection("a", False, at) for at in (2.0, 1.0, 3.0))], 2),
        ("root", [OpenConnection("root", True, 0.0), OpenConnection("a", False, 0.0)], 0),
        (
            "a",
            [
                OpenConnection("a", rests, since)
                for rests, since in ((False, 0.0), (True, 2.0), (True, 1.0), (True, 3.0))
            ],
            2,
        ),
        ("a", [*(OpenConnection("a", False, 0.0) for _ in range(4)), OpenConnection("b", True, 0.0)], None),
    ],
)
def test_whose_connection_ends(newcomer: str, places: list[OpenConnection], goes: int | None) -> None:
    expected = None if goes is None else places[goes]
    assert making_room(newcomer, places, filled(places)) == expected


names = st.sampled_from(["root", "a", "b", "c", "d"])
opened = st.lists(st.builds(OpenConnection, names, st.booleans(), st.floats(0, 100)), max_size=40)


@given(opened, names)
def test_nobody_is_put_out_for_somebody_who_has_as_much(wanted: list[OpenConnection], newcomer: str) -> None:
    tally = Tally(EACH, IN_ALL, RESERVED, FIRST)
    places = [place for place in wanted if tally.take(place.caller)]
    goes = making_room(newcomer, places, tally)
    if goes is None:
        return
    if tally.of(newcomer) >= EACH:
        assert goes.idle
        assert goes.caller == newcomer
    assert goes.idle or tally.of(goes.caller) > tally.of(newcomer) + 1
    assert newcomer in FIRST or goes.caller not in FIRST
    tally.give_back(goes.caller)
    full_of_others = newcomer not in FIRST and sum(tally.of(name) for name in "abcd") >= IN_ALL - RESERVED
    assert tally.take(newcomer) is not full_of_others
