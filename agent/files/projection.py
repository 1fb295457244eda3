"""Active scopes as files, for services that read files (protocol.md 4; rules S5).

    <root>/active/index.json
    <root>/active/<scope_type>[@<ids>]/<section>.json
    <root>/active/.index/<scope_type>[@<ids>].json    of one scope, where not everybody may read the index of all

Each change makes a new folder beside the present one and swaps one symlink (generations.py), so nobody sees half of
one: who wants several files of one generation opens the folder first, and the files from there. A file whose bytes
have not changed is linked, not written again. What a process before this one left is taken over as far as it is what
it should be, which its hash, owner and mode show: nothing else that is found is trusted. An expired scope stays, marked
in the index; a withdrawn one goes, and all go when the node is revoked.
"""

import contextlib
import errno
import hashlib
import io
import os
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import structlog

from agent.files.file_access import FileAccess
from agent.files.generations import FilesError, FilesFault, Generations, Permissions, on_disk
from snapshot import canonical
from snapshot.identifiers import format_time, parse_scope
from snapshot.manifest import SectionEntry

INDEX, INDEXES = "index.json", ".index"
MOST_IDS_BYTES = 180
PIECE_BYTES = 1 << 20
EXPIRED = "expired"
FAULTS = {
    errno.ENOSPC: FilesFault.FILES_FULL,
    errno.EDQUOT: FilesFault.FILES_FULL,
    errno.EOPNOTSUPP: FilesFault.NO_ACCESS_LISTS,
}

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ProjectedScope:
    """An active scope; `read` gives a section's bytes, whose hash it has checked. `grade` as of protocol.md 4."""

    scope: str
    authority_epoch: int
    config_version: int
    content_hash: str
    expires_at: int
    grade: str
    sections: Mapping[str, SectionEntry]
    read: Callable[[str], bytes]


@dataclass
class Projection:
    """Synchronous, for one worker thread. What `read` and the disk raise is passed on, and the old files stay."""

    generations: Generations
    access: FileAccess
    _files: dict[str, str] = field(default_factory=dict)  # path in the present folder -> SHA-256 of its bytes
    _given: dict[str, Permissions | None] = field(default_factory=dict)  # folder -> for whom; None: for others than now
    _present: str | None = None
    _index: bytes = b""
    _count: int = 0

    def start(self) -> None:
        self.generations.prepare()

    def project(self, generation: int, scopes: Iterable[ProjectedScope], now: float) -> bool:
        """Makes these the files; False where they are that already. `now` times the collection of old ones.

        Files that somebody took away (a cleaner of /run) are made anew, with all that they stand in. FilesError, and
        what `read` raises.
        """
        with self._refusing():
            return self._bring_up(generation, sorted(scopes, key=lambda scope: scope.scope), now)

    def _bring_up(self, generation: int, scopes: list[ProjectedScope], now: float) -> bool:
        if self._present is not None and not self.generations.stands(self._present, INDEX):
            log.warning("files were gone, making them anew", path=str(self.generations.link))
            self._forget()
        indexes = self._indexes(generation, scopes)
        if self._present is None:
            self.start()
            self._take_over(scopes, indexes)
        changed = indexes[INDEX] != self._index
        if changed:
            self._replace(generation, scopes, indexes)
        self.generations.collect(now)
        return changed

    def withdraw(self, generation: int, now: float) -> None:
        """All goes, at once and for every reader that has not opened it yet (rules A9). Where there is no room to say
        that nothing is active, the link goes as well.
        """
        with self._refusing():
            try:
                self._bring_up(generation, [], now)
            except (OSError, FilesError):
                self.generations.take_away()
                raise
            self.generations.drop_old()

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        """What the disk says, as a refusal with a code."""
        try:
            yield
        except OSError as error:
            self._forget()  # what it builds on may be amiss
            fault = FAULTS.get(error.errno or 0, FilesFault.FILES_IO)
            raise FilesError(fault, f"{self.generations.folder}: {error}") from error

    def _forget(self) -> None:
        """The next ones trust nothing that is there without a look at it."""
        self._files, self._given, self._present, self._index = {}, {}, None, b""

    def _indexes(self, generation: int, scopes: list[ProjectedScope]) -> dict[str, bytes]:
        """By path. Each has the form of the index of all."""
        of_one = scopes if self.access.by_scope else []
        found = {f"{INDEXES}/{folder_of(one.scope)}.json": index_bytes(generation, [one]) for one in of_one}
        return {INDEX: index_bytes(generation, scopes), **found}

    def _take_over(self, scopes: list[ProjectedScope], indexes: Mapping[str, bytes]) -> None:
        """The folder in use, so that a restart writes nothing that is there: all of it, or those files to link."""
        label = self.generations.current()
        if label is None or label not in self.generations.labels():
            return
        whose = self._whose(scopes)
        wanted = {path: entry for scope in scopes for path, entry in files_of(scope).items()}
        found = {path: SectionEntry(hashlib.sha256(data).hexdigest(), len(data)) for path, data in indexes.items()}
        indexed = {**wanted, **found}
        try:
            with self.generations.opened(label) as folder:
                files, folders = below(folder)
                intact = {path for path in indexed.keys() & files if self._is_intact(folder, path, indexed, whose)}
                right = {place for place in folders & whose.keys() if is_right(folder, place, whose[place])}
        except FilesError:  # another's, or a link: it goes with the old ones
            return
        self._files = {path: wanted[path].sha256 for path in intact & wanted.keys()}
        self._given = {place: whose[place] if place in right else None for place in folders & whose.keys()}
        if intact != indexed.keys() & files:
            self._given["."] = None
        if files == intact == indexed.keys() and folders == right == whose.keys():
            self._index = indexes[INDEX]
        self._present = label

    def _whose(self, scopes: Iterable[ProjectedScope]) -> dict[str, Permissions]:
        """By folder; `.` is that of the generation."""
        of = self.access.of
        places = {folder_of(one.scope): of(one.scope, expired=one.grade == EXPIRED) for one in scopes}
        indexes = {INDEXES: self.access.top} if self.access.by_scope else {}
        return {".": self.access.top, **indexes, **places}

    def _permissions(self, path: str, whose: Mapping[str, Permissions]) -> Permissions:
        place, _, name = path.partition("/")
        if path == INDEX:
            return self.access.index
        return whose[name.removesuffix(".json") if place == INDEXES else place]

    def _is_intact(
        self, folder: int, path: str, entries: Mapping[str, SectionEntry], whose: Mapping[str, Permissions]
    ) -> bool:
        """What cannot be read is not."""
        permissions = self._permissions(path, whose)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(descriptor, "rb", buffering=0) as file:
                found = os.fstat(descriptor)
                is_ours = stat.S_ISREG(found.st_mode) and permissions.are_of(descriptor, permissions.file_mode)
                return is_ours and found.st_size == entries[path].size and _sha256(file) == entries[path].sha256
        except OSError:
            return False

    def _replace(self, generation: int, scopes: list[ProjectedScope], indexes: Mapping[str, bytes]) -> None:
        """A full disk costs the old generations first, and then the new one, never the present one."""
        self.generations.current()  # FilesError before anything is written
        try:
            self._write(generation, scopes, indexes)
        except OSError as error:
            if FAULTS.get(error.errno or 0) is not FilesFault.FILES_FULL:
                raise
            self.generations.drop_old()
            self._write(generation, scopes, indexes)

    def _write(self, generation: int, scopes: list[ProjectedScope], indexes: Mapping[str, bytes]) -> None:
        whose = self._whose(scopes)
        same = {path for scope in scopes for path, entry in files_of(scope).items() if self._has(path, entry, whose)}
        new = [entry.size for scope in scopes for path, entry in files_of(scope).items() if path not in same]
        self.generations.make_room(sum(map(on_disk, [*new, *map(len, indexes.values())])))
        label = self._next_label(generation)
        with self.generations.fresh(label) as folder:
            self._fill(folder, scopes, whose, same)
            self._fill_indexes(folder, indexes, whose)
        self.generations.use(label)
        if any(self._given.get(place, permissions) != permissions for place, permissions in whose.items()):
            self.generations.drop_old()  # they are for whom these are not any more
        self._files = {path: entry.sha256 for scope in scopes for path, entry in files_of(scope).items()}
        self._given, self._present, self._index = {**whose}, label, indexes[INDEX]

    def _fill(
        self, folder: int, scopes: list[ProjectedScope], whose: Mapping[str, Permissions], same: Container[str]
    ) -> None:
        """Written, or linked from the present folder."""
        if self._present is None:
            for scope in scopes:
                write_scope(folder, scope, whose[folder_of(scope.scope)])
            return
        with self.generations.opened(self._present) as before:
            for scope in scopes:
                write_scope(folder, scope, whose[folder_of(scope.scope)], same, before)

    def _fill_indexes(self, folder: int, indexes: Mapping[str, bytes], whose: Mapping[str, Permissions]) -> None:
        if INDEXES in whose:
            os.mkdir(INDEXES, 0o700, dir_fd=folder)
        for path, data in indexes.items():
            write_file(folder, path, data, self._permissions(path, whose))
        if INDEXES in whose:
            with open_place(folder, INDEXES) as made:
                whose[INDEXES].give(made, whose[INDEXES].folder_mode)

    def _has(self, path: str, entry: SectionEntry, whose: Mapping[str, Permissions]) -> bool:
        """With the same bytes, and for the same readers."""
        place = path.partition("/")[0]
        return self._files.get(path) == entry.sha256 and self._given.get(place) == whose[place]

    def _next_label(self, generation: int) -> str:
        """Unused, also by another process before this one."""
        taken = self.generations.labels()
        while (label := f"{generation}.{self._count}") in taken:
            self._count += 1
        return label


def files_of(scope: ProjectedScope) -> dict[str, SectionEntry]:
    """By their path in a generation."""
    place = folder_of(scope.scope)
    return {f"{place}/{name}.json": entry for name, entry in scope.sections.items()}


def below(folder: int) -> tuple[set[str], set[str]]:
    """The paths of all that is no directory, and of the directories."""
    files: set[str] = set()
    folders: set[str] = set()
    for place, inside, names, at in os.fwalk(".", dir_fd=folder):
        folders.add(os.path.normpath(place))
        links = [name for name in inside if stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)]
        files.update(os.path.normpath(f"{place}/{name}") for name in [*names, *links])
    return files, folders


def is_right(folder: int, place: str, permissions: Permissions) -> bool:
    with open_place(folder, place) as descriptor:
        return permissions.are_of(descriptor, permissions.folder_mode)


@contextlib.contextmanager
def open_place(folder: int, place: str) -> Iterator[int]:
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_scope(
    folder: int, scope: ProjectedScope, permissions: Permissions, same: Container[str] = (), before: int = -1
) -> None:
    """The files of a scope below `folder`; those in `same` are linked from below `before`. Both are descriptors."""
    place = folder_of(scope.scope)
    os.mkdir(place, 0o700, dir_fd=folder)
    for name in scope.sections:
        path = f"{place}/{name}.json"
        if path in same:
            os.link(path, path, src_dir_fd=before, dst_dir_fd=folder, follow_symlinks=False)
        else:
            write_file(folder, path, scope.read(name), permissions)
    with open_place(folder, place) as made:
        permissions.give(made, permissions.folder_mode)


def write_file(folder: int, path: str, data: bytes, permissions: Permissions) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600, dir_fd=folder)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]
        permissions.give(descriptor, permissions.file_mode)


def _sha256(file: io.FileIO) -> str:
    digest = hashlib.sha256()
    while piece := file.read(PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def folder_of(scope: str) -> str:
    """`<scope_type>[@<ids>]`; ids of more than 180 bytes are given by their hash."""
    scope_type, ids = parse_scope(scope)
    if not ids:
        return scope_type
    joined = ",".join(ids)
    if len(joined.encode()) > MOST_IDS_BYTES:
        return f"{scope_type}@sha256-{hashlib.sha256(joined.encode()).hexdigest()}"
    return f"{scope_type}@{joined}"


def index_bytes(generation: int, scopes: Iterable[ProjectedScope]) -> bytes:
    """`index.json`: the generation, and for each scope its path, version, hash, expiry and grade."""
    entries = {
        scope.scope: {
            "path": folder_of(scope.scope),
            "authority_epoch": scope.authority_epoch,
            "config_version": scope.config_version,
            "content_hash": scope.content_hash,
            "expires_at": format_time(scope.expires_at),
            "grade": scope.grade,
        }
        for scope in scopes
    }
    return canonical.dumps({"generation": generation, "scopes": entries})
