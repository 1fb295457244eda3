"""What a node keeps for its neighbours: whole containers in files, bounded, and read by nobody on this node.

    heads/<sha256 of the node id>.hfs        the newest head of each
    documents/<sha256 of the snapshot id>.hfs
    increments/<sha256 of scope and base>.hfs        those that this node has fetched as a relay of its site
    trust/<version>.hfs                      the bundles that were followed, so that others can follow them too

The files have the names of a published tree. A container is opaque here: it is in no scope, no pointer leads to it, and
no local service can read it. Who puts one in has judged it as its addressee would (agent/relay/relaying.py); who is
given one judges it again, all of it.

`most_bytes` and `most_files` bound heads, documents and increments together. Beyond them goes what has expired, then
the documents that have lain there longest, then heads. Bundles are bounded by themselves, since they are small and
everybody's.

To use it: `load` once, on the writing thread (each change does so first); `head_of` and `document` look, in memory;
`put_head`, `put_document` and `put_bundle` write, on the writing thread; `read` and `pieces` read a file, on a reading
thread.

Behind each container lie 32 bytes: the SHA-256 of what is before them, so a byte that has turned is found out when it
is read whole, before the last piece is given out (`StoreError`, `store_corrupt`). Whoever finds it drops it (`drop`),
and it is fetched again; kept, it would be refused by each who asks, who would then rest this node as a bad source.

Rejected: in LMDB beside the scopes, where what others need would take the room of what this node needs, and where a
fault of the code could make a pointer of it.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from snapshot import envelope as envelopes
from snapshot.container import ChunkParts
from snapshot.envelope import INCREMENT, SNAPSHOT, Envelope
from snapshot.identifiers import HEAD
from snapshot.limits import Limits
from snapshot.reasons import Rejected
from store.base.disk import Disk, refusal
from store.base.errors import StoreError, StoreFault

SUFFIX = ".hfs"
MOST_BUNDLES = 256  # the steps of one walk (format.md 8)
BUNDLES_BYTES = 64 << 20
PIECE_BYTES = 256 << 10
CHECKSUM_BYTES = 32
_OPENING_BYTES = 128 << 10


@dataclass(frozen=True)
class RelayBounds:
    most_bytes: int
    most_files: int


@dataclass(frozen=True, eq=False)
class RelayedContainer:
    """One that is kept; `size` without the checksum behind it. `at`: when it was put there, by the order of coming."""

    file: Path
    envelope: Envelope
    size: int
    at: float


class RelayStore:
    """One of a node. Changes are made on one thread; what is looked up is replaced whole, so others may look then."""

    def __init__(self, folder: Path, disk: Disk, temporary: Path, bounds: RelayBounds, limits: Limits) -> None:
        self.bounds = bounds
        self.temporary = temporary
        self._folder = folder
        self._disk = disk
        self._limits = limits
        self._is_loaded = False
        self._heads: Mapping[str, RelayedContainer] = {}
        self._documents: Mapping[str, RelayedContainer] = {}
        self._increments: Mapping[str, RelayedContainer] = {}
        self._bundles: Mapping[int, int] = {}  # sizes by version
        self._put = 0

    def load(self) -> None:
        """What is there; a file that is none of these goes. Once. StoreError."""
        if self._is_loaded:
            return
        try:
            for name in ("", "heads", "documents", "increments", "trust"):
                if not (self._folder / name).is_dir():
                    self._disk.make_directory(self._folder / name)
            self._read_folders()
            self._is_loaded = True
            self._make_room(0)
        except OSError as error:
            raise refusal(error) from error

    # ---- what is there

    @property
    def heads(self) -> Mapping[str, RelayedContainer]:
        """By the digest of the node id."""
        return self._heads

    @property
    def documents(self) -> Mapping[str, RelayedContainer]:
        """By the digest of the snapshot id."""
        return self._documents

    def used_bytes(self) -> int:
        """Of heads, documents and increments."""
        return sum(kept.size for kept in self._containers())

    def used_files(self) -> int:
        return len(self._containers())

    def head_of(self, digest: str) -> RelayedContainer | None:
        return self._heads.get(digest)

    def document(self, snapshot_id: str) -> RelayedContainer | None:
        return self._documents.get(digest_of(snapshot_id))

    def increment(self, scope: str, base: int) -> RelayedContainer | None:
        return self._increments.get(increment_digest(scope, base))

    def bundle_versions(self) -> list[int]:
        return sorted(self._bundles)

    def read(self, kept: RelayedContainer) -> bytes:
        """All of it, for what is small. StoreError."""
        return b"".join(self.pieces(kept))

    def pieces(self, kept: RelayedContainer, begin: int = 0, size: int | None = None) -> Iterator[bytes]:
        """StoreError; what another one has put in its place meanwhile ends it as well. The last piece of a whole one
        comes once the checksum is right.
        """
        return self._checked_pieces(kept) if begin == 0 and size is None else self._part(kept, begin, size or 0)

    def _checked_pieces(self, kept: RelayedContainer) -> Iterator[bytes]:
        found, held = hashlib.sha256(), b""
        for piece in self._part(kept, 0, kept.size):
            if held:
                yield held
            found.update(piece)
            held = piece
        if b"".join(self._part(kept, kept.size, CHECKSUM_BYTES)) != found.digest():
            raise StoreError(StoreFault.STORE_CORRUPT, f"{kept.file.name} is other than it was")
        yield held

    def _part(self, kept: RelayedContainer, begin: int, left: int) -> Iterator[bytes]:
        try:
            with kept.file.open("rb") as file:
                file.seek(begin)
                while left > 0 and (piece := file.read(min(PIECE_BYTES, left))):
                    left -= len(piece)
                    yield piece
        except FileNotFoundError as error:  # it had to make room since it was looked up
            raise StoreError(StoreFault.NOT_FOUND, f"{kept.file.name} is here no more") from error
        except OSError as error:
            raise refusal(error) from error
        if left > 0:
            raise StoreError(StoreFault.STORE_CORRUPT, f"{kept.file.name} is shorter than it was")

    def bundle(self, version: int) -> bytes:
        """StoreError where there is none."""
        try:
            return self._bundle_file(version).read_bytes()
        except OSError as error:
            raise refusal(error) from error

    # ---- changes, on the writing thread

    def put_head(self, envelope: Envelope, source: Path, now: float) -> bool:
        """Whether it is kept: one that is higher than what is there. `source`, a file of ours, is taken away."""
        self.load()
        digest = digest_of(envelope.subject_node_id)
        before = self._heads.get(digest)
        if before is not None and before.envelope.version >= envelope.version:
            self._disk.remove(source)
            return False
        kept = self._take(source, self._folder / "heads" / f"{digest}{SUFFIX}", envelope, now, spared=before)
        if kept is not None:
            self._heads = {**self._heads, digest: kept}
        return kept is not None

    def put_document(self, envelope: Envelope, source: Path, now: float) -> bool:
        """Whether it is kept, or was already."""
        self.load()
        digest = digest_of(envelope.snapshot_id)
        if digest in self._documents:
            self._disk.remove(source)
            return True
        kept = self._take(source, self._folder / "documents" / f"{digest}{SUFFIX}", envelope, now)
        if kept is not None:
            self._documents = {**self._documents, digest: kept}
        return kept is not None

    def put_increment(self, envelope: Envelope, source: Path, now: float) -> bool:
        """Whether it is kept: of two from the same base the one that leads higher."""
        self.load()
        digest = increment_digest(envelope.scope, envelope.base_config_version or 0)
        before = self._increments.get(digest)
        if before is not None and before.envelope.version >= envelope.version:
            self._disk.remove(source)
            return False
        kept = self._take(source, self._folder / "increments" / f"{digest}{SUFFIX}", envelope, now, spared=before)
        if kept is not None:
            self._increments = {**self._increments, digest: kept}
        return kept is not None

    def put_bundle(self, version: int, data: bytes) -> None:
        """The lowest go where there are too many: who is so far behind gets them from a coordinator or a file."""
        self.load()
        self._disk.replace_file(self._bundle_file(version), data, self.temporary / "relay-bundle.new")
        bundles = {**self._bundles, version: len(data)}
        while len(bundles) > MOST_BUNDLES or sum(bundles.values()) > BUNDLES_BYTES:
            lowest = min(bundles)
            del bundles[lowest]
            self._disk.remove(self._bundle_file(lowest))
        self._bundles = bundles

    def drop_damaged(self, *found: RelayedContainer) -> list[RelayedContainer]:
        """Those that are still there: another one may have come in the place of one meanwhile."""
        gone = [kept for kept in self._containers() if kept in found]
        self.drop(*gone)
        return gone

    def drop(self, *gone: RelayedContainer) -> None:
        files = {kept.file for kept in gone}
        for file in files:
            self._disk.remove(file)
        self._heads = {key: kept for key, kept in self._heads.items() if kept.file not in files}
        self._documents = {key: kept for key, kept in self._documents.items() if kept.file not in files}
        self._increments = {key: kept for key, kept in self._increments.items() if kept.file not in files}

    # ---- inside

    def _take(
        self, source: Path, target: Path, envelope: Envelope, now: float, spared: RelayedContainer | None = None
    ) -> RelayedContainer | None:
        """None where there is no room for it, whatever went."""
        size = source.stat().st_size
        free = size - (spared.size if spared is not None else 0)
        if size > self.bounds.most_bytes or self.bounds.most_files < 1:
            self._disk.remove(source)
            return None
        self._make_room(free, now, 0 if spared is not None else 1, spared)
        self._add_checksum(source)
        self._disk.rename(source, target)
        self._put += 1
        return RelayedContainer(target, envelope, size, now + self._put * 1e-6)

    def _add_checksum(self, source: Path) -> None:
        found = hashlib.sha256()
        with source.open("r+b") as file:
            while piece := file.read(PIECE_BYTES):
                found.update(piece)
            self._disk.about_to("write")
            file.write(found.digest())
            file.flush()
            self._disk.about_to("fsync")
            os.fsync(file.fileno())

    def _make_room(self, size: int, now: float = 0.0, files: int = 0, spared: RelayedContainer | None = None) -> None:
        """`spared`: its place is taken anyhow, and counted already."""
        kept = self._containers()
        left, count = sum(container.size for container in kept) + size, len(kept) + files
        gone: list[RelayedContainer] = []
        going = [container for container in kept if container is not spared]
        for container in sorted(going, key=lambda container: _order(container, now)):
            fits = left <= self.bounds.most_bytes and count <= self.bounds.most_files
            if fits and container.envelope.expires_at > now:
                break
            gone.append(container)
            left, count = left - container.size, count - 1
        if gone:
            self.drop(*gone)

    def _containers(self) -> list[RelayedContainer]:
        return [*self._heads.values(), *self._documents.values(), *self._increments.values()]

    def _read_folders(self) -> None:
        self._heads = self._read_containers("heads", HEAD)
        self._documents = self._read_containers("documents", SNAPSHOT)
        self._increments = self._read_containers("increments", INCREMENT)
        versions = [file for file in (self._folder / "trust").iterdir() if file.stem.isdecimal()]
        self._bundles = {int(file.stem): file.stat().st_size for file in versions}

    def _read_containers(self, folder: str, kind: str) -> dict[str, RelayedContainer]:
        found: dict[str, RelayedContainer] = {}
        for file in sorted((self._folder / folder).iterdir()):
            envelope = _envelope_of(file, kind, self._limits)
            digest = _digest_for(envelope) if envelope is not None else ""
            if envelope is None or file.name != f"{digest}{SUFFIX}":
                self._disk.remove(file)
                continue
            entry = file.stat()
            found[digest] = RelayedContainer(file, envelope, entry.st_size - CHECKSUM_BYTES, entry.st_mtime)
        return found

    def _bundle_file(self, version: int) -> Path:
        return self._folder / "trust" / f"{version}{SUFFIX}"


def digest_of(identifier: str) -> str:
    return hashlib.sha256(identifier.encode()).hexdigest()


def increment_digest(scope: str, base: int) -> str:
    return digest_of(f"{scope} {base}")


def _digest_for(envelope: Envelope) -> str:
    """By which it is found."""
    if envelope.kind == HEAD:
        return digest_of(envelope.subject_node_id)
    if envelope.kind == INCREMENT:
        return increment_digest(envelope.scope, envelope.base_config_version or 0)
    return digest_of(envelope.snapshot_id)


def _order(kept: RelayedContainer, now: float) -> tuple[bool, bool, float]:
    """What goes first: what has expired, then documents, then heads, the oldest first."""
    return kept.envelope.expires_at > now, kept.envelope.kind == HEAD, kept.at


def _envelope_of(file: Path, kind: str, limits: Limits) -> Envelope | None:
    with file.open("rb") as opened:
        try:
            return envelopes.parse(ChunkParts([opened.read(_OPENING_BYTES)], limits).opening().envelope, kind, limits)
        except Rejected:
            return None
