"""The full state of a scope as its canonical manifest has it: a mapping that is looked up where it lies.

    read_state(data)            from the bytes of a manifest
    state_after(base, changes)  what an increment makes of a state: one splice a change
    state_bytes(state)          its canonical manifest
    differing(one, other)       the sections that one of two states has otherwise than the other
    family_of(state, name)      those of a map that is signed in parts: `name`, and `name.<part>`

A scope may have tens of thousands of sections, and an increment changes one. As an object each, they were a fifth of
an idle agent's memory, and each increment went through all of them in Python to write the manifest again, to compare it
with the one before, and to collect garbage. Here they are the bytes of that manifest: 100 a section, of which all who
hold a state share one copy, and an increment copies what it leaves alone in C, once.

What it costs: a look-up reads a dozen entries instead of one slot of a hash table, ten microseconds with 10,000
sections. Most who look up many do so in the order of the manifest, and there the next one is where the last one ended.

Rejected: a tree of pages, shared between versions. The hash of a state is over its whole manifest (format.md 5), so the
bytes are needed in one piece anyway, and hashing them costs more than copying them.
"""

import re
from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from typing import NamedTuple
from weakref import ref

from snapshot import manifest
from snapshot.limits import DEFAULT, Limits
from snapshot.manifest import ENTRY, SectionChange, SectionEntry

_END = b"},"  # of an entry but the last; nothing within one looks like it
_FORM = b'"form":'  # of a raw section; no name holds a quote
_NOTHING = b"{}"
MOST_KNOWN = 256  # sections that a table has otherwise than its base, and keeps the names of
_ENTRY = re.compile(ENTRY.pattern.encode())
_SIZE = re.compile(rb'"size":([0-9]+)\}')
_ROW = re.compile(rb'"([^"]+)":\{[^}]*\}')  # of what is in form; its name alone, in half of the time


class _Base(NamedTuple):
    """What a table was made of, and what it has otherwise."""

    table: "ref[SectionTable]"
    changed: frozenset[str]


class SectionTable(Mapping[str, SectionEntry]):
    """In form. `data`: the canonical manifest. A row is an entry with the comma or bracket behind it."""

    __slots__ = ("__weakref__", "_count", "_last", "base", "data")

    def __init__(self, data: bytes, count: int = -1) -> None:
        self.data = data
        self.base: _Base | None = None
        self._count = count  # below 0: nobody has asked yet
        self._last = 0, 0  # where the row lies that was found last: whichever thread says so, one begins at each

    def __getitem__(self, name: str) -> SectionEntry:
        begin, end = self._place(name)
        found = _ENTRY.match(self.data, begin) if begin < end else None
        if found is None:
            raise KeyError(name)
        return _entry_of(found)

    def __contains__(self, name: object) -> bool:
        begin, end = self._place(name) if isinstance(name, str) else (0, 0)
        return begin < end

    def __iter__(self) -> Iterator[str]:
        return (found[1].decode() for found in _ROW.finditer(self.data))

    def __len__(self) -> int:
        """Counted once: the files of one version ask for it twenty times, and it goes through a MiB of 10,000."""
        if self._count < 0:
            self._count = self.data.count(b"}") - 1
        return self._count

    def items(self) -> ItemsView[str, SectionEntry]:
        return _Items(self)

    def values(self) -> ValuesView[SectionEntry]:
        return _Values(self)

    def entries(self) -> Iterator[tuple[str, SectionEntry]]:
        """All of them, one after the other."""
        return ((found[1].decode(), _entry_of(found)) for found in _ENTRY.finditer(self.data))

    def after(self, changes: Mapping[str, SectionChange]) -> "SectionTable":
        """With these changes made."""
        data, count, changed = memoryview(self.data), self._count, set[str]()
        pieces, copied = list[bytes | memoryview](), 1
        for name in sorted(changes):
            begin, end = self._place(name)
            result = changes[name].result
            entry = b"" if result is None else f'"{name}":{result.text()}'.encode()
            pieces += [data[copied : begin - 1], entry]
            copied = end
            if count >= 0:
                count += bool(entry) - (begin < end)
            if entry != self.data[begin : end - 1]:
                changed.add(name)
        after = SectionTable(_manifest_of([*pieces, data[copied:-1]]), count)
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
        ours, theirs = self.data, other.data
        if ours == theirs:
            return frozenset()
        last = ours.rfind(_END, 0, _common_start(ours, theirs))
        begin = 1 if last < 0 else last + len(_END)
        common = _common_end(ours, theirs, min(len(ours), len(theirs)) - begin)
        first = ours.find(_END, len(ours) - common)
        behind = len(_END) if first < 0 else len(ours) - first  # where nothing behind is common: the two brackets
        rows = {*ours[begin : len(ours) - behind].split(_END)} ^ {*theirs[begin : len(theirs) - behind].split(_END)}
        return frozenset(row[1 : row.index(b'"', 1)].decode() for row in rows if row)

    def family(self, name: str) -> "SectionTable":
        """The section of that name and those below it: `.` and `/` are neighbours, so what begins with `name.` lies
        between the two.
        """
        data, (begin, end) = memoryview(self.data), self._place(name)
        below = data[self._place(f"{name}.")[0] : self._place(f"{name}/")[0] - 1]
        return SectionTable(_manifest_of([data[begin : end - 1], below]))

    def place_of(self, name: str) -> int:
        """How many sections lie before it, or before where it would."""
        return self.data.count(b"}", 0, min(self._place(name)[0], len(self.data) - 1))

    def _place(self, name: str) -> tuple[int, int]:
        """From where to where its row lies; where there is none, twice where it would."""
        data, wanted = self.data, name.encode(errors="surrogatepass")
        for begin in self._last:  # who asks whether it is there asks for it next
            if data.startswith(b'"%b":' % wanted, begin) and b'"' not in wanted:
                place = self._last = begin, _end_of(data, begin)
                return place
        low, high = 1, 1 if data == _NOTHING else len(data)
        while low < high:
            before = data.rfind(_END, low, (low + high) // 2 + 1)
            begin = low if before < 0 else before + len(_END)
            found = data[begin + 1 : data.index(b'"', begin + 1)]
            if found < wanted:
                low = _end_of(data, begin)
            elif found > wanted:
                high = begin
            else:
                place = self._last = begin, _end_of(data, begin)
                return place
        return low, low


def _end_of(data: bytes, begin: int) -> int:
    """Of the row that begins there."""
    return data.index(b"}", begin) + len(_END)


def _manifest_of(pieces: Sequence[bytes | memoryview]) -> bytes:
    """Of entries, some in each piece, without what is behind the last of it. All at once: to copy a MiB of 10,000
    another time takes as long as to hash it.
    """
    separated = [part for piece in pieces if piece for part in (b",", piece)]
    return b"".join((b"{", *separated[1:], b"}"))


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
    return SectionTable(data)


def state_after(base: Mapping[str, SectionEntry], changes: Mapping[str, SectionChange]) -> Mapping[str, SectionEntry]:
    """The full state that `changes` make of `base`."""
    return base.after(changes) if isinstance(base, SectionTable) else manifest.state_after(base, changes)


def state_bytes(state: Mapping[str, SectionEntry]) -> bytes:
    """The canonical manifest of a full state."""
    return state.data if isinstance(state, SectionTable) else manifest.state_bytes(state)


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
        return found if (found := state.family(name)).data != _NOTHING else {}
    return {section: entry for section, entry in state.items() if section == name or section.startswith(f"{name}.")}


def sizes_of(state: Mapping[str, SectionEntry]) -> list[int]:
    """In bytes, of its sections in their order."""
    if isinstance(state, SectionTable):
        return list(map(int, _SIZE.findall(state.data)))
    return [entry.size for entry in state.values()]


def first_raw(state: Mapping[str, SectionEntry]) -> str | None:
    """The first section that is no JSON."""
    if isinstance(state, SectionTable) and _FORM not in state.data:
        return None
    return next((name for name, entry in state.items() if entry.is_raw), None)


def _entry_of(found: re.Match[bytes]) -> SectionEntry:
    _, form, sha256, size = found.groups()
    return SectionEntry(sha256.decode(), int(size), form is not None)


def _common_start(one: bytes, other: bytes) -> int:
    """How many bytes two have in common from their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_end(one: bytes, other: bytes, most: int) -> int:
    """How many, `most` at most, they have in common at their end."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low
