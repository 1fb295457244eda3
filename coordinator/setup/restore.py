"""`holdfastctl restore`: a backup becomes a coordinator again, on a machine where there is none. All of it or nothing.

Nothing is overwritten: what is there is somebody's, and has to be moved away by hand. The database that comes back is
as old as the backup. What nodes have seen since finds that out and keeps everything from being signed below it
(restored_backup.py, bundle_conflicts.py); nothing of that is touched here.
"""

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from coordinator.base.refusal import Code, Refused
from coordinator.database import database_copy
from coordinator.keys import atomic_files, keystore
from coordinator.keys.atomic_files import plain_file
from coordinator.servers import database_url
from coordinator.setup import backup, backup_files, configuration
from coordinator.setup.backup_archive import Manifest
from coordinator.setup.configuration import Configuration

NOTE = "restore.incomplete"
OPEN = {backup_files.CONFIGURATION, backup_files.CERTIFICATE, backup_files.CA}  # members that everybody may read


@dataclass(frozen=True)
class Restored:
    manifest: Manifest
    configuration: Path
    is_configuration_new: bool
    database: str
    files: tuple[Path, ...]


def restore(file: Path, path: Path) -> Restored:
    """`path`: coordinator.toml; one that is there says where all else goes, and stays; otherwise it is the backup's.

    Refused `backup_damaged`, `already_initialised`, `backup_failed`, `store_full`; then nothing has changed.
    """
    with backup.room_to_unpack(".holdfast-restore.") as folder, ExitStack() as opened:
        manifest = backup.extract(file, folder)
        is_new = not path.exists()
        at = configuration.load(folder / backup_files.CONFIGURATION if is_new else path)
        _check(at, manifest)
        database = opened.enter_context((folder / manifest.database).open("rb"))
        files = _files(folder, manifest, at, path if is_new else None, database)
        state = at.keys_directory.absolute().parent
        is_server = manifest.database == database_copy.POSTGRESQL
        note, is_done = atomic_files.note_in(state, path.absolute().parent, NOTE), partial(_is_there, at)
        with atomic_files.directories(state, [target.parent for target, _ in files]):
            atomic_files.clear_up(note, is_done)  # of a restore that was interrupted
            if is_server:
                database_copy.check_empty(at.database_url)
            with atomic_files.together(note, files, is_done):
                if is_server:
                    database_copy.put_back_to_server(folder / manifest.database, at.database_url)
    named = at.database_url if manifest.database == database_copy.SQLITE else "the server's database"
    return Restored(manifest, path, is_new, named, tuple(target for target, _ in files))


def _check(at: Configuration, manifest: Manifest) -> None:
    if database_copy.member_of(at.database_url) != manifest.database:
        detail = f"the backup holds {manifest.database}, and the configuration names another kind of database"
        raise Refused(Code.CONTRADICTION, detail, remedy="correct [database] url")
    if at.coordinator_id != manifest.coordinator_id:
        detail = f"the backup is of {manifest.coordinator_id}, the configuration of {at.coordinator_id}"
        raise Refused(Code.CONTRADICTION, detail, remedy="restore a backup of this coordinator")


def _files(
    folder: Path, manifest: Manifest, at: Configuration, path: Path | None, database: BinaryIO
) -> list[tuple[Path, Callable[[Path], None]]]:
    """Each with what writes it; the database last, since a coordinator would start with it."""
    apart = {manifest.database, backup_files.CONFIGURATION}
    members = {name: member for name, member in manifest.members.items() if name not in apart}
    files = [
        (target, plain_file((folder / name).read_bytes(), 0o644 if name in OPEN else 0o600))
        for name, target in backup_files.places(members, at).items()
    ]
    if path is not None:
        files.append((path, plain_file((folder / backup_files.CONFIGURATION).read_bytes(), 0o644)))
    if manifest.database == database_copy.SQLITE:
        target = Path(str(database_url.read(at.database_url).database))
        _no_log_beside(target)
        files.append((target, partial(_copy, database)))
    return files


def _no_log_beside(database: Path) -> None:
    """SQLite would take a log of another database for this one's."""
    for suffix in ("-wal", "-shm", "-journal"):
        beside = database.with_name(database.name + suffix)
        if beside.exists():
            raise Refused(Code.ALREADY_INITIALISED, f"{beside} is there already", remedy="move it away first")


def _copy(source: BinaryIO, target: Path) -> None:
    """Whole under another name, then its own: while it has no name, nothing was restored (`_is_there`)."""
    beside = target.with_name(f".{target.name}.new")
    beside.unlink(missing_ok=True)
    plain_file(b"")(beside)
    with beside.open("r+b") as new:
        shutil.copyfileobj(source, new)
    keystore.sync_file(beside)
    beside.rename(target)


def _is_there(at: Configuration) -> bool:
    """Whether the database is back, which comes last."""
    return database_copy.is_there(at.database_url)
