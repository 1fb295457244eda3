"""The files in which state is declared: the text of each, or everything that keeps some of them from being read.

A directory stands for every `*.yaml` and `*.yml` below it, links followed. Hidden names are passed over: editors,
version control and tools keep files of their own there. Nothing else is: what were left out silently, `--prune` would
delete.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from coordinator.base.refusal import bound_text
from coordinator.declared import yaml_source
from coordinator.declared.resources import DeclaredProblem, InvalidResources

SUFFIXES = (".yaml", ".yml")
MAX_FILE_BYTES = 16 << 20
FILE = "(file)"  # the field of what is wrong with a file as a whole

_KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


class _Unreadable(Exception):
    """What is wrong with a file, and the remedy."""

    def __init__(self, message: str, remedy: str, line: int = 1) -> None:
        super().__init__(message)
        self.message, self.remedy, self.line = message, remedy, line


def read(places: Iterable[Path]) -> dict[str, str]:
    """File name -> text, of files and directories, as problems will name them; InvalidResources with all of them."""
    problems: list[DeclaredProblem] = []
    texts: dict[str, str] = {}
    for place in places:
        for path in _files(place, problems):
            try:
                texts[str(path)] = _text(path)
            except _Unreadable as error:
                problems.append(_problem(path, error))
    if problems:
        raise InvalidResources(problems)
    return texts


def _files(path: Path, problems: list[DeclaredProblem], around: Sequence[os.stat_result] = ()) -> Iterator[Path]:
    """The files that a place stands for; `around`: the directories that it was reached through."""
    try:
        found = _stat(path)
        inside = _list(path, found, around) if stat.S_ISDIR(found.st_mode) else None
    except _Unreadable as error:
        problems.append(_problem(path, error))
        return
    if inside is None:
        yield path
        return
    for place in inside:
        yield from _files(place, problems, (*around, found))


def _stat(path: Path) -> os.stat_result:
    """Of a file or a directory."""
    try:
        found = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            message = f"a link to {path.readlink()}, which is not there"
            raise _Unreadable(message, "restore what it leads to, or remove the link") from None
        raise _Unreadable("is gone", "run this again") from None
    except OSError as error:
        raise _unreadable(error) from None
    kind = _KINDS.get(stat.S_IFMT(found.st_mode))
    if kind is not None:
        raise _Unreadable(f"is {kind}, not a file", "put a file in its place, or remove it")
    return found


def _list(directory: Path, found: os.stat_result, around: Sequence[os.stat_result]) -> list[Path]:
    if any(os.path.samestat(found, folder) for folder in around):
        raise _Unreadable("leads back to a directory around it", "remove the link")
    try:
        return sorted(path for path in directory.iterdir() if _is_meant(path))
    except OSError as error:
        raise _unreadable(error) from None


def _is_meant(path: Path) -> bool:
    """Also a link to nowhere, whatever its name: nobody knows whether it was a directory."""
    if path.name.startswith("."):
        return False
    leads_nowhere = path.is_symlink() and not os.path.exists(path)  # noqa: PTH110 - Path's raises for a loop
    return path.suffix.lower() in SUFFIXES or leads_nowhere or os.path.isdir(path)  # noqa: PTH112 - and for what may not be looked at


def _text(path: Path) -> str:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise _Unreadable("its name is not UTF-8", "rename it") from None
    data = _bytes(path)
    try:
        text = data.decode()
        yaml_source.check_characters(text)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _Unreadable("is not UTF-8", "save it as UTF-8", line) from None
    except yaml_source.UnreadableYaml as error:  # a request of JSON does not carry it
        raise _Unreadable(error.message, error.remedy, error.line) from None
    return text


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _unreadable(error) from None
    if len(data) > MAX_FILE_BYTES:
        raise _Unreadable(f"is larger than {MAX_FILE_BYTES >> 20} MiB", "split it")
    return data


def _unreadable(error: OSError) -> _Unreadable:
    return _Unreadable(f"cannot be read: {error.strerror}", "let this user read it, or move it elsewhere")


def _problem(path: Path, error: _Unreadable) -> DeclaredProblem:
    shown, message = (bound_text(text, 4_096) for text in (str(path), error.message))  # names are any bytes
    return DeclaredProblem(shown, error.line, FILE, message, error.remedy)
