"""`holdfastctl coordinators add`: what a further coordinator has on its machine, whole or not at all (rules K26, K34).

From a copy of another one's directory come the config keys, which the trust bundle lists already, the seed that
continues the history, and the CA that nodes trust. New are its identity, its token key, its certificate, its
configuration, and its entry in the database that they share.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state as authority
from coordinator.database.cluster_state import Founding
from coordinator.database.database import Database
from coordinator.keys import atomic_files, derived_authority, identity, keystore, server_certificate
from coordinator.keys import seed as seeds
from coordinator.keys.atomic_files import Files, key_file, plain_file
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import replicas
from coordinator.setup import initialise
from coordinator.setup.initialise import keys_directory
from coordinator.setup.opening import with_history
from snapshot.bundle import CONFIG
from wire.certificate import fingerprint


@dataclass(frozen=True)
class ReplicaRequest:
    """`state`: its own directory. `source`: where `keys` and `tls` of another coordinator of the cluster lie."""

    coordinator_id: str
    url: str
    database_url: str
    state: Path
    source: Path
    hosts: tuple[str, ...] = ()  # names of the server beside the URL's
    configuration: tuple[Path, str] | None = None  # a coordinator.toml and its text
    ca: Path | None = None  # where the CA's key lies, if not in `source`: then it is not kept here, either
    passphrase: bytes | None = field(default=None, repr=False)  # of the CA's key
    notes: Path | None = None  # a directory of root's, for its note where the state is a service's


@dataclass(frozen=True)
class AddedReplica:
    """What there is now."""

    cluster_id: str
    coordinator_id: str
    config_keys: tuple[tuple[str, Path], ...]  # key id, file
    certificate: Path
    certificate_sha256: str
    authority: Path  # the CA file that nodes have
    configuration: Path | None


def add(wanted: ReplicaRequest, *, actor: str, now: float) -> AddedReplica:
    """Refused for what is at odds; then nothing has changed."""
    hosts = [server_certificate.host_of(wanted.url), *wanted.hosts]
    config_keys = _config_keys(wanted.source)
    tls = wanted.source / "tls"
    derived = None if wanted.ca else derived_authority.beside(tls, seeds.load(wanted.source / "keys", {}))
    ca = derived or server_certificate.authority_in(wanted.ca or tls, wanted.passphrase, beside=tls)
    token, own = SigningKey.generate(), identity.generate(wanted.coordinator_id, now)
    server = server_certificate.issue(ca, hosts, now)
    others = [wanted.configuration[0].parent] if wanted.configuration else []
    with atomic_files.directories(wanted.state, others), _open(wanted) as database:
        cluster_id = _cluster_of(database)
        shown = fingerprint(server.der)
        founding = Founding(
            cluster_id, wanted.coordinator_id, wanted.url, shown, token.public_key, identity.pin_of(own)
        )
        authority.check(founding)
        note, is_done = _note(wanted), partial(_is_known, database, wanted.coordinator_id)
        atomic_files.clear_up(note, is_done)
        replicas.check_new(database, founding)
        beside = initialise.own_files(wanted.state, own, token, ca, server, wanted.configuration)
        shared = [(path, key_file(key)) for path, key in _places(wanted, config_keys)]
        files = [*shared, *_seed(wanted), *_ca_key(wanted), *beside]
        with atomic_files.together(note, files, is_done):
            replicas.add(database, founding, actor=actor, now=now)
    return _make(wanted, cluster_id, config_keys, founding.certificate_sha256)


def _seed(wanted: ReplicaRequest) -> Files:
    """As it lies in the copy; of a cluster without a history there is none."""
    seed = seeds.load(wanted.source / "keys", {})
    return [] if seed is None else [(keys_directory(wanted.state) / seeds.FILE, plain_file(seed.to_bytes()))]


def _ca_key(wanted: ReplicaRequest) -> Files:
    """As it lies in the copy."""
    key = wanted.source / "tls" / server_certificate.AUTHORITY_KEY
    if wanted.ca is not None or not key.is_file():
        return []
    return [(wanted.state / "tls" / server_certificate.AUTHORITY_KEY, plain_file(key.read_bytes()))]


def _note(wanted: ReplicaRequest) -> Path:
    return atomic_files.note_in(wanted.state, wanted.notes, f"{wanted.coordinator_id}.incomplete")


def _config_keys(source: Path) -> tuple[SigningKey, ...]:
    found = keystore.config_keys(source / "keys", {})
    if not found:
        remedy = "copy `keys` and `tls` of a coordinator of this cluster there"
        raise Refused(Code.BAD_KEY, f"{source / 'keys'} holds no config key", remedy=remedy)
    return found


@contextmanager
def _open(wanted: ReplicaRequest) -> Iterator[Database]:
    database = with_history(Database(wanted.database_url), wanted.source / "keys")
    try:
        if database.is_sqlite:
            remedy = "use PostgreSQL; or move the coordinator with all of its directory (docs/operating.md)"
            raise Refused(Code.IN_USE, "an SQLite file is one coordinator's alone", remedy=remedy)
        database.migrate()
        yield database
    finally:
        database.close()


def _cluster_of(database: Database) -> str:
    with database.read() as transaction:
        return authority.standing(transaction).cluster_id


def _is_known(database: Database, coordinator_id: str) -> bool:
    return any(replica.coordinator_id == coordinator_id for replica in replicas.list_replicas(database))


def _places(wanted: ReplicaRequest, config_keys: tuple[SigningKey, ...]) -> list[tuple[Path, SigningKey]]:
    return [(keys_directory(wanted.state) / keystore.file_name(CONFIG, key), key) for key in config_keys]


def _make(
    wanted: ReplicaRequest, cluster_id: str, config_keys: tuple[SigningKey, ...], certificate_sha256: str
) -> AddedReplica:
    tls = wanted.state / "tls"
    return AddedReplica(
        cluster_id=cluster_id,
        coordinator_id=wanted.coordinator_id,
        config_keys=tuple((key.key_id, path) for path, key in _places(wanted, config_keys)),
        certificate=tls / "server.pem",
        certificate_sha256=certificate_sha256,
        authority=tls / server_certificate.AUTHORITY,
        configuration=wanted.configuration[0] if wanted.configuration else None,
    )
