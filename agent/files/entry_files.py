"""Services' settings and routes as files of their own, made from the sections in which they are signed.

    services/<id>/settings.json     the settings of a service, none where the node is not told of them
    services/<id>/resources.json    what it goes out by, by id, without what is revoked; none where it names nothing
    routes.json                     all routes by id

Who reads files has no use for the scope and section that something is signed in, and for the 64 parts of the routes.
The bytes follow from the signed ones, and from what head and bundle revoke. Whether a file has changed is told by its
own bytes: another endpoint leaves the settings as they are, and the file is linked. They are for whoever may read the
scope that they are from.

    entry_files(scope, sections, read, made, revoked)    the files of a scope; what it has read once, `made` keeps

The routes are all of their parts, one after the other: they are other ones where a part is. So nothing is read to tell
whether they have changed: with one of 10,000 parts that would be all of the others. And what has not changed of them is
copied from the file before (routes_file.py).
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field

from agent.files.entry_pieces import Pieces, ReadSection
from agent.files.maps import EMPTY_BYTES, ROUTES, ROUTES_SCOPE, parts_of
from agent.files.routes_file import MOST_EDITED, RoutesEditor, RoutesLayout
from snapshot import canonical
from snapshot.content import is_part
from snapshot.egress import RESOURCES, usable_entries
from snapshot.frozen import frozen, mutable
from snapshot.identifiers import parse_scope
from snapshot.manifest import SectionEntry
from snapshot.section_table import differing, sizes_of, state_bytes

SERVICES_TYPE, SERVICES = "service_assignment", "services"
SETTINGS_FILE, RESOURCES_FILE, ROUTES_FILE = "settings.json", "resources.json", "routes.json"
MOST_KEPT = 4096
LOOKED_UP_SHARE = 32  # one part looked up takes as long as so many added up


@frozen
class EntryFile:
    """`pieces` makes the bytes from those of the sections, a part at a time. `entry`: their hash and size, or where
    `read_entry` is asked for these a hash of what they are made from, and the most that they can be. `editor`: how it
    is made of a file that is there.
    """

    path: str
    entry: SectionEntry
    pieces: Pieces
    read_entry: Callable[[], SectionEntry] | None = None
    editor: RoutesEditor | None = None


@mutable
class PartsSum:
    """Of the parts of the routes, which they are and their size: `key` is another one wherever they are, and `size` is
    in bytes. Of one state from that before it: to go through 10,000 parts takes longer than all else about a file of
    which one has changed. So what is said of the same parts again may be another key, by which a file is made again.
    """

    key: bytes = b""
    size: int = 0
    _state: Mapping[str, SectionEntry] = field(default_factory=dict)

    def follow(self, state: Mapping[str, SectionEntry]) -> None:
        if self._state:
            changed = sorted(name for name in differing(self._state, state) if is_part(name, ROUTES))
        if not self._state or len(changed) > min(MOST_EDITED, len(state) // LOOKED_UP_SHARE):
            parts = parts_of(ROUTES_SCOPE, ROUTES, state)
            self.key, self.size = _key_of(state_bytes(parts)), sum(sizes_of(parts))
        elif changed:
            changes = [(name, self._state.get(name), state.get(name)) for name in changed]
            self.key = _key_of(self.key, *(_row_of(name, after) for name, _, after in changes))
            self.size += sum(_size_of(after) - _size_of(before) for _, before, after in changes)
        self._state = state


def _size_of(entry: SectionEntry | None) -> int:
    return 0 if entry is None else entry.size


def _row_of(name: str, entry: SectionEntry | None) -> bytes:
    """No name has a line break."""
    return f"{name}\n{'' if entry is None else entry.text()}\n".encode()


def _key_of(*pieces: bytes) -> bytes:
    return hashlib.sha256(b"".join((ROUTES_FILE.encode(), b"\n", *pieces))).digest()


@mutable
class MadeEntries:
    """Hash and size of what was made from sections, by a hash of what these were; None: nothing was. The hash alone is
    kept: each version of a map of 10,000 parts would leave a MiB of names here. `routes`: how the last of the routes'
    files is made up.
    """

    routes: RoutesLayout = field(default_factory=RoutesLayout)
    parts: PartsSum = field(default_factory=PartsSum)
    _kept: OrderedDict[bytes, SectionEntry | None] = field(default_factory=OrderedDict)

    def of(self, key: bytes, pieces: Pieces, read: ReadSection) -> SectionEntry | None:
        if key not in self._kept:
            self._kept[key] = _entry_of(pieces(read))
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


@frozen
class _Source:
    """A file, and what it is made from. `beside`: what else its bytes follow from."""

    path: str
    sections: Mapping[str, SectionEntry]
    pieces: Pieces
    beside: tuple[str, ...] = ()

    @property
    def key(self) -> bytes:
        """Another one wherever its bytes may be others."""
        beside = "\n".join((self.path, *self.beside, "")).encode()
        return hashlib.sha256(beside + state_bytes(self.sections)).digest()


def entry_files(
    scope: str,
    sections: Mapping[str, SectionEntry],
    read: ReadSection,
    made: MadeEntries,
    revoked: frozenset[str] = frozenset(),
) -> Iterator[EntryFile]:
    """The files that a scope gives beside its own folder: one service's settings, or the routes; else none."""
    if scope == ROUTES_SCOPE:
        yield _routes_file(sections, read, made)
    for source in _sources(scope, sections, revoked):
        if (entry := made.of(source.key, source.pieces, read)) is not None:
            yield EntryFile(source.path, entry, source.pieces)


def _routes_file(state: Mapping[str, SectionEntry], read: ReadSection, made: MadeEntries) -> EntryFile:
    def pieces(read: ReadSection) -> Iterable[bytes]:
        return made.routes.compose(key, state, read)

    def read_entry() -> SectionEntry:
        entry = made.of(key, pieces, read)
        assert entry is not None  # noqa: S101 - a map of nothing has its brackets
        return entry

    made.parts.follow(state)
    key, size = made.parts.key, made.parts.size
    editor = RoutesEditor(made.routes, key, state)
    return EntryFile(ROUTES_FILE, SectionEntry(key.hex(), EMPTY_BYTES + size), pieces, read_entry, editor)


def _sources(scope: str, sections: Mapping[str, SectionEntry], revoked: frozenset[str]) -> Iterator[_Source]:
    scope_type, ids = parse_scope(scope)
    if scope_type != SERVICES_TYPE or len(ids) != 1:
        return
    folder = folder_of_service(ids[0])
    if SERVICES in sections:
        yield _Source(f"{folder}/{SETTINGS_FILE}", {SERVICES: sections[SERVICES]}, _settings_of(ids[0]))
    if RESOURCES in sections:
        pieces = _resources_without(revoked)
        yield _Source(f"{folder}/{RESOURCES_FILE}", {RESOURCES: sections[RESOURCES]}, pieces, tuple(sorted(revoked)))


def folder_of_service(service_id: str) -> str:
    return f"services/{service_id}"


def _settings_of(service_id: str) -> Pieces:
    def pieces(read: ReadSection) -> Iterator[bytes]:
        value = canonical.loads(read(SERVICES))
        entry = value.get(service_id) if isinstance(value, dict) else None
        if isinstance(entry, dict) and entry.get("settings") is not None:
            yield canonical.dumps(entry["settings"])

    return pieces


def _resources_without(revoked: frozenset[str]) -> Pieces:
    def pieces(read: ReadSection) -> Iterator[bytes]:
        yield canonical.dumps(usable_entries(read(RESOURCES), revoked))

    return pieces


def _entry_of(pieces: Iterable[bytes]) -> SectionEntry | None:
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
    return SectionEntry(digest.hexdigest(), size) if size else None
