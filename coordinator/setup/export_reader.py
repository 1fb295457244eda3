"""The file of an export, as whoever imports it reads it: what it says to everybody, and what only one identity opens.

Rows are unpacked into a database; keys and certificates stay in memory (import_cluster.py says why).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from coordinator.base.refusal import Code, Refused
from coordinator.database.database import Database
from coordinator.keys import keystore, sealed_file, signing_key
from coordinator.keys import seed as seeds
from coordinator.keys.seed import Seed
from coordinator.keys.signing_key import SigningKey, UnusableKeyError
from coordinator.setup import database_rows, export
from coordinator.setup.database_rows import BadRowsError
from snapshot.bundle import CONFIG
from snapshot.identifiers import is_id
from wire.certificate import KeyPair

DATABASE = "database.sqlite3"


@dataclass(frozen=True)
class CameInExport:
    """What came in the file beside the rows: keys and certificates, by the names that an export gives them."""

    files: Mapping[str, bytes] = field(repr=False)
    rows: int

    @property
    def seed(self) -> Seed:
        if export.SEED not in self.files:
            raise sealed_file.damage("it holds no seed")
        try:
            return seeds.parse(self.files[export.SEED], name="its seed")
        except UnusableKeyError as error:
            raise sealed_file.damage(str(error)) from None

    @property
    def config_keys(self) -> dict[str, SigningKey]:
        """By their files' names."""
        keys = {name: data for name, data in self.files.items() if name.startswith(export.KEYS)}
        try:
            return {
                name.removeprefix(export.KEYS): signing_key.from_pem(data, name=name)
                for name, data in sorted(keys.items())
            }
        except UnusableKeyError as error:
            raise sealed_file.damage(str(error)) from None


@dataclass(frozen=True)
class ExportHeader:
    cluster_id: str
    to: str
    url: str
    authority_epoch: int
    link: int
    schema: str
    made_at: float


def recipient_of(file: Path) -> str:
    """The id of the coordinator that it is for, as it says to everybody."""
    with file.open("rb") as source:
        return read_header(source).to


def check_hash(source: IO[bytes], wanted: str) -> None:
    if not wanted:
        return
    digest = hashlib.sha256()
    while piece := source.read(sealed_file.PIECE):
        digest.update(piece)
    source.seek(0)
    if digest.hexdigest() != wanted.removeprefix("sha256:"):
        raise sealed_file.damage(f"its SHA-256 is {digest.hexdigest()}, and not the one that was given")


def read_header(source: IO[bytes]) -> ExportHeader:
    said = sealed_file.read_header(source)
    source.seek(0)
    if said.get("format") != export.FORMAT:
        raise sealed_file.damage(f"it is of the form {said.get('format')!r}; a newer program may have made it")
    if not (is_id(said.get("cluster_id")) and is_id(said.get("to"))):
        raise sealed_file.damage("its header is out of form")
    try:
        made_at = datetime.strptime(str(said["made_at"]), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
        return ExportHeader(
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


def unpack(source: IO[bytes], own: KeyPair, folder: Path, schema: str) -> CameInExport:
    """The rows, into the folder; and the files."""
    values = database_rows.read_values(sealed_file.open_(source, own))
    database = Database(f"sqlite:///{folder / DATABASE}")
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
            _check_file(name, data)
        return CameInExport(files, database_rows.unpack(values, database))
    except BadRowsError as error:
        raise sealed_file.damage(str(error)) from None
    finally:
        database.close()


def _check_file(name: object, data: object) -> None:
    """Names are those that an export has, and no path of a machine."""
    known = name in (export.SEED, export.AUTHORITY, export.AUTHORITY_KEY)
    is_key = isinstance(name, str) and name.startswith(export.KEYS)
    if not (known or (is_key and keystore.is_key_file(str(name).removeprefix(export.KEYS), CONFIG))):
        raise sealed_file.damage(f"{name!r} has no place here")
    if not isinstance(data, bytes):
        raise sealed_file.damage(f"{name!r} is no file")
