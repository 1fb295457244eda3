"""Whether this database was restored: a node shows a head that we signed and that is not on record (rules K41, P30), or
a coordinator has seen links of the history that are not here (continuity.py).

From then on until the operator raises the epoch, no coordinator of this database signs, publishes or admits: whatever
it signed would lie below what nodes hold (rules X12). Changes that are under way are halted: a refusal, a failed check
or a person's halt that came after the backup is forgotten here, and must not be passed over. A person lets them go on.

    shown       what a container proves: a head of this node, signed by our keys; reads
    stands      how it stands against our record; reads
    keep        the same, and from then on the state is put back, durably; one change
    keep_gap    a coordinator has seen more of the history than is here: the state is put back likewise
    note        a claim that was not proven stands in the audit log, and nothing else happens
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import select, update

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state, schema
from coordinator.database.database import Database, Transaction
from coordinator.database.documents import TRUST_BUNDLE
from coordinator.publishing import published_state
from coordinator.replicas.generations import repeats
from coordinator.reports.checkin import Comparison, Pair, ReportedMark, compare
from coordinator.rollout import steps
from coordinator.trust import bundle_conflicts
from snapshot import envelope
from snapshot.bundle import REVOKED, TrustBundle
from snapshot.container import ChunkParts
from snapshot.envelope import Envelope
from snapshot.identifiers import HEAD
from snapshot.manifest import Revocations
from snapshot.reasons import Reason, Rejected
from snapshot.verifier_state import VerifierState
from snapshot.verify import Verified, verify

RESTORED = "the database was restored from a backup: nodes may have more of it, and may have said no, since"
MOST_BUNDLES = 16  # a head lives for hours at most, a bundle for months


@dataclass(frozen=True)
class ProvenHead:
    """A head that was proven: its version, and that of the trust bundle which it lists."""

    mark: ReportedMark
    bundle_version: int


def reason(database: Database, behind: Callable[[cluster_state.ClusterState], str]) -> str:
    """What keeps everything from being signed, and the remedy; nothing where the state is sound.

    `behind`: why a state does not follow from what was seen here before, or nothing (context.py).
    """
    with database.read() as transaction:
        found = cluster_state.standing(transaction)
    return reason_of(found) or behind(found)


def reason_of(standing: cluster_state.ClusterState) -> str:
    return f"{standing.why} ({standing.remedy})" if standing.is_restored else ""


def prove_head(database: Database, node_id: str, data: bytes) -> ProvenHead:
    """What a head (a container) says that our keys have signed for exactly this node; else `bad_proof`.

    All steps of format.md 7, as of the head's own time: what has expired since was signed all the same. A key counts
    that the latest bundle or one before it lists, unless it was revoked since: it may be in other hands.
    """
    with database.read() as transaction:
        bundles = published_state.trust_bundles(transaction, MOST_BUNDLES)
        cluster_id = cluster_state.standing(transaction).cluster_id
        revoked = published_state.read_revocations(transaction).key_ids | _revoked_keys(bundles)
    holder = VerifierState(cluster_id, node_id, revocations=Revocations(key_ids=revoked))
    refusals = [Rejected(4, Reason.TRUST_BUNDLE_TOO_OLD, expected="a trust bundle", found="none")]
    for bundle in reversed(bundles):
        try:
            return _verify(data, replace(holder, bundle=bundle))
        except Rejected as rejected:
            refusals.append(rejected)
    refusal = refusals[-1]  # of the latest
    detail = f"{refusal.reason.value} at step {refusal.step}: {refusal.detail}"
    raise Refused(Code.BAD_PROOF, f"no head of {node_id}: {detail}") from refusal


def stands(database: Database, node_id: str, head: ProvenHead) -> Comparison:
    with database.read() as transaction:
        return _compare(transaction, node_id, head.mark)


def keep(database: Database, node_id: str, head: ProvenHead, *, now: float) -> Comparison:
    """What `prove_head` gave, against the record as it is now: another replica may have published meanwhile."""
    mark = head.mark
    with database.change(actor=f"node:{node_id}", now=now, after_move=True) as transaction:
        found = _compare(transaction, node_id, mark)
        if found is Comparison.RESTORED_BACKUP:
            bundle_conflicts.note(transaction, node_id, head.bundle_version)
            epoch = _epoch_of(mark, cluster_state.standing(transaction))
            transaction.run(update(schema.cluster).values(put_back_epoch=epoch))
            steps.halt_all(transaction, RESTORED)
        ours = _record(transaction, node_id)
        transaction.audit(
            "restored_backup", node_id, ours._asdict() if ours else None, mark._asdict(), outcome=found.value
        )
    return found


def keep_gap(database: Database, coordinator_id: str, gap: str, authority_epoch: int, *, now: float) -> None:
    """The same, known by a coordinator that has seen more of the history, under that epoch (continuity.py)."""
    with database.change(actor=coordinator_id, now=now, after_move=True) as transaction:
        transaction.run(update(schema.cluster).values(put_back_epoch=authority_epoch))
        steps.halt_all(transaction, RESTORED)
        transaction.audit("restored_backup", coordinator_id, None, gap, outcome=Comparison.RESTORED_BACKUP.value)


def note(database: Database, node_id: str, scope: str, held: Pair, outcome: str, *, now: float) -> None:
    """`held`: the version of the scope, or of its head, that the node says it holds."""
    with database.change(actor=f"node:{node_id}", now=now) as transaction:
        claim = {"scope": scope, "authority_epoch": held[0], "version": held[1]}
        transaction.audit("restored_backup.unproven", node_id, None, claim, outcome=outcome)


def _epoch_of(mark: ReportedMark, standing: cluster_state.ClusterState) -> int:
    """What is to be surpassed: a bundle from before that only leads to the epoch of the head ends nothing. By one at
    most, since a head alone announces no epoch: root keys do, and a config key may be in other hands.
    """
    return min(mark.authority_epoch, standing.authority_epoch + 1)


def _compare(transaction: Transaction, node_id: str, mark: ReportedMark) -> Comparison:
    """No verdict where a head that is above is still on its way: a node has just joined, or the epoch was raised. The
    head on record, signed again while the database was away, is that head.
    """
    record = _record(transaction, node_id)
    if record is not None and repeats(record.pair, mark.pair):
        return Comparison.EQUAL
    is_pending = record is None or cluster_state.standing(transaction).authority_epoch > mark.authority_epoch
    return compare(record, mark, proven=not is_pending)


def _record(transaction: Transaction, node_id: str) -> ReportedMark | None:
    heads, documents = schema.heads, schema.documents
    joined = heads.join(documents, heads.c.snapshot_id == documents.c.snapshot_id)
    columns = select(heads.c.authority_epoch, heads.c.generation, documents.c.content_hash)
    row = transaction.row(columns.select_from(joined).where(heads.c.node_id == node_id))
    return None if row is None else ReportedMark(row.authority_epoch, row.generation, row.content_hash)


def _verify(data: bytes, holder: VerifierState) -> ProvenHead:
    opened = envelope.parse(ChunkParts([data], holder.limits).opening().envelope, HEAD, holder.limits)
    at = max(opened.issued_at, opened.valid_from)
    verdict = verify(ChunkParts([data], holder.limits), _lenient(holder, opened, at), kind=HEAD, now=at)
    if not isinstance(verdict, Verified) or verdict.head is None:
        raise AssertionError("a head is verified or refused")
    listed = verdict.head.scopes.get(TRUST_BUNDLE)
    return ProvenHead(ReportedMark(*verdict.mark.version, verdict.content_hash), listed.config_version if listed else 0)


def _lenient(holder: VerifierState, opened: Envelope, at: float) -> VerifierState:
    """Whose keys signed is the question, not whether we have heard of the bundle and the epoch of that day: of a
    database that was restored from an old backup we have not.
    """
    bundle = holder.bundle
    if bundle is None:
        return holder
    return replace(
        holder,
        bundle=replace(
            bundle,
            version=max(bundle.version, opened.min_trust_bundle_version),
            authority_epoch=max(bundle.authority_epoch, opened.authority_epoch),
            expires_at=max(bundle.expires_at, int(at) + 1),
        ),
    )


def _revoked_keys(bundles: Sequence[TrustBundle]) -> frozenset[str]:
    return frozenset(key.key_id for bundle in bundles for key in bundle.keys.values() if key.status == REVOKED)
