"""`routes.json`: the members of all parts of the routes, one part after the other.

With 10,000 parts it is 10 MiB, of which a change of one part is a thousandth. So what each part has given is kept as a
number: the file of the next version is the one before, copied by the kernel, but for the parts that differ. What is
copied was written by this process, or read and hashed by it as it began (projection.py).

    compose     all of it, from the bytes of its parts
    edit        the same, as pieces of the file before and of the parts that differ
    patch       the same, in the file of a former generation that is over: the parts that differ, where they lie in it

To copy 10 MiB takes the kernel six times as long as all else about a file of which one part has changed. So a file of
before is patched where no part has come or gone since, or become longer or shorter (former_files.py): everything behind
such a part lies elsewhere, and is copied.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field

from agent.files.entry_pieces import CopiedPiece, Piece, PlacedPiece, ReadSection
from agent.files.maps import EMPTY_BYTES, ROUTES
from snapshot.content import is_part
from snapshot.frozen import frozen, mutable
from snapshot.manifest import SectionEntry
from snapshot.section_table import SectionTable, differing, family_of

PIECE_BYTES = 64 << 10  # small parts are written together
MOST_EDITED = 256  # parts; where more differ, all are read
MOST_PATCHED_BYTES = 4 << 20  # all in memory at once, until each is known to lie where it lay


@mutable
class RoutesLayout:
    """Of the file that was made last: of which parts of which state, by their `key`, and how many bytes each has given.
    The state is the one that others hold as well; its parts are found anew. `shape` is another number where a part lies
    elsewhere, or is another one.
    """

    key: bytes = b""
    shape: int = 0
    state: Mapping[str, SectionEntry] = field(default_factory=dict)
    lengths: "array[int]" = field(default_factory=lambda: array("Q"))

    def compose(self, key: bytes, state: Mapping[str, SectionEntry], read: ReadSection) -> Iterator[bytes]:
        """Known by its layout once all has been taken."""
        lengths, between, together = array("Q"), b"{", bytearray()
        for name in family_of(state, ROUTES):
            members = members_of(read(name))
            lengths.append(len(members) + 1 if members else 0)
            if members:
                together += between
                together += members
                between = b","
            if len(together) >= PIECE_BYTES:
                yield bytes(together)
                together.clear()
        yield bytes(together) + (b"{}" if between == b"{" else b"}")
        self._become(key, state, lengths, is_as_before=False)

    def edit(
        self, key: bytes, state: Mapping[str, SectionEntry], read: ReadSection, held_key: bytes
    ) -> Iterable[Piece] | None:
        """From the file of `held_key`; None where that is not the one of this layout, or too much differs."""
        if self.key != held_key or not isinstance(self.state, SectionTable) or not isinstance(state, SectionTable):
            return None
        changed = [name for name in sorted(differing(self.state, state)) if is_part(name, ROUTES)]
        return self._edits(key, self.state, state, changed, read) if len(changed) <= MOST_EDITED else None

    def patch(
        self, key: bytes, state: Mapping[str, SectionEntry], read: ReadSection, held_key: bytes, behind: Set[str]
    ) -> Sequence[PlacedPiece] | None:
        """For a file that was made in this shape, and is behind in these sections of the state. `held_key`: of the file
        of the present generation. None where a part is not where it was.
        """
        if self.key != held_key or not isinstance(self.state, SectionTable) or not isinstance(state, SectionTable):
            return None
        changed = differing(self.state, state)
        names = sorted(name for name in changed | behind if is_part(name, ROUTES))
        if len(names) > MOST_EDITED or any(name not in self.state or name not in state for name in names):
            return None
        if sum(state[name].size for name in names) > MOST_PATCHED_BYTES:
            return None
        parts, pieces = self.state.family(ROUTES), list[PlacedPiece]()
        for name in names:
            members, place = members_of(read(name)), parts.place_of(name)
            if self.lengths[place] != (len(members) + 1 if members else 0):
                return None
            pieces.append(PlacedPiece(sum(self.lengths[:place]) + 1, members))
        self._become(key, state, self.lengths, is_as_before=True)
        return pieces

    def _edits(
        self, key: bytes, old: SectionTable, new: SectionTable, changed: Sequence[str], read: ReadSection
    ) -> Iterator[Piece]:
        parts, lengths, between, done, offset = old.family(ROUTES), array("Q"), b"{", 0, 0
        for name in [*changed, None]:
            place = parts.place_of(name) if name is not None else len(self.lengths)
            size = sum(self.lengths[done:place])
            lengths += self.lengths[done:place]
            if size:  # each part begins with what stands before it, which may be another now
                yield between
                yield CopiedPiece(offset + 1, size - 1)
                between = b","
            done, offset = place, offset + size
            if name is None:
                break
            if name in old:
                offset, done = offset + self.lengths[done], done + 1
            if name in new:
                members = members_of(read(name))
                lengths.append(len(members) + 1 if members else 0)
                if members:
                    yield between + members
                    between = b","
        yield b"{}" if between == b"{" else b"}"
        is_as_before = lengths == self.lengths and all(name in old and name in new for name in changed)
        self._become(key, new, lengths, is_as_before=is_as_before)

    def _become(
        self, key: bytes, state: Mapping[str, SectionEntry], lengths: "array[int]", *, is_as_before: bool
    ) -> None:
        self.key, self.state, self.lengths = key, state, lengths
        self.shape += not is_as_before


@frozen
class RoutesEditor:
    """The file of one state: how it is made of one that is there."""

    layout: RoutesLayout
    key: bytes
    state: Mapping[str, SectionEntry]

    @property
    def shape(self) -> int | None:
        """Of the file, once it is made; None of another one."""
        return self.layout.shape if self.layout.key == self.key else None

    def edit(self, read: ReadSection, held: SectionEntry) -> Iterable[Piece] | None:
        return self.layout.edit(self.key, self.state, read, bytes.fromhex(held.sha256))

    def patch(
        self, read: ReadSection, held: SectionEntry, shape: int, behind: Set[str]
    ) -> Sequence[PlacedPiece] | None:
        """For a file that was made in that shape."""
        if shape != self.layout.shape:
            return None
        return self.layout.patch(self.key, self.state, read, bytes.fromhex(held.sha256), behind)


def members_of(part: bytes) -> bytes:
    """Without brackets. What is no object holds none."""
    return part[1:-1] if part[:1] == b"{" and len(part) > EMPTY_BYTES else b""
