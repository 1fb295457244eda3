"""What one node may know, scope by scope (seed 001 section 5; format.md 9, 10). Pure: model in, sections out.

    scopes(model, subject)            the scopes that are compiled for a member
    sections(model, node_id, scope)   one of them: {name: JSON value}
    origin(model, subject, scope, ..) why one entry of it is there

`VIEWS` has one object a scope type, which answers all that is asked of the type.

The same model gives the same sections, in whatever order it was put together. Nothing of an organization that a node
does not serve is in its views, no raw secret can be in the model, and peers are bounded. `trust_bundle` is not a view:
root keys sign it, the coordinator passes it on.
"""

from collections.abc import Hashable, Mapping
from functools import lru_cache

from coordinator.declared.config_scope import ConfigFolders
from coordinator.declared.model import Model, Subject
from coordinator.declared.node_scopes import DegradedMode, NodeBootstrap, NodeRuntime, PeerDirectory
from coordinator.declared.scope_view import ScopeView, Sections, ValueOrigin
from coordinator.declared.tenant_scopes import QosPolicies, RoutePolicy, ServiceAssignment, StorageDirectory
from snapshot.identifiers import Scope
from snapshot.roles import allowed_scope_types

VIEWS: Mapping[str, ScopeView] = {
    view.TYPE: view
    for view in (
        NodeBootstrap(),
        NodeRuntime(),
        PeerDirectory(),
        ServiceAssignment(),
        RoutePolicy(),
        QosPolicies(),
        StorageDirectory(),
        DegradedMode(),
        ConfigFolders(),
    )
}

# A witness holds these alone (rules J27), with the trust bundle.
WITNESS_SCOPES = frozenset({NodeBootstrap.TYPE, DegradedMode.TYPE})


def scope_types(subject: Subject) -> tuple[str, ...]:
    """The scope types that are compiled for this member, sorted."""
    return _scope_types(subject.member.kind, subject.roles)


@lru_cache(maxsize=1_024)
def _scope_types(kind: str, roles: tuple[str, ...]) -> tuple[str, ...]:
    """Thousands of members are asked at each change, and few differ in this."""
    if kind == "witness":
        return tuple(sorted(WITNESS_SCOPES))
    return tuple(sorted(allowed_scope_types(roles) & VIEWS.keys()))


def scopes(model: Model, subject: Subject) -> tuple[Scope, ...]:
    """The scopes that are compiled for this member, sorted."""
    found: list[Scope] = []
    for scope_type in scope_types(subject):
        found += VIEWS[scope_type].scopes(model, subject)
    return tuple(found)


def scopes_of_type(model: Model, subject: Subject, scope_type: str) -> tuple[Scope, ...]:
    """Those of one type, sorted; none where it may not hold the type."""
    return VIEWS[scope_type].scopes(model, subject) if scope_type in scope_types(subject) else ()


def holds(model: Model, subject: Subject, scope: Scope) -> bool:
    """Whether it is compiled for this member."""
    return scope.type in scope_types(subject) and VIEWS[scope.type].has(model, subject, scope)


def sections(model: Model, node_id: str, scope: Scope) -> Sections:
    """KeyError for a node that is no member or a scope that it may not hold."""
    subject = model.subjects[node_id]
    if not holds(model, subject, scope):
        raise KeyError(f"{node_id} may not hold {scope.name}")
    return VIEWS[scope.type].sections(model, subject, scope)


def encode_sections(model: Model, node_id: str, scope: Scope) -> dict[str, bytes]:
    """`sections` as canonical JSON."""
    subject = model.subjects[node_id]
    if not holds(model, subject, scope):
        raise KeyError(f"{node_id} may not hold {scope.name}")
    return VIEWS[scope.type].encode_sections(model, subject, scope)


def is_common(model: Model, subject: Subject, scope: Scope) -> bool:
    """Whether what the subject is told of the scope may be one document with what others are told."""
    return VIEWS[scope.type].is_common(model, subject, scope)


def alike(model: Model, node_id: str, scope: Scope) -> Hashable | None:
    """Members of which this is equal are told the same of the scope, and for the same audience. None: nobody else is,
    or that is known no sooner than what they are told.
    """
    subject = model.subjects.get(node_id)
    return None if subject is None or not holds(model, subject, scope) else alike_of(model, subject, scope)


def alike_of(model: Model, subject: Subject, scope: Scope) -> Hashable | None:
    """The same, of a member that holds the scope."""
    return VIEWS[scope.type].alike(model, subject, scope)


def all_sections(model: Model, node_id: str) -> dict[Scope, Sections]:
    """Every scope of one member."""
    return {scope: sections(model, node_id, scope) for scope in scopes(model, model.subjects[node_id])}


def origin(model: Model, subject: Subject, scope: Scope, section: str, entry: str) -> ValueOrigin:
    """Of one member of one section that the subject is told."""
    return VIEWS[scope.type].origin(model, subject, scope, section, entry)
