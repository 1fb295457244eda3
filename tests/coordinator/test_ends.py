"""What a change that is over is told by: its nodes' rows are gone, and what they said is not."""

import pytest

from coordinator.base.settings import CoordinatorSettings
from coordinator.changes import ends
from coordinator.changes.groups import ChangeGroup, parse_group
from coordinator.changes.records import CandidateVote, ChangeNode
from coordinator.changes.states import ChangeState, Outcome, Step
from coordinator.database.database import Database
from coordinator.fleet import change_view
from coordinator.rollout import commands
from tests.coordinator.begun_changes import begin
from tests.coordinator.rollouts import SCOPE, RolloutFleet
from wire.operators.change_answers import ChangeDetail

POLICY = """
kind: RolloutPolicy
id: standard
spec: {rings: [{nodes: 1}, {percent: 100}], bake_s: 2, success_percent: 70}
"""


@pytest.fixture
def fleet(database: Database) -> RolloutFleet:
    return RolloutFleet.of(database, 4, POLICY)


def shown(fleet: RolloutFleet, change_id: int = 1) -> ChangeDetail:
    return change_view.detail(fleet.database, change_id, now=fleet.now, settings=CoordinatorSettings())


def begin_to_roll(fleet: RolloutFleet) -> None:
    """n0 refuses, the others accept; the first ring has it."""
    fleet.change(9)
    fleet.look()
    fleet.tell()
    fleet.report("n0", vote="refused")
    fleet.report("n1", "n2", "n3", vote="accepted")
    fleet.look()
    fleet.tell()


def told(detail: ChangeDetail) -> tuple[object, ...]:
    one = detail.counts
    return (one.touched, one.asked, one.accepted, one.refused, one.given, one.active)


def test_of_one_that_is_done(fleet: RolloutFleet) -> None:
    begin_to_roll(fleet)
    fleet.report(*fleet.ids[1:])
    fleet.wait(3, *fleet.ids[1:])
    fleet.report(*fleet.ids[1:])
    before = told(shown(fleet))
    fleet.wait(3, *fleet.ids[1:])
    after = shown(fleet)
    assert (after.state, fleet.rows()) == ("done", {})
    assert told(after) == before == (4, 4, 3, 1, 3, 3)
    (refusal,) = after.refusals
    assert (refusal.node_id, refusal.outcome, refusal.scope, refusal.step) == ("n0", "refused", SCOPE, 12)
    assert (refusal.reason, refusal.detail, after.refusals_total) == ("validator", "it says no", 1)
    assert after.timeline[-1].detail == "3 of 4 nodes run it"


@pytest.mark.parametrize("end", ["superseded", "reverted"])
def test_of_one_in_whose_place_another_stands(fleet: RolloutFleet, end: str) -> None:
    """Its rows go with the other one, node by node; it is told by what they said when that began."""
    begin_to_roll(fleet)
    fleet.report(*fleet.ids[1:])
    commands.halt(fleet.database, 1, "no", actor="operator:ann", now=fleet.now)
    before = told(shown(fleet))
    assert before == (4, 4, 3, 1, 1, 1)
    if end == "superseded":
        fleet.change(10)
    else:
        commands.revert(fleet.database, 1, actor="operator:ann", now=fleet.now, now_reason="it burns")
    for _ in range(12):
        assert told(shown(fleet)) == before
        fleet.look()
        fleet.tell()
        fleet.report(*fleet.ids, vote="accepted")
        fleet.wait(1)
    after = shown(fleet)
    assert (after.state, fleet.rows(), fleet.record(2).state) == (end, {}, ChangeState.DONE)
    assert told(after) == before
    assert [(refusal.node_id, refusal.reason) for refusal in after.refusals] == [("n0", "validator")]


def test_many_refusals_are_counted_and_the_first_of_them_kept(cluster: Database) -> None:
    no = CandidateVote("sha256:c", "refused", 12, "validator_refused", "x" * 1_000)
    nodes = [ChangeNode(1, f"n{number:03}", (SCOPE,), step=Step.OFFERED, votes={SCOPE: no}) for number in range(300)]
    record = begin(cluster, *nodes)
    (group,) = ends.close_groups(record, nodes)
    assert (len(group.refusals), group.refusals_total, group.counts) == (ends.MOST_KEPT, 300, {"refused": 300})
    assert parse_group(group.to_value()) == group


def test_what_was_kept_before_there_was_more_is_read() -> None:
    old = ChangeGroup("standard", counts={"active": 3}, took={"p50": 1.0, "p99": 2.0}).to_value()
    for name in ("steps", "refusals", "refusals_total"):
        del old[name]
    assert parse_group(old).counts == {Outcome.ACTIVE: 3}
