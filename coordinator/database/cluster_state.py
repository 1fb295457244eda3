"""The cluster's one row of authority: made by `init`, raised by every change (rules J34, K12, K21, H37, K47)."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import BindParameter, bindparam, insert, select, update

from coordinator.base.refusal import Code, Refused
from coordinator.database import schema
from coordinator.database.database import MOVED_FROM, Database, Transaction, is_named
from coordinator.database.running_digests import UNDIGESTED
from coordinator.declared.references import DEFAULT_SITE
from coordinator.keys.tokens import key_id_of
from snapshot.identifiers import format_time, is_endpoint, is_hash, is_id

RESTORED_BACKUP = (
    "the database was restored from an old backup, or is a standby that was behind: a node or a coordinator has seen "
    "what is not on record here"
)
RAISE_EPOCH = "holdfastctl epoch raise"
IMPORT_FIRST = "first `holdfastctl trust import` of all bundles that are younger than the copy"

_CHUNK = 500  # names in one statement

# Asked in every transaction: making a statement costs as much as running it.
_CLUSTER = select(schema.cluster)
_SERVER_CERTIFICATES = select(schema.coordinators.c.certificate_sha256)
_TOKEN_KEYS = select(schema.coordinators.c.token_key_id, schema.coordinators.c.token_public_key)
_CAME = (
    select(schema.moves.c.coordinator_id)
    .where(schema.moves.c.direction == MOVED_FROM)
    .order_by(schema.moves.c.at, schema.moves.c.coordinator_id)
)
_SITE_IDS = select(schema.sites.c.site_id)
# As above, of each change of the state.
_SOME_IDS: BindParameter[str] = bindparam("ids", expanding=True)
_RAISE_REVISION = update(schema.cluster).values(revision=schema.cluster.c.revision + 1, state_id=bindparam("name"))
_RAISE_SOME = (
    update(schema.nodes)
    .where(is_named(schema.nodes.c.node_id))
    .values(generation=schema.nodes.c.generation + 1)
    .execution_options(**UNDIGESTED)
)
_SITES_OF = select(schema.nodes.c.site_id).where(is_named(schema.nodes.c.node_id)).distinct()
_RAISE_SITES = (
    update(schema.sites).where(schema.sites.c.site_id.in_(_SOME_IDS)).values(generation=schema.sites.c.generation + 1)
)


@dataclass(frozen=True)
class Founding:
    """What `init` is given: the cluster, and the first coordinator's own entry (rules K12, K26); or another one's."""

    cluster_id: str
    coordinator_id: str
    url: str
    certificate_sha256: str
    token_public_key: bytes  # Ed25519 SubjectPublicKeyInfo, DER
    identity_sha256: str = ""  # of the certificate that the manifest pins (keys/identity.py); nothing: none yet


@dataclass(frozen=True)
class ClusterState:
    """Where the state stands."""

    cluster_id: str
    authority_epoch: int
    revision: int
    state_id: str
    revocations_version: int
    last_issued_at: int
    nonce_key: bytes
    put_back_epoch: int | None = None  # the database was restored, until the epoch is above it (restored_backup.py)
    came_from: str = ""  # it is put back since it came from this coordinator (membership/moving.py)

    @property
    def is_restored(self) -> bool:
        """Until the epoch is raised (rules K41)."""
        return self.put_back_epoch is not None and self.authority_epoch <= self.put_back_epoch

    @property
    def why(self) -> str:
        """Where it is restored."""
        return f"the cluster came from {self.came_from}: nothing is signed yet" if self.came_from else RESTORED_BACKUP

    @property
    def remedy(self) -> str:
        """Bundles first: the number of one that nodes hold must not come again (bundle_conflicts.py). One that has
        moved has made none since.
        """
        if self.came_from:
            return RAISE_EPOCH
        to = "" if self.put_back_epoch is None else f" --to {self.put_back_epoch + 1}"
        return f"{IMPORT_FIRST}, then {RAISE_EPOCH}{to}"


def initialise(database: Database, founding: Founding, *, actor: str, now: float) -> ClusterState:
    """Make the first state on an absent history; `already_initialised` on any other (rules J34, P28)."""
    check(founding)
    with database.change(actor=actor, now=now) as transaction:
        if transaction.row(select(schema.cluster.c.id)) is not None:
            raise Refused(Code.ALREADY_INITIALISED, "this database holds a cluster", remedy="use another database")
        row = {"id": 1, "cluster_id": founding.cluster_id, "authority_epoch": 1, "revision": 1}
        secret = {"nonce_key": secrets.token_bytes(32), "state_id": secrets.token_hex(16)}
        times = {"last_issued_at": 0, "initialised_at": now, "revocations_version": 0}
        transaction.run(insert(schema.cluster).values(**row, **secret, **times))
        transaction.run(insert(schema.sites).values(site_id=DEFAULT_SITE, generation=1, created_at=now))
        enter(transaction, founding)
        transaction.audit("init", founding.cluster_id, None, {"coordinator_id": founding.coordinator_id})
        return standing(transaction)


def standing(transaction: Transaction) -> ClusterState:
    """`no_state` where nothing was initialised: such a coordinator issues nothing (rules J34, H37)."""
    row = transaction.row(_CLUSTER)
    if row is None:
        raise Refused(Code.NO_STATE, "this database holds no cluster", remedy="holdfastctl init")
    return ClusterState(
        row.cluster_id,
        row.authority_epoch,
        row.revision,
        row.state_id,
        row.revocations_version,
        row.last_issued_at,
        bytes(row.nonce_key),
        row.put_back_epoch,
        _came_from(transaction, row.authority_epoch, row.put_back_epoch),
    )


def _came_from(transaction: Transaction, authority_epoch: int, put_back_epoch: int | None) -> str:
    """From whom, where the epoch has not been raised since."""
    if put_back_epoch is None or authority_epoch > put_back_epoch:
        return ""
    row = transaction.row(_CAME.where(schema.moves.c.authority_epoch == put_back_epoch))
    return "" if row is None else str(row.coordinator_id)


def sound(transaction: Transaction) -> ClusterState:
    """The same, where something may be signed from it: `stale_state` once the database is known to be restored, also
    by this coordinator alone.
    """
    found = standing(transaction)
    if found.is_restored:
        raise Refused(Code.STALE_STATE, found.why, remedy=found.remedy)
    if transaction.known_state is not None and (gap := transaction.known_state.gap(transaction, found.authority_epoch)):
        raise Refused(Code.STALE_STATE, gap, remedy=f"{IMPORT_FIRST}, then {RAISE_EPOCH}")
    return found


def regression(found: ClusterState, known: ClusterState | None, *, is_behind: bool = False) -> str:
    """Why what is persisted now cannot follow from what this replica has seen there, with the remedy; or nothing.

    A database that was exchanged under a running coordinator: what was published since would be published again, under
    numbers that nodes hold (rules H37, P30). `is_behind`: it was so at the last look. Then a greater revision proves
    nothing, since every change of the copy raises its own: only the state that was known does, or a higher epoch.
    """
    if known is None or found.state_id == known.state_id or found.authority_epoch > known.authority_epoch:
        return ""
    if not is_behind and (found.authority_epoch, found.revision) >= (known.authority_epoch, known.revision):
        return ""
    at = f"at revision {found.revision}, and was at {known.revision}"
    return f"the database is {at}: it was restored from an old backup ({RAISE_EPOCH})"


def raise_revision(transaction: Transaction) -> str:
    """The state has changed: its next number and its new name."""
    state_id = secrets.token_hex(16)
    transaction.run(_RAISE_REVISION, [{"name": state_id}])
    return state_id


def raise_generations(
    transaction: Transaction, node_ids: Iterable[str], *, left: Iterable[str] = (), everybody: bool = False
) -> None:
    """Each node touched is to get a new head, and each site touched has changed (rules K21).

    `left`: sites that a member has just left.
    """
    nodes, sites = schema.nodes, schema.sites
    if everybody:
        transaction.run(update(nodes).values(generation=nodes.c.generation + 1).execution_options(**UNDIGESTED))
        transaction.run(update(sites).values(generation=sites.c.generation + 1))
        return
    ids, touched = sorted(set(node_ids)), set(left)
    for start in range(0, len(ids), _CHUNK):
        chunk = {"named": ids[start : start + _CHUNK]}
        transaction.run(_RAISE_SOME, [chunk])
        touched |= {row.site_id for row in transaction.rows(_SITES_OF, chunk)}
    raise_sites(transaction, touched)


def raise_sites(transaction: Transaction, site_ids: Iterable[str]) -> None:
    """seed 002: any change of a site or of its entries."""
    if ids := sorted(set(site_ids)):
        transaction.run(_RAISE_SITES, [{"ids": ids}])


def issue_time(transaction: Transaction, now: float, *, back_s: int = 0) -> int:
    """The `issued_at` of what is about to be signed, `back_s` before `now`, and never behind the last one (rules K47).

    `clock_behind` where that one lies ahead of `now`: a node with this time would refuse what we sign (format.md 7).
    """
    last = standing(transaction).last_issued_at
    if last > now:
        detail = f"what was signed last is dated {format_time(last)}, and this clock is behind that"
        remedy = f"set the clock right; if it is right: {RAISE_EPOCH}, or wait until then"
        raise Refused(Code.CLOCK_BEHIND, detail, remedy=remedy)
    return max(int(now) - back_s, last)


def server_certificates(transaction: Transaction) -> frozenset[str]:
    """The pins of the coordinators' own certificates: no node may show one (rules K34)."""
    return frozenset(row[0] for row in transaction.rows(_SERVER_CERTIFICATES))


def token_keys(transaction: Transaction) -> dict[str, bytes]:
    """The public keys of tokens by key id, of every replica that has one on record."""
    rows = transaction.rows(_TOKEN_KEYS)
    return {row.token_key_id: bytes(row.token_public_key) for row in rows if row.token_public_key}


def site_ids(transaction: Transaction) -> frozenset[str]:
    return frozenset(row[0] for row in transaction.rows(_SITE_IDS))


def site_generations(transaction: Transaction) -> dict[str, int]:
    return {row.site_id: row.generation for row in transaction.rows(select(schema.sites))}


def enter(transaction: Transaction, founding: Founding) -> None:
    """The entry of a coordinator: its certificate and the public half of its token key."""
    transaction.run(
        insert(schema.coordinators).values(
            coordinator_id=founding.coordinator_id,
            site_id=DEFAULT_SITE,
            url=founding.url,
            certificate_sha256=founding.certificate_sha256,
            token_key_id=key_id_of(founding.token_public_key),
            token_public_key=founding.token_public_key,
            added_at=transaction.now,
            identity_sha256=founding.identity_sha256,
        )
    )


def check(founding: Founding) -> None:
    """rules J25: an id that is blank, padded or in upper case is refused, never trimmed."""
    for name, value in (("cluster_id", founding.cluster_id), ("coordinator_id", founding.coordinator_id)):
        if not is_id(value):
            raise Refused(Code.BAD_REQUEST, f"{name} is no id", remedy="use a-z 0-9 . _ -")
    if not is_endpoint(founding.url):
        raise Refused(Code.BAD_REQUEST, "the coordinator's URL is not https://host:port")
    hashes = (founding.certificate_sha256, *([founding.identity_sha256] if founding.identity_sha256 else []))
    if not all(map(is_hash, hashes)):
        raise Refused(Code.BAD_REQUEST, "the certificate's hash is not sha256:...")
