"""Approvals: by others than the author, of exactly one plan, each once, as long as they may."""

import threading
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from coordinator.base.refusal import Code, Refused
from coordinator.changes import records
from coordinator.changes.groups import ChangeGroup
from coordinator.changes.records import ChangeNode
from coordinator.changes.rollout_policy import DEFAULT
from coordinator.changes.states import ChangeState, GroupPhase
from coordinator.database.database import Database
from coordinator.membership import operators
from coordinator.rollout import approvals, commands
from tests.coordinator import copies
from tests.coordinator.begun_changes import PLAN_HASH, begin, save
from tests.coordinator.candidates import NOW, contents, found
from tests.coordinator.refusals import refused
from tests.examples import examples
from wire.certificate import make_identity
from wire.operators.operator_roles import OperatorRole

TABLES = ("changes", "change_approvals", "change_events", "audit")


@pytest.fixture
def four(database: Database) -> Database:
    """ann wrote it; bob and cleo approve, vic looks, adam may everything."""
    copies.made(database, "who approves", add_people)
    return database


def add_people(database: Database) -> None:
    found(database)
    roles = {"ann": "author", "bob": "approver", "cleo": "approver", "vic": "viewer", "adam": "admin"}
    for name, role in roles.items():
        der = make_identity(name, NOW).der
        operators.add(database, name, der, role=OperatorRole(role), actor="uid:0", now=NOW)


def approve(database: Database, change: records.ChangeRecord, actor: str, plan_hash: str = PLAN_HASH) -> ChangeState:
    who = actor if ":" in actor else f"operator:{actor}"
    return approvals.approve(database, change.change_id, plan_hash, actor=who, now=NOW + 1).state


def test_it_begins_with_the_last_approval(four: Database) -> None:
    change = begin(four, approvals=2)
    assert approve(four, change, "bob") is ChangeState.PROPOSED
    assert approve(four, change, "cleo") is ChangeState.PREPARING
    with four.read() as transaction:
        assert [each.operator for each in approvals.list_approvals(transaction, 1)] == ["operator:bob", "operator:cleo"]
        said = [(event.what, event.detail) for event in records.events_of(transaction, 1)]
    assert said[:2] == [("approved", "operator:bob"), ("approved", "operator:cleo")]
    audited = [row for row in contents(four, "audit")["audit"] if "change.approve" in row]
    assert len(audited) == 2 and all(PLAN_HASH in "".join(map(str, row)) for row in audited)


@pytest.mark.parametrize(
    ("who", "plan_hash", "code", "said"),
    [
        ("ann", PLAN_HASH, Code.PERMISSION_DENIED, "their own"),
        ("vic", PLAN_HASH, Code.PERMISSION_DENIED, "may not approve"),
        ("nobody", PLAN_HASH, Code.PERMISSION_DENIED, "may not approve"),
        ("cleo", PLAN_HASH, Code.CONFLICT, "counts once"),
        ("bob", "sha256:" + "b" * 64, Code.CONFLICT, "this approval is for"),
    ],
    ids=["author", "viewer", "no operator", "twice", "another plan"],
)
def test_what_is_no_approval(four: Database, who: str, plan_hash: str, code: Code, said: str) -> None:
    """Refused with a reason, nothing is kept of it, and the next good one counts."""
    change = begin(four, approvals=2)
    approve(four, change, "cleo")
    before = contents(four, *TABLES)
    refusal = refused(approve, four, change, who, plan_hash)
    assert refusal.code is code and said in refusal.detail and refusal.remedy
    assert contents(four, *TABLES) == before
    assert approve(four, change, "bob") is ChangeState.PREPARING


@pytest.mark.parametrize("state", [state for state in ChangeState if state is not ChangeState.PROPOSED])
def test_an_approval_that_comes_too_late_is_none(four: Database, state: ChangeState) -> None:
    change = save(four, begin(four, approvals=1), state=state)
    before = contents(four, *TABLES)
    refusal = refused(approve, four, change, "bob")
    assert refusal.code is Code.CONFLICT and str(state) in refusal.detail
    assert contents(four, *TABLES) == before


def test_the_machine_is_one_who_approves(four: Database) -> None:
    """root and the service's user come in by one socket: one pair of eyes, and none for what it made itself."""
    own = begin(four, approvals=1, actor="uid:999")
    assert refused(approve, four, own, "uid:0").code is Code.PERMISSION_DENIED
    change = begin(four, approvals=2)
    assert approve(four, change, "uid:0") is ChangeState.PROPOSED
    assert refused(approve, four, change, "uid:999").code is Code.CONFLICT
    assert approve(four, change, "adam") is ChangeState.PREPARING


def test_an_admin_is_no_second_pair_of_eyes_to_himself(four: Database) -> None:
    change = begin(four, approvals=1, actor="operator:adam")
    assert refused(approve, four, change, "adam").code is Code.PERMISSION_DENIED
    assert approve(four, change, "bob") is ChangeState.PREPARING


def test_what_was_approved_with_a_stolen_key_goes_with_it(four: Database) -> None:
    """Also where the name comes back with another key; what had begun by then goes on."""
    begun, change = begin(four, approvals=1), begin(four, approvals=2)
    approve(four, begun, "bob")
    approve(four, change, "bob")
    operators.remove(four, "bob", actor="uid:0", now=NOW)
    operators.add(four, "bob", make_identity("bob", NOW).der, role=OperatorRole.APPROVER, actor="uid:0", now=NOW)
    assert approve(four, change, "cleo") is ChangeState.PROPOSED
    with four.read() as transaction:
        assert [each.operator for each in approvals.list_approvals(transaction, 1)] == ["operator:bob"]
    assert approve(four, change, "bob") is ChangeState.PREPARING


def test_what_was_approved_with_a_stolen_key_is_gone_where_it_was_halted_meanwhile(four: Database) -> None:
    """Who halts it and lets it go on brings nothing back."""
    change = begin(four, ChangeNode(0, "n-1", ("route_policy",)), approvals=2)
    approve(four, change, "bob")
    commands.halt(four, 1, "look first", actor="operator:cleo", now=NOW)
    operators.remove(four, "bob", actor="uid:0", now=NOW)
    operators.add(four, "bob", make_identity("bob", NOW).der, role=OperatorRole.APPROVER, actor="uid:0", now=NOW)
    assert commands.resume(four, 1, "go", actor="operator:cleo", now=NOW).state is ChangeState.PROPOSED
    assert approve(four, change, "cleo") is ChangeState.PROPOSED
    assert approve(four, change, "bob") is ChangeState.PREPARING


def test_who_goes_while_it_is_halted_takes_nothing_from_what_has_begun(four: Database) -> None:
    change = begin(four, ChangeNode(0, "n-1", ("route_policy",)), approvals=1)
    approve(four, change, "bob")
    asked = replace(commands.halt(four, 1, "", actor="uid:0", now=NOW).groups[0], phase=GroupPhase.VOTING)
    with four.read() as transaction:
        halted = records.get(transaction, 1)
    save(four, halted, groups=(asked,))
    operators.remove(four, "bob", actor="uid:0", now=NOW)
    with four.read() as transaction:
        assert [each.operator for each in approvals.list_approvals(transaction, 1)] == ["operator:bob"]
    assert commands.resume(four, 1, "go", actor="uid:0", now=NOW).state is ChangeState.PREPARING


def test_who_may_approve_no_more_counts_no_more(four: Database) -> None:
    change = begin(four, approvals=2)
    approve(four, change, "bob")
    operators.set_role(four, "bob", OperatorRole.VIEWER, actor="uid:0", now=NOW)
    assert approve(four, change, "cleo") is ChangeState.PROPOSED
    with four.read() as transaction:
        assert [each.counts for each in approvals.list_approvals(transaction, 1)] == [False, True]
    assert approve(four, change, "adam") is ChangeState.PREPARING


def test_of_several_policies_the_strictest_holds(four: Database) -> None:
    groups = tuple(ChangeGroup(str(wanted), replace(DEFAULT, approvals=wanted)) for wanted in (0, 3, 1))
    assert approvals.needed_count(begin(four, groups=groups)) == 3
    assert approvals.needed_count(begin(four, groups=())) == 0


def test_two_at_once_by_two_coordinators(four: Database, second: Database) -> None:
    """Both count, the change begins once."""
    change = begin(four, approvals=2)
    both = [
        threading.Thread(target=approve, args=(database, change, who))
        for database, who in ((four, "bob"), (second, "cleo"))
    ]
    for each in both:
        each.start()
    for each in both:
        each.join(60)
    with four.read() as transaction:
        found = records.get(transaction, 1)
        assert found.state is ChangeState.PREPARING and approvals.count(transaction, 1) == 2
    assert found.revision == change.revision + 2


OPERATORS = ("ann", "bob", "cleo", "vic", "adam", "uid:0", "uid:7")


@examples(15, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(OPERATORS),
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from(OPERATORS), st.booleans()), max_size=12),
)
def test_nothing_begins_before_enough_others_agree(
    four: Database, author: str, wanted: int, tries: list[tuple[str, bool]]
) -> None:
    """Whoever tries, in whatever order: it has begun if and only if so many who may have approved that plan."""
    may, begun = {"bob", "cleo", "adam", "uid"}, False
    agreed: set[str] = set()
    change = begin(four, approvals=wanted, actor=author if ":" in author else f"operator:{author}")
    for who, is_the_plan in tries:
        person = who.partition(":")[0]
        is_good = not begun and is_the_plan and person in may - {author.partition(":")[0]} - agreed
        try:
            state = approve(four, change, who, PLAN_HASH if is_the_plan else "sha256:other")
        except Refused:
            assert not is_good
            continue
        assert is_good
        agreed.add(person)
        begun = len(agreed) >= wanted
        assert state is (ChangeState.PREPARING if begun else ChangeState.PROPOSED)
