"""Which files active scopes are, by their path in a generation (protocol.md 4). Pure, but for what `read` does.

<scope_type>[@<ids>]/<section>.json     a section of JSON
config/<id>/<path>                      a file of a config, as its index says (format.md 11)
services/<id>/*.json, routes.json    beside their scopes: entry_files.py
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from agent.files.entry_files import MadeEntries, entry_files
from agent.files.entry_pieces import Piece, Pieces, ReadSection
from agent.files.routes_file import RoutesEditor
from snapshot import canonical
from snapshot.config_files import FILES, parse_index
from snapshot.frozen import frozen
from snapshot.identifiers import CONFIG, parse_scope
from snapshot.manifest import SectionEntry

MOST_IDS_BYTES = 180
READ_TO_EXECUTE = 2  # from a mode's bit for reading to that for executing


@dataclass(frozen=True, slots=True)
class ProjectedFile:
    """One file: the bytes of these parts, one after the other. `mode`: as declared; None: as configured."""

    parts: tuple[SectionEntry, ...]
    mode: int | None = None
    names: tuple[str, ...] = field(default=(), compare=False)
    made: Pieces | None = field(default=None, compare=False)  # of what is no section's own bytes
    read_entry: Callable[[], SectionEntry] | None = field(default=None, compare=False)  # where the part is not its hash
    editor: RoutesEditor | None = field(default=None, compare=False)

    def pieces(self, read: ReadSection, held: "ProjectedFile | None" = None) -> Iterable[Piece]:
        """Its bytes, a section at a time, and what of `held`, in whose place it comes, can be copied."""
        edited = self.editor.edit(read, held.parts[0]) if self.editor is not None and held is not None else None
        if edited is not None:
            return edited
        return map(read, self.names) if self.made is None else self.made(read)

    @property
    def size(self) -> int:
        """At most."""
        return sum(part.size for part in self.parts)

    def read_parts(self) -> tuple[SectionEntry, ...]:
        """By their hashes and sizes: what is to lie on the disk."""
        return self.parts if self.read_entry is None else (self.read_entry(),)

    def identity(self) -> "ProjectedFile":
        """What tells it from others, without what has made it: that holds on to each part's name and hash."""
        return replace(self, made=None, read_entry=None, editor=None)

    def mode_within(self, configured: int) -> int:
        """What is declared, never wider than what is configured; who may read may execute what is declared so."""
        if self.mode is None:
            return configured
        return self.mode & (configured | (configured >> READ_TO_EXECUTE & 0o111))


@frozen
class ProjectedScope:
    """An active scope; `read` gives a section's bytes, whose hash it has checked. `grade` as of protocol.md 4.
    `revoked`: what services go out by no more.
    """

    scope: str
    authority_epoch: int
    config_version: int
    content_hash: str
    expires_at: int
    grade: str
    sections: Mapping[str, SectionEntry]
    read: ReadSection
    revoked: frozenset[str] = frozenset()
    made: MadeEntries = field(default_factory=MadeEntries, compare=False, repr=False)

    @property
    def signed_sections(self) -> Mapping[str, SectionEntry]:
        """The sections that are files of their own, by name; `path_of` says where. There may be tens of thousands, so
        nothing is made of each where nothing is to be done about it.
        """
        return {} if self._is_config else self.sections

    @cached_property
    def others(self) -> Mapping[str, ProjectedFile]:
        """Its other files, by path: those of a config, whose index is read, or what is made of sections."""
        if self._is_config:
            place = folder_of(self.scope)
            return {f"{place}/{path}": file for path, file in self._config_files()}
        made = entry_files(self.scope, self.sections, self.read, self.made, self.revoked)
        return {
            file.path: ProjectedFile((file.entry,), made=file.pieces, read_entry=file.read_entry, editor=file.editor)
            for file in made
        }

    def path_of(self, name: str) -> str:
        """Of the file that is a section."""
        return f"{self._folder}/{name}.json"

    @cached_property
    def _folder(self) -> str:
        return folder_of(self.scope)

    @cached_property
    def places(self) -> tuple[str, ...]:
        """The folders that are its own, without those below them."""
        beside = () if self._is_config else (path.rpartition("/")[0] for path in self.others if "/" in path)
        return folder_of(self.scope), *dict.fromkeys(beside)

    @property
    def shared_places(self) -> frozenset[str]:
        """The folders above those, which it has in common with others."""
        return frozenset(above for place in self.places for above in folders_above(place))

    @property
    def lone_files(self) -> Iterator[str]:
        """Those that lie in no folder of its own."""
        return (path for path in self.others if "/" not in path)

    @cached_property
    def folders(self) -> tuple[str, ...]:
        """Its own and those below them, parents first."""
        below = tuple(f"{place}/" for place in self.places)
        found = {folder for path in self.others for folder in folders_above(path) if folder.startswith(below)}
        return *self.places, *sorted(found)

    @property
    def _is_config(self) -> bool:
        return parse_scope(self.scope).type == CONFIG

    def _config_files(self) -> Iterator[tuple[str, ProjectedFile]]:
        sections = dict(self.sections.items())
        for path, file in parse_index(canonical.loads(self.read(FILES))).items():
            parts = tuple(sections[name] for name in file.sections)
            yield path, ProjectedFile(parts, int(file.mode, 8), file.sections)


def folder_of(scope: str) -> str:
    """`<scope_type>[@<ids>]`, ids of more than 180 bytes given by their hash; `config/<id>`."""
    return scope if parse_scope(scope).type == CONFIG else stem_of(scope)


def stem_of(scope: str) -> str:
    """The scope's name as that of one file, which its index is."""
    scope_type, ids = parse_scope(scope)
    if not ids:
        return scope_type
    joined = ",".join(ids)
    if len(joined.encode()) > MOST_IDS_BYTES:
        return f"{scope_type}@sha256-{hashlib.sha256(joined.encode()).hexdigest()}"
    return f"{scope_type}@{joined}"


def folders_above(path: str) -> Iterator[str]:
    """From the top; none for what lies in the generation's own folder."""
    parts = path.split("/")
    yield from ("/".join(parts[:count]) for count in range(1, len(parts)))
