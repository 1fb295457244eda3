"""What the comments beside an enumeration's members say: part of its meaning, and nowhere else to be had."""

import inspect
import re
from enum import Enum

_MEMBER = re.compile(r'^    ([A-Z_]+) = "[^"]*"(?:  # (.*))?$')
_HEADING = re.compile(r"^    # (.*)$")


def beside(enumeration: type[Enum]) -> dict[str, str]:
    """Each member's name and the comment on its line, "" where there is none."""
    lines = inspect.getsource(enumeration).splitlines()
    return {match[1]: match[2] or "" for line in lines if (match := _MEMBER.match(line))}


def above(enumeration: type[Enum]) -> dict[str, str]:
    """Each member's name and the last comment that stands on a line of its own above it."""
    found, heading = {}, ""
    for line in inspect.getsource(enumeration).splitlines():
        if match := _HEADING.match(line):
            heading = match[1]
        elif match := _MEMBER.match(line):
            found[match[1]] = heading
    return found
