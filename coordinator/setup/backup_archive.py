"""One file with all that a coordinator is: a tar, 0600, its manifest first, which names each member with its hash.

Members have names of this module alone, never paths of a machine: where each belongs is the configuration's to say
(backup_files.py), and nothing in a file decides where it is written. The hashes find damage. They are no proof of who
made it: a backup is believed because of where it was kept.
"""

import hashlib
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from coordinator.base.refusal import Code, Refused
from snapshot import canonical
from snapshot.identifiers import format_time

FORMAT = "holdfast-backup/1"
MANIFEST = "manifest.json"
MANIFEST_BYTES = 1 << 20
PIECE = 1 << 20
MOST_MEMBERS = 1_000


@dataclass(frozen=True)
class ArchiveMember:
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """`left_out`: what a coordinator has besides and is not in the file."""

    cluster_id: str
    coordinator_id: str
    made_at: str
    program: str
    database: str  # the member that it is, which says of which kind
    left_out: tuple[str, ...]
    members: Mapping[str, ArchiveMember]

    def to_bytes(self) -> bytes:
        value = {"format": FORMAT, **asdict(self), "left_out": list(self.left_out)}
        return canonical.dumps(value)


def describe(path: Path) -> ArchiveMember:
    """Of a file that is about to be a member."""
    with path.open("rb") as file:
        return _digest(file)


def write(file: IO[bytes], manifest: Manifest, sources: Mapping[str, Path], at: float) -> None:
    """Into a file that is open and empty; durable when this returns."""
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        data = manifest.to_bytes()
        archive.addfile(_entry(MANIFEST, len(data), at), io.BytesIO(data))
        for name, path in sources.items():
            with path.open("rb") as source:
                archive.addfile(_entry(name, manifest.members[name].size, at), source)
    file.flush()
    os.fsync(file.fileno())


def unpack(path: Path, into: Path) -> Manifest:
    """Everything of it, as its manifest says, in a directory that is ours alone; Refused `backup_damaged` otherwise."""
    try:
        with tarfile.open(path, mode="r:") as archive:
            members = _members(archive, path)
            manifest = _manifest(archive, next(members, None), path)
            for member in members:
                _extract(archive, member, manifest, into, path)
    except (tarfile.TarError, EOFError) as error:
        raise damage(path, f"no whole tar archive: {error}") from error
    missing = sorted(name for name in manifest.members if not (into / name).exists())
    if missing:
        raise damage(path, f"{missing[0]} is missing")
    return manifest


def damage(path: Path, detail: str) -> Refused:
    return Refused(Code.BACKUP_DAMAGED, f"{path}: {detail}", remedy="use another backup")


def _entry(name: str, size: int, at: float) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, 0o600, int(at)
    return entry


def _members(archive: tarfile.TarFile, path: Path) -> Iterator[tarfile.TarInfo]:
    for number, entry in enumerate(archive):
        if not entry.isfile() or number > MOST_MEMBERS:
            raise damage(path, f"{entry.name!r} is not a file of a backup")
        yield entry


def _manifest(archive: tarfile.TarFile, first: tarfile.TarInfo | None, path: Path) -> Manifest:
    if first is None or first.name != MANIFEST or first.size > MANIFEST_BYTES:
        raise damage(path, "it does not begin with a manifest: no backup of a coordinator")
    file = archive.extractfile(first)
    data = file.read() if file else b""
    try:
        return _parse(canonical.loads(data))
    except (canonical.NotCanonical, KeyError, TypeError, ValueError) as error:
        raise damage(path, "its manifest cannot be read; a newer program may have made it") from error


def _parse(value: object) -> Manifest:
    if not isinstance(value, dict) or value["format"] != FORMAT:
        raise ValueError("another format")
    texts = {name: str(value[name]) for name in ("cluster_id", "coordinator_id", "made_at", "program", "database")}
    members = {
        str(name): ArchiveMember(int(member["size"]), str(member["sha256"]))
        for name, member in dict(value["members"]).items()
    }
    return Manifest(**texts, left_out=tuple(map(str, value["left_out"])), members=members)


def _extract(archive: tarfile.TarFile, entry: tarfile.TarInfo, manifest: Manifest, into: Path, path: Path) -> None:
    """Names are compared with the manifest's, which are then judged by who puts files in their places."""
    expected, target = manifest.members.get(entry.name), into / entry.name
    if expected is None or ".." in Path(entry.name).parts or entry.name.startswith("/") or target.exists():
        raise damage(path, f"{entry.name!r} is not in its manifest, or twice")
    target.parent.mkdir(mode=0o700, exist_ok=True)
    source = archive.extractfile(entry)
    with target.open("xb") as file:
        found = _digest(source, file) if source else None
    if found != expected:
        raise damage(path, f"{entry.name} is not what the manifest says")


def _digest(source: IO[bytes], copy: IO[bytes] | None = None) -> ArchiveMember:
    digest, size = hashlib.sha256(), 0
    while piece := source.read(PIECE):
        digest.update(piece)
        size += len(piece)
        if copy is not None:
            copy.write(piece)
    return ArchiveMember(size, digest.hexdigest())


def stamp(at: float) -> str:
    """Of a time, as it stands in a file's name: it sorts."""
    return format_time(at).replace("-", "").replace(":", "")
