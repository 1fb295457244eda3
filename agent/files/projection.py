"""Active scopes as files, for services that read files (protocol.md 4; rules S5).

    <root>/active/index.json
    <root>/active/<scope_type>[@<ids>]/<section>.json
    <root>/active/config/<id>/<path>                    the files of a config, with their modes (layout.py)
    <root>/active/services/<id>/settings.json, routes.json    by what they are (entry_files.py)
    <root>/active/.index/<scope_type>[@<ids>].json    of one scope, where not everybody may read the index of all

Each change makes a new folder beside the present one and swaps one symlink (generations.py), so nobody sees half of
one: who wants several files of one generation opens the folder first, and the files from there. A file whose bytes
have not changed is linked, not written again; of a scope of many sections a folder that is over is brought up instead
(former_folders.py). What a process before this one left is taken over as far as it is what it should be, which its
hash, owner and mode show: nothing else that is found is trusted. An expired scope stays, marked in the index; a
withdrawn one goes, and all go when the node is revoked.

Rules: a folder is complete before the link points to it, and not changed afterwards until its time is over; names and
modes follow from the scope and from who may read it, never from its content; nothing in the folder is trusted because
it is there; and the files are a copy, so that losing all of them costs one round.

Example. Generation 41 has `node_runtime` and `route_policy`. `route_policy` gets a new version with one changed
section of ten: folder 42 is made beside 41, nine of its files are hard links to those there, one is written, and then
the link is swapped. A service that has opened `active` before reads 41 to the end.

Rejected:

- Files in place, each swapped by rename: a reader of two of them can get one of each generation.
- A lock file for readers: a reader that dies would hold it, and shell scripts would not take it.
- Notifying by inotify alone: a rename of a link is an event of the folder above it, and several changes make one.
  Services that must not miss one are told by a command, their unit or the socket (`agent/services/notifiers.py`).
"""

import contextlib
import errno
import hashlib
import io
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import field, replace

from agent.files.entry_files import MadeEntries
from agent.files.file_access import FileAccess
from agent.files.former_files import FormerFile
from agent.files.former_folders import FormerFolders, Successor
from agent.files.generations import FilesError, FilesFault, FolderSize, Generations, Permissions, on_disk
from agent.files.layout import ProjectedFile, ProjectedScope, folder_of, stem_of
from agent.files.scope_files import FormerScope, Kept, bring_up_scope, open_place, write_file, write_scope
from snapshot import canonical
from snapshot.frozen import mutable
from snapshot.identifiers import CONFIG, format_time
from snapshot.manifest import SectionEntry
from snapshot.section_table import differing
from wire.logs import log

INDEX, INDEXES = "index.json", ".index"
PIECE_BYTES = 1 << 20
EXPIRED = "expired"
FAULTS = {
    errno.ENOSPC: FilesFault.FILES_FULL,
    errno.EDQUOT: FilesFault.FILES_FULL,
    errno.EOPNOTSUPP: FilesFault.NO_ACCESS_LISTS,
}


@mutable
class Projection:
    """Synchronous, for one worker thread. What `read` and the disk raise is passed on, and the old files stay."""

    generations: Generations
    access: FileAccess
    _signed: dict[str, Mapping[str, SectionEntry]] = field(default_factory=dict)  # in the present folder, by scope
    _others: dict[str, ProjectedFile] = field(default_factory=dict)  # in the present folder, by path
    _given: dict[str, Permissions | None] = field(default_factory=dict)  # folder -> for whom; None: for others than now
    _made: MadeEntries = field(default_factory=MadeEntries)
    _former: FormerFolders = field(default_factory=FormerFolders)
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
            held = [replace(scope, made=self._made) for scope in scopes]
            return self._bring_up(generation, sorted(held, key=lambda scope: scope.scope), now)

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
            self._replace(generation, scopes, indexes, now)
        self.generations.collect(now, spared=self._former.useful())
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
        self._signed, self._others, self._given, self._present, self._index = {}, {}, {}, None, b""
        self._former = FormerFolders()

    def _indexes(self, generation: int, scopes: list[ProjectedScope]) -> dict[str, bytes]:
        """By path. Each has the form of the index of all."""
        of_one = scopes if self.access.by_scope else []
        found = {
            f"{INDEXES}/{stem_of(document.scope)}.json": index_bytes(generation, [document]) for document in of_one
        }
        return {INDEX: index_bytes(generation, scopes), **found}

    def _take_over(self, scopes: list[ProjectedScope], indexes: Mapping[str, bytes]) -> None:
        """The folder in use, so that a restart writes nothing that is there: all of it, or those files to link."""
        label = self.generations.current()
        if label is None or label not in self.generations.labels():
            return
        whose = self._whose(scopes)
        others = {path: file for scope in scopes for path, file in scope.others.items()}
        indexed = others | {path: ProjectedFile((_entry_of(data),)) for path, data in indexes.items()}
        try:
            with self.generations.open_folder(label) as folder:
                files, folders = below(folder)
                lost = {scope.scope: set(self._lost_sections(folder, scope, files, whose)) for scope in scopes}
                there = indexed.keys() & files
                intact = {path for path in there if self._is_intact(folder, path, indexed[path], whose)}
                placed = (folders | files) & whose.keys()
                right = {
                    path
                    for path in placed
                    if path in intact or (path in folders and is_right(folder, path, whose[path]))
                }
        except FilesError:  # another's, or a link: it goes with the old ones
            return
        self._signed = {scope.scope: _but(lost[scope.scope], scope.signed_sections) for scope in scopes}
        self._others = {path: file.identity() for path, file in others.items() if path in intact}
        self._given = {place: whose[place] if place in right else None for place in placed}
        if intact != there or any(scope.path_of(name) in files for scope in scopes for name in lost[scope.scope]):
            self._given["."] = None
        is_all = len(files) == len(indexed) + sum(len(scope.signed_sections) for scope in scopes)
        is_whole = is_all and intact == indexed.keys() and not any(lost.values())
        if is_whole and folders | placed == right == whose.keys():
            self._index = indexes[INDEX]
        self._present = label

    def _whose(self, scopes: Iterable[ProjectedScope]) -> dict[str, Permissions]:
        """By folder, and by file of what lies in none of its scope's; `.` is the folder of the generation."""
        of = self.access.of
        found = {".": self.access.top, **({INDEXES: self.access.top} if self.access.by_scope else {})}
        for scope in scopes:
            permissions = of(scope.scope, expired=scope.grade == EXPIRED)
            found |= dict.fromkeys(scope.shared_places, self.access.top)
            found |= dict.fromkeys((*scope.folders, *scope.lone_files), permissions)
        return found

    def _permissions(self, path: str, whose: Mapping[str, Permissions]) -> Permissions:
        if path == INDEX:
            return self.access.index
        place, _, name = path.rpartition("/")
        return whose[_folder_of_index(name) if place == INDEXES else place or name]

    def _lost_sections(
        self, folder: int, scope: ProjectedScope, files: Set[str], whose: Mapping[str, Permissions]
    ) -> Iterator[str]:
        """The sections whose files are not there as they are signed. One after the other: there may be tens of
        thousands, and nothing is kept of those that are.
        """
        for name, entry in scope.signed_sections.items():
            path, file = scope.path_of(name), ProjectedFile((entry,), None, (name,))
            if path not in files or not self._is_intact(folder, path, file, whose):
                yield name

    def _is_intact(self, folder: int, path: str, file: ProjectedFile, whose: Mapping[str, Permissions]) -> bool:
        """What cannot be read is not."""
        permissions = self._permissions(path, whose)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(descriptor, "rb", buffering=0) as opened:
                found = os.fstat(descriptor)
                mode = file.mode_within(permissions.file_mode)
                if not stat.S_ISREG(found.st_mode) or not permissions.are_of(descriptor, mode):
                    return False
                parts = file.read_parts()
                return found.st_size == sum(part.size for part in parts) and _holds(opened, parts)
        except OSError:
            return False

    def _replace(self, generation: int, scopes: list[ProjectedScope], indexes: Mapping[str, bytes], now: float) -> None:
        """A full disk costs the old generations first, and then the new one, never the present one."""
        self.generations.current()  # FilesError before anything is written
        try:
            self._write(generation, scopes, indexes, now)
        except OSError as error:
            if FAULTS.get(error.errno or 0) is not FilesFault.FILES_FULL:
                raise
            self.generations.drop_old()
            self._write(generation, scopes, indexes, now)

    def _write(self, generation: int, scopes: list[ProjectedScope], indexes: Mapping[str, bytes], now: float) -> None:
        whose = self._whose(scopes)
        kept = {scope.scope: self._find_kept(scope, whose) for scope in scopes}
        new = [size for scope in scopes for size in kept[scope.scope].sizes_of_the_others(scope)]
        own = sum(map(on_disk, [*new, *map(len, indexes.values())]))
        self.generations.make_room(own, now)
        label = self._next_label(generation)
        with self.generations.fresh(label) as folder:
            found = self._fill(folder, scopes, whose, kept, now)
            self._fill_indexes(folder, indexes, whose)
        names = sum(len(scope.signed_sections) + len(scope.others) for scope in scopes)
        self.generations.use(label, FolderSize(names, own))
        if any(self._given.get(place, permissions) != permissions for place, permissions in whose.items()):
            self.generations.drop_old()  # they are for whom these are not any more
        if self._signed.keys() - kept.keys():
            self._former = FormerFolders()  # none stays beyond its time with what is not to be shown any more
        made = [_successor(scope, whose[folder_of(scope.scope)], kept[scope.scope]) for scope in scopes]
        self._former.note(label, made, self.generations.labels(), found)
        self._signed = {scope.scope: scope.signed_sections for scope in scopes}
        self._others = {path: file.identity() for scope in scopes for path, file in scope.others.items()}
        self._given, self._present, self._index = {**whose}, label, indexes[INDEX]

    def _fill(
        self,
        folder: int,
        scopes: list[ProjectedScope],
        whose: Mapping[str, Permissions],
        kept: Mapping[str, Kept],
        now: float,
    ) -> dict[str, tuple[int, FormerFile | None]]:
        """Written, or linked from the present folder; or a former one that is over, brought up. By scope, when a file
        came to its folder or went last, and its large file.
        """
        over = self.generations.next_over(now) if self._present is not None else None
        behind: dict[str, Set[str]] = {}
        for scope in scopes:
            successor = _successor(scope, whose[folder_of(scope.scope)], kept[scope.scope])
            if (sections := self._former.behind(over, successor)) is not None:
                behind[scope.scope] = sections
        with self._open(self._present) as before, self._take_out(over if behind else None) as former:
            for scope in scopes:
                permissions, has = whose[folder_of(scope.scope)], kept[scope.scope]
                if over is not None and scope.scope in behind and _is_moved(folder_of(scope.scope), former, folder):
                    was = FormerScope(former, behind[scope.scope], *self._former.facts(over, scope.scope))
                    self.generations.give_back(bring_up_scope(folder, scope, permissions, has, was, before))
                else:
                    write_scope(folder, scope, permissions, has, before)
        for place in {above for scope in scopes for above in scope.shared_places}:
            with open_place(folder, place) as made:
                whose[place].give(made, whose[place].folder_mode)
        return {scope.scope: (_made_at(folder, scope), _large_file(folder, scope)) for scope in scopes}

    def _open(self, label: str | None) -> contextlib.AbstractContextManager[int]:
        return self.generations.open_folder(label) if label is not None else contextlib.nullcontext(-1)

    @contextlib.contextmanager
    def _take_out(self, label: str | None) -> Iterator[int]:
        """The folder that the next swap is the end of; none where what lies there is no folder of ours: it is to go,
        and holds up nothing.
        """
        with contextlib.ExitStack() as opened:
            former = -1
            if label is not None:
                with contextlib.suppress(OSError, FilesError):
                    former = opened.enter_context(self.generations.take_out(label))
            yield former

    def _fill_indexes(self, folder: int, indexes: Mapping[str, bytes], whose: Mapping[str, Permissions]) -> None:
        if INDEXES in whose:
            os.mkdir(INDEXES, 0o700, dir_fd=folder)
        for path, data in indexes.items():
            permissions = self._permissions(path, whose)
            write_file(folder, path, (data,), permissions, permissions.file_mode)
        if INDEXES in whose:
            with open_place(folder, INDEXES) as made:
                whose[INDEXES].give(made, whose[INDEXES].folder_mode)

    def _find_kept(self, scope: ProjectedScope, whose: Mapping[str, Permissions]) -> Kept:
        """What is there with the same bytes and mode, and for the same readers."""
        place, before = folder_of(scope.scope), self._signed.get(scope.scope, {})
        but_sections, gone = None, frozenset[str]()
        if self._given.get(place) == whose[place]:
            changed = differing(before, scope.signed_sections)
            but_sections = changed & scope.signed_sections.keys()
            gone = changed - but_sections
        former = {path: self._others[path] for path in scope.others if path in self._others}
        files = {path for path, file in scope.others.items() if self._has(path, file, whose)}
        return Kept(but_sections, gone, files, former)

    def _has(self, path: str, file: ProjectedFile, whose: Mapping[str, Permissions]) -> bool:
        place = path.rpartition("/")[0] or path
        return self._others.get(path) == file and self._given.get(place) == whose[place]

    def _next_label(self, generation: int) -> str:
        """Unused, also by another process before this one."""
        taken = self.generations.labels()
        while (label := f"{generation}.{self._count}") in taken:
            self._count += 1
        return label


def _successor(scope: ProjectedScope, permissions: Permissions, kept: Kept) -> Successor:
    changed = None if kept.but_sections is None else kept.but_sections | kept.gone
    return Successor(scope.scope, scope.signed_sections.keys(), permissions, changed)


def _made_at(folder: int, scope: ProjectedScope) -> int:
    return os.stat(folder_of(scope.scope), dir_fd=folder).st_mtime_ns


def _large_file(folder: int, scope: ProjectedScope) -> FormerFile | None:
    """That which a later generation may be made of."""
    for path, file in scope.others.items():
        if file.editor is not None and (shape := file.editor.shape) is not None:
            return FormerFile.at(path, folder, shape)
    return None


def _is_moved(place: str, former: int, folder: int) -> bool:
    """False where there is none of before."""
    if former < 0:
        return False
    try:
        os.rename(place, place, src_dir_fd=former, dst_dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def _entry_of(data: bytes) -> SectionEntry:
    return SectionEntry(hashlib.sha256(data).hexdigest(), len(data))


def _folder_of_index(name: str) -> str:
    """Of the scope whose index this file is."""
    stem = name.removesuffix(".json")
    return stem.replace("@", "/", 1) if stem.startswith(f"{CONFIG}@") else stem


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


def _but(lost: Set[str], sections: Mapping[str, SectionEntry]) -> Mapping[str, SectionEntry]:
    """Those of the sections that are not lost; where none is, the same mapping, which others hold as well."""
    return {name: entry for name, entry in sections.items() if name not in lost} if lost else sections


def _holds(file: io.FileIO, parts: Iterable[SectionEntry]) -> bool:
    """Whether it is these parts and no more."""
    return all(_sha256(file, part.size) == part.sha256 for part in parts) and not file.read(1)


def _sha256(file: io.FileIO, size: int) -> str:
    digest = hashlib.sha256()
    while size and (piece := file.read(min(size, PIECE_BYTES))):
        digest.update(piece)
        size -= len(piece)
    return digest.hexdigest()


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
