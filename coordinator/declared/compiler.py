"""From the declared state to the content of one scope of one node: bytes, and whom they are for (rules S6, S69). Pure.

What a node may know is views.py's to say, and it says no more than a closed set of members. Here it becomes sections,
byte for byte the same for the same state, whichever replica compiles and in whatever order.

A Config's files lie in the object store. Their sections are named here by hash, and read only for a document that is
made: whether one is to be made follows from the hashes. A template is read and rendered at once, since its node's text
is kept nowhere.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from coordinator.declared import contents, templates, views
from coordinator.declared.config_scope import CONFIG, FILES, OWNER
from coordinator.declared.contents import ReadPart, read_none
from coordinator.declared.model import Model, Subject
from snapshot import canonical, manifest
from snapshot.identifiers import SHAREABLE, Scope
from snapshot.manifest import SectionEntry
from snapshot.roles import ESTABLISHING, EVERY_NODE, ROLES

_LEAVES = frozenset({str, int, float, bool, type(None)})


@dataclass(frozen=True)
class Audience:
    """`roles` and `organization_ids` of an envelope, sorted."""

    roles: tuple[str, ...] = ()
    organization_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class StoredSection:
    """A section whose bytes lie in the object store already."""

    sha256: str
    size: int


@dataclass(frozen=True)
class ScopeContent:
    """The full state of one scope. `is_shared`: its document is every node's that is given this content, and no node's
    own.
    """

    scope: Scope
    audience: Audience
    sections: Mapping[str, bytes | StoredSection]
    raw: frozenset[str] = frozenset()  # sections that are bytes and no JSON
    is_shared: bool = False
    read: ReadPart = field(default=read_none, compare=False, repr=False)

    @cached_property
    def entries(self) -> dict[str, SectionEntry]:
        return {name: entry_of(data, is_raw=name in self.raw) for name, data in self.sections.items()}

    @property
    def always(self) -> frozenset[str]:
        """The sections that every increment brings (format.md 11)."""
        return frozenset({FILES}) if self.scope.type == CONFIG else frozenset()

    def section(self, name: str) -> bytes:
        """The bytes of one."""
        return self.bytes_of(self.sections[name])

    def bytes_of(self, section: bytes | StoredSection) -> bytes:
        return section if isinstance(section, bytes) else self.read(section.sha256)

    def read_all(self) -> dict[str, bytes]:
        """The bytes of all: for the one document that is made of them."""
        return {name: self.section(name) for name in self.sections}

    @cached_property
    def manifest(self) -> bytes:
        return manifest.state_bytes(self.entries)

    @cached_property
    def content_hash(self) -> str:
        return hash_of(self.manifest)

    @cached_property
    def digest(self) -> bytes:
        """Of all that it says, by names, lengths and bytes, so that no two contents have one: `content_hash`, in a part
        of the time.
        """
        data = [part if isinstance(part, bytes) else part.sha256.encode() for part in self.sections.values()]
        shape = "\n".join([self.scope.type, *self.sections, *map(str, map(len, data))])
        return hashlib.blake2b(b"".join([shape.encode(), *data]), digest_size=32).digest()


def compile_scope(model: Model, node_id: str, scope: Scope, read: ReadPart = read_none) -> ScopeContent:
    """KeyError for a node that is no member, or a scope that it may not hold. `read`: what files hold."""
    sections = views.sections(model, node_id, scope) if views.VIEWS[scope.type].IS_TENANTS else {}
    subject = model.subjects[node_id]
    audience = _audience(subject, scope.type, sections)
    is_shared = views.is_common(model, subject, scope) and may_be_shared(scope.type, audience)
    if scope.type == CONFIG:
        files = _config(sections, read)
        return ScopeContent(scope, audience, files, frozenset(files) - {FILES}, is_shared, read)
    encoded = {name: canonical.dumps(value) for name, value in sections.items()}
    encoded = encoded or views.encode_sections(model, node_id, scope)
    return ScopeContent(scope, audience, encoded, is_shared=is_shared)


def may_be_shared(scope_type: str, audience: Audience) -> bool:
    """Whether a node takes such a document that names no node (format.md 7, step 3)."""
    return scope_type in SHAREABLE and (scope_type == CONFIG or bool(audience.roles))


def entry_of(section: bytes | StoredSection, *, is_raw: bool = False) -> SectionEntry:
    if isinstance(section, StoredSection):
        return SectionEntry(section.sha256, section.size, is_raw)
    return SectionEntry(hashlib.sha256(section).hexdigest(), len(section), is_raw)


def _config(view: Mapping[str, object], read: ReadPart) -> dict[str, bytes | StoredSection]:
    """The index, and each file in parts of one MiB (format.md 11)."""
    index: dict[str, object] = {}
    sections: dict[str, bytes | StoredSection] = {}
    files = view[FILES]
    for path, file in files.items() if isinstance(files, dict) else ():
        parts = _parts(file, read)
        names = [_section_name(path, number) for number in range(len(parts))]
        sections.update(zip(names, parts, strict=True))
        index[path] = {"sections": names, "size": sum(map(_size, parts)), "mode": file["mode"]}
    return {FILES: canonical.dumps(index), **sections}


def _parts(file: Mapping[str, object], read: ReadPart) -> list[bytes | StoredSection]:
    kept, size, values = file["parts"], file["size"], file.get("values")
    if not isinstance(kept, list) or not isinstance(size, int):
        raise AssertionError("a view of a file names its parts and its size")
    if isinstance(values, dict):
        return [*contents.split(templates.parse(read(kept[0]).decode()).render(values).encode())]
    return [StoredSection(sha256, length) for sha256, length in zip(kept, contents.sizes(size), strict=True)]


def _section_name(path: str, number: int) -> str:
    """By its path, so that a file that comes or goes leaves the sections of others as they are; behind the index in
    manifest order, so that a reader can tell whole files at once. Not by the hash of the bytes: two files of the same
    bytes would name one section, which none may.
    """
    return f"raw.{hashlib.sha256(path.encode()).hexdigest()[:32]}.{number:04}"


def _size(part: bytes | StoredSection) -> int:
    return len(part) if isinstance(part, bytes) else part.size


def hash_of(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _audience(subject: Subject, scope_type: str, sections: Mapping[str, object]) -> Audience:
    """All that the node is, where the document says what it is (format.md 9); else the roles that grant the scope type
    and the organizations whose data is inside, so that a change of another one leaves the document alone. What every
    node may hold is granted by no role, but a shared document of it has to name one: it is the first that the node has.
    """
    if scope_type in ESTABLISHING:
        return Audience(tuple(sorted(subject.roles)), tuple(sorted(subject.organizations)))
    if scope_type in EVERY_NODE:
        granting = [] if scope_type == CONFIG else sorted(subject.roles)[:1]
    else:
        granting = [role for role in subject.roles if scope_type in ROLES[role]]
    said = sections.get(OWNER, {}) if scope_type == CONFIG else sections  # a file's path may be anything
    return Audience(tuple(sorted(granting)), tuple(sorted(_organizations(said))))


def _organizations(value: object) -> set[str]:
    """Every `organization_id`, at any depth: what step 11 will look for. Most values hold nothing, and are passed over
    by their types.
    """
    found: set[str] = set()
    waiting = [value]
    while waiting:
        held = waiting.pop()
        inside: Iterable[object] = held if isinstance(held, (list, tuple)) else ()
        if isinstance(held, dict):
            if "organization_id" in held:
                found.add(str(held["organization_id"]))
            inside = held.values()
        waiting += [inner for inner in inside if type(inner) not in _LEAVES]
    return found
