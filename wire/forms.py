"""How the members of a message are read, strictly, and written.

A form judges a JSON value, reads it into ours and writes it back. `takes` alone gives the verdict; `fault` finds the
words for a refusal, and asks it: the member by its place, what was found by its kind, what there should be. Nothing
that was sent is quoted (threats D-55, D-59). The `schema` (JSON Schema 2020-12) says the same to others:
`docs/openapi-*.yaml` are made of them.

Configurations and declared resources are judged by the same forms, and refused in words of their own, since a person
reads those: `agent/config/toml_form.py`, `coordinator/base/settings.py`, `coordinator/declared/fields.py`.
"""

import base64
import binascii
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast, dataclass_transform

from snapshot.frozen import frozen
from snapshot.identifiers import (
    MAX_INTEGER,
    format_time,
    is_endpoint,
    is_hash,
    is_host,
    is_host_port,
    is_id,
    parse_scope,
    parse_time,
)
from wire.strict_json import BadMessageError

MESSAGE = "the message"  # the place of a whole one
MOST_SCOPES = 1024  # remembered: reports name the same ones again and again
MOST_DAYS = 1024
PATH_MAX = 4096  # as the kernel has it

_FIRST_TIME, _LAST_TIME = parse_time("2020-01-01T00:00:00Z"), parse_time("2200-12-31T23:59:59Z")
_HALF = re.compile("[\ud800-\udfff]")
_CLOCK = re.compile(r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z", re.ASCII)

T = TypeVar("T")

Schema = Mapping[str, object]
Judge = Callable[[object], bool]


def _same(value: Any) -> Any:  # noqa: ANN401 - of any form
    return value


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """`takes`: whether a value is in form. `fault`: what is wrong with one that it does not take, at its place.
    `make`: ours, of one that it takes. `known_part`: any value without members that a later version may have added.
    """

    takes: Judge
    fault: Callable[[object, str], str]
    make: Callable[[Any], T]
    write: Callable[[T], object]
    schema: Schema
    known_part: Callable[[object], object] = _same

    def check(self, value: object, place: str) -> None:
        """BadMessageError for what is out of form."""
        if not self.takes(value):
            raise BadMessageError(self.fault(value, place))

    def read(self, value: object, place: str) -> T:
        """Ours; BadMessageError."""
        self.check(value, place)
        return self.make(value)


def kind_of(value: object) -> str:
    """What kind of value it is, in words for its sender."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int():
            return "an integer" if abs(value) <= MAX_INTEGER else "an integer beyond 2^53-1"
        case str():
            return f"a text of {len(value)} characters{'' if value.isprintable() else ', not all of them printable'}"
        case list():
            return f"an array of {len(value)}"
        case dict():
            return f"an object of {len(value)} members"
        case _:
            return "a number with a fraction"


def _that(takes: Judge, description: str, schema: Schema) -> Form[Any]:
    """A value that is ours as it is."""
    return Form(takes, _must_be(description), _same, _same, schema)


def _must_be(description: str) -> Callable[[object, str], str]:
    return lambda value, place: f"{place} must be {description}, and is {kind_of(value)}"


_ID_PATTERN = r"^(?!.*\.\.)[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$"
_SCOPE_PATTERN = r"^[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._,-]*)?$"
_TIME_PATTERN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"
_STAMP = re.compile(_TIME_PATTERN[1:-1], re.ASCII)

IDENTIFIER: Form[str] = _that(is_id, "an identifier", {"type": "string", "pattern": _ID_PATTERN})
ENDPOINT: Form[str] = _that(
    is_endpoint,
    "https://host:port and nothing more",
    {"type": "string", "maxLength": 320, "pattern": r"^https://[^/?#@]+:[1-9][0-9]{0,4}$"},
)


HOST_PORT: Form[str] = _that(is_host_port, "host:port", {"type": "string", "maxLength": 320})
HOST: Form[str] = _that(is_host, "a host name or address", {"type": "string", "maxLength": 253})


def hexadecimal(digits: int) -> Form[str]:
    """So many digits, lower case."""
    pattern = f"[0-9a-f]{{{digits}}}"
    found = re.compile(pattern, re.ASCII)
    schema = {"type": "string", "pattern": f"^{pattern}$"}
    return _that(
        lambda value: isinstance(value, str) and found.fullmatch(value) is not None, f"{digits} hex digits", schema
    )


HASH: Form[str] = _that(is_hash, "sha256: and 64 hex digits", {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"})
DIGEST = hexadecimal(64)
BOOLEAN: Form[bool] = _that(lambda value: value is True or value is False, "true or false", {"type": "boolean"})

NUMBER: Form[float] = _that(
    lambda value: type(value) is int or (type(value) is float and math.isfinite(value)), "a number", {"type": "number"}
)
ANYTHING: Form[object] = _that(lambda _: True, "any value", {})


def integer(least: int = 0, most: int = MAX_INTEGER) -> Form[int]:
    schema = {"type": "integer", "minimum": least, "maximum": most}
    return _that(
        lambda value: type(value) is int and least <= value <= most, f"an integer from {least} to {most}", schema
    )


def text(most: int, least: int = 0) -> Form[str]:
    """Printable characters alone: no controls, no NUL, no unpaired surrogates (rules K53)."""

    def takes(value: object) -> bool:
        return isinstance(value, str) and least <= len(value) <= most and value.isprintable()

    schema = {"type": "string", "minLength": least, "maxLength": most}
    return _that(takes, f"{least} to {most} printable characters", schema)


def _is_content(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value and (value.isascii() or _HALF.search(value) is None)


PATH: Form[str] = _that(
    lambda value: isinstance(value, str) and value.startswith("/") and len(value) <= PATH_MAX and value.isprintable(),
    f"an absolute path of at most {PATH_MAX} printable characters",
    {"type": "string", "pattern": "^/", "maxLength": PATH_MAX},
)

CONTENT: Form[str] = _that(_is_content, "a text without NUL and half characters", {"type": "string"})
"""Of any length and on several lines, as a file has it (rules P23: no database keeps those two)."""


def one_of(*words: str) -> Form[str]:
    known = frozenset(words)
    schema = {"type": "string", "enum": list(words)}
    return _that(lambda value: isinstance(value, str) and value in known, f"one of {', '.join(words)}", schema)


OTHER = "other"


def word_of(*words: str) -> Form[str]:
    """One of a list that later releases add to: a word that is not known here is read as `other`, and its message is
    not refused for it.
    """
    known = frozenset(words)
    schema = {"anyOf": [{"type": "string", "enum": list(words)}, IDENTIFIER.schema]}
    return Form(IDENTIFIER.takes, IDENTIFIER.fault, lambda word: word if word in known else OTHER, _same, schema)


def _is_time(value: object) -> bool:
    """As parse_time judges; a report has many times of few days."""
    return isinstance(value, str) and _CLOCK.fullmatch(value, 10) is not None and _is_day(value[:10])


@lru_cache(maxsize=MOST_DAYS)
def _is_day(text: str) -> bool:
    try:
        parse_time(f"{text}T00:00:00Z")
    except ValueError:
        return False
    return True


def _write_time(seconds: float) -> str:
    """What a clock showed that was never set is written as the first time that there is: no reader takes another, and
    one such event in a journal would keep all reports of its node from being read.
    """
    return format_time(min(max(seconds, _FIRST_TIME), _LAST_TIME))


TIME: Form[int] = Form(
    _is_time,
    _must_be("a time of the years 2020 to 2200, YYYY-MM-DDTHH:MM:SSZ"),
    parse_time,
    _write_time,
    {"type": "string", "format": "date-time", "pattern": _TIME_PATTERN},
)


TIMESTAMP: Form[str] = _that(
    lambda value: isinstance(value, str) and _STAMP.fullmatch(value) is not None,
    "a time, YYYY-MM-DDTHH:MM:SSZ",
    {"type": "string", "format": "date-time", "pattern": _TIME_PATTERN},
)
"""As text, of any year: to be shown."""


@lru_cache(maxsize=MOST_SCOPES)
def _is_scope(text: str) -> bool:
    try:
        parse_scope(text)
    except ValueError:
        return False
    return True


SCOPE: Form[str] = _that(
    lambda value: isinstance(value, str) and _is_scope(value), "a scope", {"type": "string", "pattern": _SCOPE_PATTERN}
)


def binary(most: int) -> Form[bytes]:
    """Standard base64, padded, of at most `most` bytes."""
    length = 4 * (most // 3 + 1)

    def takes(value: object) -> bool:
        if not isinstance(value, str) or len(value) > length:
            return False
        try:
            return len(make(value)) <= most
        except (UnicodeEncodeError, binascii.Error):
            return False

    def make(value: str) -> bytes:
        return base64.b64decode(value.encode("ascii"), validate=True)

    return Form(
        takes,
        _must_be(f"base64 of at most {most} bytes"),
        make,
        lambda value: base64.b64encode(value).decode(),
        {"type": "string", "contentEncoding": "base64", "maxLength": length},
    )


def nullable(form: Form[T]) -> Form[T | None]:
    """The form, or null."""
    inner = form.takes
    return Form(
        lambda value: value is None or inner(value),
        form.fault,
        lambda value: None if value is None else form.make(value),
        lambda value: None if value is None else form.write(value),
        {"anyOf": [form.schema, {"type": "null"}]},
        form.known_part,
    )


def array(form: Form[T], most: int | None = None) -> Form[tuple[T, ...]]:
    """Items of one form, at most so many; a fault names the place of the first that is none."""
    inner, wanted = form.takes, _must_be("an array" if most is None else f"an array of at most {most}")
    bound = MAX_INTEGER if most is None else most

    def takes(value: object) -> bool:
        return isinstance(value, list) and len(value) <= bound and all(map(inner, value))

    def fault(value: object, place: str) -> str:
        items = value if isinstance(value, list) and len(value) <= bound else ()
        wrong = (form.fault(item, f"{place}[{index}]") for index, item in enumerate(items) if not inner(item))
        return next(wrong, wanted(value, place))

    schema = {"type": "array", "items": form.schema, **({} if most is None else {"maxItems": most})}
    return Form(
        takes,
        fault,
        lambda value: tuple(map(form.make, value)),
        lambda value: [form.write(item) for item in value],
        schema,
        lambda value: list(map(form.known_part, value)) if isinstance(value, list) else value,
    )


def table(name: Form[str], form: Form[T], most: int | None = None) -> Form[Mapping[str, T]]:
    """An object whose member names are data."""
    names, inner = name.takes, form.takes
    wanted = _must_be("an object" if most is None else f"an object of at most {most} members")
    bound = MAX_INTEGER if most is None else most

    def takes(value: object) -> bool:
        return (
            isinstance(value, dict)
            and len(value) <= bound
            and all(map(names, value))
            and all(map(inner, value.values()))
        )

    def fault(value: object, place: str) -> str:
        if not isinstance(value, dict) or len(value) > bound:
            return wanted(value, place)
        for key, item in value.items():
            if not names(key):
                return name.fault(key, f"a name in {place}")
            if not inner(item):
                return form.fault(item, f"a member of {place}")
        return wanted(value, place)

    schema = {
        "type": "object",
        "propertyNames": name.schema,
        "additionalProperties": form.schema,
        **({} if most is None else {"maxProperties": most}),
    }
    return Form(
        takes,
        fault,
        lambda value: {key: form.make(item) for key, item in value.items()},
        lambda value: {key: form.write(item) for key, item in value.items()},
        schema,
        lambda value: {key: form.known_part(item) for key, item in value.items()} if isinstance(value, dict) else value,
    )


def tagged_record(tag: str, classes: Mapping[str, type[Any]]) -> Form[Any]:
    """An object of one of several classes; its member `tag` says of which."""
    known, names = one_of(*classes), {cls: name for name, cls in classes.items()}
    forms = {name: record(cls) for name, cls in classes.items()}

    def takes(value: object) -> bool:
        return isinstance(value, dict) and known.takes(value.get(tag)) and forms[value[tag]].takes(_without(value))

    def fault(value: object, place: str) -> str:
        if not isinstance(value, dict) or tag not in value:
            return f"{place} must be an object with a member {tag}, and is {kind_of(value)}"
        if not known.takes(value[tag]):
            return known.fault(value[tag], f"{place}.{tag}")
        return forms[value[tag]].fault(_without(value), place)

    def write(message: object) -> object:
        name = names[type(message)]
        return {tag: name, **cast(Mapping[str, object], forms[name].write(message))}

    def _without(value: Mapping[str, object]) -> Mapping[str, object]:
        return {name: item for name, item in value.items() if name != tag}

    return Form(
        takes,
        fault,
        lambda value: forms[value[tag]].make(_without(value)),
        write,
        {"oneOf": [_with_tag(form.schema, tag, name) for name, form in forms.items()]},
    )


def _with_tag(schema: Schema, tag: str, name: str) -> Schema:
    members, required = cast(Schema, schema["properties"]), cast(list[str], schema["required"])
    return {**schema, "properties": {tag: {"const": name}, **members}, "required": [tag, *required]}


def member(form: Form[Any], *, default: object = MISSING, kw_only: bool = False) -> Any:  # noqa: ANN401 - as field
    """A member of a message; `default=None` for one that may be absent, by name alone where others follow it."""
    return field(default=default, metadata={"form": form}, kw_only=kw_only)


@dataclass_transform(frozen_default=True, field_specifiers=(member,))
def message(cls: type[T]) -> type[T]:
    """A frozen dataclass whose fields are members."""
    return frozen(cls)


_RECORDS: dict[type, Form[Any]] = {}


def record(cls: type[T]) -> Form[T]:
    """A closed object: exactly the members of the dataclass. Made once of each class."""
    if cls not in _RECORDS:
        _RECORDS[cls] = _record(cls)
    return _RECORDS[cls]


def _record(cls: type[T]) -> Form[T]:
    members: dict[str, Field[Any]] = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    hints = {} if all("form" in member.metadata for member in members.values()) else typing.get_type_hints(cls)
    forms: dict[str, Form[Any]] = {
        name: member.metadata["form"] if "form" in member.metadata else form_of(hints[name])
        for name, member in members.items()
    }
    required = {name for name, member in members.items() if member.default is MISSING}
    nulls = {name for name, form in forms.items() if form.takes(None)}

    def fault(value: object, place: str) -> str:
        if not isinstance(value, dict):
            return f"{place} must be an object, and is {kind_of(value)}"
        if missing := sorted(required - value.keys()):
            return f"{place} lacks {', '.join(missing)}"
        if not value.keys() <= members.keys():
            return f"{place} has a member that is unknown: it may have {', '.join(sorted(members))}"
        inside = "" if place == MESSAGE else f"{place}."
        wrong = (forms[name].fault(item, inside + name) for name, item in value.items() if not forms[name].takes(item))
        return next(wrong, f"{place} is out of form")

    def make(value: Mapping[str, object]) -> T:
        return cls(**{name: forms[name].make(item) for name, item in value.items()})

    def write(message: T) -> object:
        values = {name: getattr(message, name) for name in members}
        return {name: forms[name].write(value) for name, value in values.items() if value is not None or name in nulls}

    def known_part(value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {name: form.known_part(value[name]) for name, form in forms.items() if name in value}

    schema = {
        "type": "object",
        "title": cls.__name__,
        **_description(cls),
        "properties": {name: form.schema for name, form in forms.items()},
        "required": sorted(required),
        "additionalProperties": False,
    }
    takes = _judge({name: form.takes for name, form in forms.items()}, required)
    return Form(takes, fault, make, write, schema, known_part)


def _description(cls: type) -> Schema:
    """Its docstring; what a dataclass writes in place of none says nothing."""
    words = " ".join((cls.__doc__ or "").split())
    return {} if words.startswith(f"{cls.__name__}(") or not words else {"description": words}


def form_of(hint: Any) -> Form[Any]:  # noqa: ANN401 - an annotation
    """The form that a member's annotation says, where it has none of its own."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (form,) = (form_of(member) for member in inside if member is not type(None))
        return nullable(form)
    if origin is tuple:
        return array(form_of(inside[0]))
    if origin is not None:
        return table(CONTENT, form_of(inside[1]))
    return record(hint) if isinstance(hint, type) and is_dataclass(hint) else _PLAIN[hint]


_PLAIN: Mapping[Any, Form[Any]] = {
    str: CONTENT,
    bool: BOOLEAN,
    int: integer(-MAX_INTEGER),
    float: NUMBER,
    object: ANYTHING,
}


def _judge(judges: Mapping[str, Judge], required: set[str]) -> Judge:
    """Whether it is a closed object. The required members are judged in one pass without a look at their names."""
    always = tuple((name, judge) for name, judge in judges.items() if name in required)
    optional = {name: judge for name, judge in judges.items() if name not in required}

    def takes(value: object) -> bool:
        if not isinstance(value, dict):
            return False
        try:
            for name, judge in always:
                if not judge(value[name]):
                    return False
        except KeyError:
            return False
        if len(value) == len(always):
            return True
        further = value.keys() - required
        return further <= optional.keys() and all(optional[name](value[name]) for name in further)

    return takes
