"""Files that come all together or not at all, though the process may be gone at any moment (rules J34, P7).

A note names them before the first is written. It goes last; whoever finds one that was left removes what it names,
unless what the files are for was done. Each purpose has a note of its own: nobody clears up after another.

Root makes a coordinator, whose account then owns the directory. So root works there as that account (acting.py), keeps
its own note where nobody else can put or move one (`note_in`), and believes only one that it has written.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from coordinator.base.refusal import Code, Refused
from coordinator.keys import keystore, signing_key
from coordinator.keys.acting import as_owner_of, is_roots_alone
from coordinator.keys.signing_key import SigningKey

_NOTE_END = "end"

Files = Sequence[tuple[Path, Callable[[Path], None]]]
"""Each writes itself, in this order."""


def note_in(state: Path, roots_own: Path | None, name: str) -> Path:
    """In `state`; for root, where that is another account's, in a directory of its own if there is one."""
    is_ours = os.geteuid() != 0 or is_roots_alone(state)
    place = state if is_ours or roots_own is None or not is_roots_alone(roots_own) else roots_own
    return place.absolute() / name


@contextmanager
def directories(state: Path, others: Sequence[Path]) -> Iterator[None]:
    """`state` is there, and ours alone; what is new of it and of the others goes again when nothing comes of it."""
    absolute = [folder.absolute() for folder in (state, *others)]
    new = {parent for place in absolute for parent in (place, *place.parents) if not parent.exists()}
    try:
        with as_owner_of(state):
            keystore.own_directory(state)
        yield
    except BaseException:
        for directory in sorted(new, key=lambda each: len(each.parts), reverse=True):
            with as_owner_of(directory.parent), suppress(OSError):  # never made, or somebody has put something there
                directory.rmdir()
        raise


@contextmanager
def together(note: Path, files: Files, is_done: Callable[[], bool]) -> Iterator[None]:
    """They are there in the block, and after it if `is_done`. Refused where one of them is there already."""
    for path, _ in files:
        if path.exists() or path.is_symlink():
            raise Refused(Code.ALREADY_INITIALISED, f"{path} is there already", remedy="move it away first")
    try:
        _note(note, [path.absolute() for path, _ in files])
        _write(files)
        yield
    finally:
        clear_up(note, is_done)


def clear_up(note: Path, is_done: Callable[[], bool]) -> None:
    """The note goes; where nothing came of it, so does all that it names."""
    if not os.path.lexists(note):
        return
    if not is_done():
        lines = _own(note).split("\n")
        for line in lines if lines[-1] == _NOTE_END else ():  # a note half written came before all else
            _remove(line)
    with as_owner_of(note.parent):
        note.unlink()
        keystore.sync_directory(note.parent)


def _own(note: Path) -> str:
    """What it says. Refused where another account has put it there, or a link."""
    try:
        descriptor = os.open(note, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _not_ours(note, error.strerror or "it cannot be read") from None
    with os.fdopen(descriptor) as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
            raise _not_ours(note, "it is another account's, or has a second name")
        return file.read()


def _not_ours(note: Path, why: str) -> Refused:
    remedy = "nothing that it names was removed: look at it, remove it, and repeat as the account that began"
    return Refused(Code.BAD_REQUEST, f"{note} was not left by this account: {why}", remedy=remedy)


def key_file(key: SigningKey, passphrase: bytes | None = None) -> Callable[[Path], None]:
    return lambda path: signing_key.write_file(path, key, passphrase)


def plain_file(data: bytes, mode: int = 0o600) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)

    return write


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """The whole file, whether or not one was there, or what was there before; on the disk when this returns."""
    beside = path.with_name(f".{path.name}.new")
    with as_owner_of(path.parent):
        beside.unlink(missing_ok=True)
        plain_file(data, mode)(beside)
        beside.replace(path)
        keystore.sync_directory(path.parent)


def _note(note: Path, files: Sequence[Path]) -> None:
    """What is about to be written, on the disk before any of it: files, then directories that are new."""
    new = {path.parent for path in files if not path.parent.exists()}
    named = [*map(_without_links, files), *(f"{_without_links(path)}/" for path in sorted(new))]
    lines = [*map(str, named), _NOTE_END]
    keystore.own_directory(note.parent)
    plain_file("\n".join(lines).encode())(note)
    keystore.sync_directory(note.parent)


def _write(files: Files) -> None:
    for path, write in files:
        with as_owner_of(path.parent):
            keystore.own_directory(path.parent)
            write(path)
    for directory in {path.parent for path, _ in files}:
        with as_owner_of(directory):
            keystore.sync_directory(directory)


def _without_links(path: Path) -> Path:
    """The place itself, whatever led there."""
    return path.parent.resolve() / path.name


def _remove(line: str) -> None:
    path = Path(line)
    if line == _NOTE_END or _without_links(path) != path:
        return
    with as_owner_of(path.parent):
        if line.endswith("/"):
            with suppress(OSError):  # not empty: somebody else's files are there
                path.rmdir()
        else:
            with suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
