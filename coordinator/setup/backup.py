"""`holdfastctl backup`: one file with all that this coordinator is, made while it works (docs/operating.md).

    1  the database is copied into a directory beside the target, as it is at one moment
    2  the archive is written under a hidden name, made durable, and read again: each hash, the database's own check
    3  it gets its name, which was free; only then older ones go

Stopped anywhere before 3 nothing has its name. What fails leaves nothing behind.
"""

import errno
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coordinator.base.refusal import Code, Refused
from coordinator.database import database_copy, history, object_store
from coordinator.database.database_fault import is_full
from coordinator.keys import keystore
from coordinator.replicas import backup_record
from coordinator.setup import backup_archive, backup_files, lost_database, scratch
from coordinator.setup.backup_archive import Manifest
from coordinator.setup.configuration import Configuration
from coordinator.setup.opening import open_database
from snapshot.identifiers import format_time
from wire.version import VERSION

END = ".tar"
_HIDDEN = ".holdfast-backup."


@dataclass(frozen=True)
class BackupRequest:
    """`to`: a directory, where it gets a name by its time; or the file itself. `keep`: so many, in a directory."""

    at: Configuration
    configuration: Path
    to: Path
    with_keys: bool = True
    keep: int | None = None


@dataclass(frozen=True)
class MadeBackup:
    file: Path
    manifest: Manifest
    size: int
    removed: tuple[str, ...]


def make(wanted: BackupRequest, *, actor: str, now: float) -> MadeBackup:
    """Refused `database_missing`, `store_full`, `backup_failed`; then there is no new file."""
    lost_database.check(wanted.at)
    folder = wanted.to if wanted.to.is_dir() else wanted.to.parent
    with _telling_of(folder), tempfile.TemporaryDirectory(prefix=_HIDDEN, dir=folder) as made:
        manifest, archive = _write(wanted, Path(made), now)
        file = wanted.to / _name(manifest, now) if wanted.to.is_dir() else wanted.to
        if os.path.lexists(file):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(file))
        archive.rename(file)
        keystore.sync_directory(folder)
    _record(wanted, manifest, file, actor, now)
    removed = _thin_out(folder, manifest, wanted.keep) if wanted.to.is_dir() and wanted.keep else ()
    return MadeBackup(file, manifest, file.stat().st_size, removed)


def verify(path: Path) -> Manifest:
    """What it says it holds, after all of it was read: hashes, and the database opened. Refused `backup_damaged`; or
    `store_full`, where there is no room to unpack it.
    """
    with room_to_unpack(_HIDDEN) as folder:
        return extract(path, folder)


@contextmanager
def room_to_unpack(prefix: str) -> Iterator[Path]:
    """A directory that is ours alone, where temporary files go, until all of a backup was looked at; what a process
    that was killed has left of its kind goes first. A disk without room there says nothing of the backup: Refused
    `store_full`.
    """
    try:
        with scratch.directory(prefix) as made:
            yield made
    except OSError as error:
        if not is_full(error):
            raise
        detail = f"{error.filename or tempfile.gettempdir()}: {error.strerror}; nothing was changed"
        remedy = f"have room for the whole backup in {tempfile.gettempdir()}, or name another directory in TMPDIR"
        raise Refused(Code.STORE_FULL, detail, remedy=remedy) from error


def extract(path: Path, into: Path) -> Manifest:
    """The same, and its members in a directory."""
    manifest = backup_archive.unpack(path, into)
    if manifest.database not in database_copy.MEMBERS or manifest.database not in manifest.members:
        raise backup_archive.damage(path, "there is no database in it")
    cluster_id = database_copy.check(into / manifest.database)
    if cluster_id and cluster_id != manifest.cluster_id:
        raise backup_archive.damage(path, f"its database is of {cluster_id}, not of {manifest.cluster_id}")
    return manifest


def _write(wanted: BackupRequest, scratch: Path, now: float) -> tuple[Manifest, Path]:
    """The archive, under a name of the scratch directory, verified."""
    at = wanted.at
    database = database_copy.member_of(at.database_url)
    database_copy.copy(at.database_url, scratch / database)
    cluster_id, has_history = _cluster_of(at)
    found, left_out = backup_files.present(at, wanted.configuration)
    left_out += backup_files.name_absent(found, left_out, has_history=has_history)
    if not wanted.with_keys:
        left_out += [name for name in found if backup_files.is_secret(name)]
        found = {name: path for name, path in found.items() if not backup_files.is_secret(name)}
    sources = {database: scratch / database, **found}
    members = {name: backup_archive.describe(path) for name, path in sources.items()}
    about = (cluster_id, at.coordinator_id, format_time(now), VERSION)
    manifest = Manifest(*about, database, tuple(left_out), members)
    archive = scratch / f"archive{END}"
    with os.fdopen(os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        backup_archive.write(file, manifest, sources, now)
    (scratch / database).unlink()  # room for reading it again
    with tempfile.TemporaryDirectory(prefix="again.", dir=scratch) as again:
        return extract(archive, Path(again)), archive


def _cluster_of(at: Configuration) -> tuple[str, bool]:
    """Its id, and whether its changes are links of a history."""
    database = open_database(at)
    try:
        cluster_id = lost_database.standing(database, at).cluster_id
        with database.read() as transaction:
            return cluster_id, object_store.pointer(transaction, history.LATEST) is not None
    finally:
        database.close()


def _record(wanted: BackupRequest, manifest: Manifest, file: Path, actor: str, now: float) -> None:
    database = open_database(wanted.at)
    about: dict[str, object] = {"size": file.stat().st_size, "keys": wanted.with_keys}
    try:
        backup_record.add(database, manifest.coordinator_id, file.name, about, actor=actor, at=now)
    finally:
        database.close()


def _name(manifest: Manifest, now: float) -> str:
    return f"{_begin(manifest)}{backup_archive.stamp(now)}{END}"


def _begin(manifest: Manifest) -> str:
    return f"holdfast-{manifest.cluster_id}-{manifest.coordinator_id}-"


def _thin_out(folder: Path, manifest: Manifest, keep: int) -> tuple[str, ...]:
    """The oldest of ours go, by the times in their names; the one just made stays."""
    begin = _begin(manifest)
    length = len(begin) + len(backup_archive.stamp(0)) + len(END)
    ours = sorted(path for path in folder.iterdir() if path.name.startswith(begin) and len(path.name) == length)
    gone = ours[:-keep]
    for path in gone:
        path.unlink()
    return tuple(path.name for path in gone)


@contextmanager
def _telling_of(folder: Path) -> Iterator[None]:
    """A disk that is full, or a place where we may not write, in one sentence."""
    try:
        yield
    except FileExistsError as error:
        detail = f"{error.filename} is there already"
        raise Refused(Code.BACKUP_FAILED, detail, remedy="name another file, or a directory") from error
    except (OSError, sqlite3.Error) as error:
        what = f"{error.filename or folder}: {error.strerror}" if isinstance(error, OSError) else f"{folder}: {error}"
        remedy = "have room there for twice the database, and leave to write and to read all that is backed up"
        code = Code.STORE_FULL if is_full(error) else Code.BACKUP_FAILED
        raise Refused(code, f"{what}; nothing was written", remedy=remedy) from error
