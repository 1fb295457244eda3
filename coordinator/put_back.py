"""Whether this database was put back: a node shows a head that we signed and that is not on record (rules K41, P30).

From then on until the operator raises the epoch, no coordinator of this database signs, publishes or admits: whatever
it signed would lie below what nodes hold (rules X12).
"""

from sqlalchemy import select, update

from coordinator import authority, schema, situation
from coordinator.checkin import Comparison, Mark, compare
from coordinator.database import Database, Transaction
from coordinator.refusal import Code, Refused
from snapshot import envelope
from snapshot.container import ChunkParts
from snapshot.holder import Holder
from snapshot.identifiers import HEAD
from snapshot.reasons import Rejected
from snapshot.verify import Verified, verify


def reason(database: Database) -> str:
    """What keeps everything from being signed, and the remedy; nothing where the state is sound."""
    with database.read() as transaction:
        return reason_of(authority.standing(transaction))


def reason_of(standing: authority.Standing) -> str:
    return f"{authority.PUT_BACK} ({authority.RAISE_EPOCH})" if standing.is_put_back else ""


def prove(database: Database, node_id: str, data: bytes, *, now: float) -> Comparison:
    """How the head that a node shows stands against our record; above it, the state is put back from now on, durably.

    `data`: a container. `bad_proof` for what our keys have not signed for exactly this node.
    """
    shown = _verified(database, node_id, data)
    with database.read() as transaction:
        found = _compared(transaction, node_id, shown)
    if found is not Comparison.PUT_BACK:
        return found
    with database.change(actor=f"node:{node_id}", now=now) as transaction:
        found = _compared(transaction, node_id, shown)  # another replica may have published meanwhile
        if found is Comparison.PUT_BACK:
            transaction.run(update(schema.cluster).values(put_back_epoch=shown.authority_epoch))
        ours = _record(transaction, node_id)
        transaction.audit("put_back", node_id, vars(ours) if ours else None, vars(shown), outcome=found.value)
    return found


def _compared(transaction: Transaction, node_id: str, shown: Mark) -> Comparison:
    """No verdict where a head that is above is still on its way: a node has joined again, or the epoch was raised."""
    record = _record(transaction, node_id)
    is_pending = record is None or authority.standing(transaction).authority_epoch > shown.authority_epoch
    return compare(record, shown, proven=not is_pending)


def _record(transaction: Transaction, node_id: str) -> Mark | None:
    heads, documents = schema.heads, schema.documents
    joined = heads.join(documents, heads.c.snapshot_id == documents.c.snapshot_id)
    columns = select(heads.c.authority_epoch, heads.c.generation, documents.c.content_hash)
    row = transaction.row(columns.select_from(joined).where(heads.c.node_id == node_id))
    return None if row is None else Mark(row.authority_epoch, row.generation, row.content_hash)


def _verified(database: Database, node_id: str, data: bytes) -> Mark:
    """Judged as of its own time: what has expired since was signed all the same."""
    with database.read() as transaction:
        found = situation.latest_bundle(transaction)
        cluster_id = authority.standing(transaction).cluster_id
        revocations = situation.read_revocations(transaction)
    holder = Holder(cluster_id, node_id, bundle=found[1] if found else None, revocations=revocations)
    try:
        opened = envelope.parse(ChunkParts([data]).opening().envelope, HEAD)
        at = max(opened.issued_at, opened.valid_from)
        verdict = verify(ChunkParts([data], holder.limits), holder, kind=HEAD, now=at)
    except Rejected as rejected:
        detail = f"{rejected.reason.value} at step {rejected.step}: {rejected.detail}"
        raise Refused(Code.BAD_PROOF, f"no head of {node_id}: {detail}") from rejected
    if not isinstance(verdict, Verified):
        raise AssertionError("a head is verified or refused")
    return Mark(*verdict.mark.version, verdict.content_hash)
