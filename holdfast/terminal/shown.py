"""All that the two commands print: text that others wrote does nothing to a terminal (wire/printable.py has what does).
A file name on a stick may hold a line break and the word VERIFIED, a signed section what a terminal obeys.

    say(line, ...)      each one line, whatever stands in it
    say_json(value)     an answer for scripts; all but ASCII is escaped
    say_json_line(value)    the same in one line, of several
    say_signed(data)    signed JSON: as it is for a program, the same value with escapes for a person
    shown(text)         what somebody else prints: a cell of a table
    show_value(value)   the same for every text of an answer
    show_usage()        the same for what is said of wrong usage, which quotes file names

Nothing else in this package writes to a terminal: tests/test_style.py.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from wire.printable import escape, printable

shown = printable


def say(*lines: object, err: bool = False, nl: bool = True, fg: str | None = None, bold: bool | None = None) -> None:
    """Without any, an empty line."""
    text = "\n".join(map(shown, lines))
    click.echo(text if fg is None and bold is None else click.style(text, fg=fg, bold=bold), err=err, nl=nl)  # noqa: TID251


def say_json(value: object) -> None:
    say(*json.dumps(value, indent=2, sort_keys=True).split("\n"))  # noqa: TID251 - an answer, no document


def say_json_line(value: object) -> None:
    """One of several, each on a line of its own; whoever reads them has it at once."""
    say(json.dumps(value, sort_keys=True))  # noqa: TID251 - an answer, no document


def say_signed(data: bytes, *, nl: bool = False, verbatim: bool = True) -> None:
    """Bytes of JSON, or a part of it whose characters are whole; never verbatim where standard output is a terminal."""
    click.echo(data if verbatim and not sys.stdout.isatty() else escape_json(data), nl=nl)  # noqa: TID251


def say_bytes(data: bytes, instead: str) -> bool:
    """Bytes of any kind, as they are; to a terminal only what is said in their place: whether that was so."""
    is_seen = sys.stdout.isatty()
    click.echo(shown(instead) if is_seen else data, nl=is_seen)  # noqa: TID251
    return is_seen


def escape_json(data: bytes) -> bytes:
    """What is not printable can only stand in a string there, where the escape means the same."""
    return escape(data.decode("utf-8", "replace"), _in_json).encode()


def show_value(value: Any) -> Any:  # noqa: ANN401 - JSON
    """The same JSON value, each text and name in it shown."""
    match value:
        case dict():
            return {shown(name): show_value(inner) for name, inner in value.items()}
        case list():
            return list(map(show_value, value))
        case str():
            return shown(value)
        case _:
            return value


@contextmanager
def show_usage() -> Iterator[None]:
    """A shell's `*` makes options and arguments of file names."""
    try:
        yield
    except click.UsageError as error:
        if isinstance(error, click.MissingParameter) or type(error).show is not click.UsageError.show:
            raise  # our own words, over several lines
        raise click.UsageError(shown(error.format_message()), error.ctx) from None


def _in_json(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
