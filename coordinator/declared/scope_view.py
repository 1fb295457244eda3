"""What the coordinator knows of a scope type: one object a type, with one member for each question. Pure.

    sections     what one node is told in the scope
    concerns     whether that says something of a declared resource
    origin       why an entry stands there, and what its value is made of

The objects are in node_scopes.py and tenant_scopes.py, their table in views.py. What the format says of every scope
type (who may hold it, who may share it) is in snapshot/, where nodes read it, too.
"""

import base64
import hashlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, TypeVar

from coordinator.declared.kinds import Node, Resource, Selector
from coordinator.declared.model import Kind, MemberEntry, Model, Subject
from snapshot import canonical
from snapshot.identifiers import Scope
from wire.operators.fleet_answers import DeclaredSource

Sections = Mapping[str, object]
Value = TypeVar("Value")

MEMBER = "member"  # no declared resource: the entry of who has joined
DRAINING = "the node is draining: it gets nothing that it did not have (holdfastctl nodes undrain)"


@dataclass(frozen=True)
class ValueOrigin:
    """Why an entry is there, and what its value is made of.

    `sources` name everything that the value is written from, and nothing else: where the value changes while the entry
    stays, one of them has changed, or others are named. A property test holds that against the sections. What only
    decides whether the entry is there at all (a selector, a service that runs here) is said in `because`. They are
    empty where nobody declares the value.
    """

    because: str
    sources: tuple[DeclaredSource, ...] = ()


class ScopeView:
    """One scope type as it is compiled: the base of those of which a node has one scope, without ids.

    `SHOWN`: the kinds of resources whose members, or whose coming and going, can change what a scope says. Sites and
    organizations stand nowhere there: no scope holds anything of them but their ids. `TELLS_OF_NODE`: whether what is
    declared of a node changes what its scopes say, beyond which resources select it and whom it knows. `IS_TENANTS`:
    whether anything that it says may be an organization's (`organization_id`).
    """

    TYPE: ClassVar[str]
    SHOWN: ClassVar[tuple[type[Resource], ...]] = ()
    TELLS_OF_NODE: ClassVar[bool] = False
    IS_TENANTS: ClassVar[bool] = True

    def scopes(self, _model: Model, _subject: Subject) -> tuple[Scope, ...]:
        """Those of a node that may hold the type, sorted."""
        return (Scope(self.TYPE),)

    def has(self, _model: Model, _subject: Subject, scope: Scope) -> bool:
        """Whether a scope of the type is one of `scopes`."""
        return not scope.ids

    def scope_of(self, _resource: Resource) -> Scope:
        """Which scope of the type says something of a resource that is shown."""
        return Scope(self.TYPE)

    def concerns(self, model: Model, resource: Resource, subject: Subject) -> bool:
        """Whether that scope of the subject, which may hold it, says something of the resource, one of `SHOWN`."""
        raise NotImplementedError

    def sections(self, model: Model, subject: Subject, scope: Scope) -> Sections:
        """{name: JSON value} of a scope that the subject holds."""
        raise NotImplementedError

    def encode_sections(self, model: Model, subject: Subject, scope: Scope) -> dict[str, bytes]:
        """The same, canonical."""
        return {name: canonical.dumps(value) for name, value in self.sections(model, subject, scope).items()}

    def is_common(self, _model: Model, _subject: Subject, _scope: Scope) -> bool:
        """Whether a scope of the subject holds nothing that is of the node itself, so that the nodes with equal content
        can have one document (format.md 7, step 3).
        """
        return False

    def alike(self, _model: Model, _subject: Subject, _scope: Scope) -> Hashable | None:
        """Subjects of which this is equal are told the same, in a document for the same roles and organizations, or in
        documents of their own. None where that is known no sooner than what they are told.
        """
        return None

    def origin(self, model: Model, subject: Subject, scope: Scope, section: str, entry: str) -> ValueOrigin:
        """Of one member of one section that `sections` gives."""
        raise NotImplementedError

    def detail(self, _model: Model, _subject: Subject) -> str:
        """What else decides what a node that holds the type is told; nothing where its roles say it all."""
        return ""

    def why(self, _model: Model, _subject: Subject, _scope: Scope) -> str:
        """Why the node holds this one of `scopes`, where more than its roles decides; else nothing."""
        return ""

    def why_not(self, _model: Model, _subject: Subject, _scope: Scope) -> str:
        """Why a scope is none of `scopes`."""
        return f"of {self.TYPE} a node has one scope, without ids"


def write_once(model: Model, what: str, resource: Kind, write: Callable[[Kind], object]) -> object:
    """Thousands of nodes may know one resource: it is written out once for a model."""
    key = (what, resource.id)
    if key not in model.written:
        model.written[key] = write(resource)
    return model.written[key]


def resource_of(model: Model, kind: type[Kind], id_: str) -> Kind:
    """The resource that an entry is written from."""
    found = model.resources[kind.KIND, id_]
    if not isinstance(found, kind):
        raise AssertionError("a resource is kept under its kind")
    return found


def node_sources(model: Model, subject: Subject) -> tuple[DeclaredSource, ...]:
    """The Node as it is declared, where it is."""
    key = (Node.KIND, subject.node_id)
    return (DeclaredSource(*key),) if key in model.resources else ()


def way_of_selection(selector: Selector, subject: Subject) -> str:
    """By which part a selector selects a node."""
    if selector.is_empty:
        return "every node"
    if subject.node_id in selector.nodes:
        return f"{subject.node_id} by its id"
    roles = [f"role {role}" for role in selector.roles if role in subject.roles]
    return " and ".join([*roles[:1], *(f"label {name}={value}" for name, value in sorted(selector.labels.items()))])


def encode_pins(member: MemberEntry) -> list[str]:
    """The certificates by which others know it."""
    return [encode_certificate(der) for der in member.certificates]


@lru_cache(maxsize=16_384)
def encode_certificate(der: bytes) -> str:
    """A certificate stands in as many directories as one has entries."""
    return base64.b64encode(der).decode()


@lru_cache(maxsize=65_536)
def part_of(id_: str) -> str:
    """Two hex digits, `00` to `3f`. Asked of the same few thousand ids for every node."""
    return f"{hashlib.sha256(id_.encode()).digest()[0] >> 2:02x}"


def split(name: str, entries: Mapping[str, Value]) -> dict[str, dict[str, Value]]:
    """How a large map is split into sections (format.md 5, 10): `entries` by id -> sections `name.<part>`, each an
    object by id.

    There are 64 parts, always: an entry's part is the first six bits of the SHA-256 of its id. The number is fixed, so
    an entry never moves while the map grows, and a change of one entry touches one section of at most 1/64 of the map.
    Sixty-four because a section is bounded by 1 MiB: filled to half, so that an uneven spread has room, they hold 32
    MiB, ten times the largest map of a node that we plan for (20,000 routes of about 150 bytes), while 64 manifest
    entries cost a small map no more than 7 KiB. A part without entries has no section.
    """
    sections: dict[str, dict[str, Value]] = {}
    for id_ in sorted(entries):
        sections.setdefault(f"{name}.{part_of(id_)}", {})[id_] = entries[id_]
    return {section: sections[section] for section in sorted(sections)}
