"""`holdfastctl coordinators prepare`: what a further coordinator has on its machine before it is one (rules H0, K26).

    1  the database is looked at: it is the cluster's, on a server, and has a signed history; the root keys that were
       named lead to its trust bundle, or a slip would be found on the day on which this coordinator lacks its secrets
    2  a note, then the files: identity, token key, a certificate for the meantime, configuration with the root keys'
       ids; nothing of another coordinator
    3  the certificate of the identity goes into the database, under its hash

All of it or nothing. Nothing counts by it: only a set that root keys have signed, and that names this hash, makes it a
coordinator (membership/coordinator_sets.py). Then it starts without seed, config keys or a certificate that nodes
believe, and gets or makes them itself (runtime/recovering.py).

The certificate for the meantime is of a CA that nobody has: whoever asks at its door before is not answered.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import inspect

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state, history, object_store
from coordinator.database.database import Database
from coordinator.keys import atomic_files, identity, own_certificate, server_certificate
from coordinator.keys.atomic_files import Files, key_file, plain_file
from coordinator.keys.pinned_root_keys import PinnedRootKeys
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import peer_recovery
from coordinator.setup.cluster_files import keys_directory, token_file
from coordinator.trust import pinned_roots
from snapshot.identifiers import is_endpoint, is_id
from wire.certificate import KeyPair


@dataclass(frozen=True)
class PrepareRequest:
    """`state`: its own directory. `configuration`: a coordinator.toml and its text."""

    cluster_id: str
    coordinator_id: str
    url: str
    database_url: str
    state: Path
    hosts: tuple[str, ...] = ()  # names of the server beside the URL's
    configuration: tuple[Path, str] | None = None
    notes: Path | None = None  # a directory of root's, for its note where the state is a service's
    roots: PinnedRootKeys = field(default_factory=PinnedRootKeys)  # what its configuration pins


@dataclass(frozen=True)
class PreparedCoordinator:
    """What there is now. `certificate_sha256`: of its identity, which a set names."""

    cluster_id: str
    coordinator_id: str
    url: str
    certificate_sha256: str
    root_keys: tuple[str, ...]
    identity: Path
    configuration: Path | None


def prepare(wanted: PrepareRequest, *, now: float) -> PreparedCoordinator:
    """Refused for what is at odds; then nothing has changed."""
    _check(wanted)
    hosts = (server_certificate.host_of(wanted.url), *wanted.hosts)
    own = identity.generate(wanted.coordinator_id, now, wanted.url)
    shown = own_certificate.make_provisional(hosts, now)
    others = [wanted.configuration[0].parent] if wanted.configuration else []
    with atomic_files.directories(wanted.state, others), _open(wanted) as database:
        note = atomic_files.note_in(wanted.state, wanted.notes, f"{wanted.coordinator_id}.incomplete")
        atomic_files.clear_up(note, lambda: False)
        is_published = False
        with atomic_files.together(note, _files(wanted, own, shown), lambda: is_published):
            peer_recovery.publish(database, own.der, now=now)
            is_published = True
    return PreparedCoordinator(
        cluster_id=wanted.cluster_id,
        coordinator_id=wanted.coordinator_id,
        url=wanted.url,
        certificate_sha256=identity.pin_of(own),
        root_keys=wanted.roots.key_ids,
        identity=keys_directory(wanted.state) / identity.FILE,
        configuration=wanted.configuration[0] if wanted.configuration else None,
    )


def _check(wanted: PrepareRequest) -> None:
    for name, value in (("the cluster id", wanted.cluster_id), ("the coordinator id", wanted.coordinator_id)):
        if not is_id(value):
            raise Refused(Code.BAD_REQUEST, f"{name} {value!r} is no id", remedy="use a-z 0-9 . _ - (rules J25)")
    if not is_endpoint(wanted.url):
        raise Refused(Code.BAD_REQUEST, f"{wanted.url} is no https://host:port", remedy="give https://host:port")


def _files(wanted: PrepareRequest, own: KeyPair, shown: KeyPair) -> Files:
    tls = wanted.state / "tls"
    files: Files = [
        (token_file(wanted.state), key_file(SigningKey.generate())),
        (keys_directory(wanted.state) / identity.FILE, plain_file(identity.to_bytes(own))),
        (tls / "server-key.pem", plain_file(shown.key_pem)),
        (tls / "server.pem", plain_file(shown.certificate_pem, 0o644)),
    ]
    if wanted.configuration is None:
        return files
    path, text = wanted.configuration
    return [*files, (path, plain_file(text.encode(), 0o644))]


@contextmanager
def _open(wanted: PrepareRequest) -> Iterator[Database]:
    """The database of the cluster; nothing is made in one that is not."""
    database = Database(wanted.database_url)
    try:
        if database.is_sqlite:
            remedy = "use PostgreSQL; or move the coordinator with all of its directory (docs/operating.md)"
            raise Refused(Code.IN_USE, "an SQLite file is one coordinator's alone", remedy=remedy)
        if not inspect(database.engine).has_table("cluster"):
            raise Refused(Code.NO_STATE, "the database holds no cluster", remedy="name the one of the others")
        database.migrate()
        _check_cluster(database, wanted.cluster_id)
        _check_roots(database, wanted)
        yield database
    finally:
        database.close()


def _check_cluster(database: Database, wanted: str) -> None:
    with database.read() as transaction:
        found = cluster_state.standing(transaction).cluster_id
        pointer = object_store.pointer(transaction, history.LATEST)
    if found != wanted:
        raise Refused(Code.WRONG_CLUSTER, f"this database is of {found}", remedy=f"name the one of {wanted}")
    if pointer is None:
        remedy = f"first, on the machine of the first coordinator: {history.BEGIN}"
        raise Refused(Code.NO_STATE, "there is no manifest without a signed history", remedy=remedy)


def _check_roots(database: Database, wanted: PrepareRequest) -> None:
    """Nothing is believed by it: it is the operator's word that is looked at, and not the database."""
    if not wanted.roots.key_ids:
        return
    with database.read() as transaction:
        strangers = pinned_roots.find_strangers(transaction, wanted.roots)
    if strangers:
        detail = f"no trust bundle of this database has as a root key {', '.join(strangers)}"
        raise Refused(Code.UNTRUSTED_HISTORY, detail, remedy=pinned_roots.NAME)
    tried = peer_recovery.read_unverified(database, wanted.coordinator_id)
    if tried is not None:
        peer_recovery.follow_roots(database, tried, wanted.roots)
