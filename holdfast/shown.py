"""How text that others wrote reaches a terminal: nothing in it moves the cursor, colours, hides, turns round or begins
a line. A file name on a stick may hold a line break and the word VERIFIED, a signed section what a terminal obeys.

    shown(text)         one line
    shown_lines(text)   our own lines, in which others' words may stand
    shown_json(data)    signed JSON: as it is for a program, the same value with escapes for a person
    usage_shown()       the same for what is said of wrong usage, which quotes file names

Printable is what Unicode says: no control (C0, DEL, C1), no format character (bidi, zero width), no separator but the
space, nothing private, unassigned or half of a pair. Rejected: ASCII alone, as names in other scripts are good names.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

_SUSPECT = re.compile(r"[^ -~]")


def shown(value: object) -> str:
    """What is not printable stands there as an escape."""
    return _SUSPECT.sub(_escaped, str(value))


def shown_lines(text: str) -> str:
    return "\n".join(map(shown, text.split("\n")))


def shown_json(data: bytes) -> bytes:
    """Bytes of JSON, or a part of it whose characters are whole; verbatim where standard output is no terminal."""
    return _json_for_people(data) if sys.stdout.isatty() else data


@contextmanager
def usage_shown() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        if type(error) is not click.UsageError:  # click's own, which quote
            raise
        raise click.UsageError(shown(error.message), error.ctx) from None


def _json_for_people(data: bytes) -> bytes:
    """What is not printable can only stand in a string there, where this escape means the same."""
    return _SUSPECT.sub(_escaped_in_json, data.decode("utf-8", "replace")).encode()


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def _escaped_in_json(found: re.Match[str]) -> str:
    character = found[0]
    if character.isprintable():
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
