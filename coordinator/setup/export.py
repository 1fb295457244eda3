"""`holdfastctl export`: the whole cluster in one file, for one other coordinator (docs/operating.md, rules K24).

    1  the database says where the cluster goes: from then on nothing is decided here any more (membership/moving.py)
    2  beside the keys' directory stands with which link of the history, for the case that the database goes back
    3  all rows as they are then, and what coordinators share (seed, config keys, CA), are encrypted to the other one,
       under a hidden name; that is made durable, and gets its name, which was free

Stopped after 1 the cluster is exported and there is no file: `export` again makes it, `export --cancel` is the way
back. What fails before a name is given is taken back by this itself, where the move was begun by it.

The file holds no root key, and nothing that is this coordinator's own: its identity, its token key, the certificate
that it shows. Reading it again before it gets its name, as a backup is, is not possible: it is for another one.
"""

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import msgpack

from coordinator.base.refusal import Code, Refused
from coordinator.database import continuity, history
from coordinator.database.continuity import LinkMark
from coordinator.database.database import Database
from coordinator.database.database_fault import is_full
from coordinator.database.history import LinkedHistory
from coordinator.keys import derived_authority, keystore, sealed_file, server_certificate
from coordinator.keys import seed as seeds
from coordinator.keys.acting import as_owner_of
from coordinator.membership import moving
from coordinator.membership.moving import BegunMove, OtherCoordinator
from coordinator.setup import database_rows, lost_database
from coordinator.setup.configuration import CREDENTIAL, Configuration
from coordinator.setup.opening import exported_file, open_database
from snapshot.bundle import CONFIG
from snapshot.identifiers import format_time, is_id
from wire.certificate import BadCertificateError, Certificate, fingerprint, pem_to_der
from wire.version import VERSION

FORMAT = "holdfast-export/1"
SEED, AUTHORITY, AUTHORITY_KEY, KEYS = seeds.FILE, "tls/ca.pem", "tls/ca-key.pem", "keys/"
IDENTITY = "holdfastctl coordinators identity"
_HIDDEN = ".holdfast-export."


@dataclass(frozen=True)
class ExportRequest:
    """`recipient`: the certificate of the other one's identity, PEM."""

    at: Configuration
    to: Path
    recipient: bytes
    url: str


@dataclass(frozen=True)
class MadeExport:
    """`link`: of the history, the newest that is in it. `left_out`: what the other one has to be given apart."""

    file: Path
    size: int
    sha256: str
    cluster_id: str
    to: OtherCoordinator
    link: int
    left_out: tuple[str, ...]


def make(wanted: ExportRequest, *, actor: str, now: float) -> MadeExport:
    """Refused; then the cluster is where it was, unless it had been exported before."""
    at = wanted.at
    certificate = _read_recipient(wanted.recipient)
    to = OtherCoordinator(certificate.names[0], wanted.url, certificate.fingerprint)
    lost_database.check(at)
    files, left_out = _shared_files(at)
    database = open_database(at)
    try:
        lost_database.check_tables(database, at)
        _check_history(database)
        with _telling_of(wanted.to.parent), _place(wanted.to) as scratch:
            with _as_owner(database):
                schema = database.migrate()
                begun = moving.begin(database, to, actor=actor, now=now)
            try:
                mark = _keep_mark(database, at, begun)
                about = {**_about(begun, at, mark), "schema": schema, "made_at": format_time(int(now))}
                size, digest = _write(scratch, certificate.der, about, database, files)
                scratch.rename(wanted.to)
            except BaseException:
                if begun.is_new:
                    _take_back(database, at, actor=actor, now=now)
                raise
            keystore.sync_directory(wanted.to.parent)
    finally:
        database.close()
    return MadeExport(wanted.to, size, digest, begun.standing.cluster_id, to, mark.number, tuple(left_out))


def cancel(at: Configuration, *, actor: str, now: float) -> OtherCoordinator:
    """The way back, while the other one has published nothing."""
    lost_database.check(at)
    database = open_database(at)
    try:
        lost_database.check_tables(database, at)
        with _as_owner(database):
            gone_to = moving.cancel(database, actor=actor, now=now)
        _forget_mark(at)
    finally:
        database.close()
    return gone_to


def _take_back(database: Database, at: Configuration, *, actor: str, now: float) -> None:
    with _as_owner(database):
        moving.take_back(database, actor=actor, now=now)
    _forget_mark(at)


def _keep_mark(database: Database, at: Configuration, begun: BegunMove) -> LinkMark:
    mark = history.look(database) or LinkMark()
    file = exported_file(at)
    with as_owner_of(file.parent):
        continuity.keep(file, mark, begun.standing.authority_epoch)
    return mark


def _forget_mark(at: Configuration) -> None:
    file = exported_file(at)
    with as_owner_of(file.parent):
        continuity.forget(file)


def _about(begun: BegunMove, at: Configuration, mark: LinkMark) -> dict[str, object]:
    """What everybody may read of the file."""
    return {
        "format": FORMAT,
        "cluster_id": begun.standing.cluster_id,
        "from": at.coordinator_id,
        "to": begun.to.coordinator_id,
        "url": begun.to.url,
        "authority_epoch": begun.standing.authority_epoch,
        "link": mark.number,
        "transition": mark.transition,
        "program": VERSION,
    }


def _write(
    scratch: Path, certificate: bytes, about: dict[str, object], database: Database, files: dict[str, bytes]
) -> tuple[int, str]:
    """Its size and its SHA-256."""
    content = chain([msgpack.packb({"files": files}, use_bin_type=True)], database_rows.pack(database))
    digest, size = hashlib.sha256(), 0
    with scratch.open("wb") as file:
        for piece in sealed_file.seal(certificate, about, content):
            digest.update(piece)
            size += file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return size, digest.hexdigest()


def _read_recipient(pem: bytes) -> Certificate:
    try:
        certificate = Certificate.read(pem_to_der(pem))
    except BadCertificateError as error:
        raise Refused(Code.BAD_REQUEST, f"--for: {error}", remedy=f"{IDENTITY} writes it, there") from None
    if certificate.is_authority or not certificate.names or not is_id(certificate.names[0]):
        detail = f"--for: {fingerprint(certificate.der)} is no identity of a coordinator"
        raise Refused(Code.BAD_REQUEST, detail, remedy=f"{IDENTITY} writes it, there")
    return certificate


def _shared_files(at: Configuration) -> tuple[dict[str, bytes], list[str]]:
    """What coordinators share, and in words what is not here. Refused without a seed, or without any config key."""
    seed, keys = seeds.load(at.keys_directory, os.environ), keystore.config_keys(at.keys_directory, os.environ)
    if seed is None:
        remedy = f"a cluster that has no history begins one first: {history.BEGIN}; else put the file `seed` there"
        raise Refused(Code.EXPORT_FAILED, f"{at.keys_directory} holds no seed of the cluster", remedy=remedy)
    if not keys:
        remedy = "put the config keys there for the time of the export, and take them away again"
        raise Refused(Code.EXPORT_FAILED, f"{at.keys_directory} holds no config key", remedy=remedy)
    found = {SEED: seed.to_bytes()}
    found |= {f"{KEYS}{keystore.file_name(CONFIG, key)}": key.to_pem() for key in keys}
    left_out: list[str] = []
    folder = None if at.certificate.startswith(CREDENTIAL) else Path(at.certificate).parent
    names = {AUTHORITY: server_certificate.AUTHORITY, AUTHORITY_KEY: server_certificate.AUTHORITY_KEY}
    for member, name in names.items():
        if folder is not None and (folder / name).is_file():
            found[member] = (folder / name).read_bytes()
        elif member != AUTHORITY_KEY or folder is None or derived_authority.beside(folder, seed) is None:
            left_out.append(member)
    return found, left_out


def _check_history(database: Database) -> None:
    if not isinstance(database.history, LinkedHistory) or history.look(database) is None:
        remedy = f"begin one: {history.BEGIN}"
        detail = "the cluster has no signed history, by which it would be proven"
        raise Refused(Code.EXPORT_FAILED, detail, remedy=remedy)


@contextmanager
def _place(to: Path) -> Iterator[Path]:
    """A file beside it that is ours alone, and gone afterwards. FileExistsError where the name is taken."""
    if os.path.lexists(to):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(to))
    with tempfile.TemporaryDirectory(prefix=_HIDDEN, dir=to.parent) as folder:
        file = Path(folder) / "export"
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        yield file


@contextmanager
def _as_owner(database: Database) -> Iterator[None]:
    with as_owner_of(Path(str(database.url.database)).parent) if database.is_sqlite else nullcontext():
        yield


@contextmanager
def _telling_of(folder: Path) -> Iterator[None]:
    """A disk that is full, or a place where we may not write, in one sentence."""
    try:
        yield
    except FileExistsError as error:
        raise Refused(Code.EXPORT_FAILED, f"{error.filename} is there already", remedy="name another file") from error
    except OSError as error:
        code = Code.STORE_FULL if is_full(error) else Code.EXPORT_FAILED
        remedy = "have room there for the whole database, and leave to write"
        raise Refused(
            code, f"{error.filename or folder}: {error.strerror}; nothing was written", remedy=remedy
        ) from error
