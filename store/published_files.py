"""The published files that a storage node keeps for others: a tree of whole containers, bounded, read by nobody here.

    trust/ documents/ increments/ recoveries/ heads/      as `holdfastctl publish --to` names them

It is no part of what this node runs: no scope, no pointer leads here. Who puts a file in has judged it
(agent/storage/taking.py). `load` reads what is there, once, on a reading thread; `put` and `remove` are of the writing
thread. Others may look one of `files` up meanwhile; who goes through all of them takes `now()`. They are as many as a
fleet has, so what a file costs does not depend on how many lie here.

What a head or a recovery was that is taken away is remembered, beside the folders in `removed`, until its own time is
over: else whoever may take one away could put an older one in its place. Its line goes a while after that
(REMEMBERED_S), at a start and whenever there are twice as many: for years nodes leave, and move to other shards. And of
each document it is known where it stands, since an increment is named by the one that it leads to.
"""

import contextlib
import hashlib
import os
import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from snapshot import envelope as envelopes
from snapshot.container import ChunkParts
from snapshot.envelope import RECOVERY, SHARED, SNAPSHOT, Envelope
from snapshot.identifiers import HEAD
from snapshot.limits import Limits
from snapshot.reasons import Rejected
from store.base.disk import Disk, refusal
from store.base.errors import StoreError, StoreFault

FOLDERS = ("trust", "documents", "increments", "recoveries", "heads")
VERSIONED = ("recoveries", "heads")  # whose names stay, while what lies under them goes forward
REMOVED = "removed"
REMEMBERED_S = 7 * 86_400.0  # beyond its own time: a clock that was ahead for a while has let go of nothing
LINES = 1_024  # that may be there for nothing
_READ = {"documents": SNAPSHOT, "recoveries": RECOVERY, "heads": HEAD}  # of these it is remembered what they say
PIECE_BYTES = 256 << 10
Version = tuple[int, int]
NO_VERSION: Version = (0, 0)
_HASHED = re.compile(r"[0-9a-f]{64}\.hfs", re.ASCII)
_NUMBERED = re.compile(r"[1-9][0-9]{0,15}\.hfs", re.ASCII)
_LINE = re.compile(r"(\S+) ([0-9]{1,16}) ([0-9]{1,16}) ([0-9]{1,16})\n", re.ASCII)
_OPENING_BYTES = 128 << 10


@dataclass(frozen=True)
class PublishedFile:
    """`version`, `ends_at`: of a head and a recovery, so that none goes back, and none goes before its time. `place`:
    of a document, where it stands among the versions of its scope.
    """

    sha256: str
    size: int
    version: Version = NO_VERSION
    ends_at: float = 0
    place: int = 0


class PublishedFiles:
    """One of a node."""

    def __init__(self, folder: Path, disk: Disk, most_bytes: int, most_files: int, limits: Limits) -> None:
        self.most_bytes = most_bytes
        self.most_files = most_files
        self._folder = folder
        self._disk = disk
        self._limits = limits
        self._files: dict[str, PublishedFile] = {}
        self._gone: dict[str, PublishedFile] = {}  # of what was taken away: path -> what it was
        self._lines, self._most_lines = 0, LINES  # of `removed`: how many, and how many before it is written anew
        self._places: dict[int, str] = {}  # of documents: place -> path
        self._order: list[str] = []  # all paths, in byte order
        self.used_bytes = 0

    @property
    def files(self) -> Mapping[str, PublishedFile]:
        return self._files

    def now(self) -> Mapping[str, PublishedFile]:
        """As they are at this moment, whatever comes and goes after it."""
        return self._files.copy()

    def page(self, after: str, most: int) -> tuple[dict[str, str], bool]:
        """The next ones after a path, at most so many, each with its SHA-256; and whether there are others behind them.
        What comes and goes meanwhile is in it or not.
        """
        begin = bisect_right(self._order, after)
        paths = self._order[begin : begin + most + 1]
        found = ((path, self._files.get(path)) for path in paths[:most])
        return {path: file.sha256 for path, file in found if file is not None}, len(paths) > most

    def highest(self, path: str, now: float) -> Version:
        """Of what lies here or was taken away in its time."""
        here, gone = self._files.get(path), self._gone.get(path)
        versions = [file.version for file in (here, gone) if file is not None and (file is here or file.ends_at > now)]
        return max(versions, default=NO_VERSION)

    def place(self, path: str) -> Path:
        return self._folder / path

    def targets_of(self, increment: Envelope) -> Iterator[Envelope]:
        """Of the documents here, those that an increment leads to; none that the disk does not give. On a reading
        thread.
        """
        version = (increment.authority_epoch, increment.next_config_version or 0)
        for subject in {increment.subject_node_id, SHARED}:
            path = self._places.get(_place(subject, increment.scope, version, increment.next_content_hash or ""))
            said = None if path is None else self._read_target(path)
            if said is not None and (said.scope, said.version, said.content_hash) == (
                *(increment.scope, version, increment.next_content_hash),
            ):
                yield said

    def load(self, now: float) -> None:
        """StoreError. What was cut off by a crash is a temporary file, and goes with the others at the start."""
        try:
            for name in ("", *FOLDERS):
                if not (self._folder / name).is_dir():
                    self._disk.make_directory(self._folder / name)
            self._files = dict(self._read_folders())
            self._places = {file.place: path for path, file in self._files.items() if file.place}
            self._order = sorted(self._files)
            self.used_bytes = sum(file.size for file in self._files.values())
            self._read_gone(now)
        except OSError as error:
            raise refusal(error) from error

    def check_room(self, path: str, size: int) -> None:
        """StoreError `store_full` where a file of so many bytes has no room in the place of what lies there."""
        before = self.files.get(path)
        used = self.used_bytes - (before.size if before is not None else 0)
        count = len(self.files) + (before is None)
        if used + size > self.most_bytes or count > self.most_files:
            raise StoreError(StoreFault.STORE_FULL, "what coordinators publish has more than [storage] lets it")

    def put(self, path: str, source: Path, file: PublishedFile) -> None:
        """`source`, a file of ours that is durable, is taken in. StoreError."""
        self.check_room(path, file.size)
        try:
            self._disk.rename(source, self._folder / path)
        except OSError as error:
            raise refusal(error) from error
        self._replace(path, file)

    def remove(self, path: str, now: float) -> None:
        """Gone already is as good. StoreError."""
        before = self._files.get(path)
        try:
            if before is not None and is_versioned(path):
                self._remember(path, before)
            self._disk.remove(self._folder / path)
        except OSError as error:
            raise refusal(error) from error
        self._replace(path, None)
        if self._lines > self._most_lines:
            self._forget_what_is_over(now)

    def _replace(self, path: str, file: PublishedFile | None) -> None:
        before = self._files.get(path)
        if before is not None and self._places.get(before.place) == path:
            del self._places[before.place]
        if file is not None and file.place:
            self._places[file.place] = path
        if before is None and file is not None:
            insort(self._order, path)
        elif before is not None and file is None:
            del self._order[bisect_left(self._order, path)]
        self.used_bytes += (file.size if file is not None else 0) - (before.size if before is not None else 0)
        if file is not None:
            self._files[path] = file
        else:
            self._files.pop(path, None)

    def pieces(self, path: str) -> Iterator[bytes]:
        """StoreError, also where another one takes its place meanwhile and is shorter."""
        try:
            with (self._folder / path).open("rb") as file:
                while piece := file.read(PIECE_BYTES):
                    yield piece
        except OSError as error:
            raise refusal(error) from error

    def _read_folders(self) -> Iterator[tuple[str, PublishedFile]]:
        for folder in FOLDERS:
            for found in sorted((self._folder / folder).iterdir()):
                path = f"{folder}/{found.name}"
                if not is_path(path):
                    self._disk.remove(found)
                    continue
                with found.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                yield path, PublishedFile(digest, found.stat().st_size, *self._times(folder, found))

    def _times(self, folder: str, found: Path) -> tuple[Version, float, int]:
        said = self._read_envelope(folder, found) if folder in _READ else None
        if said is None:
            return NO_VERSION, 0, 0
        return (NO_VERSION, 0, place_of(said)) if folder == "documents" else (said.version, said.expires_at, 0)

    def _read_target(self, path: str) -> Envelope | None:
        """None of one that a bad sector holds back, or that is gone meanwhile: a fault of what leads to it alone."""
        try:
            return self._read_envelope("documents", self.place(path))
        except OSError:
            return None

    def _read_envelope(self, folder: str, found: Path) -> Envelope | None:
        """None of one that is damaged."""
        try:
            with found.open("rb") as file:
                opening = ChunkParts([file.read(_OPENING_BYTES)], self._limits).opening()
            return envelopes.parse(opening.envelope, _READ[folder], self._limits)
        except Rejected:
            return None

    def _remember(self, path: str, file: PublishedFile) -> None:
        """One line more, durable before the file goes, or none of it; none where as much is remembered already."""
        known = self._gone.get(path)
        if known is not None and known.version >= file.version and known.ends_at >= file.ends_at:
            return
        place = self._folder / REMOVED
        is_first = not place.exists()
        self._disk.about_to("write")
        with place.open("ab", buffering=0) as opened:
            size = opened.tell()
            try:
                view = memoryview(_line_of(path, file))
                while view:
                    view = view[opened.write(view) or 0 :]
                self._disk.about_to("fsync")
                os.fsync(opened.fileno())
            except OSError:
                opened.truncate(size)  # else the next line would be part of this one
                raise
        if is_first:
            self._disk.sync_directory(self._folder)
        self._gone[path] = file
        self._lines += 1

    def _read_gone(self, now: float) -> None:
        """Of a line that was cut off nothing was taken away."""
        place, found = self._folder / REMOVED, dict[str, PublishedFile]()
        lines = place.read_bytes().splitlines(keepends=True) if place.exists() else []
        for line in lines:
            said = _LINE.fullmatch(line.decode(errors="replace"))
            if said is not None and is_path(said[1]):
                found[said[1]] = PublishedFile("", 0, (int(said[2]), int(said[3])), int(said[4]))
        self._gone, self._lines = found, len(lines)
        if lines and not lines[-1].endswith(b"\n"):  # else the next one would be part of it
            self._write_gone(now)
        elif len(found) < len(lines) or any(_is_over(file, now) for file in found.values()):
            self._forget_what_is_over(now)

    def _forget_what_is_over(self, now: float) -> None:
        """A disk that has no room for that is asked again after twice as many lines: files go and are served all the
        same, by which there will be room.
        """
        try:
            self._write_gone(now)
        except OSError:
            self._most_lines = 2 * self._lines + LINES
            with contextlib.suppress(OSError):
                self._disk.remove(self._folder / f"{REMOVED}.new")

    def _write_gone(self, now: float) -> None:
        """Without what a later line says again, and what is over."""
        left = {path: file for path, file in self._gone.items() if not _is_over(file, now)}
        data = b"".join(_line_of(path, file) for path, file in left.items())
        self._disk.replace_file(self._folder / REMOVED, data, self._folder / f"{REMOVED}.new")
        self._gone, self._lines, self._most_lines = left, len(left), 2 * len(left) + LINES


def _is_over(file: PublishedFile, now: float) -> bool:
    return file.ends_at + REMEMBERED_S <= now


def _line_of(path: str, file: PublishedFile) -> bytes:
    return f"{path} {file.version[0]} {file.version[1]} {int(file.ends_at)}\n".encode()


def place_of(document: Envelope) -> int:
    return _place(document.subject_node_id, document.scope, document.version, document.content_hash)


def _place(subject: str, scope: str, version: Version, content_hash: str) -> int:
    """A number in place of the four: of each document of a fleet it is remembered. Two that share one by chance are
    told apart by what they say.
    """
    return hash((subject, scope, version, content_hash))


def is_versioned(path: str) -> bool:
    return path.partition("/")[0] in VERSIONED


def is_path(path: str) -> bool:
    """Whether files of such a name may lie here."""
    folder, _, name = path.partition("/")
    if folder not in FOLDERS:
        return False
    return (_NUMBERED if folder == "trust" else _HASHED).fullmatch(name) is not None
