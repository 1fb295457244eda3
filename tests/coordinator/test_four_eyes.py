"""Approvals hold whoever needs them: nobody but an admin declares them away, and nobody waits whom no person asked.

Against threats M08: a stolen author's key, and an author in a hurry.
"""

import pytest

from coordinator.base.refusal import Code
from coordinator.changes import four_eyes
from coordinator.changes.states import ChangeState, Step
from coordinator.database.database import Database
from coordinator.declared.resources import InvalidResources
from coordinator.membership import operators
from coordinator.rollout import approvals, commands
from tests.coordinator import reports
from tests.coordinator.candidates import NOW, contents
from tests.coordinator.models import model
from tests.coordinator.refusals import refused
from tests.coordinator.rollouts import NODE, SCOPE, SERVICE, RolloutFleet
from wire.certificate import make_identity
from wire.operators.operator_roles import OperatorRole

POLICY = """
kind: RolloutPolicy
id: {id}
spec: {{applies_to: {{labels: {{tier: t0}}}}, approvals: {approvals}, priority: {priority}, bake_s: 5, {more}}}
"""
TABLES = ("resources", "changes", "change_nodes", "audit", "cluster")


def policy(id_: str = "strict", approvals: int = 1, priority: int = 0, more: str = "on_failure: revert") -> str:
    return POLICY.format(id=id_, approvals=approvals, priority=priority, more=more)


def add_people(database: Database) -> None:
    for name, role in (("ann", OperatorRole.AUTHOR), ("bob", OperatorRole.APPROVER), ("adam", OperatorRole.ADMIN)):
        operators.add(database, name, make_identity(name, NOW).der, role=role, actor="uid:0", now=NOW)


@pytest.fixture
def fleet(database: Database) -> RolloutFleet:
    """Two members of tier t0, which need an approval, and two of t1, which need none."""
    return RolloutFleet.of(database, 4, policy(), tiers=2, people=add_people)


def approve(fleet: RolloutFleet, change_id: int = 1) -> None:
    plan_hash = fleet.record(change_id).plan_hash
    approvals.approve(fleet.database, change_id, plan_hash, actor="operator:bob", now=fleet.now)


def test_nobody_is_asked_before_it_is_approved(fleet: RolloutFleet) -> None:
    """However long it takes, and whoever is restarted meanwhile; then it goes its way."""
    fleet.change(2, actor="operator:ann")
    fleet.engine = fleet.new_engine()
    fleet.now, fleet.elapsed = fleet.now + 3_600, fleet.elapsed + 3_600
    fleet.report(*fleet.ids)
    fleet.wait(2)
    assert fleet.record().state is ChangeState.PROPOSED
    assert {row.step.value for row in fleet.rows().values()} == {"held"}
    approve(fleet)
    fleet.look()
    assert fleet.record().state is ChangeState.PREPARING
    assert {row.step.value for row in fleet.rows().values()} == {"offered"}


def test_in_a_hurry_it_needs_the_same_eyes(fleet: RolloutFleet) -> None:
    fleet.change(2, actor="operator:ann", now_reason="it burns")
    fleet.wait(6)
    assert fleet.record().state is ChangeState.PROPOSED


def canary_of(fleet: RolloutFleet) -> str:
    """The first of tier t0 that has the change, once it was approved and all have accepted it."""
    fleet.change(2, actor="operator:ann")
    approve(fleet)
    fleet.look()
    fleet.tell()
    fleet.report(*fleet.ids, vote="accepted")
    fleet.look()
    fleet.tell()
    (canary,) = fleet.at(Step.RELEASED) & {"n0", "n2"}
    return canary


WEAKER = {
    "fewer": policy(approvals=0),
    "for others": policy().replace("t0", "t1"),
    "another one first": policy("laxer", approvals=0, priority=9),
    "another label": NODE.format(id="n0", tier=1),
    "together with what needs it": NODE.format(id="n0", tier=1) + "\n---\n" + SERVICE.format(workers=9),
}


@pytest.mark.parametrize("text", WEAKER.values(), ids=WEAKER)
def test_only_an_admin_takes_approvals_away(fleet: RolloutFleet, text: str) -> None:
    """By whatever way; nothing is changed, and the author's next good plan goes through."""
    before = contents(fleet.database, *TABLES)
    refusal = refused(fleet.press.change, text, actor="operator:ann")
    assert refusal.code is Code.PERMISSION_DENIED and "n0" in refusal.detail and "admin" in refusal.remedy
    assert contents(fleet.database, *TABLES) == before
    assert fleet.change(2, actor="operator:ann").record.state is ChangeState.PROPOSED
    fleet.press.change(text, actor="operator:adam")


def test_a_policy_that_is_left_out_is_taken_away_too(fleet: RolloutFleet) -> None:
    left = "\n---\n".join(["kind: Cluster\nid: prod\nspec: {coordinators: ['https://localhost:7443']}", *(
        NODE.format(id=node_id, tier=number % 2) for number, node_id in enumerate(fleet.ids)
    ), "{kind: Organization, id: acme}", SERVICE.format(workers=1)])  # fmt: skip
    assert refused(fleet.press.change, left, prune=True, actor="operator:ann").code is Code.PERMISSION_DENIED
    assert fleet.press.change(left, prune=True, actor="uid:0").record.state is ChangeState.DONE


STRICTER = {
    "more": policy(approvals=3),
    "for all": policy("all", approvals=1).replace("applies_to: {labels: {tier: t0}}, ", ""),
    "a label that needs some": NODE.format(id="n1", tier=0),
}


@pytest.mark.parametrize("text", STRICTER.values(), ids=STRICTER)
def test_anybody_who_declares_may_ask_for_more(fleet: RolloutFleet, text: str) -> None:
    fleet.press.change(text, actor="operator:ann")


# ---- more than there are people


@pytest.mark.parametrize(
    ("actor", "count"),
    [("operator:ann", 3), ("operator:bob", 2), ("operator:adam", 2), ("uid:0", 2)],
    ids=["an author", "an approver", "an admin", "the machine"],
)
def test_more_approvals_than_there_are_people_are_refused(fleet: RolloutFleet, actor: str, count: int) -> None:
    """bob, adam and the machine may approve, nobody what is their own. It names the policy, both numbers, the line."""
    before = contents(fleet.database, *TABLES)
    refusal = refused(fleet.press.change, policy(approvals=count + 1), actor=actor)
    assert isinstance(refusal, InvalidResources) and refusal.code is Code.INVALID_RESOURCES
    (problem,) = refusal.problems
    assert problem.message == f"RolloutPolicy strict asks for {count + 1} approvals, and beside you {count} may approve"
    assert (problem.file, problem.line, problem.field) == ("state.yaml", 4, "spec.approvals")
    assert "operators add" in problem.remedy and str(count) in problem.remedy
    assert contents(fleet.database, *TABLES) == before
    fleet.press.change(policy(approvals=count), actor=actor)


def test_a_plan_of_it_is_refused_as_well(fleet: RolloutFleet) -> None:
    assert isinstance(refused(fleet.press.apply, policy(approvals=4), dry_run=True), InvalidResources)


def test_whose_certificate_has_ended_approves_nothing(fleet: RolloutFleet) -> None:
    for now, count in ((NOW, 3), (NOW + 100 * 365 * 86_400, 1)):
        with fleet.database.rehearse(actor="operator:ann", now=now) as transaction:
            assert four_eyes.count_approvers(transaction, "operator:ann") == count


def test_who_goes_later_stops_no_other_apply(fleet: RolloutFleet) -> None:
    """A stolen key is taken away at once; the policy stays what it is until it is written anew."""
    fleet.press.change(policy(approvals=3), actor="operator:ann")
    operators.remove(fleet.database, "bob", actor="uid:0", now=NOW)
    assert fleet.change(2, actor="operator:ann").record.state is ChangeState.PROPOSED
    fleet.press.change(policy(approvals=3) + "\n---\n" + SERVICE.format(workers=3), actor="operator:ann")
    assert isinstance(refused(fleet.press.change, policy(approvals=3, priority=1), actor="uid:0"), InvalidResources)


def test_a_policy_without_approvals_counts_nobody(fleet: RolloutFleet) -> None:
    for name in ("bob", "adam"):
        operators.remove(fleet.database, name, actor="uid:0", now=NOW)
    fleet.press.change(policy(approvals=0), actor="uid:0")


def test_what_is_taken_back_by_hand_needs_them_too(fleet: RolloutFleet) -> None:
    """Or a revert of what was approved would be an author's way around."""
    fleet.report(canary_of(fleet))
    plan = commands.revert(fleet.database, 1, actor="operator:ann", now=fleet.now)
    assert plan.change.record.state is ChangeState.PROPOSED


def test_the_coordinator_takes_back_without_waiting_for_anybody(fleet: RolloutFleet) -> None:
    """What failed is put back at once: nobody sleeps through a damage that a policy was to end."""
    canary = canary_of(fleet)
    listed = fleet.listed(canary)[SCOPE]
    rejection = reports.rejected(listed["config_version"], "validator")
    fleet.report(canary, scope={"last_rejected": rejection}, runs="sha256:" + "0" * 64)
    fleet.look()
    assert fleet.record(2).actor == "coordinator"
    assert fleet.record(2).state is not ChangeState.PROPOSED and approvals.needed_count(fleet.record(2)) == 0


def test_without_approvals_no_node_is_looked_at() -> None:
    """A fleet of thousands pays nothing for what it does not use."""
    assert four_eyes.freed_nodes(model(), model()) == []
