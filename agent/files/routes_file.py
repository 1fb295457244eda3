"""`routes.json`: the members of all parts of the routes, one part after the other.

With 10,000 parts it is 10 MiB, of which a change of one part is a thousandth. So what each part has given is kept as a
number: the file of the next version is the one before, copied by the kernel, but for the parts that differ. What is
copied was written by this process, or read and hashed by it as it began (projection.py).

    compose     all of it, from the bytes of its parts
    edit        the same, as pieces of the file before and of the parts that differ
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from agent.files.entry_pieces import CopiedPiece, Piece, ReadSection
from agent.files.maps import EMPTY_BYTES, ROUTES
from snapshot.content import is_part
from snapshot.frozen import mutable
from snapshot.manifest import SectionEntry
from snapshot.section_table import SectionTable, differing, family_of

PIECE_BYTES = 64 << 10  # small parts are written together
MOST_EDITED = 256  # parts; where more differ, all are read


@mutable
class RoutesLayout:
    """Of the file that was made last: of which parts of which state, by their `key`, and how many bytes each has given.
    The state is the one that others hold as well; its parts are found anew.
    """

    key: bytes = b""
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
        self.key, self.state, self.lengths = key, state, lengths

    def edit(
        self, key: bytes, state: Mapping[str, SectionEntry], read: ReadSection, held_key: bytes
    ) -> Iterable[Piece] | None:
        """From the file of `held_key`; None where that is not the one of this layout, or too much differs."""
        if self.key != held_key or not isinstance(self.state, SectionTable) or not isinstance(state, SectionTable):
            return None
        changed = [name for name in sorted(differing(self.state, state)) if is_part(name, ROUTES)]
        return self._edits(key, self.state, state, changed, read) if len(changed) <= MOST_EDITED else None

    def _edits(
        self, key: bytes, old: SectionTable, new: SectionTable, changed: Iterable[str], read: ReadSection
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
        self.key, self.state, self.lengths = key, new, lengths


def members_of(part: bytes) -> bytes:
    """Without brackets. What is no object holds none."""
    return part[1:-1] if part[:1] == b"{" and len(part) > EMPTY_BYTES else b""
