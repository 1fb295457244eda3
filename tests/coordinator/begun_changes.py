"""Changes as an apply begins them, for tests of what is asked of them."""

from dataclasses import asdict, replace

from coordinator.changes import records
from coordinator.changes.groups import ChangeGroup
from coordinator.changes.records import ChangedResource, ChangeNode, ChangeRecord
from coordinator.changes.rollout_policy import Rollout
from coordinator.changes.states import ChangeState
from coordinator.database.database import Database
from snapshot import canonical
from tests.coordinator.candidates import NOW

PLAN_HASH = "sha256:" + "a" * 64
PLAN = ChangedResource("Organization", "acme", "create", None, {"name": "Acme"})
"""Whoever is none of its nodes any more keeps no change: of nodes that were never admitted it is done at once, unless
it waits for a person.
"""


def begin(database: Database, *nodes: ChangeNode, approvals: int = 0, **values: object) -> ChangeRecord:
    """The next change. With `approvals` it is proposed."""
    state = ChangeState.PROPOSED if approvals else ChangeState.PREPARING
    groups = (ChangeGroup("standard", Rollout(approvals=approvals)),)
    with database.change(actor="operator:ann", now=NOW) as transaction:
        number = records.next_id(transaction)
        record = ChangeRecord(number, NOW, "operator:ann", "more of it", state, PLAN_HASH, "s-1", groups)
        made = replace(record, **values)
        records.begin(
            transaction,
            made,
            canonical.dumps([asdict(PLAN)]).decode(),
            [replace(node, change_id=number) for node in nodes],
        )
        transaction.audit("apply", "prod")
    with database.read() as transaction:
        return records.get(transaction, number)


def save(database: Database, record: ChangeRecord, **values: object) -> ChangeRecord:
    """What somebody decides."""
    with database.change(actor="coordinator", now=NOW) as transaction:
        transaction.audit("change", record.name)
        return records.save(transaction, replace(record, **values))
