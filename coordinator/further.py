"""`holdfastctl coordinators add`: what a further coordinator has on its machine, whole or not at all (rules K26, K34).

From a copy of another one's directory come the config keys, which the trust bundle lists already, and the CA that nodes
trust. New are its token key, its certificate, its configuration, and its entry in the database that they share.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coordinator import authority, custody, new_files, own_certificate, replicas
from coordinator.authority import Founding
from coordinator.database import Database
from coordinator.initialise import keys_directory, token_file
from coordinator.new_files import Files, key_file, plain_file
from coordinator.refusal import Code, Refused
from coordinator.signing_key import SigningKey
from snapshot.bundle import CONFIG
from wire.certificate import KeyPair, fingerprint
from wire.endpoint import BadEndpointError, Endpoint


@dataclass(frozen=True)
class Wanted:
    """`state`: its own directory. `source`: where `keys` and `tls` of another coordinator of the cluster lie."""

    coordinator_id: str
    url: str
    database_url: str
    state: Path
    source: Path
    hosts: tuple[str, ...] = ()  # names of the server beside the URL's
    configuration: tuple[Path, str] | None = None  # a coordinator.toml and its text


@dataclass(frozen=True)
class Made:
    """What there is now."""

    cluster_id: str
    coordinator_id: str
    config_keys: tuple[tuple[str, Path], ...]  # key id, file
    certificate: Path
    certificate_sha256: str
    authority: Path  # the CA file that nodes have
    configuration: Path | None


def add(wanted: Wanted, *, actor: str, now: float) -> Made:
    """Refused for what is at odds; then nothing has changed."""
    hosts = [_host(wanted.url), *wanted.hosts]
    config_keys = _config_keys(wanted.source)
    ca = own_certificate.authority_in(wanted.source / "tls")
    token = SigningKey.generate()
    server = own_certificate.issued(ca, hosts, now)
    others = [wanted.configuration[0].parent] if wanted.configuration else []
    with new_files.directories(wanted.state, others), _opened(wanted.database_url) as database:
        new_files.clear_up(wanted.state, lambda: _is_known(database, wanted.coordinator_id))
        cluster_id = _cluster_of(database)
        founding = Founding(cluster_id, wanted.coordinator_id, wanted.url, fingerprint(server.der), token.public_key)
        replicas.check_new(database, founding)
        files = _files(wanted, config_keys, token, ca, server)
        with new_files.together(wanted.state, files, lambda: _is_known(database, wanted.coordinator_id)):
            replicas.add(database, founding, actor=actor, now=now)
    return _made(wanted, cluster_id, config_keys, founding.certificate_sha256)


def _host(url: str) -> str:
    try:
        return Endpoint.parse(url, configured=True).host
    except BadEndpointError as error:
        raise Refused(Code.BAD_REQUEST, str(error), remedy="give https://host:port") from error


def _config_keys(source: Path) -> tuple[SigningKey, ...]:
    found = custody.config_keys(source / "keys", {})
    if not found:
        remedy = "copy `keys` and `tls` of a coordinator of this cluster there"
        raise Refused(Code.BAD_KEY, f"{source / 'keys'} holds no config key", remedy=remedy)
    return found


@contextmanager
def _opened(url: str) -> Iterator[Database]:
    database = Database(url)
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
    return any(each.coordinator_id == coordinator_id for each in replicas.listed(database))


def _files(
    wanted: Wanted, config_keys: tuple[SigningKey, ...], token: SigningKey, ca: KeyPair, server: KeyPair
) -> Files:
    keys, tls = keys_directory(wanted.state), wanted.state / "tls"
    files = [
        *((keys / custody.file_name(CONFIG, key), key_file(key)) for key in config_keys),
        (token_file(wanted.state), key_file(token)),
        (tls / own_certificate.AUTHORITY_KEY, plain_file(ca.key_pem)),
        (tls / own_certificate.AUTHORITY, plain_file(ca.certificate_pem, 0o644)),
        (tls / "server-key.pem", plain_file(server.key_pem)),
        (tls / "server.pem", plain_file(server.certificate_pem, 0o644)),
    ]
    if wanted.configuration is not None:
        path, text = wanted.configuration
        files.append((path, plain_file(text.encode(), 0o644)))
    return files


def _made(wanted: Wanted, cluster_id: str, config_keys: tuple[SigningKey, ...], certificate_sha256: str) -> Made:
    keys, tls = keys_directory(wanted.state), wanted.state / "tls"
    return Made(
        cluster_id=cluster_id,
        coordinator_id=wanted.coordinator_id,
        config_keys=tuple((key.key_id, keys / custody.file_name(CONFIG, key)) for key in config_keys),
        certificate=tls / "server.pem",
        certificate_sha256=certificate_sha256,
        authority=tls / own_certificate.AUTHORITY,
        configuration=wanted.configuration[0] if wanted.configuration else None,
    )
