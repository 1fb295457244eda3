"""Why a node is told what it is told: by scope, who grants it, what is published, what is about to change."""

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.base.refusal import Code, Refused
from coordinator.database import catalog
from coordinator.database.database import Database
from coordinator.declared import peers, views
from coordinator.declared.compiler import ScopeContent, compile_scope
from coordinator.declared.increments import changes
from coordinator.declared.model import Model, Subject
from coordinator.publishing import published_state
from coordinator.publishing.published_state import AllowedRecovery, PublishedDocument, Situation
from coordinator.publishing.rollback_overlay import content_of, governing
from snapshot.identifiers import SCOPE_TYPES, Scope, format_time, parse_scope
from snapshot.roles import EVERY_NODE, ROLES

TRUST_BUNDLE = Scope("trust_bundle")
MOST_NAMED = 10  # scopes in a sentence


@dataclass(frozen=True)
class HoldingExplanation:
    """One scope for one node; `differs` is None where it may not hold it."""

    scope: str
    may_hold: bool
    because: str
    published: Mapping[str, object] | None = None
    differs: Mapping[str, str] | None = None  # section -> set, remove or patch: what the next publication changes


def explain(database: Database, node_id: str) -> list[HoldingExplanation]:
    """Every scope, and of each type that it has none of why; one in whole is explain_scope.py's. `not_found` for a
    stranger.
    """
    with database.read() as transaction:
        model = catalog.load(transaction)
        subject = subject_of(model, node_id)
        present = published_state.read_situations(transaction, [node_id])[node_id]
        found = [scope for each in SCOPE_TYPES for scope in _of_type(model, subject, each, present)]
        return [_explained(model, subject, each, present) for each in found]


def scope_of(text: str) -> Scope:
    """`not_found` for what names no scope of a type that there is."""
    try:
        scope = parse_scope(text)
    except ValueError:
        scope = Scope(text)
    if scope.type not in SCOPE_TYPES:
        remedy = f"there are {', '.join(SCOPE_TYPES)}"
        raise Refused(Code.NOT_FOUND, f"{scope.type} is no scope type", remedy=remedy)
    return scope


def subject_of(model: Model, node_id: str) -> Subject:
    """`not_found` for a stranger, and one who was revoked."""
    subject = model.subjects.get(node_id)
    if subject is None:
        raise Refused(Code.NOT_FOUND, f"{node_id} is no member", remedy="`holdfastctl nodes list` shows them")
    return subject


def because(model: Model, subject: Subject, scope: Scope) -> str:
    """Why the member may hold it, or why not."""
    if scope == TRUST_BUNDLE:
        return "every node trusts by it; root keys sign it"
    if scope.type not in views.scope_types(subject):
        return _why_not(subject, scope.type)
    if not views.holds(model, subject, scope):
        return _why_none(model, subject, scope)
    return _why(model, subject, scope.type)


def differing(
    declared: ScopeContent, held: PublishedDocument | None, allowed: AllowedRecovery | None
) -> dict[str, str]:
    """Each section in which what is published next differs from what is published now; `allowed`: the last recovery."""
    recovery = governing(allowed, declared)
    content = declared if recovery is None else content_of(recovery)
    if held is None:
        return dict.fromkeys(content.sections, "set")
    if held.content_hash == content.content_hash:
        return {}
    return {name: change.op for name, change in changes(held.sections, held.read, content.sections).changes.items()}


def _of_type(model: Model, subject: Subject, scope_type: str, present: Situation) -> list[Scope]:
    """Those that it may hold or is told of still; where there are none the type alone."""
    found = set(views.scopes_of_type(model, subject, scope_type)) if scope_type in views.scope_types(subject) else set()
    found |= {each for each in map(parse_scope, present.held) if each.type == scope_type}
    return sorted(found) or [Scope(scope_type)]


def _explained(model: Model, subject: Subject, scope: Scope, present: Situation) -> HoldingExplanation:
    held, allowed = present.held.get(scope.name), present.recoveries.get(scope.name)
    why = because(model, subject, scope)
    if scope == TRUST_BUNDLE:
        return HoldingExplanation(scope.name, True, why, _published(held))
    if not views.holds(model, subject, scope):
        return HoldingExplanation(scope.name, False, why, _published(held))
    content = compile_scope(model, subject.node_id, scope)
    return HoldingExplanation(scope.name, True, why, _published(held), differing(content, held, allowed))


def _why(model: Model, subject: Subject, scope_type: str) -> str:
    granting = sorted(role for role in subject.roles if scope_type in ROLES[role])
    granted = "every node has it" if scope_type in EVERY_NODE else f"granted by the role {', '.join(granting)}"
    if scope_type == "degraded_mode_policy":
        policy = views.degraded_policy(model, subject)
        return f"{granted}; " + (f"DegradedModePolicy {policy.id} applies" if policy else "no policy applies")
    if scope_type == "peer_directory":
        policy_ = peers.policy_of(model, subject)
        source = f"PeerPolicy {policy_.id}" if policy_ else "the default"
        return f"{granted}; at most {peers.most(policy_, subject)} peers by {source}"
    return granted


def _why_not(subject: Subject, scope_type: str) -> str:
    if subject.member.kind == "witness":
        return "a witness holds node_bootstrap, trust_bundle and degraded_mode_policy only"
    granting = sorted(role for role, types in ROLES.items() if scope_type in types)
    return f"none of its roles ({', '.join(subject.roles) or 'none'}) grants it; these do: {', '.join(granting)}"


def _why_none(model: Model, subject: Subject, scope: Scope) -> str:
    """Of a type that it may hold, a scope that it does not."""
    if scope.type != views.SERVICES:
        return f"of {scope.type} a node has one scope, without ids"
    if len(scope.ids) != 1:
        names = [each.name for each in views.scopes_of_type(model, subject, scope.type)]
        return f"each service has a scope of its own: {', '.join(names[:MOST_NAMED]) or 'none is for this node'}"
    service = model.services.get(scope.ids[0])
    if service is None:
        return f"no Service {scope.ids[0]} is declared"
    if not subject.serves(service.organization):
        return f"the node does not serve {service.organization}, whose service it is"
    return f"Service {service.id} does not run here (runs_on), and has no exposed endpoint that this node has to know"


def _published(held: PublishedDocument | None) -> dict[str, object] | None:
    if held is None:
        return None
    one = held.envelope
    return {
        **vars(held.entry),
        "issued_at": format_time(one.issued_at),
        "refresh_after": format_time(one.refresh_after),
        "expires_at": format_time(one.expires_at),
        "roles": list(one.roles),
        "organization_ids": list(one.organization_ids),
        "sections": {name: entry.size for name, entry in held.sections.items()},
    }
