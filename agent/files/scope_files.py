"""The files of one scope in a new generation: written, linked from the present one, or those of a folder of before.

    write_scope      all of them
    bring_up_scope   where its own folder is one that was taken (former_folders.py): what it is behind in; and a large
                     file beside it likewise (former_files.py)
    write_file       one file, a piece at a time

All by descriptor, and no link is followed (generations.py).
"""

import contextlib
import errno
import os
from collections.abc import Container, Iterable, Iterator, Mapping, Set
from dataclasses import field

from agent.files.entry_pieces import CopiedPiece, Piece
from agent.files.former_files import FormerFile, take_file, write_pieces
from agent.files.generations import Permissions, on_disk
from agent.files.layout import ProjectedFile, ProjectedScope, folder_of
from snapshot.frozen import frozen

SUFFIX = ".json"  # of the file that is a section


@frozen
class Kept:
    """Of a scope: what the present folder has already. Its sections but those of these names, None for none at all;
    other files by path. `gone`: sections that it has beyond those. `former`: what it has in the place of others.
    """

    but_sections: Set[str] | None = None
    gone: Set[str] = frozenset()
    files: Set[str] = frozenset()
    former: Mapping[str, ProjectedFile] = field(default_factory=dict)

    def sizes_of_the_others(self, scope: ProjectedScope) -> Iterator[int]:
        """In bytes, of the files that it has not."""
        signed = scope.signed_sections
        names = signed if self.but_sections is None else self.but_sections
        yield from (signed[name].size for name in names)
        yield from (file.size for path, file in scope.others.items() if path not in self.files)


NOTHING = Kept()


@frozen
class FormerScope:
    """What a former generation has of a scope: in `folder`, a descriptor; behind in these sections. `made_at`: when its
    own folder was. `file`: its large file.
    """

    folder: int
    behind: Set[str]
    made_at: int
    file: FormerFile | None = None


def write_scope(
    folder: int, scope: ProjectedScope, permissions: Permissions, kept: Kept = NOTHING, before: int = -1
) -> None:
    """The files of a scope below `folder`; those that are kept are linked from below `before`. Both are descriptors."""
    _make_folders(folder, scope)
    if scope.signed_sections:
        _write_signed(folder, scope, permissions, kept, before)
    _write_others(folder, scope, permissions, kept, before)


def bring_up_scope(
    folder: int, scope: ProjectedScope, permissions: Permissions, kept: Kept, former: FormerScope, before: int
) -> int:
    """Likewise, where its own folder is there: one of before. OSError where that is not what it was when it was made:
    with other rights, or at another time. The bytes on disk of a file that was there as well.
    """
    place, signed = folder_of(scope.scope), scope.signed_sections
    others = signed.keys() if kept.but_sections is None else kept.but_sections
    _make_folders(folder, scope)
    with open_place(folder, place) as inside, open_place(before, place) as outside:
        if not permissions.are_of(inside, permissions.folder_mode):
            raise OSError(errno.EIO, f"{place} of a former generation has other rights than it was made with")
        if os.fstat(inside).st_mtime_ns != former.made_at:
            raise OSError(errno.EIO, f"{place} of a former generation has other files than it was made with")
        for section in former.behind:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{section}{SUFFIX}", dir_fd=inside)
        behind = [section for section in former.behind if section in signed]
        _write_sections(inside, outside, scope, behind, others, permissions)
    return _write_others(folder, scope, permissions, kept, before, former)


def _make_folders(folder: int, scope: ProjectedScope) -> None:
    for place in (*sorted(scope.shared_places), *scope.folders):
        with contextlib.suppress(FileExistsError):  # the one that all configs have in common, or all services
            os.mkdir(place, 0o700, dir_fd=folder)


def _write_others(
    folder: int,
    scope: ProjectedScope,
    permissions: Permissions,
    kept: Kept,
    before: int,
    former: FormerScope | None = None,
) -> int:
    """Those that are no sections; then all of its folders are as they are to be. The bytes on disk that were there."""
    taken = 0
    for path, file in scope.others.items():
        held = kept.former.get(path)
        if path in kept.files:
            os.link(path, path, src_dir_fd=before, dst_dir_fd=folder, follow_symlinks=False)
        elif former is not None and _is_brought_up(folder, scope, path, permissions, held, former):
            taken += on_disk(former.file.size) if former.file is not None else 0
        else:
            mode = file.mode_within(permissions.file_mode)
            write_file(folder, path, file.pieces(scope.read, held), permissions, mode, before)
    for place in reversed(scope.folders):
        with open_place(folder, place) as made:
            permissions.give(made, permissions.folder_mode)
    return taken


def _is_brought_up(
    folder: int,
    scope: ProjectedScope,
    path: str,
    permissions: Permissions,
    held: ProjectedFile | None,
    former: FormerScope,
) -> bool:
    """Whether the file is there now, that of before with what it was behind in."""
    file, was = scope.others[path], former.file
    if was is None or held is None or file.editor is None:
        return False
    mode = file.mode_within(permissions.file_mode)
    with take_file(path, former.folder, folder, was, permissions, mode) as descriptor:
        if descriptor is not None:
            pieces = file.editor.patch(scope.read, held.parts[0], was.shape, former.behind)
            if pieces is not None:
                write_pieces(descriptor, pieces)
                return True
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path, dir_fd=folder)
    return False


def _write_signed(folder: int, scope: ProjectedScope, permissions: Permissions, kept: Kept, before: int) -> None:
    place = folder_of(scope.scope)
    others = scope.signed_sections.keys() if kept.but_sections is None else kept.but_sections
    held = open_place(before, place) if len(others) < len(scope.signed_sections) else contextlib.nullcontext(-1)
    with open_place(folder, place) as inside, held as outside:
        _write_sections(inside, outside, scope, scope.signed_sections, others, permissions)


def _write_sections(
    inside: int,
    outside: int,
    scope: ProjectedScope,
    sections: Iterable[str],
    others: Container[str],
    permissions: Permissions,
) -> None:
    """By names within the two folders: of tens of thousands each saves the way there."""
    link = os.link
    for section in sections:
        name = section + SUFFIX
        if section not in others:
            link(name, name, src_dir_fd=outside, dst_dir_fd=inside, follow_symlinks=False)
        else:
            write_file(inside, name, (scope.read(section),), permissions, permissions.file_mode)


def write_file(
    folder: int, path: str, pieces: Iterable[Piece], permissions: Permissions, mode: int, before: int = -1
) -> None:
    """A piece at a time: a file may be larger than what is held in memory. What is copied is of the same path below
    `before`.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600, dir_fd=folder)
    try:
        for piece in pieces:
            if isinstance(piece, CopiedPiece):
                copy_piece(descriptor, piece, before, path)
                continue
            view = memoryview(piece)
            while view:
                view = view[os.write(descriptor, view) :]
        permissions.give(descriptor, mode)
    finally:
        os.close(descriptor)


def copy_piece(descriptor: int, piece: CopiedPiece, before: int, path: str) -> None:
    """By the kernel alone. A file that has become shorter is an error of the disk: the next round makes all anew."""
    former = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=before)
    try:
        offset, end = piece.offset, piece.offset + piece.size
        while offset < end:
            copied = os.sendfile(descriptor, former, offset, end - offset)
            if not copied:
                raise OSError(errno.EIO, f"{path} has become shorter")
            offset += copied
    finally:
        os.close(former)


@contextlib.contextmanager
def open_place(folder: int, place: str) -> Iterator[int]:
    """A descriptor of a folder below `folder`, never through a link."""
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
