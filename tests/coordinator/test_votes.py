"""What nodes say of changes is believed of themselves alone, and of exactly what they were asked (rules S70)."""

from collections.abc import Mapping

import pytest

from coordinator.changes.states import ChangeState, Outcome, Step
from coordinator.database.database import Database
from coordinator.membership import revocation
from tests.coordinator import reports
from tests.coordinator.candidates import contents
from tests.coordinator.rollouts import SCOPE, RolloutFleet
from tests.coordinator.test_rollout import POLICY
from tests.logs import capture_logs

OTHER = "sha256:" + "77" * 32


@pytest.fixture
def fleet(database: Database) -> RolloutFleet:
    """Four nodes that are asked; three have said yes, and n3 is waited for."""
    fleet = RolloutFleet.of(database, 4, POLICY.format(on_failure="halt"))
    fleet.change(9)
    fleet.look()
    fleet.tell()
    fleet.report("n0", "n1", "n2", vote="accepted")
    return fleet


def coming(fleet: RolloutFleet, node_id: str) -> Mapping[str, object]:
    return fleet.coming(node_id)[SCOPE]


def named(entry: Mapping[str, object], **other: object) -> dict[str, object]:
    return {"snapshot_id": entry["snapshot_id"], "content_hash": entry["content_hash"], **other}


def goes_on(fleet: RolloutFleet) -> None:
    """The next good vote counts, and it begins to roll."""
    fleet.look()
    assert fleet.at(Step.OFFERED) == set(fleet.ids) and fleet.record().state is ChangeState.PREPARING
    fleet.report("n3", vote="accepted")
    fleet.look()
    assert len(fleet.at(Step.RELEASED)) == 1


FORGED = {
    "another content": lambda entry: reports.vote(SCOPE, **named(entry, content_hash=OTHER)),
    "another document": lambda entry: reports.vote(SCOPE, **named(entry, snapshot_id="doc-of-somebody")),
    "another scope": lambda entry: reports.vote("route_policy", **named(entry)),
    "a no to another content": lambda entry: reports.vote(
        SCOPE, "validator_refused", **named(entry, content_hash=OTHER)
    ),
    "what it runs": lambda entry: reports.vote(SCOPE, snapshot_id="doc-1", content_hash="sha256:" + "ab" * 32),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_a_vote_on_what_was_not_asked_changes_nothing(fleet: RolloutFleet, forge) -> None:
    """It is counted and its sender named, once; the vote that is asked for counts afterwards."""
    before = contents(fleet.database, "changes", "change_nodes", "change_events")
    with capture_logs() as said:
        for _ in range(3):
            counted = fleet.report("n3", votes=[forge(coming(fleet, "n3"))])
            assert (counted.verdicts, counted.foreign, counted.has_news) == ({"ignored": 1}, ("n3",), False)
    assert contents(fleet.database, "changes", "change_nodes", "change_events") == before
    assert fleet.engine.health.votes["ignored"] == 3
    assert [(each["node"], each["log_level"]) for each in said] == [("n3", "warning")]
    goes_on(fleet)


def test_a_vote_for_somebody_else_is_only_ones_own(fleet: RolloutFleet) -> None:
    """Of the same content: a node may say of it what it likes, and another one has still not voted."""
    fleet.report("n0", votes=[reports.vote(SCOPE, **named(coming(fleet, "n3")))])
    assert fleet.rows()["n3"].votes == {}
    goes_on(fleet)


def test_who_repeats_a_vote_a_thousand_times_has_voted_once(fleet: RolloutFleet) -> None:
    """In one report and in many: one of four has refused, and the tolerance is not exceeded by repeating it."""
    again = reports.vote(SCOPE, **named(coming(fleet, "n0")))
    counted = fleet.report("n0", votes=[again] * 200)
    for _ in range(5):
        fleet.report("n0", votes=[again] * 200)
    assert counted.verdicts == {} and not counted.has_news
    assert fleet.engine.health.votes == {"accepted": 3}
    assert {node_id for node_id, row in fleet.rows().items() if row.votes} == {"n0", "n1", "n2"}
    goes_on(fleet)


def test_of_two_verdicts_the_later_counts(fleet: RolloutFleet) -> None:
    yes, no = (reports.vote(SCOPE, reason, **named(coming(fleet, "n3"))) for reason in ("", "validator_refused"))
    fleet.report("n3", votes=[yes, no])
    fleet.look()
    assert fleet.record().state is ChangeState.HALTED and "n3 refused" in fleet.record().why


def test_who_was_revoked_is_none_of_its_nodes(fleet: RolloutFleet) -> None:
    """Neither a no nor a yes of it counts, whatever it goes on to report; the others go on without it."""
    no = reports.vote(SCOPE, "validator_refused", **named(coming(fleet, "n3")))
    revocation.revoke_node(fleet.database, "n3", reason="stolen", actor="root", now=fleet.now)
    before = contents(fleet.database, "changes", "change_events")
    counted = fleet.report("n3", votes=[no])
    assert counted.foreign == ("n3",) and not counted.has_news
    assert contents(fleet.database, "changes", "change_events") == before
    fleet.tell("n0", "n1", "n2")
    fleet.look()
    assert fleet.record().state is ChangeState.ROLLING and "n3" not in fleet.rows()


def test_a_report_of_before_does_not_undo_what_was_given(fleet: RolloutFleet) -> None:
    """A vote that arrives late, on what is listed by now: neither is it taken back, nor has it failed."""
    late = [reports.vote(SCOPE, "validator_refused", **named(coming(fleet, "n3")))]
    fleet.report("n3", vote="accepted")
    fleet.look()
    (canary,) = fleet.at(Step.RELEASED)
    fleet.tell()
    counted = fleet.report(canary, votes=late)
    assert counted.verdicts["ignored"] == 1
    fleet.look()
    assert fleet.record().state is ChangeState.ROLLING
    assert fleet.rows()[canary].outcome == Outcome.ACTIVE
