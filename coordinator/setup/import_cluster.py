"""`holdfastctl import`: an export becomes a cluster here, on a machine where none is. All of it or nothing (rules K24).

    1  it is opened with the identity of this machine, and unpacked where nobody else reads
    2  each link of the history in it verifies, each audit row by its link, each table by its digest; the state says of
       itself that it went to this very identity
    3  one change of it: this coordinator is in it, and nothing is signed before root keys have raised the epoch
    4  keys, certificates and configuration get their places, and the database last, or its rows in one transaction

What the coordinator of before has renewed since is not in it, and is surpassed by the epoch. Nothing here proves that
the file is of the cluster that its operator means but its hash, which `export` shows; nodes believe root keys alone.
"""

import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import DAY
from coordinator.database import history_check
from coordinator.database.cluster_state import Founding
from coordinator.database.database import Database
from coordinator.keys import atomic_files, derived_authority, identity, keystore, sealed_file, server_certificate
from coordinator.keys import seed as seeds
from coordinator.keys.atomic_files import Files, plain_file
from coordinator.keys.signing_key import SigningKey, UnusableKeyError
from coordinator.membership import moving
from coordinator.setup import backup, database_rows, export, initialise
from coordinator.setup.database_rows import BadRowsError
from coordinator.setup.opening import with_history
from snapshot.bundle import CONFIG
from snapshot.identifiers import is_id
from wire.certificate import KeyPair, fingerprint

MOST_AGE_S = 7 * DAY
NOTE = "import.incomplete"
_DATABASE = "database.sqlite3"


@dataclass(frozen=True)
class ImportRequest:
    """`state`: this coordinator's own directory, with its identity. `sha256`: what `export` has shown, or nothing.
    `ca`: where the CA's key lies, where it is not in the export: then it is not kept here, either.
    """

    file: Path
    cluster_id: str
    url: str
    database_url: str
    state: Path
    hosts: tuple[str, ...] = ()
    configuration: tuple[Path, str] | None = None
    sha256: str = ""
    despite_age: bool = False
    ca: Path | None = None
    passphrase: bytes | None = field(default=None, repr=False)  # of the CA's key
    notes: Path | None = None


@dataclass(frozen=True)
class ImportedCluster:
    """`link`: the newest of the history that came. `rows`: of all tables."""

    cluster_id: str
    coordinator_id: str
    came_from: tuple[str, ...]
    link: int
    rows: int
    authority_epoch: int
    config_keys: tuple[str, ...]
    certificate_sha256: str
    authority: Path
    configuration: Path | None


@dataclass(frozen=True)
class _Header:
    cluster_id: str
    to: str
    url: str
    authority_epoch: int
    link: int
    schema: str
    made_at: float


def import_(wanted: ImportRequest, *, actor: str, now: float) -> ImportedCluster:
    """Refused; then nothing has changed."""
    keys = initialise.keys_directory(wanted.state)
    own = _own_identity(keys)
    with backup.room_to_unpack(".holdfast-import.") as folder, wanted.file.open("rb") as source, ExitStack() as opened:
        _check_hash(source, wanted.sha256)
        header = _read_header(source)
        _check_header(header, wanted, own, now)
        rows = _unpack(source, own, folder, header.schema)
        ca = _open_authority(folder, wanted)
        token, hosts = SigningKey.generate(), [server_certificate.host_of(wanted.url), *wanted.hosts]
        server = server_certificate.issue(ca, hosts, now)
        founding = Founding(
            *(header.cluster_id, header.to, wanted.url, fingerprint(server.der), token.public_key),
            identity.pin_of(own),
        )
        came_from = _arrive(folder, header, founding, actor=actor, now=now)
        database = opened.enter_context((folder / _DATABASE).open("rb"))
        beside = initialise.own_files(wanted.state, own, token, ca, server, wanted.configuration)
        files = [
            *_shared_files(folder, keys, wanted),
            *((path, write) for path, write in beside if path.name != identity.FILE),
        ]
        _put_in_place(wanted, folder, files, database)
        found = keystore.config_keys(folder / "keys", {})
    return ImportedCluster(
        *(header.cluster_id, header.to, came_from, header.link, rows, header.authority_epoch),
        config_keys=tuple(key.key_id for key in found),
        certificate_sha256=founding.certificate_sha256,
        authority=wanted.state / "tls" / server_certificate.AUTHORITY,
        configuration=wanted.configuration[0] if wanted.configuration else None,
    )


def recipient_of(file: Path) -> str:
    """The id of the coordinator that it is for, as it says to everybody."""
    with file.open("rb") as source:
        return _read_header(source).to


def _own_identity(keys: Path) -> KeyPair:
    own = identity.load(keys, os.environ)
    if own is None:
        detail = f"{keys} holds no identity, to which an export would be encrypted"
        raise Refused(Code.WRONG_RECIPIENT, detail, remedy=f"{export.IDENTITY} NAME makes one; then export for it")
    return own


def _check_hash(source: IO[bytes], wanted: str) -> None:
    if not wanted:
        return
    digest = hashlib.sha256()
    while piece := source.read(sealed_file.PIECE):
        digest.update(piece)
    source.seek(0)
    if digest.hexdigest() != wanted.removeprefix("sha256:"):
        raise sealed_file.damage(f"its SHA-256 is {digest.hexdigest()}, and not the one that was given")


def _read_header(source: IO[bytes]) -> _Header:
    said = sealed_file.read_header(source)
    source.seek(0)
    if said.get("format") != export.FORMAT:
        raise sealed_file.damage(f"it is of the form {said.get('format')!r}; a newer program may have made it")
    if not (is_id(said.get("cluster_id")) and is_id(said.get("to"))):
        raise sealed_file.damage("its header is out of form")
    try:
        made_at = datetime.strptime(str(said["made_at"]), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
        return _Header(
            cluster_id=str(said["cluster_id"]),
            to=str(said["to"]),
            url=str(said["url"]),
            authority_epoch=int(str(said["authority_epoch"])),
            link=int(str(said["link"])),
            schema=str(said["schema"]),
            made_at=made_at,
        )
    except (KeyError, ValueError):
        raise sealed_file.damage("its header is out of form") from None


def _check_header(header: _Header, wanted: ImportRequest, own: KeyPair, now: float) -> None:
    if header.cluster_id != wanted.cluster_id:
        detail = f"the file is an export of {header.cluster_id}, not of {wanted.cluster_id}"
        raise Refused(Code.WRONG_CLUSTER, detail, remedy="bring the right file, or name that cluster")
    if header.url != wanted.url:
        detail = f"it was exported to {header.url}, which is what nodes and operators are told there"
        raise Refused(Code.CONTRADICTION, detail, remedy="give the same --url here, or export again with the right one")
    if now - header.made_at > MOST_AGE_S and not wanted.despite_age:
        days = int((now - header.made_at) // DAY)
        raise Refused(Code.EXPORT_OUTDATED, f"it was made {days} days ago", remedy="export again, or: --despite-age")


def _unpack(source: IO[bytes], own: KeyPair, folder: Path, schema: str) -> int:
    """Files and rows, into the folder; how many rows."""
    values = database_rows.read_values(sealed_file.open_(source, own))
    database = Database(f"sqlite:///{folder / _DATABASE}")
    try:
        if (ours := database.migrate()) != schema:
            detail = f"the export is of a database at revision {schema}, and this program's is {ours}"
            raise Refused(
                Code.SCHEMA_TOO_NEW, detail, remedy="have the same version on both machines, and export again"
            )
        first = next(values, None)
        files = first.get("files") if isinstance(first, dict) else None
        if not isinstance(files, dict):
            raise sealed_file.damage("it does not begin with its files")
        for name, data in files.items():
            _unpack_file(folder, name, data)
        return database_rows.unpack(values, database)
    except BadRowsError as error:
        raise sealed_file.damage(str(error)) from None
    finally:
        database.close()


def _unpack_file(folder: Path, name: object, data: object) -> None:
    """Names are those that an export has, and no path of a machine."""
    known = name in (export.SEED, export.AUTHORITY, export.AUTHORITY_KEY)
    is_key = isinstance(name, str) and name.startswith(export.KEYS)
    if not (known or (is_key and keystore.is_key_file(str(name).removeprefix(export.KEYS), CONFIG))):
        raise sealed_file.damage(f"{name!r} has no place here")
    if not isinstance(data, bytes):
        raise sealed_file.damage(f"{name!r} is no file")
    path = folder / (f"{export.KEYS}{name}" if name == export.SEED else str(name))
    path.parent.mkdir(mode=0o700, exist_ok=True)
    plain_file(data)(path)


def _arrive(folder: Path, header: _Header, founding: Founding, *, actor: str, now: float) -> tuple[str, ...]:
    """The state that came is proven, and becomes ours."""
    try:
        database = with_history(Database(f"sqlite:///{folder / _DATABASE}"), folder / "keys")
    except UnusableKeyError as error:
        raise sealed_file.damage(str(error)) from None
    try:
        if database.history is None:
            raise sealed_file.damage("it holds no seed")
        _verify(database, header)
        return moving.arrive(database, founding, identity_sha256=founding.identity_sha256, actor=actor, now=now)
    finally:
        database.close()


def _verify(database: Database, header: _Header) -> None:
    """Every link and every row that is proven by one, and what the newest one says of the tables."""
    cursor: history_check.Cursor | None = None
    while True:
        found = history_check.verify(database, cursor)
        if found.faults:
            raise sealed_file.damage(f"the history in it does not verify: {found.faults[0].what}")
        cursor = found.next
        if cursor is None:
            break
    if found.newest != header.link:
        raise sealed_file.damage(f"it says that its newest link is {header.link}, and it is {found.newest}")
    for name in history_check.COMPARED:
        if fault := history_check.compare(database, name):
            raise sealed_file.damage(f"the history in it does not verify: {fault}")


def _open_authority(folder: Path, wanted: ImportRequest) -> KeyPair:
    """The CA that nodes know: its key follows from the seed, or is in the export, or where the operator says."""
    tls = folder / "tls"
    derived = None if wanted.ca else derived_authority.beside(tls, seeds.load(folder / "keys", {}))
    return derived or server_certificate.authority_in(wanted.ca or tls, wanted.passphrase, beside=tls)


def _shared_files(folder: Path, keys: Path, wanted: ImportRequest) -> Files:
    """What coordinators share: the seed and the config keys; the CA's key where it came."""
    files = [(keys / seeds.FILE, plain_file((folder / "keys" / seeds.FILE).read_bytes()))]
    files += [(keys / path.name, plain_file(path.read_bytes())) for path in keystore.files(folder / "keys", CONFIG)]
    ca_key = folder / export.AUTHORITY_KEY
    if wanted.ca is None and ca_key.is_file():
        files.append((wanted.state / export.AUTHORITY_KEY, plain_file(ca_key.read_bytes())))
    return files


def _put_in_place(
    wanted: ImportRequest, folder: Path, files: list[tuple[Path, Callable[[Path], None]]], source: BinaryIO
) -> None:
    target = Database(wanted.database_url)
    is_done = partial(_is_there, target, wanted.cluster_id)
    others = [wanted.configuration[0].parent] if wanted.configuration else []
    note = atomic_files.note_in(wanted.state, wanted.notes, NOTE)
    try:
        with atomic_files.directories(wanted.state, others):
            atomic_files.clear_up(note, is_done)
            if target.is_sqlite:
                files = [*files, (Path(str(target.url.database)), partial(_copy, source))]
            else:
                database_rows.check_empty(target)
            with atomic_files.together(note, files, is_done):
                if not target.is_sqlite:
                    _copy_rows(folder, target)
    finally:
        target.close()


def _copy(source: BinaryIO, target: Path) -> None:
    """Whole under another name, then its own: while it has no name, nothing was imported."""
    for suffix in ("-wal", "-shm", "-journal"):
        beside = target.with_name(target.name + suffix)
        if beside.exists():
            raise Refused(Code.ALREADY_INITIALISED, f"{beside} is there already", remedy="move it away first")
    new = target.with_name(f".{target.name}.new")
    new.unlink(missing_ok=True)
    try:
        plain_file(b"")(new)
        with new.open("r+b") as file:
            shutil.copyfileobj(source, file)
        keystore.sync_file(new)
        new.rename(target)
    except BaseException:  # the whole database, under a name that nobody looks for
        new.unlink(missing_ok=True)
        raise


def _copy_rows(folder: Path, target: Database) -> None:
    source = Database(f"sqlite:///{folder / _DATABASE}")
    try:
        database_rows.copy(source, target)
    finally:
        source.close()


def _is_there(target: Database, cluster_id: str) -> bool:
    """Whether the database is, which comes last."""
    if target.is_sqlite:
        return Path(str(target.url.database)).exists()
    return database_rows.holds(target, cluster_id)
