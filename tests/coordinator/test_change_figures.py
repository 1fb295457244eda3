"""Changes in numbers, as metrics tell them: how many are how, since when, and who waits for them (rules J46)."""

from dataclasses import replace

import pytest
from prometheus_client.core import Metric

from coordinator.changes.groups import ChangeGroup
from coordinator.changes.records import ChangeNode
from coordinator.changes.rollout_policy import DEFAULT
from coordinator.changes.states import ChangeState, GroupPhase, Step
from coordinator.changes.votes import VoteCount
from coordinator.database.database import Database
from coordinator.rollout.change_figures import ChangeFigures, figures
from coordinator.rollout.rollout import RolloutHealth
from coordinator.runtime import change_metrics
from tests.coordinator import reports
from tests.coordinator.begun_changes import begin
from tests.coordinator.candidates import NOW
from tests.coordinator.rollouts import SCOPE, RolloutFleet

SLOW = replace(DEFAULT, bake_s=86_400)


def node(name: str, step: Step = Step.HELD) -> ChangeNode:
    return ChangeNode(0, name, ("route_policy",), step=step)


def group(phase: GroupPhase, since: float) -> ChangeGroup:
    return ChangeGroup("slow", SLOW, 1, since, phase)


def test_without_changes_there_is_nothing_to_tell(cluster: Database) -> None:
    assert figures(cluster) == ChangeFigures({}, {}, None, 0, 0)


def test_who_waits_behind_a_halted_change(cluster: Database) -> None:
    """Whom it holds back itself, and whom what comes after it does; each node once."""
    begin(cluster, node("n-1"), node("n-2", Step.RELEASED), state=ChangeState.HALTED)
    begin(cluster, node("n-1"), node("n-3"), state=ChangeState.PREPARING, follows=(1,), waits_for=1)
    begin(cluster, node("n-4", Step.OFFERED), state=ChangeState.PREPARING)
    begin(cluster, state=ChangeState.DONE, settled_at=NOW)
    begin(cluster, node("n-5"), approvals=1, at=NOW - 50)
    begin(cluster, node("n-6"), approvals=1)
    found = figures(cluster)
    assert found.states == {"halted": 1, "preparing": 2, "done": 1, "proposed": 2}
    assert found.oldest == {"halted": NOW, "preparing": NOW, "proposed": NOW - 50}
    assert (found.held_nodes, found.nodes_behind_halted) == (5, 2)


@pytest.mark.parametrize(
    ("state", "groups", "due_at"),
    [
        (ChangeState.ROLLING, (group(GroupPhase.BAKING, NOW),), NOW + 86_400),
        (ChangeState.PREPARING, (group(GroupPhase.VOTING, NOW), group(GroupPhase.READY, NOW - 9)), NOW - 9),
        (ChangeState.ROLLING, (group(GroupPhase.PASSED, 5.0), group(GroupPhase.READY, NOW)), NOW),
        (ChangeState.HALTED, (group(GroupPhase.VOTING, 5.0),), None),
        (ChangeState.PROPOSED, (group(GroupPhase.PENDING, 5.0),), None),
    ],
    ids=["a bake is no delay", "the longest", "what has passed", "halted", "proposed"],
)
def test_when_a_change_was_to_go_on(
    cluster: Database, state: ChangeState, groups: tuple[ChangeGroup, ...], due_at: float | None
) -> None:
    begin(cluster, node("n-1"), state=state, groups=groups)
    assert figures(cluster).due_at == due_at


def test_what_waits_for_another_change_is_not_overdue(cluster: Database) -> None:
    begin(cluster, node("n-1"), state=ChangeState.HALTED)
    begin(cluster, node("n-1"), state=ChangeState.PREPARING, follows=(1,), waits_for=1)
    assert figures(cluster).due_at is None


# ---- what is counted


def samples(families: list[Metric]) -> dict[tuple[str, ...], float]:
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


def test_zero_is_told_too(cluster: Database) -> None:
    told = samples([*change_metrics.families(figures(cluster)), *change_metrics.counters(RolloutHealth())])
    assert {told["holdfast_coordinator_changes", state.value] for state in ChangeState} == {0}
    assert {told["holdfast_coordinator_change_votes_total", word] for word in ("accepted", "refused", "ignored")} == {0}
    assert {told["holdfast_coordinator_change_reverts_total", by] for by in ("operator", "coordinator", "node")} == {0}
    assert not [name for name, *_ in told if name.endswith("_timestamp_seconds")]


@pytest.fixture
def asked(database: Database) -> RolloutFleet:
    """Four nodes that are asked."""
    fleet = RolloutFleet.of(database, 4)
    fleet.change(9)
    fleet.look()
    fleet.tell()
    return fleet


def counted(fleet: RolloutFleet) -> dict[tuple[str, ...], float]:
    found = samples(list(change_metrics.counters(fleet.engine.health)))
    return {(name.removeprefix("holdfast_coordinator_change_"), *words): n for (name, *words), n in found.items() if n}


def test_votes_are_counted_once_each(asked: RolloutFleet) -> None:
    asked.report("n0", "n1", vote="accepted")
    asked.report("n0", "n1", vote="accepted")
    asked.report("n2", vote="refused", reason="validator_refused")
    found = {("votes_total", "accepted"): 2, ("votes_total", "refused"): 1}
    assert counted(asked) == {**found, ("refusals_total", "validator_refused"): 1}


def test_reasons_that_nodes_make_up_name_no_series(asked: RolloutFleet) -> None:
    """threats D-59"""
    for number in range(50):
        asked.report("n1", vote="refused", reason=f"r{number}")
    assert counted(asked) == {("votes_total", "refused"): 50, ("refusals_total", "other"): 50}


def test_what_a_node_takes_back_by_itself(asked: RolloutFleet) -> None:
    asked.report(*asked.ids, vote="accepted")
    asked.look()
    asked.tell()
    (canary,) = {node_id for node_id, row in asked.rows().items() if row.step is Step.RELEASED}
    content = asked.listed(canary)[SCOPE]["content_hash"]
    back = {"config_version": 4, "content_hash": content, "check": "web", "detail": "503", "at": "2027-01-15T08:00:00Z"}
    asked.report(canary, scope={"reverted": back}, runs="sha256:" + "0" * 64)
    asked.report(canary, scope={"reverted": back}, runs="sha256:" + "0" * 64)
    assert counted(asked)["reverts_total", "node"] == 1


def test_a_change_that_the_coordinator_takes_back(database: Database) -> None:
    policy = "{kind: RolloutPolicy, id: standard, spec: {rings: [{nodes: 1}, {percent: 100}], on_failure: revert}}"
    fleet = RolloutFleet.of(database, 3, policy)
    fleet.change(9)
    fleet.look()
    fleet.tell()
    fleet.report(*fleet.ids, vote="accepted")
    fleet.look()
    fleet.tell()
    (canary,) = fleet.at(Step.RELEASED)
    rejected = reports.rejected(fleet.listed(canary)[SCOPE]["config_version"], "validator")
    fleet.report(canary, scope={"last_rejected": rejected}, runs="sha256:" + "0" * 64)
    fleet.look()
    assert fleet.record().state is ChangeState.REVERTING
    assert counted(fleet)["reverts_total", "coordinator"] == 1


def test_counts_of_a_batch_are_of_that_batch(asked: RolloutFleet) -> None:
    asked.engine.take_note(VoteCount({"ignored": 3}))
    asked.engine.take_note(VoteCount({"ignored": 2}))
    assert counted(asked) == {("votes_total", "ignored"): 5}
