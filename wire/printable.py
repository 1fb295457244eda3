"""Text from outside as one line that is only printed: nothing in it moves the cursor, colours, hides, turns round or
begins a line.

Printable is what Unicode says: no control (C0, DEL, C1), no format character (bidi, zero width), no separator but the
space, nothing private, unassigned or half of a pair. Rejected: ASCII alone, as names in other scripts are good names.
"""

import re
from collections.abc import Callable

_SUSPECT = re.compile(r"[^ -~]")


def printable(value: object) -> str:
    """What is not printable stands there as an escape."""
    return escape(str(value), lambda character: character.encode("unicode_escape").decode("ascii"))


def escape(text: str, as_escape: Callable[[str], str]) -> str:
    """The text, each character that is not printable in the form that the reader's language has for it."""
    return _SUSPECT.sub(lambda found: found[0] if found[0].isprintable() else as_escape(found[0]), text)
