"""The forms that a declared value may have: how it is read, what is wrong with it, how it is described.

A form reads a plain value (from YAML or from the database) into an immutable one and reports every fault that it finds,
each with the path of the member and a remedy. docs/resources.md is made from the same objects.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Protocol

from snapshot import canonical
from snapshot.identifiers import is_endpoint, is_id

Path = tuple[str | int, ...]

_HOST_PORT = re.compile(r"([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\]):([1-9][0-9]{0,4})", re.ASCII)
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\]", re.ASCII)


@dataclass(frozen=True)
class FieldFault:
    """One thing wrong with a declared value."""

    path: Path
    message: str
    remedy: str


class FieldForm(Protocol):
    """`read` gives the immutable value, or None after it has reported at least one fault."""

    @property
    def description(self) -> str: ...

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object: ...


@dataclass(frozen=True)
class Scalar:
    """A value that one test decides."""

    description: str
    accepts: Callable[[object], bool]

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object:
        if self.accepts(value):
            return value
        faults.append(FieldFault(path, f"must be {self.description}", "correct the value"))
        return None


@dataclass(frozen=True)
class OneOf:
    words: tuple[str, ...]

    @property
    def description(self) -> str:
        return "one of " + ", ".join(f"`{word}`" for word in self.words)

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object:
        if value in self.words:
            return value
        near = difflib.get_close_matches(str(value), self.words, 1)
        remedy = f"did you mean {near[0]}?" if near else "choose one of " + ", ".join(self.words)
        faults.append(FieldFault(path, f"must be {self.description}".replace("`", ""), remedy))
        return None


@dataclass(frozen=True)
class ListForm:
    """A list; as a set it is kept sorted, and nothing may stand in it twice."""

    each: FieldForm
    most: int
    is_set: bool = True

    @property
    def description(self) -> str:
        what = "set" if self.is_set else "list"
        return f"a {what} of at most {self.most}, each {self.each.description}"

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object:
        if not isinstance(value, (list, tuple)):
            faults.append(FieldFault(path, "must be a list", "write [a, b] or one line with `- ` for each"))
            return None
        if len(value) > self.most:
            faults.append(FieldFault(path, f"has {len(value)} entries", f"at most {self.most} are allowed"))
            return None
        read = [self.each.read(each, (*path, index), faults) for index, each in enumerate(value)]
        if not self.is_set or any(each is None for each in read):
            return tuple(read)
        for index, each in enumerate(read):
            if each in read[:index]:
                faults.append(FieldFault((*path, index), f"{each} stands here twice", "remove one of them"))
        return tuple(sorted(set(map(str, read))))


@dataclass(frozen=True)
class MappingForm:
    """A mapping from ids to values of one form, kept in the order of the ids."""

    each: FieldForm
    most: int

    @property
    def description(self) -> str:
        return f"a mapping of at most {self.most} ids, each to {self.each.description}"

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object:
        if not isinstance(value, Mapping):
            faults.append(FieldFault(path, "must be a mapping", "write `name: value` lines"))
            return None
        if len(value) > self.most:
            faults.append(FieldFault(path, f"has {len(value)} entries", f"at most {self.most} are allowed"))
            return None
        for name in value:
            if not is_id(name):
                faults.append(FieldFault((*path, str(name)), "the name must be an id", ID_REMEDY))
        return {name: self.each.read(value[name], (*path, name), faults) for name in sorted(value, key=str)}


@dataclass(frozen=True)
class Open:
    """Any JSON object, bounded: services bring their own settings (format.md 7)."""

    most_bytes: int
    depth: int = 16

    @property
    def description(self) -> str:
        return f"any mapping of at most {self.most_bytes} bytes as JSON; a secret only as `{{secret_ref: ...}}`"

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object:
        if not isinstance(value, Mapping):
            faults.append(FieldFault(path, "must be a mapping", "write `name: value` lines"))
            return None
        try:
            size = len(canonical.dumps(value))
        except ValueError as error:
            faults.append(FieldFault(path, str(error), "write it as text, in quotes"))
            return None
        if size > self.most_bytes:
            faults.append(FieldFault(path, f"has {size} bytes as JSON", f"at most {self.most_bytes} are allowed"))
            return None
        return value


@dataclass(frozen=True)
class RecordForm:
    """A closed mapping that becomes a dataclass, whose fields were made by `member`."""

    of: type[Any]

    @property
    def description(self) -> str:
        return "a mapping: " + ", ".join(f"`{each.name}`" for each in fields(self.of))

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object:
        return self.read_as(value, path, faults)

    def read_as(self, value: object, path: Path, faults: list[FieldFault], **given: object) -> Any:  # noqa: ANN401 - it is whatever class `of` is
        """As `read`, with the values of fields that no member declares."""
        before = len(faults)
        if not isinstance(value, Mapping):
            faults.append(FieldFault(path, "must be a mapping", "write `name: value` lines"))
            return None
        known = {each.name: each for each in members(self.of)}
        faults += _unknown(value, known, path)
        read = {name: _member(each, value, path, faults) for name, each in known.items()}
        return None if len(faults) > before else self.of(**given, **read)


def member(form: FieldForm, about: str, default: object = MISSING) -> Any:  # noqa: ANN401 - as dataclasses.field
    """A field of a declared resource. Without a default it must be given."""
    metadata = {"form": form, "about": about}
    if default is MISSING:
        return field(metadata=metadata)
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def members(of: type[Any]) -> Iterable["Field[Any]"]:
    """The fields that are declared in the specification (`id` is not one)."""
    return [each for each in fields(of) if "form" in each.metadata]


def is_required(each: "Field[Any]") -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def default_of(each: "Field[Any]") -> object:
    return each.default if each.default_factory is MISSING else each.default_factory()


def _unknown(value: Mapping[Any, object], known: Mapping[str, object], path: Path) -> list[FieldFault]:
    faults = []
    for name in value:
        if name not in known:
            near = difflib.get_close_matches(str(name), list(known), 1)
            remedy = f"did you mean {near[0]}?" if near else "known members: " + ", ".join(known)
            faults.append(FieldFault((*path, str(name)), "is not a member of this", remedy))
    return faults


def _member(each: "Field[Any]", value: Mapping[str, object], path: Path, faults: list[FieldFault]) -> object:
    if each.name in value:
        return each.metadata["form"].read(value[each.name], (*path, each.name), faults)
    if is_required(each):
        faults.append(FieldFault((*path, each.name), "is missing", f"add it: {each.metadata['about']}"))
        return None
    return default_of(each)


ID_REMEDY = "1 to 64 of a-z 0-9 . _ -, beginning and ending with a letter or digit"
IDENTIFIER = Scalar("an id", is_id)
BOOLEAN = Scalar("`true` or `false`", lambda value: isinstance(value, bool))
ENDPOINT = Scalar("`https://host:port`", is_endpoint)


def text(most: int) -> Scalar:
    return Scalar(
        f"text of at most {most} printable characters",
        lambda value: isinstance(value, str) and len(value) <= most and (value.isprintable() or not value),
    )


def words(most: int) -> Scalar:
    return Scalar(
        f"text of 1 to {most} printable characters, not all of them spaces",
        lambda value: isinstance(value, str) and len(value) <= most and value.isprintable() and bool(value.strip()),
    )


def integer(least: int, most: int) -> Scalar:
    return Scalar(f"an integer from {least} to {most}", lambda value: type(value) is int and least <= value <= most)


def _is_host_port(value: object) -> bool:
    match = _HOST_PORT.fullmatch(value) if isinstance(value, str) else None
    return match is not None and int(match[2]) <= 65_535


HOST_PORT = Scalar("`host:port`", _is_host_port)
HOST = Scalar("a host name or address", lambda value: isinstance(value, str) and bool(_HOST.fullmatch(value)))
