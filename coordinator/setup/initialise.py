"""`holdfastctl init`: a cluster's first state, whole or not at all (rules J34, J35, K12, K26, K48; format.md 8).

    1  nothing is there: neither a cluster in the database nor a file that would be written
    2  the passphrase is asked for: an `init` that is refused reads no secret
    3  a note of what is about to be written, then the files: root keys, config key, seed, its owners' shares, identity,
       token key, TLS certificate
    4  one transaction: the cluster, the site `default`, the coordinator's own entry, trust bundle 1, the owners of the
       seed's shares; it is the first link of the history
    5  the note goes

Stopped anywhere before 4 has committed, the files of the note are removed: at once, or by the next `init`.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.database import cluster_state as authority
from coordinator.database.cluster_state import Founding
from coordinator.database.database import Database, Transaction
from coordinator.database.history import LinkedHistory
from coordinator.keys import (
    atomic_files,
    derived_authority,
    identity,
    keystore,
    seed_share,
    server_certificate,
    signer,
)
from coordinator.keys import seed as seeds
from coordinator.keys.acting import as_owner_of
from coordinator.keys.atomic_files import Files, key_file, plain_file
from coordinator.keys.owner_key import OwnerPublic
from coordinator.keys.pinned_root_keys import PinnedRootKeys
from coordinator.keys.seed import Seed
from coordinator.keys.signer import EnvelopeClaims
from coordinator.keys.signing_key import SigningKey
from coordinator.setup import configuration, lost_database
from coordinator.trust import ceremony, trust_import
from coordinator.trust.ceremony import Add, CeremonyMoment, PublicKey
from snapshot.bundle import CONFIG, ROOT, SCOPE
from snapshot.identifiers import is_id
from snapshot.signature import ED25519
from wire.certificate import KeyPair, fingerprint, make_authority

YEAR = 365 * 86_400
ROOT_LIFETIME_S = 20 * YEAR
CONFIG_LIFETIME_S = YEAR
NOTE = "init.incomplete"


@dataclass(frozen=True)
class ClusterRequest:
    """`state`: the coordinator's own directory. `root_keys`: where root keys are put, to be taken away from there."""

    cluster_id: str
    coordinator_id: str
    url: str
    database_url: str
    state: Path
    root_keys: Path
    roots: int = 3
    threshold: int = 2
    algorithm: str = ED25519
    hosts: tuple[str, ...] = ()  # names of the server beside the URL's
    passphrase: Callable[[], bytes | None] = field(
        default=lambda: None, repr=False
    )  # of the root keys, and of a CA key that is put elsewhere: asked for once nothing else is in the way
    ca_key: Path | None = None  # a directory for a CA key of its own; or it follows from the seed
    configuration: tuple[Path, str] | None = None  # a coordinator.toml and its text
    declared: tuple[Path, str] | None = None  # the first declared state and its text (starter.py)
    notes: Path | None = None  # a directory of root's, for its note where the state is a service's
    settings: CoordinatorSettings = field(default_factory=CoordinatorSettings)
    owners: tuple[OwnerPublic, ...] = ()  # who is given a share of the seed
    shares: Path | None = None  # a directory for them, to be taken away from there; or beside the root keys


@dataclass(frozen=True)
class MadeCluster:
    """What there is now."""

    cluster_id: str
    root_keys: tuple[tuple[str, Path], ...]  # key id, file
    config_key: tuple[str, Path]
    certificate: Path
    certificate_sha256: str
    authority: Path  # the CA file that nodes are given
    ca_key: Path | None  # None: it follows from the seed
    configuration: Path | None
    declared: Path | None
    shares: tuple[tuple[str, Path], ...] = ()  # owner, file


@dataclass(frozen=True)
class _Plan:
    """Every secret and certificate, made in memory."""

    files: Files
    roots: tuple[SigningKey, ...]
    config: SigningKey
    token: SigningKey
    seed: Seed
    certificate_sha256: str
    identity: KeyPair


def initialise(wanted: ClusterRequest, *, actor: str, now: float) -> MadeCluster:
    """Refused `already_initialised`, or for what is at odds; then nothing has changed."""
    _check(wanted)
    others = [*_take_away(wanted), *(copies[0].parent for copies in (wanted.configuration, wanted.declared) if copies)]
    with atomic_files.directories(wanted.state, others), _open(wanted) as database:
        is_done = partial(_is_initialised, database)
        note = atomic_files.note_in(wanted.state, wanted.notes, NOTE)
        atomic_files.clear_up(note, is_done)
        if is_done():
            raise Refused(Code.ALREADY_INITIALISED, "this database holds a cluster", remedy="use another database")
        lost_database.check_new(*_beginnings(wanted.state))
        plan = _plan_files(wanted, now)
        with atomic_files.together(note, plan.files, is_done):
            database.history = LinkedHistory(plan.seed.history_key)
            _found_cluster(database, wanted, plan, actor=actor, now=now)
    return _summary(wanted, plan)


def _check(wanted: ClusterRequest) -> None:
    for name, value in (("the cluster id", wanted.cluster_id), ("the coordinator id", wanted.coordinator_id)):
        if not is_id(value):
            raise Refused(Code.BAD_REQUEST, f"{name} {value!r} is no id", remedy="use a-z 0-9 . _ - (rules J25)")
    if not 1 <= wanted.roots <= ceremony.MOST_ROOTS:
        raise Refused(Code.BAD_REQUEST, f"{wanted.roots} root keys", remedy=f"make 1 to {ceremony.MOST_ROOTS}")
    if not 1 <= wanted.threshold <= wanted.roots:
        remedy = f"ask for 1 to {wanted.roots} signatures"
        raise Refused(Code.BAD_REQUEST, f"{wanted.threshold} signatures of {wanted.roots} root keys", remedy=remedy)
    for place in _take_away(wanted):
        if place.resolve().is_relative_to(wanted.state.resolve()):
            detail = f"{place} lies in the coordinator's own directory, {wanted.state}"
            remedy = "put such keys elsewhere, best on a medium that is taken away: --root-keys-to, --ca-key-to"
            raise Refused(Code.BAD_REQUEST, detail, remedy=remedy)
    if len({owner.owner for owner in wanted.owners}) != len(wanted.owners):
        raise Refused(Code.BAD_REQUEST, "an owner of a share is named twice", remedy="give each a name of its own")
    server_certificate.host_of(wanted.url)


def _take_away(wanted: ClusterRequest) -> list[Path]:
    return list(dict.fromkeys([wanted.root_keys, *filter(None, (wanted.ca_key, wanted.shares))]))


def _ca_key_file(wanted: ClusterRequest) -> Path | None:
    return None if wanted.ca_key is None else wanted.ca_key / server_certificate.AUTHORITY_KEY


@contextmanager
def _open(wanted: ClusterRequest) -> Iterator[Database]:
    """The database, its schema up to date; a file that is new goes again when nothing comes of it."""
    database = _OwnersDatabase(wanted.database_url)
    path = Path(str(database.url.database)) if database.is_sqlite else None
    is_new = path is not None and not path.exists()
    try:
        database.claim()
        database.migrate()
        yield database
    except BaseException:
        if path is not None and is_new and _holds_nothing(database):
            database.close()
            with as_owner_of(path.parent):
                for suffix in ("", "-wal", "-shm", ".lock"):
                    Path(f"{path}{suffix}").unlink(missing_ok=True)
        raise
    finally:
        database.close()


class _OwnersDatabase(Database):
    """What it does with files it does as the account whose directory they lie in."""

    def _as_owner(self) -> AbstractContextManager[None]:
        return as_owner_of(Path(str(self.url.database)).parent) if self.is_sqlite else nullcontext()

    def claim(self) -> None:
        with self._as_owner():
            super().claim()

    def migrate(self) -> str:
        with self._as_owner():
            return super().migrate()

    @contextmanager
    def change(self, *, actor: str, now: float, after_move: bool = False) -> Iterator[Transaction]:
        with self._as_owner(), super().change(actor=actor, now=now, after_move=after_move) as transaction:
            yield transaction

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        with self._as_owner(), super().read() as transaction:
            yield transaction

    def close(self) -> None:
        with self._as_owner():
            super().close()


def _is_initialised(database: Database) -> bool:
    try:
        with database.read() as transaction:
            authority.standing(transaction)
    except Refused as refused:
        if refused.code is Code.NO_STATE:
            return False
        raise
    return True


def _holds_nothing(database: Database) -> bool:
    try:
        return not _is_initialised(database)
    except (Refused, SQLAlchemyError):  # who cannot say what is there removes nothing
        return False


def _plan_files(wanted: ClusterRequest, now: float) -> _Plan:
    """All keys and certificates. Nothing is written."""
    passphrase = wanted.passphrase()
    roots = tuple(keystore.new_key(wanted.algorithm) for _ in range(wanted.roots))
    config, token = keystore.new_key(), SigningKey.of(Ed25519PrivateKey.generate())
    seed, own = Seed.generate(), identity.generate(wanted.coordinator_id, now, wanted.url)
    ca = _make_authority(wanted, seed, now)
    server = server_certificate.issue(ca, (server_certificate.host_of(wanted.url), *wanted.hosts), now)
    files = [
        *((wanted.root_keys / keystore.file_name(ROOT, key), key_file(key, passphrase)) for key in roots),
        (keys_directory(wanted.state) / keystore.file_name(CONFIG, config), key_file(config)),
        (keys_directory(wanted.state) / seeds.FILE, plain_file(seed.to_bytes())),
        *_ca_key(wanted, ca, passphrase),
        *own_files(wanted.state, own, token, ca, server, _with_roots(wanted, roots)),
        *_text_files(wanted.declared),
        *_share_files(wanted, seed),
    ]
    return _Plan(tuple(files), roots, config, token, seed, fingerprint(server.der), own)


def _with_roots(wanted: ClusterRequest, roots: tuple[SigningKey, ...]) -> tuple[Path, str] | None:
    """The configuration, with the root keys that lead to what is believed of another coordinator."""
    if wanted.configuration is None:
        return None
    path, text = wanted.configuration
    return path, text + configuration.trust_table(PinnedRootKeys(tuple(key.key_id for key in roots), wanted.threshold))


def _make_authority(wanted: ClusterRequest, seed: Seed, now: float) -> KeyPair:
    if wanted.ca_key is None:
        return derived_authority.make(seed, 1, wanted.cluster_id, now)
    return make_authority(f"{wanted.cluster_id} coordinators", now)


def _ca_key(wanted: ClusterRequest, ca: KeyPair, passphrase: bytes | None) -> Files:
    path = _ca_key_file(wanted)
    return [] if path is None else [(path, plain_file(server_certificate.encrypt(ca.key_pem, passphrase)))]


def _share_files(wanted: ClusterRequest, seed: Seed) -> Files:
    """Nothing of them is of use without the owner's key."""
    return [
        (path, plain_file(seed_share.seal(seed, wanted.cluster_id, owner).to_bytes()))
        for owner, (_, path) in zip(wanted.owners, _shares(wanted), strict=True)
    ]


def _shares(wanted: ClusterRequest) -> tuple[tuple[str, Path], ...]:
    place = wanted.shares or wanted.root_keys
    return tuple((owner.owner, place / seed_share.file_name(owner.owner)) for owner in wanted.owners)


def own_files(
    state: Path,
    own: KeyPair,
    token: SigningKey,
    ca: KeyPair,
    server: KeyPair,
    configuration: tuple[Path, str] | None,
) -> Files:
    """What each coordinator has beside its config keys."""
    tls = state / "tls"
    files = [
        (token_file(state), key_file(token)),
        (keys_directory(state) / identity.FILE, plain_file(identity.to_bytes(own))),
        (tls / server_certificate.AUTHORITY, plain_file(ca.certificate_pem, 0o644)),
        (tls / "server-key.pem", plain_file(server.key_pem)),
        (tls / "server.pem", plain_file(server.certificate_pem, 0o644)),
    ]
    return [*files, *_text_files(configuration)]


def _text_files(given: tuple[Path, str] | None) -> Files:
    return [] if given is None else [(given[0], plain_file(given[1].encode(), 0o644))]


def keys_directory(state: Path) -> Path:
    return state / "keys"


def token_file(state: Path) -> Path:
    return keys_directory(state) / "token.pem"


def _beginnings(state: Path) -> tuple[Path, Path, Path]:
    """What only a cluster that was begun has."""
    return keys_directory(state), token_file(state), state / "tls" / "server.pem"


def _found_cluster(database: Database, wanted: ClusterRequest, plan: _Plan, *, actor: str, now: float) -> None:
    founding = Founding(
        wanted.cluster_id,
        wanted.coordinator_id,
        wanted.url,
        plan.certificate_sha256,
        plan.token.public_key,
        identity.pin_of(plan.identity),
    )
    with database.change(actor=actor, now=now) as transaction:
        one = _OneTransaction(transaction)
        authority.initialise(one, founding, actor=actor, now=now)
        trust_import.add_trust_bundle(one, _first_bundle(wanted, plan, now), actor=actor, now=now)
        transaction.named_owners = {owner.owner: owner.key for owner in wanted.owners}


def _first_bundle(wanted: ClusterRequest, plan: _Plan, now: float) -> bytes:
    """Signed by every root key: whoever pins some of them can count them."""
    start = int(now)
    moment = CeremonyMoment(wanted.cluster_id, start, wanted.settings.key_rollout_s)
    adds = [Add(_public(key), ROOT, start + ROOT_LIFETIME_S) for key in plan.roots]
    adds.append(Add(_public(plan.config), CONFIG, start + CONFIG_LIFETIME_S))
    trust = ceremony.first_trust(adds, wanted.threshold, moment)
    lifetime_s = wanted.settings.trust_bundle_lifetime_s
    claims = EnvelopeClaims(
        snapshot_id=os.urandom(16).hex(),
        cluster_id=wanted.cluster_id,
        scope_type=SCOPE,
        config_version=1,
        authority_epoch=1,
        issued_at=start,
        refresh_after=start + lifetime_s // 2,
        expires_at=start + lifetime_s,
    )
    return signer.snapshot(claims, trust.sections(), plan.roots).to_bytes()


def _public(key: SigningKey) -> PublicKey:
    return PublicKey(key.algorithm, key.public_key)


class _OneTransaction(Database):
    """The operations of several modules, each of which makes one change of its own, as one."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    @contextmanager
    def change(self, *, actor: str, now: float, after_move: bool = False) -> Iterator[Transaction]:
        yield self._transaction

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        yield self._transaction


def _summary(wanted: ClusterRequest, plan: _Plan) -> MadeCluster:
    paths = [path for path, _ in plan.files]
    return MadeCluster(
        cluster_id=wanted.cluster_id,
        root_keys=tuple((key.key_id, path) for key, path in zip(plan.roots, paths, strict=False)),
        config_key=(plan.config.key_id, paths[wanted.roots]),
        certificate=wanted.state / "tls" / "server.pem",
        certificate_sha256=plan.certificate_sha256,
        authority=wanted.state / "tls" / server_certificate.AUTHORITY,
        ca_key=_ca_key_file(wanted),
        configuration=wanted.configuration[0] if wanted.configuration else None,
        declared=wanted.declared[0] if wanted.declared else None,
        shares=_shares(wanted),
    )
