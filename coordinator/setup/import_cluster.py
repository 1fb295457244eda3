"""`holdfastctl import`: an export becomes a cluster here, on a machine where none is. All of it or nothing (rules K24).

    1  it is opened with the identity of this machine: its rows are unpacked where nobody else reads, its keys are held
       in memory, so that nothing of them is left on a disk whatever stops this
    2  each link of the history in it verifies, each audit row by its link, each table by its digest; the state says of
       itself that it went to this very identity
    3  one change of it: this coordinator is in it, and nothing is signed before root keys have raised the epoch
    4  keys, certificates and configuration get their places, and the database last, or its rows in one transaction. The
       configuration names the root keys of the first trust bundle, which newcomers pin as well: by them alone this
       coordinator believes others, should it lose its secrets (rules H50)

What the coordinator of before has renewed since is not in it, and is surpassed by the epoch. Nothing here proves that
the file is of the cluster that its operator means but its hash, which `export` shows; nodes believe root keys alone.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import DAY
from coordinator.database import history_check
from coordinator.database.cluster_state import Founding
from coordinator.database.database import Database
from coordinator.database.history import LinkedHistory
from coordinator.keys import (
    atomic_files,
    derived_authority,
    identity,
    keystore,
    sealed_file,
    server_certificate,
)
from coordinator.keys import seed as seeds
from coordinator.keys.atomic_files import Files, key_file, plain_file
from coordinator.keys.pinned_root_keys import PinnedRootKeys
from coordinator.keys.seed import Seed
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import admission, moving
from coordinator.setup import backup, cluster_files, configuration, database_rows, export, export_reader
from coordinator.setup.export_reader import CameInExport, ExportHeader
from wire.certificate import KeyPair, fingerprint

MOST_AGE_S = 7 * DAY
NOTE = "import.incomplete"


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
    root_keys: tuple[str, ...]
    certificate_sha256: str
    authority: Path
    configuration: Path | None


def import_(wanted: ImportRequest, *, actor: str, now: float) -> ImportedCluster:
    """Refused; then nothing has changed."""
    keys = cluster_files.keys_directory(wanted.state)
    own = _own_identity(keys)
    with backup.room_to_unpack(".holdfast-import.") as folder, wanted.file.open("rb") as source, ExitStack() as opened:
        export_reader.check_hash(source, wanted.sha256)
        header = export_reader.read_header(source)
        _check_header(header, wanted, own, now)
        came = export_reader.unpack(source, own, folder, header.schema)
        ca = _open_authority(came, wanted)
        token, hosts = SigningKey.generate(), [server_certificate.host_of(wanted.url), *wanted.hosts]
        server = server_certificate.issue(ca, hosts, now)
        founding = Founding(
            *(header.cluster_id, header.to, wanted.url, fingerprint(server.der), token.public_key),
            identity.pin_of(own),
        )
        came_from, pins = _arrive(folder, came.seed, header, founding, actor=actor, now=now)
        database = opened.enter_context((folder / export_reader.DATABASE).open("rb"))
        beside = cluster_files.own_files(wanted.state, own, token, ca, server, _with_roots(wanted, pins))
        files = [
            *_shared_files(came, keys, wanted),
            *((path, write) for path, write in beside if path.name != identity.FILE),
        ]
        _put_in_place(wanted, folder, files, database)
    return ImportedCluster(
        *(header.cluster_id, header.to, came_from, header.link, came.rows, header.authority_epoch),
        config_keys=tuple(key.key_id for key in came.config_keys.values()),
        root_keys=pins.key_ids,
        certificate_sha256=founding.certificate_sha256,
        authority=wanted.state / "tls" / server_certificate.AUTHORITY,
        configuration=wanted.configuration[0] if wanted.configuration else None,
    )


def _own_identity(keys: Path) -> KeyPair:
    own = identity.load(keys, os.environ)
    if own is None:
        detail = f"{keys} holds no identity, to which an export would be encrypted"
        raise Refused(Code.WRONG_RECIPIENT, detail, remedy=f"{export.IDENTITY} NAME makes one; then export for it")
    return own


def _check_header(header: ExportHeader, wanted: ImportRequest, own: KeyPair, now: float) -> None:
    if header.cluster_id != wanted.cluster_id:
        detail = f"the file is an export of {header.cluster_id}, not of {wanted.cluster_id}"
        raise Refused(Code.WRONG_CLUSTER, detail, remedy="bring the right file, or name that cluster")
    if header.url != wanted.url:
        detail = f"it was exported to {header.url}, which is what nodes and operators are told there"
        raise Refused(Code.CONTRADICTION, detail, remedy="give the same --url here, or export again with the right one")
    if now - header.made_at > MOST_AGE_S and not wanted.despite_age:
        days = int((now - header.made_at) // DAY)
        raise Refused(Code.EXPORT_OUTDATED, f"it was made {days} days ago", remedy="export again, or: --despite-age")


def _arrive(
    folder: Path, seed: Seed, header: ExportHeader, founding: Founding, *, actor: str, now: float
) -> tuple[tuple[str, ...], PinnedRootKeys]:
    """The state that came is proven, and becomes ours: where it came from, and the root keys that lead to it."""
    database = Database(f"sqlite:///{folder / export_reader.DATABASE}")
    database.history = LinkedHistory(seed.history_key)
    try:
        _verify(database, header)
        came_from = moving.arrive(database, founding, identity_sha256=founding.identity_sha256, actor=actor, now=now)
        with database.read() as transaction:
            first = admission.first_roots(transaction)
        if first is None:
            raise sealed_file.damage("it holds no trust bundle")
        return came_from, PinnedRootKeys(first.root_key_ids, first.threshold)
    finally:
        database.close()


def _with_roots(wanted: ImportRequest, pins: PinnedRootKeys) -> tuple[Path, str] | None:
    """The configuration, as `init` and `prepare` write it."""
    if wanted.configuration is None:
        return None
    path, text = wanted.configuration
    return path, text + configuration.trust_table(pins)


def _verify(database: Database, header: ExportHeader) -> None:
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


def _open_authority(came: CameInExport, wanted: ImportRequest) -> KeyPair:
    """The CA that nodes know: its key follows from the seed, or is in the export, or where the operator says."""
    certificate = came.files.get(export.AUTHORITY)
    if wanted.ca is not None:
        return server_certificate.authority_in(wanted.ca, wanted.passphrase, certificate=certificate)
    derived = derived_authority.open_authority(came.seed, certificate) if certificate is not None else None
    if derived is not None:
        return derived
    key = came.files.get(export.AUTHORITY_KEY)
    if certificate is None or key is None:
        remedy = "name the directory where this cluster's CA is kept: --ca"
        raise Refused(Code.BAD_KEY, "the export holds no CA with its key", remedy=remedy)
    return KeyPair(certificate, server_certificate.decrypt(key, wanted.passphrase, name="the CA's key in the export"))


def _shared_files(came: CameInExport, keys: Path, wanted: ImportRequest) -> Files:
    """What coordinators share: the seed and the config keys; the CA's key where it came."""
    files = [(keys / seeds.FILE, plain_file(came.seed.to_bytes()))]
    files += [(keys / name, key_file(key)) for name, key in came.config_keys.items()]
    if wanted.ca is None and export.AUTHORITY_KEY in came.files:
        files.append((wanted.state / export.AUTHORITY_KEY, plain_file(came.files[export.AUTHORITY_KEY])))
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
    source = Database(f"sqlite:///{folder / export_reader.DATABASE}")
    try:
        database_rows.copy(source, target)
    finally:
        source.close()


def _is_there(target: Database, cluster_id: str) -> bool:
    """Whether the database is, which comes last."""
    if target.is_sqlite:
        return Path(str(target.url.database)).exists()
    return database_rows.holds(target, cluster_id)
