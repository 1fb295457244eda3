"""Documents that root keys have signed elsewhere: verified as a node would, then kept (format.md 8; rules S35, S87).

Root keys never reach a coordinator; what they sign comes as a file, through the admin socket.
"""

from collections.abc import Callable
from dataclasses import replace

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state, documents
from coordinator.database.database import Database, Transaction
from coordinator.database.documents import TRUST_BUNDLE, Document, HeadEntry, Recovery
from coordinator.publishing import published_state
from coordinator.trust import bundle_conflicts
from snapshot import bundle as bundles
from snapshot import envelope, manifest
from snapshot.bundle import ROOT, TrustBundle
from snapshot.container import ChunkParts
from snapshot.envelope import RECOVERY, SNAPSHOT, Envelope
from snapshot.reasons import Rejected
from snapshot.roles import ROLES
from snapshot.verifier_state import Mark, Roots, VerifierState
from snapshot.verify import Verified, verify


def add_trust_bundle(
    database: Database,
    data: bytes,
    *,
    actor: str,
    now: float,
    despite_reports: bool = False,
    also: Callable[[Transaction, int], None] | None = None,
) -> TrustBundle:
    """The next trust bundle; the first one is judged by the root keys that it lists, which the operator pins. `also`:
    what is done in the same transaction, where the bundle is taken.
    """
    present, holder = _standpoint(database, "operator")
    if present is None:
        holder = replace(holder, roots=_own_roots(data))
    else:
        holder = replace(holder, marks={TRUST_BUNDLE: Mark(*present.pair, present.content_hash)})
    sections: dict[str, bytes] = {}
    verified = _verify(data, holder, SNAPSHOT, now, sections)
    if verified.bundle is None:
        raise Refused(Code.BAD_REQUEST, f"{verified.scope} is no trust bundle", remedy="give a trust bundle")
    epoch = verified.bundle.authority_epoch
    kept = _document(verified, tuple(sections.values()))
    with database.read() as transaction:
        known = kept.config_version, kept.content_hash
        bundle_conflicts.check_same(transaction, *known, despite_reports=despite_reports)
    documents.add_trust_bundle(database, kept, announces_epoch=epoch, actor=actor, now=now, also=also)
    return verified.bundle


def add_recovery(database: Database, data: bytes, *, actor: str, now: float) -> Recovery:
    """Permission for one node to go back in one scope, once."""
    _, holder = _standpoint(database, _opening(data, RECOVERY).subject_node_id)
    holder = replace(holder, roles=frozenset(ROLES))  # which scopes it may hold now is the node's own step 10
    verified = _verify(data, holder, RECOVERY, now, {})
    if verified.recovery is None:
        raise AssertionError("a verified recovery says what it allows")
    recovery = Recovery(_document(verified, ()), **vars(verified.recovery))
    documents.add_recovery(database, recovery, actor=actor, now=now)
    return recovery


def _standpoint(database: Database, node_id: str) -> tuple[HeadEntry | None, VerifierState]:
    """The latest bundle, and a reader that trusts it."""
    with database.read() as transaction:
        found = published_state.latest_bundle(transaction)
        cluster_id = cluster_state.standing(transaction).cluster_id
        revocations = published_state.read_revocations(transaction)
    entry, bundle = found if found is not None else (None, None)
    return entry, VerifierState(cluster_id, node_id, bundle=bundle, revocations=revocations)


def _verify(data: bytes, holder: VerifierState, kind: str, now: float, sections: dict[str, bytes]) -> Verified:
    try:
        verdict = verify(ChunkParts([data], holder.limits), holder, kind=kind, now=now, keep=sections.__setitem__)
    except Rejected as rejected:
        detail = f"{rejected.reason.value} at step {rejected.step}: {rejected.detail}"
        raise Refused(Code.CONFLICT, detail, remedy="sign it anew") from rejected
    if not isinstance(verdict, Verified):
        raise Refused(Code.CONFLICT, f"{verdict.envelope.scope} {verdict.envelope.config_version} is there already")
    return verdict


def _opening(data: bytes, kind: str) -> Envelope:
    try:
        return envelope.parse(ChunkParts([data]).opening().envelope, kind)
    except Rejected as rejected:
        raise Refused(Code.BAD_REQUEST, f"{rejected.reason.value}: {rejected.detail}") from rejected


def _own_roots(data: bytes) -> Roots:
    """The root keys of a first bundle. Its signatures by them are judged like any other's."""
    try:
        parts = ChunkParts([data])
        opened = envelope.parse(parts.opening().envelope, SNAPSHOT)
        entries = manifest.parse_state(parts.manifest())
        sections = parts.sections([entry.size for entry in entries.values()])
        bundle = bundles.from_bytes(opened, dict(zip(entries, sections, strict=True)))
    except Rejected as rejected:
        raise Refused(Code.BAD_REQUEST, f"{rejected.reason.value}: {rejected.detail}") from rejected
    keys = {key_id: key for key_id, key in bundle.keys.items() if key.purpose == ROOT}
    return Roots(keys, bundle.thresholds[ROOT])


def _document(verified: Verified, sections: tuple[bytes, ...]) -> Document:
    one = verified.envelope
    return Document(
        snapshot_id=one.snapshot_id,
        kind=one.kind,
        subject=one.subject_node_id,
        scope=one.scope,
        authority_epoch=one.authority_epoch,
        config_version=one.config_version,
        content_hash=verified.content_hash,
        issued_at=one.issued_at,
        expires_at=one.expires_at,
        envelope=verified.envelope_bytes,
        signatures=verified.signatures,
        manifest=verified.manifest_bytes,
        sections=sections,
    )
