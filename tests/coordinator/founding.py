"""A coordinator as an operator sets one up: keys and certificates in files, a configuration, a first bundle."""

import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.serialization import load_der_public_key
from sqlalchemy import update

from coordinator.database import cluster_state, schema
from coordinator.database.cluster_state import Founding
from coordinator.database.database import Database
from coordinator.keys import keystore, signer, signing_key, tokens
from coordinator.keys.signing_key import SigningKey
from coordinator.setup import configuration
from coordinator.setup.configuration import Configuration
from coordinator.trust import trust_import
from snapshot.bundle import CONFIG
from tests.coordinator import copies, migrated
from tests.coordinator.bundles import Bundles
from wire.certificate import KeyPair, issue_server, make_authority

CLUSTER = "prod"


@dataclass(eq=False)
class _Foundation:
    """Keys, certificates and a first bundle: those of several coordinators, one after the other."""

    now: float

    def __post_init__(self) -> None:
        made = Bundles(self.now)
        self._keys = made.roots, made.config
        self.bundle = made.next()
        self.authority = make_authority("test authority", self.now)
        self.certificate = issue_server(self.authority, ["localhost", "127.0.0.1"], self.now)
        self.token = SigningKey.generate()

    def bundles(self, now: float) -> Bundles:
        """For the bundles after the first one."""
        roots, config = self._keys
        return Bundles(now, roots, config, version=1, first=self.bundle)

    def fill(self, coordinator_id: str, database: Database) -> None:
        public = tokens.spki(load_der_public_key(self.token.public_key))
        fingerprint = signer.content_hash(self.certificate.der)
        founding = Founding(CLUSTER, coordinator_id, "https://localhost:7443", fingerprint, public)
        cluster_state.initialise(database, founding, actor="root", now=self.now)
        trust_import.add_trust_bundle(database, self.bundle, actor="root", now=self.now)


TURNS, KEPT_S = 3, 1_800
_FOUNDATIONS: list[_Foundation] = []


def _take_turn(now: float) -> _Foundation:
    """Another one each time, so that clusters beside each other have other keys; not much older than `now`."""
    young = [each for each in _FOUNDATIONS if 0 <= now - each.now < KEPT_S]
    found = young[0] if len(young) == TURNS else _Foundation(now)
    if found in young:
        _FOUNDATIONS.remove(found)
    _FOUNDATIONS.append(found)
    return found


@dataclass
class Founded:
    """The files of one coordinator under `folder`; `bundles` makes what root keys sign.

    `url`: of a database that is migrated, or that may be: PostgreSQL's, or of a file that is not there yet.
    """

    folder: Path
    url: str
    now: float = field(default_factory=time.time)
    settings: str = ""
    listen: str = ""
    coordinator_id: str = "coord-1"
    tables: str = ""  # further ones of coordinator.toml

    def __post_init__(self) -> None:
        known = _take_turn(self.now)
        self.bundles = known.bundles(self.now)
        self.config = self.bundles.config
        self.made_at = known.now  # of the first bundle and the certificates: not long before `now`
        self.certificate = known.certificate
        (self.folder / "ca.pem").write_bytes(known.authority.certificate_pem)
        _write(self.folder, "server", self.certificate)
        keystore.keep(self.folder / "keys", CONFIG, self.config)
        signing_key.write_file(self.folder / "token.pem", known.token)
        database = self._database()
        copies.made(database, (known, self.coordinator_id), partial(known.fill, self.coordinator_id))
        database.close()

    def _database(self) -> Database:
        database = Database(self.url)
        if not database.is_sqlite:
            database.migrate()
        elif not (file := Path(database.url.database or "")).exists():
            migrated.at(file)
        return database

    @property
    def socket(self) -> Path:
        return self.folder / "admin.sock"

    def text(self) -> str:
        """coordinator.toml."""
        at = self.folder
        return f"""
coordinator_id = "{self.coordinator_id}"
[database]
url = "{self.url}"
[listen]
fleet = "127.0.0.1:0"
join = "127.0.0.1:0"
probes = "127.0.0.1:0"
admin_socket = "{self.socket}"
{self.listen}
[tls]
certificate = "{at}/server.crt"
key = "{at}/server.key"
[keys]
directory = "{at}/keys"
token = "{at}/token.pem"
[settings]
{self.settings}
{self.tables}
"""

    def configuration(self) -> Configuration:
        return configuration.parse(self.text())


def _write(folder: Path, name: str, pair: KeyPair) -> None:
    (folder / f"{name}.crt").write_bytes(pair.certificate_pem)
    (folder / f"{name}.key").write_bytes(pair.key_pem)
    (folder / f"{name}.key").chmod(0o600)


def set_restored(database: Database, epoch: int | None) -> None:
    """As if a node had proven that the database was restored from an old backup; None ends it."""
    with database.record() as transaction:
        transaction.run(update(schema.cluster).values(put_back_epoch=epoch))
