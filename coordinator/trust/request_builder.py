"""What root keys are to be asked to sign, from what stands in the database (format.md 8; rules K54, S87).

bundle_request      bundle N+1: the wishes, and what heads have revoked since N
unproven            who reports a bundle that is not on record
recovery_request    permission for a node to go back to a version that was published for it
versions            the versions of a scope that a node was ever given
rotation            where each key stands, and what comes next
"""

import secrets
from collections.abc import Iterator, Sequence

from sqlalchemy import select

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.database import cluster_state, documents, schema
from coordinator.database.database import Database, Transaction
from coordinator.database.documents import container_of
from coordinator.publishing import published_state
from coordinator.trust import bundle_conflicts, ceremony, signing_requests
from coordinator.trust import rotation as rotations
from coordinator.trust.bundle_conflicts import ReportedBundle
from coordinator.trust.bundle_content import CATEGORIES, Trust
from coordinator.trust.ceremony import Carry, CeremonyMoment, RaiseEpoch, Restore, Retire, Wish
from coordinator.trust.rotation import Dates, RotationStep
from coordinator.trust.signing_requests import Lifetime, SigningRequest
from snapshot.identifiers import format_time
from snapshot.manifest import RecoveryManifest, Revocations
from wire.operators.trust_answers import KeyStep, PublishedVersion, Rotation


def bundle_request(
    database: Database,
    wishes: Sequence[Wish],
    settings: CoordinatorSettings,
    now: float,
    *,
    despite_reports: bool = False,
) -> SigningRequest:
    """Refused where the wishes are at odds with what stands there, and where members of a database that was restored
    report a later bundle already.
    """
    container, present, former = _chain(database)
    with database.read() as transaction:
        standing = cluster_state.standing(transaction)
        following = signing_requests.bundle_of(container).version + 1
        bundle_conflicts.check_unused(transaction, following, despite_reports=despite_reports)
        issued_at = _date(transaction, wishes, now)
        carried: list[Wish] = [
            Carry(published_state.read_revocations(transaction)),
            *_readmissions(transaction, present.revocations),
        ]
    _none_retires_early(wishes, rotations.steps(present, dates(settings), now), now)
    moment = CeremonyMoment(standing.cluster_id, issued_at, settings.key_rollout_s, present, former)
    trust = ceremony.next_trust(present, [*carried, *wishes], moment)
    return signing_requests.for_bundle(container, trust, _lifetime(issued_at, settings.trust_bundle_lifetime_s))


def unproven(database: Database) -> list[ReportedBundle]:
    """The members that report a later bundle than the database has: alarms, and no more (bundle_conflicts.py)."""
    container, _, _ = _chain(database)
    with database.read() as transaction:
        return bundle_conflicts.claims(transaction, signing_requests.bundle_of(container).version + 1)


def _date(transaction: Transaction, wishes: Sequence[Wish], now: float) -> int:
    """A higher epoch begins by the clock as it is now: the way back where the last date lies ahead (format.md 7)."""
    if any(isinstance(wish, RaiseEpoch) for wish in wishes):
        return int(now)
    return cluster_state.issue_time(transaction, now)


def recovery_request(
    database: Database, node_id: str, scope: str, to: int, settings: CoordinatorSettings, now: float
) -> SigningRequest:
    """From the version published last to an earlier one of the same epoch."""
    container, _, _ = _chain(database)
    with database.read() as transaction:
        published = _versions(transaction, node_id, scope)
        epoch = cluster_state.standing(transaction).authority_epoch
        issued_at = cluster_state.issue_time(transaction, now)
    if not published:
        raise Refused(
            Code.NOT_FOUND, f"nothing was ever published as {scope} for {node_id}", remedy="holdfastctl nodes"
        )
    last, wanted = published[-1], [bundle for bundle in published if bundle.config_version == to]
    target = _target(wanted, last, epoch, to)
    allowed = RecoveryManifest(last.config_version, to, target.content_hash, secrets.token_hex(16))
    life = _lifetime(issued_at, settings.snapshot_lifetime_s)
    return signing_requests.for_recovery(container, node_id, scope, allowed, life)


def versions(database: Database, node_id: str, scope: str) -> list[PublishedVersion]:
    """The oldest first."""
    with database.read() as transaction:
        return _versions(transaction, node_id, scope)


def rotation(database: Database, settings: CoordinatorSettings, now: float) -> Rotation:
    """The present bundle, and for each of its keys the next step with its date."""
    with database.read() as transaction:
        found = published_state.latest_bundle(transaction)
    if found is None:
        raise Refused(Code.NO_STATE, "there is no trust bundle yet", remedy="holdfastctl init")
    bundle = found[1]
    steps = rotations.steps(Trust.of(bundle), dates(settings), now)
    return Rotation(
        version=bundle.version,
        authority_epoch=bundle.authority_epoch,
        expires_at=bundle.expires_at,
        renew_at=bundle.issued_at + (bundle.expires_at - bundle.issued_at) // signing_requests.REFRESH_SHARE,
        thresholds=dict(bundle.thresholds),
        revocations={name: tuple(sorted(getattr(bundle.revocations, name))) for name in CATEGORIES},
        keys=tuple(KeyStep(**vars(step), is_due=step.is_due(now)) for step in steps),
    )


def dates(settings: CoordinatorSettings) -> Dates:
    return Dates(settings.key_rollout_s, both_sign_s=settings.snapshot_refresh_s)


def _none_retires_early(wishes: Sequence[Wish], steps: Sequence[RotationStep], now: float) -> None:
    """Before its date there are documents that the old key alone has signed: a rollover leaves them their signer."""
    early = {step.key_id: step for step in steps if step.action == rotations.RETIRE and not step.is_due(now)}
    for wish in wishes:
        if isinstance(wish, Retire) and not wish.early and wish.key_id in early:
            due = format_time(early[wish.key_id].due or 0)
            remedy = "wait for that; --early where it must not sign until then; a key in wrong hands: `revoke key`"
            raise Refused(Code.CONTRADICTION, f"{wish.key_id} may retire from {due}", remedy=remedy)


def _chain(database: Database) -> tuple[bytes, Trust, frozenset[str]]:
    """The last bundle as a container and as what it says, and the keys of earlier ones that have left."""
    kept = [container_of(bundle) for bundle in _bundles(database)]
    if not kept:
        raise Refused(Code.NO_STATE, "there is no trust bundle yet", remedy="holdfastctl init")
    present = Trust.of(signing_requests.bundle_of(kept[-1]))
    ever = {key_id for request in kept for key_id in signing_requests.bundle_of(request).keys}
    return kept[-1], present, frozenset(ever - present.keys.keys())


def _bundles(database: Database) -> Iterator[documents.Document]:
    """All of them; they are read by the batch."""
    after = 0
    while batch := documents.trust_bundles(database, after):
        yield from batch
        after = batch[-1].config_version


def _readmissions(transaction: Transaction, revoked: Revocations) -> list[Restore]:
    """Nodes that the bundle still revokes and that the operator has let in again."""
    nodes, allowlist = schema.nodes, schema.allowlist
    welcome = {row.node_id for row in transaction.rows(select(allowlist.c.node_id))}
    welcome |= {row.node_id for row in transaction.rows(select(nodes.c.node_id).where(nodes.c.revoked_at.is_(None)))}
    return [Restore("node_ids", node_id) for node_id in sorted(revoked.node_ids & welcome)]


def _versions(transaction: Transaction, node_id: str, scope: str) -> list[PublishedVersion]:
    """Those that its heads have listed."""
    table, kept = schema.published, schema.documents
    joined = table.outerjoin(kept, table.c.snapshot_id == kept.c.snapshot_id)
    chosen = select(table, kept.c.snapshot_id.label("kept")).select_from(joined)
    mine = chosen.where(table.c.node_id == node_id, table.c.scope == scope, ~table.c.is_candidate)
    rows = transaction.rows(mine.order_by(table.c.authority_epoch, table.c.config_version))
    return [
        PublishedVersion(
            row.authority_epoch, row.config_version, row.content_hash, row.published_at, row.kept is not None
        )
        for row in rows
    ]


def _target(wanted: Sequence[PublishedVersion], last: PublishedVersion, epoch: int, to: int) -> PublishedVersion:
    """A recovery moves the version alone: never the epoch (rules S65)."""
    same_epoch = [bundle for bundle in wanted if bundle.authority_epoch == last.authority_epoch]
    if last.authority_epoch != epoch:
        raise Refused(Code.CONFLICT, f"epoch {epoch} is not published there yet", remedy="wait for the next head")
    if not same_epoch:
        detail = f"version {to} was not published in epoch {epoch}"
        raise Refused(Code.NOT_FOUND, detail, remedy="`holdfastctl nodes versions` lists them; or declare it anew")
    (target,) = same_epoch
    if to >= last.config_version:
        raise Refused(Code.CONFLICT, f"version {to} is what is published", remedy="name an earlier version")
    if not target.is_kept:
        detail = f"the document of version {to}, published {format_time(target.published_at)}, is not kept any more"
        raise Refused(Code.NOT_FOUND, detail, remedy="declare that state again: it gets a new version")
    return target


def _lifetime(issued_at: int, lifetime_s: int) -> Lifetime:
    return Lifetime(issued_at, issued_at + lifetime_s)
