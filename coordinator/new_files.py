"""Files that come all together or not at all, though the process may be gone at any moment (rules J34, P7).

A note names them before the first is written. It goes last; whoever finds one that was left removes what it names,
unless what the files are for was done. Each purpose has a note of its own: nobody clears up after another.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from coordinator import custody, signing_key
from coordinator.refusal import Code, Refused
from coordinator.signing_key import SigningKey

_NOTE_END = "end"

Files = Sequence[tuple[Path, Callable[[Path], None]]]
"""Each writes itself, in this order."""


@contextmanager
def directories(state: Path, others: Sequence[Path]) -> Iterator[None]:
    """`state` is there, and ours alone; what is new of it and of the others goes again when nothing comes of it."""
    absolute = [each.absolute() for each in (state, *others)]
    new = {each for place in absolute for each in (place, *place.parents) if not each.exists()}
    try:
        custody.own_directory(state)
        yield
    except BaseException:
        for directory in sorted(new, key=lambda each: len(each.parts), reverse=True):
            with suppress(OSError):  # never made, or somebody has put something there
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
    if not note.exists():
        return
    if not is_done():
        lines = note.read_text().split("\n")
        for line in lines if lines[-1] == _NOTE_END else ():  # a note half written came before all else
            _remove(line)
    note.unlink()
    custody.sync_directory(note.parent)


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


def _note(note: Path, files: Sequence[Path]) -> None:
    """What is about to be written, on the disk before any of it: files, then directories that are new."""
    new = {path.parent for path in files if not path.parent.exists()}
    lines = [*map(str, files), *(f"{path}/" for path in sorted(new)), _NOTE_END]
    plain_file("\n".join(lines).encode())(note)
    custody.sync_directory(note.parent)


def _write(files: Files) -> None:
    for path, write in files:
        is_new = not path.parent.exists()
        custody.own_directory(path.parent)
        if is_new:
            custody.give_to_owner_of(path.parent.parent, path.parent)
        write(path)
        custody.give_to_owner_of(path.parent, path)
    for directory in {path.parent for path, _ in files}:
        custody.sync_directory(directory)


def _remove(line: str) -> None:
    path = Path(line)
    if line.endswith("/"):
        with suppress(OSError):  # not empty: somebody else's files are there
            path.rmdir()
    elif line != _NOTE_END:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
