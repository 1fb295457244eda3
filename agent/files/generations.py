"""Folders that are replaced as a whole: complete ones side by side, and one symlink that says which is in use.

    <root>/<name>                    the symlink: what readers open
    <root>/.<name>.generations/N     complete folders; those that are no longer in use stay for readers for a while

A folder is made under a name of its own and never changed once the link points to it, until it is over. A crash at any
step leaves the link on a whole folder; what was begun is swept away at the next start. A reader that opened the folder,
or a file in it, keeps what it has; a file also after the folder was collected.

All of it is done by descriptor, from the root down, and no link is followed: whoever could put one in the place of a
folder would choose whose files get our mode, and whose are removed.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence, Set
from dataclasses import field
from enum import StrEnum
from itertools import accumulate, islice
from pathlib import Path

from agent.access.access import Readers
from agent.files.access_lists import access_list, list_of, set_list
from snapshot.codes import CATALOGUE, Area
from snapshot.frozen import frozen, mutable

KEPT = 2  # folders before the present one that always stay
MOST_KEPT = 64
MOST_BYTES = 1 << 30
# Of all of them. A tmpfs counts each link as an inode, and /run has 800,000 for all programs of the machine: a scope of
# 10,000 sections that changes each second would take them within its minute.
MOST_NAMES = 100_000
# Of those that are over, kept since the next ones are made of them (former_folders.py), while there is plenty of room.
MOST_SPARES, MOST_SPARE_NAMES = 4, 50_000
SPARE_S = 3600.0
SPARE_SHARE = 8  # of the bytes that are allowed, and of those that are free there
FREE_INODES = 0.25  # of the file system: with fewer there are no spares
BLOCK_BYTES = 4096
ROOT_UID = 0
OVER = ".over-"  # the name of a folder that is taken apart begins so
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FilesFault(StrEnum):
    UNSAFE_DIRECTORY = "unsafe_directory"
    NOT_OURS = "not_ours"
    NO_ACCESS_LISTS = "no_access_lists"
    FILES_FULL = "files_full"
    FILES_IO = "files_io"


class FilesError(Exception):
    """The files cannot be brought up to date. `fault` is stable; the text names the path and the remedy."""

    def __init__(self, fault: FilesFault, detail: str) -> None:
        super().__init__(f"{fault}: {detail}; {CATALOGUE[Area.FILES][fault].clause}")
        self.fault = fault


@frozen
class Permissions:
    """Of files and of folders. `gid` None: the process's own group. With `readers` the group has nothing, and each of
    them what the mode gives the group.
    """

    file_mode: int = 0o640
    folder_mode: int = 0o750
    gid: int | None = None
    readers: Readers | None = None

    def give(self, descriptor: int, mode: int) -> None:
        if self.gid is not None:
            os.fchown(descriptor, -1, self.gid)
        set_list(descriptor, b"")  # else the mode would be that of the list
        os.fchmod(descriptor, mode)
        if self.readers is not None:
            set_list(descriptor, access_list(self.readers, mode))

    def are_of(self, descriptor: int, mode: int) -> bool:
        found = os.fstat(descriptor)
        gid = os.getegid() if self.gid is None else self.gid
        wanted = b"" if self.readers is None else access_list(self.readers, mode)
        is_ours = found.st_uid == os.geteuid() and found.st_gid == gid and stat.S_IMODE(found.st_mode) == mode
        return is_ours and list_of(descriptor) == wanted


@frozen
class FolderSize:
    """Of a folder: how many files, and the bytes on disk of those that it did not have from the one before."""

    names: int
    own_bytes: int


NOTHING = FolderSize(0, 0)


@mutable
class Generations:
    """One writer. `grace_s`: how long a folder stays after it was replaced, at least, while there is room for it."""

    root: Path
    name: str
    permissions: Permissions
    grace_s: float = 60.0
    most_bytes: int = MOST_BYTES
    _retired: dict[str, float] = field(default_factory=dict)
    _sizes: dict[str, FolderSize] = field(default_factory=dict)  # of each folder that this process has made
    _at_most: int | None = None  # bytes that there are on disk, no more; None: nobody has looked

    @property
    def link(self) -> Path:
        return self.root / self.name

    @property
    def folder(self) -> Path:
        return self.root / f".{self.name}.generations"

    def current(self) -> str | None:
        """The label of the folder in use."""
        with self._root() as root:
            return self._current(root)

    def stands(self, label: str, file: str) -> bool:
        """The link is there and leads to this folder, which holds this file."""
        try:
            with self.open_folder(label) as folder, self._root() as root:
                found = os.stat(file, dir_fd=folder, follow_symlinks=False)
                return os.readlink(self.name, dir_fd=root) == self._target(label) and stat.S_ISREG(found.st_mode)
        except OSError:
            return False

    def prepare(self) -> None:
        """At start, and when they were taken away: the folders exist, and what a crash left half made is gone."""
        if not os.path.lexists(self.root):  # under the unit systemd has made it
            self.root.mkdir(parents=True)
            with self._root() as root:
                os.fchmod(root, 0o755)
        with self._root() as root:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.folder.name, 0o700, dir_fd=root)
            for name in _beginning(f".{self.name}.link-", root):
                _remove(name, root)
        with self._folders() as folders:
            if not self.permissions.are_of(folders, mode := self.permissions.folder_mode):
                self.permissions.give(folders, mode)  # not otherwise: for a moment nobody may come by
            for name in (*_beginning(".new-", folders), *_beginning(OVER, folders)):
                _remove(name, folders)

    @contextlib.contextmanager
    def open_folder(self, label: str) -> Iterator[int]:
        """A complete folder, as a descriptor."""
        with self._folders() as folders, _open_folder(label, self.folder / label, folders) as folder:
            yield folder

    @contextlib.contextmanager
    def take_out(self, label: str) -> Iterator[int]:
        """A complete folder, as a descriptor, to be taken apart. It is none of them from now on, so whatever fails
        then, none of them lacks anything; what is left of it goes with those that are over.
        """
        with self._folders() as folders, _open_folder(label, self.folder / label, folders) as folder:
            os.rename(label, f"{OVER}{label}", src_dir_fd=folders, dst_dir_fd=folders)
            yield folder

    @contextlib.contextmanager
    def fresh(self, label: str) -> Iterator[int]:
        """A new folder to fill; it has its final place when the block ends, and nobody reads it until `use`."""
        making = f".new-{label}"
        with self._folders() as folders:
            _remove(making, folders)
            os.mkdir(making, 0o700, dir_fd=folders)
            try:
                with _open_folder(making, self.folder / making, folders) as folder:
                    yield folder
                    self.permissions.give(folder, self.permissions.folder_mode)
                os.rename(making, label, src_dir_fd=folders, dst_dir_fd=folders)
            except BaseException:
                _remove(making, folders)
                raise

    def use(self, label: str, size: FolderSize) -> None:
        """The one step that readers see."""
        temporary = f".{self.name}.link-{label}"
        with self._root() as root:
            self._current(root)  # FilesError while nothing has been touched
            _remove(temporary, root)
            os.symlink(self._target(label), temporary, dir_fd=root)
            os.rename(temporary, self.name, src_dir_fd=root, dst_dir_fd=root)
        self._sizes[label] = size

    def labels(self) -> set[str]:
        with self._folders() as folders:
            return {name for name in _names(folders) if not name.startswith(".")}

    def make_room(self, needed: int, now: float) -> None:
        """For files of so many bytes on disk: old folders go before the new one is begun, those that are over first.
        FilesError if that does not do. All that was ever let in bounds what is there, so the files are gone through
        only where that does not fit: else each new folder of 10,000 files would wait for a look at every file of every
        folder.
        """
        if self._at_most is None or self._at_most + needed > self.most_bytes:
            self._at_most = self._bytes()
        if self._at_most + needed > self.most_bytes and self.collect(now):
            self._at_most = self._bytes()
        if self._at_most + needed > self.most_bytes:
            self.drop_old()
            self._at_most = self._bytes()
        if self._at_most + needed > self.most_bytes:
            held = self._at_most
            text = f"{self.folder} holds {held} bytes and is to hold {needed} more: {self.most_bytes} are allowed"
            raise FilesError(FilesFault.FILES_FULL, text)
        self._at_most += needed

    def give_back(self, unneeded: int) -> None:
        """Of what there was room made for: bytes that were there already."""
        if self._at_most is not None:
            self._at_most -= unneeded

    def drop_old(self) -> None:
        """All but the folder in use; who has opened one keeps it."""
        self.collect(0.0, all_of_them=True)

    def take_away(self) -> None:
        """The link, and then every folder."""
        with self._root() as root:
            if self._current(root) is not None:
                _remove(self.name, root)
        self.drop_old()

    def next_over(self, now: float) -> str | None:
        """The youngest folder that the next swap is the end of, by `collect` with this `now`, and whose readers have
        had their time: none that goes before, since there are too many.
        """
        return next(
            (label for place, label in enumerate(self._by_age(now), 1) if self._is_outlived(place, label, now)), None
        )

    def collect(self, now: float, *, spared: Set[str] = frozenset(), all_of_them: bool = False) -> int:
        """Removes folders that were replaced; how many. `now` may come from any clock that does not go back. Of those
        that are over a few of the `spared` stay.
        """
        by_age = self._by_age(now)
        counted = accumulate((self._size(label).names for label in by_age), initial=self._size(self.current()).names)
        spares = set() if all_of_them else self._spares(by_age, spared, now)
        gone = [
            label
            for index, (label, names) in enumerate(zip(by_age, islice(counted, 1, None), strict=True))
            if all_of_them
            or (label not in spares and self._is_over(index, label, now))
            or (index >= KEPT and names > MOST_NAMES)
        ]
        with self._folders() as folders:
            for label in gone:
                _remove(label, folders)
                self._retired.pop(label, None)
            for name in _beginning(OVER, folders):
                _remove(name, folders)
        return len(gone)

    def _spares(self, by_age: Sequence[str], spared: Set[str], now: float) -> set[str]:
        """The youngest, as far as there is room for them that nobody else has a use for."""
        found, names, own_bytes = set[str](), 0, 0
        most_bytes = self._spare_bytes() if spared else 0
        for index, label in enumerate(by_age[:MOST_KEPT]):
            if label not in spared or not self._is_outlived(index, label, now):
                continue
            size = self._size(label)
            names, own_bytes = names + size.names, own_bytes + size.own_bytes
            is_too_much = names > MOST_SPARE_NAMES or own_bytes > most_bytes
            if len(found) == MOST_SPARES or is_too_much or now >= self._retired[label] + self.grace_s + SPARE_S:
                break
            found.add(label)
        return found

    def _spare_bytes(self) -> int:
        """None where inodes are scarce. What a file system does not count, it has plenty of."""
        with self._root() as root:
            found = os.fstatvfs(root)
        if found.f_files and found.f_favail < found.f_files * FREE_INODES:
            return 0
        free = found.f_bavail * found.f_frsize if found.f_blocks else self.most_bytes
        return min(self.most_bytes, free) // SPARE_SHARE

    def _by_age(self, now: float) -> list[str]:
        """Those that were replaced, the youngest first."""
        present = self.labels()
        old = present - {self.current()}
        self._retired = {label: self._retired.get(label, now) for label in old}
        self._sizes = {label: size for label, size in self._sizes.items() if label in present}
        return sorted(old, key=lambda label: (self._retired[label], label), reverse=True)

    def _size(self, label: str | None) -> FolderSize:
        return self._sizes.get(label, NOTHING) if label is not None else NOTHING

    def _is_over(self, index: int, label: str, now: float) -> bool:
        return index >= MOST_KEPT or self._is_outlived(index, label, now)

    def _is_outlived(self, index: int, label: str, now: float) -> bool:
        return index >= KEPT and now >= self._retired[label] + self.grace_s

    def _target(self, label: str) -> str:
        return f"{self.folder.name}/{label}"

    def _current(self, root: int) -> str | None:
        try:
            return Path(os.readlink(self.name, dir_fd=root)).name
        except FileNotFoundError:
            return None
        except OSError:
            raise FilesError(FilesFault.NOT_OURS, f"{self.link} is no symlink of ours") from None

    def _root(self) -> contextlib.AbstractContextManager[int]:
        """As of the socket's directory: ours or root's, and writable by its owner alone."""
        return _open_folder(self.root, self.root, owners=(ROOT_UID, os.geteuid()), others_write=0o022)

    @contextlib.contextmanager
    def _folders(self) -> Iterator[int]:
        with self._root() as root, _open_folder(self.folder.name, self.folder, root) as folders:
            yield folders

    def _bytes(self) -> int:
        """On disk, of all folders; what is linked counts once."""
        with self._folders() as folders:
            sizes = {found.st_ino: found.st_size for found in _files_below(folders)}
        return sum(map(on_disk, sizes.values()))


def on_disk(size: int) -> int:
    """Of a file of this size: whole blocks, and one for its entry."""
    return (size // BLOCK_BYTES + 2) * BLOCK_BYTES


@contextlib.contextmanager
def _open_folder(
    name: str | Path,
    path: Path,
    within: int | None = None,
    *,
    owners: tuple[int, ...] | None = None,
    others_write: int = 0,
) -> Iterator[int]:
    """A directory's descriptor, checked after it was opened; `path` is what it is called where something is amiss."""
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=within)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        raise FilesError(FilesFault.UNSAFE_DIRECTORY, f"{path} is a link, or no directory") from None
    try:
        found = os.fstat(descriptor)
        if found.st_uid not in (owners or (os.geteuid(),)) or found.st_mode & others_write:
            words = f"uid {found.st_uid}, mode {stat.S_IMODE(found.st_mode):04o}"
            raise FilesError(FilesFault.UNSAFE_DIRECTORY, f"{path} is not safe ({words})")
        yield descriptor
    finally:
        os.close(descriptor)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as found:
        return [entry.name for entry in found]


def _beginning(start: str, folder: int) -> list[str]:
    return [name for name in _names(folder) if name.startswith(start)]


def _remove(name: str, within: int) -> None:
    """Whatever it is; a link itself, and never what it leads to."""
    try:
        found = os.stat(name, dir_fd=within, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(found.st_mode):
        _remove_folder(name, within)
    else:
        os.unlink(name, dir_fd=within)


def _remove_folder(name: str, within: int) -> None:
    """With all below it. `shutil.rmtree` makes a path of each name as well, which takes a third longer."""
    folder = os.open(name, _FOLDER, dir_fd=within)
    try:
        with os.scandir(folder) as found:
            inside = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        for entry_name, is_folder in inside:
            if is_folder:
                _remove_folder(entry_name, folder)
            else:
                os.unlink(entry_name, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=within)


def _files_below(folder: int) -> Iterator[os.stat_result]:
    for _, _, names, at in os.fwalk(".", dir_fd=folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                yield os.stat(name, dir_fd=at, follow_symlinks=False)
