"""How the members of a message are read, strictly, and written.

A form reads a JSON value into ours and writes it back. What is out of form is named by its place, never quoted.
Its `schema` (JSON Schema 2020-12) says the same to others: `docs/openapi-*.yaml` are made of them.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Generic, TypeVar, dataclass_transform

from snapshot.identifiers import MAX_INTEGER, format_time, is_hash, is_id, is_integer, parse_scope, parse_time

DEPTH = 16

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")

T = TypeVar("T")

Schema = Mapping[str, object]


class BadMessageError(ValueError):
    """A message out of form (rules K53: `bad_request`)."""


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """`read` takes the value and its place, for the error."""

    read: Callable[[object, str], T]
    write: Callable[[T], object]
    schema: Schema


def parse_json(data: bytes, most: int, depth: int = DEPTH) -> object:
    """Strict JSON, canonical or not: at most `most` bytes, `depth` containers open at once, no name twice, no NaN,
    no integer beyond 2^53-1, no float.
    """
    if len(data) > most:
        raise BadMessageError(f"more than {most} bytes")
    try:
        return json.loads(
            _shallow(data.decode(), depth),
            object_pairs_hook=_unique,
            parse_int=_integer,
            parse_float=_no_number,
            parse_constant=_no_number,
        )
    except BadMessageError:
        raise
    except (ValueError, RecursionError) as error:
        raise BadMessageError("not JSON") from error


def _shallow(text: str, depth: int) -> str:
    """The text, unless it is nested deeper. Looked at before parsing, brackets outside of strings alone."""
    if text.count("[") + text.count("{") <= depth:
        return text
    opened = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        opened += 1 if bracket in "[{" else -1
        if opened > depth:
            raise BadMessageError("nested too deep")
    return text


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise BadMessageError("a member name given twice")
    return value


def _integer(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > MAX_INTEGER:
        raise BadMessageError("an integer beyond 2^53-1")
    return int(text)


def _no_number(text: str) -> object:
    raise BadMessageError("a number that is no integer")


def _same(value: object) -> object:
    return value


def _that(accepts: Callable[[object], bool], description: str, schema: Schema) -> Form[Any]:
    def read(value: object, place: str) -> object:
        if not accepts(value):
            raise BadMessageError(f"{place} must be {description}")
        return value

    return Form(read, _same, schema)


_ID_PATTERN = r"^(?!.*\.\.)[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$"
_SCOPE_PATTERN = r"^[a-z_]+(/[a-z0-9][a-z0-9._,-]*)?$"
_TIME_PATTERN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"

IDENTIFIER: Form[str] = _that(is_id, "an identifier", {"type": "string", "pattern": _ID_PATTERN})
HASH: Form[str] = _that(is_hash, "sha256: and 64 hex digits", {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"})
BOOLEAN: Form[bool] = _that(lambda value: isinstance(value, bool), "true or false", {"type": "boolean"})


def integer(least: int = 0, most: int = MAX_INTEGER) -> Form[int]:
    def accepts(value: object) -> bool:
        return isinstance(value, int) and is_integer(value, least) and value <= most

    schema = {"type": "integer", "minimum": least, "maximum": most}
    return _that(accepts, f"an integer from {least} to {most}", schema)


def text(most: int, least: int = 0) -> Form[str]:
    """Printable characters alone: no controls, no NUL, no unpaired surrogates (rules K53)."""

    def accepts(value: object) -> bool:
        return isinstance(value, str) and least <= len(value) <= most and value.isprintable()

    schema = {"type": "string", "minLength": least, "maxLength": most}
    return _that(accepts, f"{least} to {most} printable characters", schema)


def one_of(*words: str) -> Form[str]:
    schema = {"type": "string", "enum": list(words)}
    return _that(lambda value: isinstance(value, str) and value in words, f"one of {', '.join(words)}", schema)


def _read_time(value: object, place: str) -> int:
    try:
        return parse_time(value)
    except ValueError as error:
        raise BadMessageError(f"{place} must be a time, YYYY-MM-DDTHH:MM:SSZ") from error


TIME: Form[int] = Form(_read_time, format_time, {"type": "string", "format": "date-time", "pattern": _TIME_PATTERN})


def _read_scope(value: object, place: str) -> str:
    try:
        parse_scope(value)
    except ValueError as error:
        raise BadMessageError(f"{place} must be a scope") from error
    return str(value)


SCOPE: Form[str] = Form(_read_scope, _same, {"type": "string", "pattern": _SCOPE_PATTERN})


def binary(most: int) -> Form[bytes]:
    """Standard base64, padded, of at most `most` bytes."""

    def read(value: object, place: str) -> bytes:
        try:
            if not isinstance(value, str) or len(value) > 4 * (most // 3 + 1):
                raise BadMessageError(f"{place} must be base64 of at most {most} bytes")
            return base64.b64decode(value.encode("ascii"), validate=True)
        except (UnicodeEncodeError, binascii.Error) as error:
            raise BadMessageError(f"{place} must be base64") from error

    schema = {"type": "string", "contentEncoding": "base64", "maxLength": 4 * (most // 3 + 1)}
    return Form(read, lambda value: base64.b64encode(value).decode(), schema)


def nullable(form: Form[T]) -> Form[T | None]:
    return Form(
        lambda value, place: None if value is None else form.read(value, place),
        lambda value: None if value is None else form.write(value),
        {"anyOf": [form.schema, {"type": "null"}]},
    )


def array(form: Form[T], most: int) -> Form[tuple[T, ...]]:
    def read(value: object, place: str) -> tuple[T, ...]:
        if not isinstance(value, list) or len(value) > most:
            raise BadMessageError(f"{place} must be an array of at most {most}")
        return tuple(form.read(item, f"{place}[{index}]") for index, item in enumerate(value))

    schema = {"type": "array", "items": form.schema, "maxItems": most}
    return Form(read, lambda value: [form.write(item) for item in value], schema)


def table(name: Form[str], form: Form[T], most: int) -> Form[Mapping[str, T]]:
    """An object whose member names are data."""

    def read(value: object, place: str) -> Mapping[str, T]:
        if not isinstance(value, dict) or len(value) > most:
            raise BadMessageError(f"{place} must be an object of at most {most} members")
        return {
            name.read(key, f"a name in {place}"): form.read(item, f"a member of {place}") for key, item in value.items()
        }

    schema = {
        "type": "object",
        "propertyNames": name.schema,
        "additionalProperties": form.schema,
        "maxProperties": most,
    }
    return Form(read, lambda value: {key: form.write(item) for key, item in value.items()}, schema)


def member(form: Form[Any], *, default: object = MISSING) -> Any:  # noqa: ANN401 - as dataclasses.field
    """A member of a message; `default=None` for one that may be absent."""
    return field(default=default, metadata={"form": form})


@dataclass_transform(frozen_default=True, field_specifiers=(member,))
def message(cls: type[T]) -> type[T]:
    """A frozen dataclass whose fields are members."""
    return dataclass(frozen=True)(cls)


def record(cls: type[T]) -> Form[T]:
    """A closed object: exactly the members of the dataclass."""
    members: dict[str, Field[Any]] = {each.name: each for each in fields(cls)}  # type: ignore[arg-type]
    required = {name for name, each in members.items() if each.default is MISSING}

    def read(value: object, place: str) -> T:
        if not isinstance(value, dict):
            raise BadMessageError(f"{place} must be an object")
        if not required <= value.keys() <= members.keys():
            missing = sorted(required - value.keys())
            raise BadMessageError(f"{place} lacks {missing}" if missing else f"{place} has an unknown member")
        given = {name: members[name].metadata["form"].read(item, name) for name, item in value.items()}
        return cls(**given)

    def write(message: T) -> object:
        values = {name: getattr(message, name) for name in members}
        return {
            name: members[name].metadata["form"].write(value)
            for name, value in values.items()
            if value is not None or name in required
        }

    schema = {
        "type": "object",
        "title": cls.__name__,
        "properties": {name: each.metadata["form"].schema for name, each in members.items()},
        "required": sorted(required),
        "additionalProperties": False,
    }
    return Form(read, write, schema)
