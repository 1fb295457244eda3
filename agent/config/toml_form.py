"""A TOML table read into a dataclass, strictly: every key has a form, and an unknown one names the nearest known.

    @frozen(kw_only=True)
    class Intervals:
        heartbeat_interval_s: int = setting(number(5, 300), 30, "How often the node reports.")

Each setting says what it is for, and each form what it takes: docs/configuration.md is made of that.
All that is wrong is gathered, so that one look at the error is enough. Values are judged as in messages
(wire/forms.py); the words are for who wrote the file, and quote what stands there.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

from snapshot.frozen import frozen
from wire import forms

T = TypeVar("T")


@frozen
class TomlForm(Generic[T]):
    """`read` takes a TOML value and gives ours; its ValueError says what it must be. `description` says it ahead."""

    read: Callable[[object], T]
    description: str

    def __call__(self, value: object) -> T:
        return self.read(value)


class ConfigurationError(ValueError):
    """The configuration is wrong. `problems`: one line each, naming the key and the remedy."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def setting(form: TomlForm[Any], default: object = MISSING, about: str = "") -> Any:  # noqa: ANN401 - as dataclasses.field
    return field(default=default, metadata={"form": form, "about": about})


def read_table(cls: type[T], value: object, place: str, problems: list[str]) -> T | None:
    """The table at `place`, or None after what is wrong with it was added to `problems`."""
    if not isinstance(value, dict):
        problems.append(f"[{place}] must be a table")
        return None
    known: dict[str, Field[Any]] = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    before = len(problems)
    problems += [unknown(key, list(known), place) for key in value if key not in known]
    given = {name: _read(known[name], item, place, problems) for name, item in value.items() if name in known}
    problems += [
        f"{place}.{name} is missing"
        for name, member in known.items()
        if name not in value and member.default is MISSING and member.default_factory is MISSING
    ]
    return cls(**given) if len(problems) == before else None


def unknown(key: str, known: list[str], place: str) -> str:
    near = difflib.get_close_matches(key, known, 1, cutoff=0.5)
    remedy = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known))}"
    return f"{place}.{key} is not a setting: {remedy}" if place else f"{key} is not a setting: {remedy}"


def _read(each: "Field[Any]", item: object, place: str, problems: list[str]) -> object:
    try:
        return each.metadata["form"].read(item)
    except ValueError as error:
        problems.append(f"{place}.{each.name} {error}")
        return None


def of_form(form: forms.Form[T], words: str, description: str = "") -> TomlForm[T]:
    """What a form of messages takes. `words` say what it must be; `description` the same ahead, where it differs."""

    def read(value: object) -> T:
        if not form.takes(value):
            raise ValueError(f"must be {words}, not {value!r}"[:300])
        return form.make(value)

    return TomlForm(read, description or words)


def number(least: int, most: int) -> TomlForm[int]:
    return of_form(forms.integer(least, most), f"an integer from {least} to {most}", f"integer, {least} to {most}")


def words(*allowed: str) -> TomlForm[str]:
    return of_form(forms.one_of(*allowed), f"one of {', '.join(allowed)}")


def that(accepts: Callable[[str], bool], form: str) -> TomlForm[str]:
    """A string that satisfies `accepts`; `form` says which those are."""

    def read(value: object) -> str:
        if not isinstance(value, str) or not accepts(value):
            raise ValueError(f"must be {form}, not {value!r}"[:300])
        return value

    return TomlForm(read, form)


def array(form: TomlForm[T], least: int = 0) -> TomlForm[tuple[T, ...]]:
    def read_all(value: object) -> tuple[T, ...]:
        if not isinstance(value, list) or len(value) < least:
            raise ValueError(f"must be an array of at least {least}" if least else "must be an array")
        return tuple(form.read(item) for item in value)

    size = f" at least {least}" if least else ""
    return TomlForm(read_all, f"array of{size}: {form.description}")


def inline_table(cls: type[T]) -> TomlForm[T]:
    """A table as the value of a key: `key = {a = 1}`."""

    def read(value: object) -> T:
        problems: list[str] = []
        found = read_table(cls, value, "", problems) if isinstance(value, dict) else None
        if found is None:
            said = "; ".join(problem.removeprefix(".") for problem in problems)
            raise ValueError(f"must be {description}" + (f": {said}" if said else f", not {value!r}"[:200]))
        return found

    inside = (f"{member.name} ({member.metadata['form'].description})" for member in fields(cls))  # type: ignore[arg-type]
    description = f"a table of {', '.join(inside)}"
    return TomlForm(read, description)


def _absolute_path(value: object) -> Path:
    return Path(_PATH.read(value))


def _file_mode(value: object) -> int:
    """Octal digits in a string, `"0660"`: TOML's own octal form is too easily taken for decimal."""
    if not isinstance(value, str) or len(value) != 4 or any(digit not in "01234567" for digit in value):
        raise ValueError(f'must be four octal digits in quotes, such as "0660", not {value!r}'[:300])
    return int(value, 8)


_PATH = of_form(forms.PATH, "an absolute path")
boolean = of_form(forms.BOOLEAN, "true or false")
absolute_path = TomlForm(_absolute_path, "an absolute path")
file_mode = TomlForm(_file_mode, 'four octal digits in quotes, such as "0660"')


def tables(cls: type[T], value: object, place: str, problems: list[str]) -> tuple[T, ...]:
    """An array of tables, `[[place]]`."""
    if not isinstance(value, list):
        problems.append(f"[[{place}]] must be an array of tables")
        return ()
    found = [read_table(cls, item, f"{place}[{index}]", problems) for index, item in enumerate(value)]
    return tuple(table for table in found if table is not None)


def named_tables(cls: type[T], value: object, place: str, problems: list[str]) -> Mapping[str, T]:
    """A table whose keys are data: `[place.<name>]`."""
    if not isinstance(value, dict):
        problems.append(f"[{place}] must be a table")
        return {}
    found = {name: read_table(cls, item, f'{place}."{name}"', problems) for name, item in value.items()}
    return {name: table for name, table in found.items() if table is not None}
