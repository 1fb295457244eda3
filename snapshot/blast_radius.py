"""How far a change of one scope of one node reaches, in numbers, and whether that is further than anybody means. Pure.

    compare(scope, before, after)       -> Radius: what is changed, removed, emptied; how large it is afterwards
    guard(radius)                       what the coordinator says at `apply`, of any change
    check_limits(radius, limits, ...)   what a node says by the limits of a service of its own

Entries are what people count: the members of the top level of JSON sections (a list's are its places), and of a Config
its files. What is inside an entry is not looked at, but for whether it is as it was; 1 and true are the same here.
How large a file of a Config becomes is looked at file by file as well: a table that doubles among a hundred others
makes the whole hardly larger, and its reader has room for one table.

Parts of one map (`routes.00` to `routes.3f`) are one section under its family's name, so that a change does not look
worse or better by how ids happen to be spread.

A section whose hash stays is not read. How many entries it has matters only where what differs is already too much by
itself, or where a limit on entries has to be held against all of them: then it is read, one section at a time, and
forgotten. Thus memory is bounded by two sections, and a change of one route among ten thousand costs two small reads.

A verdict follows from the two states alone: not from the order of sections, not from names, not from which node it is
or how often it was asked. Else the same plan would pass on one day and be refused on another.

Rejected:

- To weigh changed and removed together, so that either is caught by one number: an operator who is told "48 %" cannot
  say of what. Two numbers, each with its words.
- Changed bytes instead of entries: one long text outweighs a hundred routes.
- Reading counts from the document: then whoever signs a wrong document also says how harmless it is.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Protocol

from snapshot.config_files import FILES
from snapshot.identifiers import CONFIG
from snapshot.limits import KIB

MOST_PERCENT = 30  # of entries, changed or removed
FEWEST_ENTRIES = 10  # a share of fewer says nothing
LARGE_BYTES = 64 * KIB  # what is smaller may double
_EMPTY = frozenset({b"{}", b"[]", b'""', b"null"})
_EMPTY_BYTES = 2
_MOST_NAMED = 5


class GuardRule(StrEnum):
    """What may be too much."""

    CHANGED = "changed"
    REMOVED = "removed"
    EMPTIED = "emptied"
    GROWN = "grown"
    ENTRIES = "entries"
    BYTES = "bytes"
    WITHDRAWN = "withdrawn"


class SizedSection(Protocol):
    """What is known of a section without reading it: a manifest's entry, or whatever is equal where its bytes are."""

    @property
    def size(self) -> int: ...


@dataclass(frozen=True)
class HeldSections:
    """One full state of a scope: its manifest, what reads one of its sections, and what reads that as JSON."""

    entries: Mapping[str, SizedSection]
    read: Callable[[str], bytes]
    parse: Callable[[bytes], object] = json.loads


@dataclass(frozen=True)
class Size:
    """Of one full state. `bytes`: of all sections; of a Config, of its files."""

    entries: int
    bytes: int


@dataclass(frozen=True)
class Growth:
    """Bytes of a content, or of one of its files."""

    before: int
    after: int

    @property
    def is_too_much(self) -> bool:
        return self.after >= LARGE_BYTES and 0 < 2 * self.before < self.after

    @property
    def percent(self) -> int:
        return 100 * (self.after - self.before) // self.before


@dataclass(frozen=True)
class Radius:
    """A change of one scope of one node. `emptied`: sections or files that held something and hold nothing now.
    `grown`: files that are far larger than they were.
    """

    changed: int
    removed: int
    emptied: tuple[str, ...]
    bytes_before: int
    bytes_after: int
    differing: tuple[int, int]  # entries of the sections that differ, before and after
    count_rest: Callable[[], int] = field(compare=False, repr=False)  # those of the sections that do not
    grown: Mapping[str, Growth] = field(default_factory=dict)  # by path

    @cached_property
    def _rest(self) -> int:
        return self.count_rest()

    @property
    def before(self) -> Size:
        return Size(self.differing[0] + self._rest, self.bytes_before)

    @property
    def after(self) -> Size:
        return Size(self.differing[1] + self._rest, self.bytes_after)


@dataclass(frozen=True)
class ConsumerLimits:
    """What a service can take of a scope; None: it does not say."""

    entries: int | None = None
    bytes: int | None = None
    removed_percent: int | None = None


@dataclass(frozen=True)
class Excess:
    """One thing that is too much. `percent`: how bad, to find the worst by."""

    rule: GuardRule
    found: str
    expected: str
    percent: int

    @property
    def words(self) -> str:
        return f"{self.found}; {self.expected}"


def compare(scope_type: str, before: HeldSections | None, after: HeldSections) -> Radius:
    """`before`: None for a node that has nothing of the scope yet."""
    before = before or HeldSections({}, after.read)
    return (_compare_files if scope_type == CONFIG else _compare_sections)(before, after)


def guard(radius: Radius) -> tuple[Excess, ...]:
    """All that is further than a change usually reaches, the worst first."""
    found = [*_find_shares(radius), *_find_emptied(radius), *_find_growth(radius)]
    return tuple(sorted(found, key=lambda excess: (-excess.percent, excess.rule)))


def check_limits(radius: Radius, limits: ConsumerLimits, *, is_allowed: bool = False) -> tuple[Excess, ...]:
    """What a service cannot take. `is_allowed`: an operator let this plan pass, which is said of what goes away and of
    nothing else: a service that has room for 200 entries has it whoever allows what.
    """
    return tuple(_find_beyond(radius, limits, is_allowed=is_allowed))


# ---- what differs


def _compare_sections(before: HeldSections, after: HeldSections) -> Radius:
    changed = removed = entries_before = entries_after = 0
    left: set[str] = set()
    filled: set[str] = set()
    for name in before.entries.keys() | after.entries.keys():
        if before.entries.get(name) == after.entries.get(name):
            filled |= {_family(name)} if after.entries[name].size > _EMPTY_BYTES else set()
            continue
        old, new = _members(before, name), _members(after, name)
        changed += sum(new[member] != value for member, value in old.items() if member in new)
        removed += sum(member not in new for member in old)
        entries_before, entries_after = entries_before + len(old), entries_after + len(new)
        left |= {_family(name)} if old else set()
        filled |= {_family(name)} if new else set()
    return Radius(
        changed,
        removed,
        tuple(sorted(left - filled)),
        _bytes(before.entries.values()),
        _bytes(after.entries.values()),
        (entries_before, entries_after),
        lambda: sum(len(_members(after, name)) for name in _sections_that_stay(before, after)),
    )


def _compare_files(before: HeldSections, after: HeldSections) -> Radius:
    """By the indexes: what a file holds is known by the hashes of its sections."""
    old, new = _files(before), _files(after)
    growths = {path: Growth(_bytes(old[path].entries), _bytes(new[path].entries)) for path in old.keys() & new.keys()}
    return Radius(
        sum(new[path] != old[path] for path in growths),
        sum(path not in new for path in old),
        tuple(sorted(path for path, growth in growths.items() if growth.before and not growth.after)),
        sum(_bytes(file.entries) for file in old.values()),
        sum(_bytes(file.entries) for file in new.values()),
        (len(old), len(new)),
        lambda: 0,
        {path: growths[path] for path in sorted(growths) if growths[path].is_too_much},
    )


@dataclass(frozen=True)
class _File:
    entries: tuple[SizedSection, ...]
    mode: str


def _files(state: HeldSections) -> dict[str, _File]:
    """Of a state that was verified or compiled: its index is in form."""
    return {str(path): _file(state, file) for path, file in _members(state, FILES).items()}


def _file(state: HeldSections, file: object) -> _File:
    if not isinstance(file, dict):
        raise AssertionError("an index has an object for each path")
    return _File(tuple(state.entries[name] for name in file["sections"]), str(file["mode"]))


def _members(state: HeldSections, name: str) -> dict[object, object]:
    """Of the top level of a section; none of one that is not there."""
    if name not in state.entries or state.entries[name].size == 0:
        return {}
    data = state.read(name)
    value = None if data in _EMPTY else state.parse(data)
    if isinstance(value, list):
        return dict(enumerate(value))
    if isinstance(value, dict):
        return value
    return {} if value is None else {"": value}


def _sections_that_stay(before: HeldSections, after: HeldSections) -> Iterator[str]:
    return (name for name, entry in after.entries.items() if before.entries.get(name) == entry)


def _family(section: str) -> str:
    """What a part is a part of."""
    return section.partition(".")[0]


def _bytes(entries: Iterable[SizedSection]) -> int:
    return sum(entry.size for entry in entries)


# ---- what is too much of it


def _find_shares(radius: Radius) -> Iterator[Excess]:
    """All entries are counted only where those of the sections that differ are too many of themselves."""
    for rule, count in ((GuardRule.CHANGED, radius.changed), (GuardRule.REMOVED, radius.removed)):
        if not _is_over(count, radius.differing[0], MOST_PERCENT):
            continue
        total = radius.before.entries
        if total >= FEWEST_ENTRIES and _is_over(count, total, MOST_PERCENT):
            yield _share(rule, count, total, f"at most {MOST_PERCENT} % at a time, from {FEWEST_ENTRIES} on")


def _find_emptied(radius: Radius) -> Iterator[Excess]:
    if radius.emptied:
        yield Excess(
            GuardRule.EMPTIED, f"{name_some(radius.emptied)} would be empty", "what holds something goes on so", 100
        )


def _find_growth(radius: Radius) -> Iterator[Excess]:
    """The whole, or else the file that has grown most."""
    whole = Growth(radius.bytes_before, radius.bytes_after)
    path, worst = max(radius.grown.items(), key=lambda each: each[1].percent, default=("", whole))
    name, growth = ("", whole) if whole.is_too_much else (f"{path}: ", worst)
    if growth.is_too_much:
        expected = f"at most twice as many at a time, from {LARGE_BYTES:,} on"
        found = f"{name}{growth.after:,} bytes, after {growth.before:,}"
        yield Excess(GuardRule.GROWN, found, expected, growth.percent)


def _find_beyond(radius: Radius, limits: ConsumerLimits, *, is_allowed: bool) -> Iterator[Excess]:
    if limits.bytes is not None and radius.bytes_after > limits.bytes:
        most = f"at most {limits.bytes:,}"
        yield Excess(GuardRule.BYTES, f"{radius.bytes_after:,} bytes", most, _percent(radius.bytes_after, limits.bytes))
    if limits.entries is not None and (entries := radius.after.entries) > limits.entries:
        most = f"at most {limits.entries:,}"
        yield Excess(GuardRule.ENTRIES, f"{entries:,} entries", most, _percent(entries, limits.entries))
    most_percent = None if is_allowed else limits.removed_percent
    if most_percent is None or not _is_over(radius.removed, radius.differing[0], most_percent):
        return
    total = radius.before.entries
    if _is_over(radius.removed, total, most_percent):
        yield _share(GuardRule.REMOVED, radius.removed, total, f"at most {most_percent} % at a time")


def _share(rule: GuardRule, count: int, total: int, expected: str) -> Excess:
    percent = _percent(count, total)
    return Excess(rule, f"{count:,} of {total:,} entries {rule} ({percent} %)", expected, percent)


def name_some(names: Iterable[str]) -> str:
    """A few of them, and how many more."""
    listed = tuple(names)
    more = len(listed) - _MOST_NAMED
    return ", ".join(listed[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _is_over(count: int, total: int, percent: int) -> bool:
    return count * 100 > total * percent


def _percent(count: int, total: int) -> int:
    return count * 100 // total if total else 100
