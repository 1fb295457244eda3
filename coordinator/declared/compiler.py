"""From the declared state to the content of one scope of one node: bytes, and whom they are for (rules S6, S69). Pure.

What a node may know is views.py's to say, and it says no more than a closed set of members. Here it becomes sections,
byte for byte the same for the same state, whichever replica compiles and in whatever order.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from coordinator.declared import views
from coordinator.declared.model import Model, Subject
from snapshot import canonical, manifest
from snapshot.identifiers import Scope
from snapshot.manifest import SectionEntry
from snapshot.roles import ESTABLISHING, EVERY_NODE, ROLES


@dataclass(frozen=True)
class Audience:
    """`roles` and `organization_ids` of an envelope, sorted."""

    roles: tuple[str, ...] = ()
    organization_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScopeContent:
    """The full state of one scope."""

    scope: Scope
    audience: Audience
    sections: Mapping[str, bytes]

    @cached_property
    def entries(self) -> dict[str, SectionEntry]:
        return {name: entry_of(data) for name, data in self.sections.items()}

    @cached_property
    def content_hash(self) -> str:
        return hash_of(manifest.state_bytes(self.entries))


def compile_scope(model: Model, node_id: str, scope: Scope) -> ScopeContent:
    """KeyError for a node that is no member, or a scope that it may not hold."""
    sections = views.sections(model, node_id, scope)
    audience = _audience(model.subjects[node_id], scope.type, sections)
    return ScopeContent(scope, audience, {name: canonical.dumps(value) for name, value in sections.items()})


def entry_of(section: bytes) -> SectionEntry:
    return SectionEntry(hashlib.sha256(section).hexdigest(), len(section))


def hash_of(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _audience(subject: Subject, scope_type: str, sections: Mapping[str, object]) -> Audience:
    """All that the node is, where the document says what it is (format.md 9); else the roles that grant the scope type
    and the organizations whose data is inside, so that a change of another one leaves the document alone.
    """
    if scope_type in ESTABLISHING:
        return Audience(tuple(sorted(subject.roles)), tuple(sorted(subject.organizations)))
    granting = () if scope_type in EVERY_NODE else (role for role in subject.roles if scope_type in ROLES[role])
    return Audience(tuple(sorted(granting)), tuple(sorted(set(_organizations(sections)))))


def _organizations(value: object) -> Iterator[str]:
    """Every `organization_id`, at any depth: what step 11 will look for."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name == "organization_id":
                yield str(inner)
            yield from _organizations(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _organizations(inner)
