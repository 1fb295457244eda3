"""When an end begins to be said."""

import pytest

from snapshot.ending import Thing, Urgency, due, in_order, worst

DAY = 86_400.0


def thing(begins: float = 0.0, ends: float = 90 * DAY, **other: object) -> Thing:
    values = {"what": "trust_bundle", "name": "1", "then": "nothing is believed", "remedy": "renew it"}
    return Thing(begins=begins, ends=ends, **{**values, **other})


@pytest.mark.parametrize(
    ("day", "expected"),
    [(0, "fine"), (59.9, "fine"), (60, "soon"), (89.9, "soon"), (90, "ended"), (400, "ended")],
)
def test_the_last_third_of_a_life(day, expected):
    assert thing().urgency(day * DAY) == expected


def test_a_window_only_makes_it_earlier():
    assert thing().urgency(40 * DAY, within_s=50 * DAY) is Urgency.SOON
    assert thing().urgency(39 * DAY, within_s=50 * DAY) is Urgency.FINE
    assert thing().urgency(70 * DAY, within_s=0) is Urgency.SOON


def test_what_renews_itself_is_said_once_it_has_missed_that():
    one = thing(ends=100 * DAY, renews_from=80 * DAY)
    assert one.urgency(89 * DAY, within_s=30 * DAY) is Urgency.FINE
    assert one.urgency(90 * DAY) is Urgency.SOON
    assert one.urgency(100 * DAY) is Urgency.ENDED


def test_a_planned_end_asks_for_nothing():
    one = thing(is_planned=True)
    assert {one.urgency(day * DAY, within_s=DAY) for day in (0, 89.9, 91)} == {Urgency.PLANNED}
    assert due([one], 91 * DAY) == []


def test_what_ends_first_is_first():
    late, early, fine = thing(ends=95 * DAY), thing(ends=91 * DAY), thing(ends=900 * DAY)
    assert in_order([fine, late, early]) == [early, late, fine]
    assert due([fine, late, early], 89 * DAY) == [early, late]


def test_the_worst_of_them_counts():
    assert worst([], 0.0) is Urgency.FINE
    assert worst([thing(is_planned=True), thing()], 0.0) is Urgency.PLANNED
    assert worst([thing(), thing(ends=10 * DAY)], 9 * DAY) is Urgency.SOON
    assert worst([thing(), thing(ends=10 * DAY)], 10 * DAY) is Urgency.ENDED


def test_it_says_what_happens_and_what_to_do():
    sentence = thing(ends=86_400.0).sentence(0.0)
    assert sentence == "trust_bundle 1 ends at 1970-01-02T00:00:00Z: nothing is believed; renew it"
    assert "has ended at" in thing(ends=86_400.0).sentence(86_400.0)
