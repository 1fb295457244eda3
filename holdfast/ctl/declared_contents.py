"""Files that declared Configs name: read beside their YAML file, and uploaded where the coordinator has not got them.

    read(texts)             each file by the name that it is uploaded under, or all that keeps some from being read
    upload(asked, files)    the parts that are missing, with a bar for what takes a while

A file is found by its path from the YAML file's folder and may not leave that folder, neither by its path nor by a
link: whoever applies as root what others have written would otherwise hand out /etc/shadow. It is hashed when it is
read and again when it is sent: one that changes meanwhile is refused, since nobody can say which state was meant.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from coordinator.base.refusal import Code, Refused, bound_text
from coordinator.configs import part_bodies
from coordinator.configs.config_files import content_name
from coordinator.declared import contents, yaml_source
from coordinator.declared.contents import PART_BYTES
from coordinator.declared.kinds import PARTS, Config
from coordinator.declared.resources import DeclaredProblem, InvalidResources
from coordinator.declared.yaml_source import UnreadableYaml, YamlDocument
from holdfast.ctl import output
from holdfast.ctl.socket import CoordinatorClient
from wire.operators.operator_answers import KeptParts, MissingParts
from wire.operators.operator_messages import ASKED_MAX, ContentSummary, MissingRequest

SHOWN_FROM = 1 << 20
TEXTS_REMEMBERED = 64
_MEMBERS = ("file", "schema")
Seen = tuple[int, int, int, int]  # what of a file is another once it was written to


@dataclass(frozen=True)
class ReadFile:
    """A file as it was read: where it lies, and its parts."""

    path: Path
    size: int
    parts: tuple[str, ...]
    seen: Seen

    def summary(self) -> ContentSummary:
        """As an apply names it."""
        return ContentSummary(self.size, self.parts)


class UnusableContentError(Exception):
    """What is wrong with a file, and the remedy."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy


def read(texts: Mapping[str, str]) -> dict[str, ReadFile]:
    """InvalidResources with all that is wrong; what is wrong with the YAML itself, the coordinator says."""
    found: dict[str, ReadFile] = {}
    problems: list[DeclaredProblem] = []
    for yaml_file, document, at, path in _wanted_files(texts):
        name = content_name(yaml_file, path)
        try:
            if name not in found:
                found[name] = read_file(Path(yaml_file).parent, path)
        except UnusableContentError as error:
            said = bound_text(".".join(map(str, at)), 1_024)
            file = bound_text(yaml_file, 1_024)
            problems.append(
                DeclaredProblem(file, document.line(at), said, bound_text(error.message, 1_024), error.remedy)
            )
    if problems:
        raise InvalidResources(problems)
    return found


def without_contents(texts: Mapping[str, str]) -> dict[str, str]:
    """Those that declare: what a Config delivers may be YAML as well, of another program."""
    named = {os.path.normpath(content_name(file, path)) for file, _, _, path in _wanted_files(texts)}
    return {name: text for name, text in texts.items() if os.path.normpath(name) not in named}


class PartReader:
    """The parts of files that were read, and of what the YAML says itself, by hash: for who asks no coordinator."""

    def __init__(self, files: Iterable[ReadFile]) -> None:
        self.said: dict[str, bytes] = {}
        self._places = {part: (file, index) for file in files for index, part in enumerate(file.parts)}

    @property
    def parts(self) -> Set[str]:
        return self._places.keys()

    def __contains__(self, sha256: object) -> bool:
        return sha256 in self.said or sha256 in self._places

    def __call__(self, sha256: str) -> bytes:
        if sha256 in self.said:
            return self.said[sha256]
        file, index = self._places[sha256]
        try:
            return _part(file, index)
        except UnusableContentError as error:
            raise _failure(file, error) from None


def _wanted_files(texts: Mapping[str, str]) -> Iterator[tuple[str, YamlDocument, yaml_source.Path, str]]:
    """YAML file, document, place and path of each file that is named."""
    for yaml_file in sorted(texts):
        if Config.KIND not in texts[yaml_file]:
            continue
        for document in _documents(texts[yaml_file]):
            yield from ((yaml_file, document, at, path) for at, path in _named_files(document.value))


@lru_cache(maxsize=TEXTS_REMEMBERED)
def _documents(text: str) -> tuple[YamlDocument, ...]:
    """None of what cannot be read. YAML takes longer to read than all that it names, and is asked for twice."""
    try:
        return tuple(yaml_source.documents(text))
    except UnreadableYaml:
        return ()


def _named_files(value: object) -> Iterator[tuple[yaml_source.Path, str]]:
    """In a Config; what is out of form there, the coordinator says."""
    spec = value.get("spec") if isinstance(value, dict) and value.get("kind") == Config.KIND else None
    files = spec.get("files") if isinstance(spec, dict) else None
    for path, file in files.items() if isinstance(files, dict) else ():
        for member in _MEMBERS:
            name = file.get(member) if isinstance(file, dict) else None
            if isinstance(name, str) and name:
                yield ("spec", "files", path, member), name


def read_file(folder: Path, path: str) -> ReadFile:
    """UnusableContentError where it is not beside the YAML file, or no plain file, or changes."""
    place = _within(folder, path)
    with _open_plain(place) as file:
        before = _identity(file.fileno())
        if before[0] > PARTS * PART_BYTES:
            raise UnusableContentError(f"is larger than {PARTS} MiB", "split it")
        hashes: list[str] = []
        size = 0
        while (part := file.read(PART_BYTES)) or not hashes:
            hashes.append(contents.digest(part))
            size += len(part)
            if size > before[0]:
                raise _change_error()
        if _identity(file.fileno()) != before or size != before[0]:
            raise _change_error()
    return ReadFile(place, size, tuple(hashes), before)


def _within(folder: Path, path: str) -> Path:
    """Where it lies, links followed."""
    if path.startswith("/") or ".." in path.split("/"):
        raise UnusableContentError(
            f"{path} leaves the folder of this file", "put it beside this file, or in a folder there"
        )
    try:
        inside = os.path.realpath(folder, strict=True)  # of thousands of files: Path's takes twice as long
        place = os.path.realpath(f"{folder}/{path}", strict=True)
    except FileNotFoundError:
        raise UnusableContentError(f"{path} is not there", "put it beside this file, or correct the path") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise UnusableContentError(f"{path} cannot be read: {error}", "correct the path, or its rights") from None
    if os.path.commonpath((inside, place)) != inside:
        raise UnusableContentError(f"{path} is a link that leaves the folder of this file", "put the file itself there")
    return Path(place)


def _open_plain(place: Path) -> BinaryIO:
    """A plain file: nothing that waits, and no link that was put there since."""
    try:
        found = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UnusableContentError(f"{place} cannot be read: {error.strerror}", "let this user read it") from None
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise UnusableContentError(f"{place} is not a plain file", "put a file in its place")
    return os.fdopen(found, "rb")


def _identity(descriptor: int) -> Seen:
    found = os.fstat(descriptor)
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def _change_error() -> UnusableContentError:
    return UnusableContentError("changes while it is read", "let whoever writes it finish, then run this again")


def upload(asked: CoordinatorClient, files: Mapping[str, ReadFile]) -> None:
    """What is missing, each part once, many in a body. One that breaks off has changed nothing: run it again, and it
    goes on.
    """
    missing = _missing(asked, sorted({part for file in files.values() for part in file.parts}))
    if not missing:
        return
    total = sum(size for file in files.values() for part, size in _part_sizes(file) if part in missing)
    with output.progress(total if total >= SHOWN_FROM else 0) as progress:
        task = progress.add_task("upload", total=total)
        parts = (part for file in files.values() for part in _read_again(file, missing))
        for body, size in part_bodies.join(parts):
            asked.send(KeptParts, "contents", content=body, media_type=part_bodies.MEDIA_TYPE)
            progress.advance(task, size)


def _missing(asked: CoordinatorClient, hashes: list[str]) -> set[str]:
    found: set[str] = set()
    for start in range(0, len(hashes), ASKED_MAX):
        some = MissingRequest(tuple(hashes[start : start + ASKED_MAX]))
        found.update(asked.post(MissingParts, "contents", "missing", body=some).missing)
    return found


def _part_sizes(file: ReadFile) -> Iterable[tuple[str, int]]:
    return zip(file.parts, contents.sizes(file.size), strict=True)


def _read_again(file: ReadFile, missing: set[str]) -> Iterator[bytes]:
    """The parts that are missing, and no longer are once they are sent."""
    for index, sha256 in enumerate(file.parts):
        if sha256 in missing:
            try:
                yield _part(file, index)
            except UnusableContentError as error:
                raise _failure(file, error) from None
            missing.discard(sha256)


def _part(file: ReadFile, index: int) -> bytes:
    """As it was read before, or UnusableContentError."""
    with _open_plain(file.path) as opened:
        opened.seek(index * PART_BYTES)
        part = opened.read(PART_BYTES)
    if contents.digest(part) != file.parts[index]:
        raise _change_error()
    return part


def _failure(file: ReadFile, error: UnusableContentError) -> Refused:
    where = bound_text(str(file.path), 1_024)
    return Refused(Code.BAD_REQUEST, f"{where} {error.message}", remedy=f"{error.remedy}; nothing was changed")
