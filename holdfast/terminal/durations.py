"""Spans of time in words that a person reads at a glance, and as one writes them on a command line."""

import re

from holdfast.client import unix_seconds

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))

_WRITTEN = re.compile(r"([0-9]{1,9})(s|min|m|h|d)", re.ASCII)
_LETTERS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}


def read(text: str) -> int:
    """Seconds, of `72h`, `3d`, `90min`, `45s`; ValueError otherwise."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no span of time: write 72h, 3d, 90min or 45s")
    return int(found[1]) * _LETTERS[found[2]]


def in_words(seconds: float) -> str:
    """`2 d 3 h`, `17 min`, `4 s`: the two largest units, the second only below ten of the first."""
    left = int(abs(seconds))
    for index, (size, name) in enumerate(_UNITS):
        count, rest = divmod(left, size)
        if not count:
            continue
        if count < 10 and index + 1 < len(_UNITS) and (second := rest // _UNITS[index + 1][0]):
            return f"{count} {name} {second} {_UNITS[index + 1][1]}"
        return f"{count} {name}"
    return "0 s"


def until(moment: str | None, now: float) -> str:
    """`in 17 min`, `4 s ago`; of a time as the API writes it."""
    return "never" if moment is None else from_now(unix_seconds(moment), now)


def from_now(moment: float, now: float) -> str:
    """As `until`, of Unix seconds."""
    left = moment - now
    return f"in {in_words(left)}" if left > 0 else f"{in_words(left)} ago"
