"""A second pair of eyes: a change whose policy asks for approvals is `proposed` until enough operators gave theirs.

    needed_count(record)              so many, by the policies of its nodes
    list_approvals(transaction, id)   those that there are, and whether each still counts
    approve(database, ...)            one more; with the last one the change begins

What is approved is a plan, by its hash, and the hash is bound to the state that the plan was made from: nobody approves
one thing and gets another. Who approves is who holds the certificate; the author never does, and nobody does it twice.
Root and the service's own user come in by the machine's admin socket and are one there: the kernel knows no persons.

An approval counts as long as who gave it may approve. With an operator who is removed goes what they have approved of
changes that have not begun (membership/operators.py), so that who comes back under the name has approved nothing.

Rejected: approvals that outlive another apply, and an author's own, "in a hurry": who is in a hurry asks somebody.
Changes that the coordinator makes itself, revocations, heads, renewals and joins wait for nobody.
"""

from dataclasses import replace

from sqlalchemy import insert, select

from coordinator.base.refusal import Code, Refused
from coordinator.changes import four_eyes, records
from coordinator.changes.records import ChangeRecord
from coordinator.changes.states import ChangeState
from coordinator.database import schema
from coordinator.database.database import Database, Transaction
from wire.operators.change_answers import ChangeApproval

APPROVED = "approved"


def needed_count(record: ChangeRecord) -> int:
    """Of the policies of all its nodes the greatest number."""
    return max((group.rollout.approvals for group in record.groups), default=0)


def list_approvals(transaction: Transaction, change_id: int) -> list[ChangeApproval]:
    """The oldest first."""
    table = schema.change_approvals
    rows = transaction.rows(select(table).where(table.c.change_id == change_id))
    found = [ChangeApproval(row.operator, row.at, _may_approve(transaction, row.operator)) for row in rows]
    return sorted(found, key=lambda each: (each.at, each.operator))


def count(transaction: Transaction, change_id: int) -> int:
    """Those that count."""
    return sum(approval.counts for approval in list_approvals(transaction, change_id))


def approve(database: Database, change_id: int, plan_hash: str, *, actor: str, now: float) -> ChangeRecord:
    """The change as it stands then. Nothing is kept of an approval that is refused."""
    with database.change(actor=actor, now=now) as transaction:
        record = records.get(transaction, change_id)
        _check(transaction, record, plan_hash, actor)
        row = {"change_id": change_id, "operator": actor, "at": now, "plan_hash": plan_hash}
        transaction.run(insert(schema.change_approvals).values(**row))
        transaction.audit("change.approve", record.name, None, {"plan_hash": plan_hash})
        records.note(transaction, change_id, APPROVED, detail=actor)
        if count(transaction, change_id) < needed_count(record):
            return records.save(transaction, record)  # who watches is told
        records.note(transaction, change_id, ChangeState.PREPARING.value)
        return records.save(transaction, replace(record, state=ChangeState.PREPARING))


def _check(transaction: Transaction, record: ChangeRecord, plan_hash: str, actor: str) -> None:
    """What is wrong with the change first: that is so for everybody."""
    name = record.name
    if record.superseded_by is not None:
        later = records.get(transaction, record.superseded_by)
        detail = f"{name} is outdated: {later.actor} has applied {later.name} in its place, which is {later.state}"
        remedy = f"look at that: holdfastctl changes diff {later.name}; approve it where it waits for approvals"
        raise Refused(Code.CONFLICT, detail, remedy=remedy)
    if record.state is not ChangeState.PROPOSED:
        detail = f"{name} is {record.state} and waits for no approval"
        raise Refused(Code.CONFLICT, detail, remedy=f"see holdfastctl changes show {name}")
    if plan_hash != record.plan_hash:
        detail = f"the plan of {name} is {record.plan_hash}, and this approval is for {plan_hash}"
        raise Refused(Code.CONFLICT, detail, remedy=f"look at it: holdfastctl changes diff {name}; then approve that")
    if four_eyes.person_of(actor) == four_eyes.person_of(record.actor):
        detail = f"{actor} has made {name}, and nobody approves what is their own"
        raise Refused(Code.PERMISSION_DENIED, detail, remedy="ask another operator who may approve")
    if not _may_approve(transaction, actor):
        detail = f"{actor} may not approve"
        raise Refused(Code.PERMISSION_DENIED, detail, remedy="it takes an approver, or an admin")
    given = {four_eyes.person_of(approval.operator) for approval in list_approvals(transaction, record.change_id)}
    if four_eyes.person_of(actor) in given:
        detail = f"{actor} has approved {name} already, and counts once"
        raise Refused(Code.CONFLICT, detail, remedy="ask another operator who may approve")


def _may_approve(transaction: Transaction, actor: str) -> bool:
    """Now: roles change, and operators go."""
    return four_eyes.is_approver(four_eyes.role_of(transaction, actor))
