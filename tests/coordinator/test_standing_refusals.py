"""The rule alone: when a refusal begins, goes on and ends, and what is offered meanwhile."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.reports.checkin import ReportedMark
from coordinator.reports.standing_refusals import KeptRefusal, LastRefused, Offer, Said, follow, offer

HAS, DECLARED, ELSE = (f"sha256:{letter * 64}" for letter in "abc")
SIX, SEVEN = ReportedMark(1, 6, HAS), ReportedMark(1, 7, DECLARED)
NO = LastRefused(7, "validator_refused", 12)


def begun() -> KeptRefusal:
    found = follow(None, Said(SIX, NO, "a port is missing"), SEVEN, 100.0)
    assert found == KeptRefusal(SEVEN, 100.0, "validator_refused", 12, "a port is missing", SIX)
    return found


@pytest.mark.parametrize(
    ("said", "listed"),
    [
        (Said(SIX), SEVEN),  # it has not refused anything
        (Said(SIX, LastRefused(5, "raw_secret", 12)), SEVEN),  # something else
        (Said(SIX, NO), ReportedMark(1, 8, ELSE)),  # what is not listed any more
        (Said(SEVEN, NO), SEVEN),  # and has taken it since
        (Said(SIX, NO), None),
    ],
)
def test_none_begins(said: Said, listed: ReportedMark | None) -> None:
    assert follow(None, said, listed, 100.0) is None


def test_it_goes_on_under_later_versions() -> None:
    """The time stays that of the content."""
    at_eight = follow(begun(), Said(ReportedMark(1, 8, HAS), NO), ReportedMark(1, 8, HAS), 200.0)
    assert at_eight is not None and (at_eight.since, at_eight.running) == (100.0, ReportedMark(1, 8, HAS))
    at_nine = follow(
        at_eight, Said(ReportedMark(1, 8, HAS), LastRefused(9, "raw_secret", 12)), ReportedMark(1, 9, DECLARED), 300.0
    )
    assert at_nine == KeptRefusal(ReportedMark(1, 9, DECLARED), 100.0, "raw_secret", 12, "", ReportedMark(1, 8, HAS))


@pytest.mark.parametrize(
    ("active", "is_over"),
    [
        (SEVEN, True),
        (ReportedMark(1, 9, DECLARED), True),
        (ReportedMark(2, 1, DECLARED), True),
        (ReportedMark(1, 5, DECLARED), False),
    ],
)
def test_it_ends_with_the_content_active(active: ReportedMark, is_over: bool) -> None:
    """An older version of it proves nothing: the node had it before."""
    assert (follow(begun(), Said(active), SEVEN, 200.0) is None) is is_over


def test_a_renewal_that_is_refused_as_well_is_said() -> None:
    eight = ReportedMark(1, 8, HAS)
    found = follow(begun(), Said(SIX, LastRefused(8, "raw_secret", 12)), eight, 200.0)
    assert found is not None and found.refused == SEVEN
    assert found.withheld == "the node refuses that as well: raw_secret at step 12"


def test_another_content_begins_anew() -> None:
    eight = ReportedMark(1, 8, ELSE)
    found = follow(begun(), Said(SIX, LastRefused(8, "bad_content", 12)), eight, 200.0)
    assert found == KeptRefusal(eight, 200.0, "bad_content", 12, "", SIX)


@pytest.mark.parametrize(
    ("declared", "listed", "is_due", "expected"),
    [
        (ELSE, SEVEN, True, Offer.OVER),
        (DECLARED, SEVEN, False, Offer.DECLARED),
        (DECLARED, SEVEN, True, Offer.RUNNING),
        (DECLARED, ReportedMark(1, 8, HAS), False, Offer.RUNNING),  # on its way to the node
        (DECLARED, SIX, False, Offer.DECLARED),  # the node has it
        (DECLARED, None, False, Offer.DECLARED),
    ],
)
def test_what_is_offered(declared: str, listed: ReportedMark | None, is_due: bool, expected: Offer) -> None:
    assert offer(begun(), declared, listed, is_due=is_due) is expected


def test_without_anything_to_renew_what_is_declared_is_offered() -> None:
    found = follow(None, Said(None, NO), SEVEN, 100.0)
    assert found is not None and offer(found, DECLARED, SEVEN, is_due=False) is Offer.DECLARED


@given(st.lists(st.sampled_from(["due", "report", "refuse", "away", "mend"]), max_size=40))
def test_turn_by_turn(steps: list[str]) -> None:
    """Whatever comes in which order: the line rises, one of two contents is listed, and a mended node comes to rest."""
    listed, active, standing, picky, due = SEVEN, SIX, begun(), True, False
    for step in [*steps, "mend", "report", "due", "report", "report"]:
        picky, due = picky and step != "mend", due or step == "due"
        if standing is not None:
            chosen = offer(standing, DECLARED, listed, is_due=due)
            content = HAS if chosen is Offer.RUNNING else DECLARED
            if content != listed.content_hash or due:
                due = False
                listed = ReportedMark(1, listed.config_version + 1, content)
        if step in ("report", "refuse"):
            is_refused = picky and listed.content_hash != active.content_hash
            active = active if is_refused else listed
            said = Said(active, LastRefused(listed.config_version, "x", 12) if is_refused else None)
            standing = follow(standing, said, listed, 200.0)
            assert (standing is None) == (active.content_hash == DECLARED)
        assert listed.content_hash in (HAS, DECLARED)
    assert (standing, active.content_hash) == (None, DECLARED)
