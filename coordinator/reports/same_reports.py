"""Recognises a report that says what an earlier one said, at another time.

Of a node at rest, reports differ in the time, how long it runs, how old its head is and how far its clock is off, and
nobody looks at these here. So a report is known by the hash of its text without these, with a NUL where each stood, and
by how many they were: a text that has a NUL of its own, which is no JSON, has one less of them.

That a member stands there follows from JSON: in a string each quote has a backslash before it, and these names have
none before their last. What it may be is narrower here than in its form (wire/messages.py): a sign and the day stay in
the text, and numbers are short. Whoever keeps a report has read it in full, and found it in form.
"""

import hashlib
import re
from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")

MOST_REMEMBERED = 20_000  # of about 1 KiB
TEXT_BYTES = 2_048  # beside the scopes: what is longer is no report of a node at rest
_NUMBER = re.compile(rb"-?(0|[1-9][0-9]{0,14})(?=[,}])")
_CLOCK = re.compile(rb'"[0-9]{4}-[0-9]{2}-[0-9]{2}T((?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])(?=Z")')
# In the order in which an agent writes them: the name, and the value, whose group is what does not stay.
_TIMES = (
    (b'"offset_floor_s":', _NUMBER),
    (b'"age_s":', _NUMBER),
    (b'"sent_at":', _CLOCK),
    (b'"uptime_s":', _NUMBER),
)


class SameReports(Generic[T]):
    """What the last `most` of them came to. `T`: what is read of one, without what differs."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._known: OrderedDict[bytes, T] = OrderedDict()

    def find(self, key: bytes | None) -> T | None:
        found = None if key is None else self._known.get(key)
        if found is not None and key is not None:
            self._known.move_to_end(key)
        return found

    def keep(self, key: bytes | None, report: T) -> None:
        if key is None:
            return
        self._known[key] = report
        if len(self._known) > self._most:
            self._known.popitem(last=False)


def key_of(around: bytes, scopes: bytes) -> bytes | None:
    """`around`: all but the scopes, with a word in their place that nobody outside can know; `scopes`: their hash.
    None for what is long.
    """
    if len(around) > TEXT_BYTES:
        return None
    parts = [scopes]
    last = 0
    for name, value in _TIMES:
        place = around.find(name, last)
        found = value.match(around, place + len(name)) if place >= 0 else None
        if found is not None:
            start, end = found.span(1)
            parts.append(around[last:start])
            last = end
    parts.append(around[last:])
    return hashlib.sha256(b"%d %b" % (len(parts), b"\0".join(parts))).digest()
