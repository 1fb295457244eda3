"""The full state of a scope as its canonical manifest has it: a mapping that is looked up where it lies.

    read_state(data)            from the bytes of a manifest
    state_after(base, changes)  what an increment makes of a state: one splice a change
    state_bytes(state)          its canonical manifest
    differing(one, other)       the sections that one of two states has otherwise than the other
    family_of(state, name)      those of a map that is signed in parts: `name`, and `name.<part>`

A scope may have tens of thousands of sections, and an increment changes one. As an object each, they were a fifth of
an idle agent's memory, and each increment went through all of them in Python to write the manifest again, to compare
it with the one before, and to collect garbage. Here they are one string: 100 bytes a section, of which all who hold a
state share one, and an increment copies what it leaves alone in C.

What it costs: a look-up reads a dozen entries instead of one slot of a hash table, ten microseconds with 10,000
sections. Most who look up many do so in the order of the manifest, and there the next one is where the last one ended.

Rejected: a tree of pages, shared between versions. The hash of a state is over its whole manifest (format.md 5), so the
bytes are needed in one piece anyway, and hashing them costs more than copying them.
"""

import operator
import re
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import NamedTuple
from weakref import ref

from snapshot import manifest
from snapshot.limits import DEFAULT, Limits
from snapshot.manifest import ENTRY, SectionChange, SectionEntry

_END = "},"  # of an entry; nothing within one looks like it
_FORM = '"form":'  # of a raw section; no name holds a quote
MOST_KNOWN = 256  # sections that a table has otherwise than its base, and keeps the names of
_SIZE = re.compile(r'"size":([0-9]+)\}', re.ASCII)
_ROW = re.compile(r'"([^"]+)":\{[^}]*\},')  # of what is in form; its name alone, in half of the time
_NAME = operator.itemgetter(1)


class _Base(NamedTuple):
    """What a table was made of, and what it has otherwise."""

    table: "ref[SectionTable]"
    changed: frozenset[str]


class SectionTable(Mapping[str, SectionEntry]):
    """Of at least one section, in form. `rows`: the entries as the manifest has them, a comma after each."""

    __slots__ = ("__weakref__", "_count", "_last", "base", "rows")

    def __init__(self, rows: str, count: int = -1) -> None:
        self.rows = rows
        self.base: _Base | None = None
        self._count = count  # below 0: nobody has asked yet
        self._last = 0, 0  # where the row lies that was found last: whichever thread says so, one begins at each

    def __getitem__(self, name: str) -> SectionEntry:
        begin, end = self._place(name)
        found = ENTRY.match(self.rows, begin) if begin < end else None
        if found is None:
            raise KeyError(name)
        return _entry_of(found)

    def __contains__(self, name: object) -> bool:
        begin, end = self._place(name) if isinstance(name, str) else (0, 0)
        return begin < end

    def __iter__(self) -> Iterator[str]:
        return map(_NAME, _ROW.finditer(self.rows))

    def __len__(self) -> int:
        """Counted once: the files of one version ask for it twenty times, and it goes through a MiB of 10,000."""
        if self._count < 0:
            self._count = self.rows.count("}")
        return self._count

    def items(self) -> ItemsView[str, SectionEntry]:
        return _Items(self)

    def values(self) -> ValuesView[SectionEntry]:
        return _Values(self)

    def entries(self) -> Iterator[tuple[str, SectionEntry]]:
        """All of them, one after the other."""
        return ((found[1], _entry_of(found)) for found in ENTRY.finditer(self.rows))

    def to_bytes(self) -> bytes:
        """The canonical manifest."""
        return b"".join((b"{", memoryview(self.rows.encode("ascii"))[:-1], b"}"))  # of a MiB one copy less

    def after(self, changes: Mapping[str, SectionChange]) -> "SectionTable":
        """With these changes made."""
        pieces, copied, changed, count = [], 0, set(), self._count
        for name in sorted(changes):
            begin, end = self._place(name)
            result = changes[name].result
            row = "" if result is None else f'"{name}":{result.text()},'
            pieces += [self.rows[copied:begin], row]
            copied = end
            if count >= 0:
                count += bool(row) - (begin < end)
            if row != self.rows[begin:end]:
                changed.add(name)
        after = SectionTable("".join([*pieces, self.rows[copied:]]), count)
        if len(changed) <= MOST_KNOWN:
            after.base = _Base(ref(self), frozenset(changed))
        return after

    def differing(self, other: "SectionTable") -> frozenset[str]:
        """The sections that one has otherwise than the other: known where one was made of the other. What they have in
        common before the first and behind the last of these is not looked at one by one.
        """
        for made, base in ((self, other), (other, self)):
            if made.base is not None and made.base.table() is base:
                return made.base.changed
        ours, theirs = self.rows, other.rows
        if ours == theirs:
            return frozenset()
        last = ours.rfind(_END, 0, _common_start(ours, theirs))
        begin = 0 if last < 0 else last + len(_END)
        common = _common_end(ours, theirs, min(len(ours), len(theirs)) - begin)
        first = ours.find(_END, len(ours) - common)
        common = 0 if first < 0 else len(ours) - first - len(_END)
        rows = set(ours[begin : len(ours) - common].split(_END)) ^ set(theirs[begin : len(theirs) - common].split(_END))
        return frozenset(row[1 : row.index('"', 1)] for row in rows if row)

    def family(self, name: str) -> "SectionTable":
        """The section of that name and those below it: `.` and `/` are neighbours, so what begins with `name.` lies
        between the two.
        """
        begin, end = self._place(name)
        return SectionTable(self.rows[begin:end] + self.rows[self._place(f"{name}.")[0] : self._place(f"{name}/")[0]])

    def place_of(self, name: str) -> int:
        """How many sections lie before it, or before where it would."""
        return self.rows.count("}", 0, self._place(name)[0])

    def _place(self, name: str) -> tuple[int, int]:
        """From where to where its row lies; where there is none, twice where it would."""
        for begin in self._last:  # who asks whether it is there asks for it next
            if self.rows.startswith(f'"{name}":', begin) and '"' not in name:
                place = self._last = begin, self.rows.index(_END, begin) + len(_END)
                return place
        low, high = 0, len(self.rows)
        while low < high:
            before = self.rows.rfind(_END, low, (low + high) // 2 + 1)
            begin = low if before < 0 else before + len(_END)
            found = self.rows[begin + 1 : self.rows.index('"', begin + 1)]
            if found < name:
                low = self.rows.index(_END, begin) + len(_END)
            elif found > name:
                high = begin
            else:
                place = self._last = begin, self.rows.index(_END, begin) + len(_END)
                return place
        return low, low


class _Items(ItemsView[str, SectionEntry]):
    """Without a look-up for each."""

    _mapping: SectionTable

    def __iter__(self) -> Iterator[tuple[str, SectionEntry]]:
        return self._mapping.entries()


class _Values(ValuesView[SectionEntry]):
    """Likewise."""

    _mapping: SectionTable

    def __iter__(self) -> Iterator[SectionEntry]:
        return (entry for _, entry in self._mapping.entries())


def read_state(data: bytes, limits: Limits = DEFAULT) -> Mapping[str, SectionEntry]:
    """A snapshot's manifest, and that of every full state; Rejected as `manifest.parse_state` has it."""
    if not manifest.is_plain_state(data, limits):
        return manifest.parse_state(data, limits)
    return SectionTable(data[1:-1].decode("ascii") + ",")


def state_after(base: Mapping[str, SectionEntry], changes: Mapping[str, SectionChange]) -> Mapping[str, SectionEntry]:
    """The full state that `changes` make of `base`."""
    return base.after(changes) if isinstance(base, SectionTable) else manifest.state_after(base, changes)


def state_bytes(state: Mapping[str, SectionEntry]) -> bytes:
    """The canonical manifest of a full state."""
    return state.to_bytes() if isinstance(state, SectionTable) else manifest.state_bytes(state)


def differing(one: Mapping[str, SectionEntry], other: Mapping[str, SectionEntry]) -> frozenset[str]:
    """The sections that one of two states has otherwise than the other, or alone."""
    if one is other:
        return frozenset()
    if isinstance(one, SectionTable) and isinstance(other, SectionTable):
        return one.differing(other)
    changed = frozenset(name for name, entry in one.items() if other.get(name) != entry)
    return changed | (other.keys() - one.keys())


def family_of(state: Mapping[str, SectionEntry], name: str) -> Mapping[str, SectionEntry]:
    """In the order of the state."""
    if isinstance(state, SectionTable):
        return found if (found := state.family(name)).rows else {}
    return {section: entry for section, entry in state.items() if section == name or section.startswith(f"{name}.")}


def sizes_of(state: Mapping[str, SectionEntry]) -> list[int]:
    """In bytes, of its sections in their order."""
    if isinstance(state, SectionTable):
        return list(map(int, _SIZE.findall(state.rows)))
    return [entry.size for entry in state.values()]


def first_raw(state: Mapping[str, SectionEntry]) -> str | None:
    """The first section that is no JSON."""
    if isinstance(state, SectionTable) and _FORM not in state.rows:
        return None
    return next((name for name, entry in state.items() if entry.is_raw), None)


def _entry_of(found: re.Match[str]) -> SectionEntry:
    _, form, sha256, size = found.groups()
    return SectionEntry(sha256, int(size), form is not None)


def _common_start(one: str, other: str) -> int:
    """How many characters two texts have in common from their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_end(one: str, other: str, most: int) -> int:
    """How many, `most` at most, they have in common at their end."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low
