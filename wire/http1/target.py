"""The request target: the path split at its slashes first and percent-decoded then, the query as its members.

So a scope, written with %2F, stays one segment (protocol.md 1).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from urllib.parse import unquote_to_bytes

MAX_QUERY_MEMBERS = 256
REMEMBERED_BYTES = 256

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class BadTarget(ValueError):
    """A target that is no path with an optional query, or whose escapes are wrong. The text never quotes it."""


@dataclass(frozen=True)
class Target:
    segments: tuple[str, ...]
    raw_query: bytes

    @classmethod
    def parse(cls, raw: bytes) -> "Target":
        """Callers ask for few targets, many times: short ones are remembered."""
        return _remembered(raw) if len(raw) <= REMEMBERED_BYTES else _parse(raw)

    @cached_property
    def members(self) -> Mapping[str, tuple[str, ...]]:
        """By name, the values of the query in their order."""
        found: dict[str, tuple[str, ...]] = {}
        for name, value in self.query():
            found[name] = (*found.get(name, ()), value)
        return found

    def query(self) -> list[tuple[str, str]]:
        """The members in their order; a name may stand there more than once. A plus sign is a plus sign."""
        if not self.raw_query:
            return []
        if self.raw_query.count(b"&") >= MAX_QUERY_MEMBERS:
            raise BadTarget(f"the query has more than {MAX_QUERY_MEMBERS} members")
        if b"%" in self.raw_query:
            pairs = (part.partition(b"=") for part in self.raw_query.split(b"&"))
            return [(_decode(name), _decode(value)) for name, _, value in pairs]
        plain = (part.partition("=") for part in _decode(self.raw_query).split("&"))  # nearly all: looked at as a whole
        return [(name, value) for name, _, value in plain]


def _parse(raw: bytes) -> Target:
    path, _, query = raw.partition(b"?")
    if not path.startswith(b"/"):
        raise BadTarget("the request target must be a path")
    if b"#" in raw:
        raise BadTarget("the request target has a fragment")
    segments = tuple(path.decode("ascii", "replace")[1:].split("/"))
    if b"%" in path:
        segments = tuple(_decode(segment.encode()) if "%" in segment else segment for segment in segments)
    if "." in segments or ".." in segments:
        raise BadTarget("the path has a dot segment")
    return Target(segments, query)


_remembered = lru_cache(maxsize=1024)(_parse)


def _decode(part: bytes) -> str:
    if _BAD_ESCAPE.search(part):
        raise BadTarget("a percent sign must be followed by two hex digits")
    try:
        text = unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise BadTarget("an escape that is not UTF-8") from None
    if _CONTROL.search(text):
        raise BadTarget("an escaped control character")
    return text
