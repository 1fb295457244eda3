"""Identifiers and times of format.md 1: whole-string, ASCII, byte equality; nothing is trimmed or folded."""

import itertools
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

MAX_INTEGER = 2**53 - 1

SCOPE_TYPES = (
    "node_bootstrap",
    "node_runtime",
    "peer_directory",
    "service_assignment",
    "route_policy",
    "qos_policy",
    "trust_bundle",
    "storage_directory",
    "degraded_mode_policy",
    "config",
)
CONFIG = "config"  # files for any consumer
# Role data that one document may bring to many nodes (format.md 7, step 3).
SHAREABLE = frozenset(SCOPE_TYPES) - {"node_bootstrap", "node_runtime", "service_assignment"}
# Of these each thing has a scope of its own, by its id: none has just the name of the type.
ONE_EACH = frozenset({"service_assignment", CONFIG})
HEAD = "head"

MAX_SCOPE_IDS = 64

_ID = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?", re.ASCII)
_SECTION_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,126}[a-z0-9])?", re.ASCII)
_NONCE = re.compile(r"[a-z0-9._-]{1,128}", re.ASCII)
_HASH = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)
_TIME = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})Z", re.ASCII)
_NO_TIME = "not a time of the form YYYY-MM-DDTHH:MM:SSZ"
_MOST_SCOPES = 1024
_MOST_TIMES = 1024  # remembered: the documents of one run have theirs in common
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\]", re.ASCII)
_HOST_PORT = re.compile(rf"({_HOST.pattern}):([1-9][0-9]{{0,4}})", re.ASCII)
_HTTPS = "https://"


def is_id(value: object) -> bool:
    return isinstance(value, str) and bool(_ID.fullmatch(value)) and ".." not in value


def is_section_name(value: object) -> bool:
    return isinstance(value, str) and bool(_SECTION_NAME.fullmatch(value)) and ".." not in value


def is_nonce(value: object) -> bool:
    """A recovery's nonce: 1..128 characters of the id alphabet (format.md 5)."""
    return isinstance(value, str) and bool(_NONCE.fullmatch(value))


def is_hash(value: object) -> bool:
    return isinstance(value, str) and bool(_HASH.fullmatch(value))


is_key_id = is_hash


def is_hex_digest(value: object) -> bool:
    """64 lower-case hex digits: a section's `sha256`."""
    return isinstance(value, str) and bool(_HEX.fullmatch(value))


def is_integer(value: object, least: int = 1) -> bool:
    """A JSON integer from `least` to 2^53-1; `true` is not one."""
    return type(value) is int and least <= value <= MAX_INTEGER


def is_endpoint(value: object) -> bool:
    """`https://host:port` and nothing more (format.md 5, rules K4)."""
    return isinstance(value, str) and value.startswith(_HTTPS) and is_host_port(value.removeprefix(_HTTPS))


def is_host_port(value: object) -> bool:
    match = _HOST_PORT.fullmatch(value) if isinstance(value, str) else None
    return match is not None and int(match[2]) <= 65535


def is_host(value: object) -> bool:
    """A name in lower case, an IPv4 address, or an IPv6 one in brackets."""
    return isinstance(value, str) and bool(_HOST.fullmatch(value))


def is_sorted_set(values: object, member: object, most: int | None = None) -> bool:
    """A JSON array, sorted and unique, of at most `most` values that all satisfy `member`."""
    if not isinstance(values, list) or not callable(member):
        return False
    if most is not None and len(values) > most:
        return False
    if not all(member(value) for value in values):
        return False
    return all(before < after for before, after in itertools.pairwise(values))


def parse_time(value: object) -> int:
    """Unix seconds of a `time`; ValueError for any other form or a second that no calendar has (threats D-43)."""
    if not isinstance(value, str):
        raise ValueError(_NO_TIME)
    return _seconds_of(value)


@lru_cache(maxsize=_MOST_TIMES)
def _seconds_of(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(_NO_TIME)
    year, month, day, hour, minute, second = (int(group) for group in match.groups())
    if not 2020 <= year <= 2200:
        raise ValueError("the year is not in 2020..2200")
    return int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp())


def format_time(seconds: float) -> str:
    """The `time` of Unix seconds, rounded down."""
    return _text_of(int(seconds // 1))


@lru_cache(maxsize=_MOST_TIMES)
def _text_of(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Scope(NamedTuple):
    """What one line of versions is about: a scope type, and the ids that tell its scopes apart, sorted and unique."""

    type: str
    ids: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As it is written in heads, in addresses and in databases."""
        return scope_name(self.type, self.ids)


def scope_name(scope_type: str, scope_ids: Iterable[str] = ()) -> str:
    ids = ",".join(scope_ids)
    return f"{scope_type}/{ids}" if ids else scope_type


def stands_for(asked: str, scope: str) -> bool:
    """Whether this scope is meant: by its name, or by a type of ONE_EACH, which alone means all of its scopes."""
    return asked == scope or (asked in ONE_EACH and scope.startswith(f"{asked}/"))


def parse_scope(text: object) -> Scope:
    """Of a type of right form, perhaps unknown, with sorted, unique ids; ValueError otherwise."""
    if not isinstance(text, str):
        raise ValueError("a scope is a string")
    return _scope_of(text)


@lru_cache(maxsize=_MOST_SCOPES)
def _scope_of(text: str) -> Scope:
    """The few of a node are asked for a hundred times an update."""
    scope_type, slash, rest = text.partition("/")
    ids = rest.split(",") if slash else []
    if not is_id(scope_type) or not is_sorted_set(ids, is_id, MAX_SCOPE_IDS):
        raise ValueError("not a scope_type, or scope_type/ and sorted ids joined by commas")
    return Scope(scope_type, tuple(ids))
