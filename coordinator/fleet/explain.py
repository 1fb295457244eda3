"""Why a node is told what it is told: by scope, who grants it, what is published, what is about to change."""

from dataclasses import replace

from coordinator.base.refusal import Code, Refused
from coordinator.database import catalog
from coordinator.database.database import Database
from coordinator.declared import views
from coordinator.declared.compiler import ScopeContent, compile_scope
from coordinator.declared.contents import ReadPart
from coordinator.declared.increments import changes
from coordinator.declared.model import Model, Subject
from coordinator.declared.views import VIEWS
from coordinator.fleet.held_scopes import held_scopes
from coordinator.publishing import published_state
from coordinator.publishing.instead import content_of, governing
from coordinator.publishing.published_state import AllowedRecovery, PublishedDocument, Situation
from coordinator.reports import features
from snapshot.identifiers import SCOPE_TYPES, Scope, format_time, parse_scope
from snapshot.roles import EVERY_NODE, ROLES
from wire.operators.fleet_answers import HoldingExplanation, PublishedFacts

TRUST_BUNDLE = Scope("trust_bundle")


def explain(database: Database, node_id: str) -> list[HoldingExplanation]:
    """Every scope, and of each type that it has none of why; one in whole is explain_scope.py's. `not_found` for a
    stranger.
    """
    with database.read() as transaction:
        model = catalog.load(transaction)
        subject = subject_of(model, node_id)
        present = published_state.read_situations(transaction, [node_id])[node_id]
        found = [scope for scope_type in SCOPE_TYPES for scope in _of_type(model, subject, scope_type, present)]
        read, kept_back = published_state.reader(transaction), held_scopes(transaction, [node_id]).get(node_id, {})
        told = (_explain(model, subject, scope, present, read) for scope in found)
        return [replace(scope, held_back=scope.held_back or kept_back.get(scope.scope, "")) for scope in told]


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
        return VIEWS[scope.type].why_not(model, subject, scope)
    return VIEWS[scope.type].why(model, subject, scope) or _why(model, subject, scope.type)


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
    return {
        name: change.op
        for name, change in changes(held.sections, held.read, content.sections, content.raw).changes.items()
    }


def _of_type(model: Model, subject: Subject, scope_type: str, present: Situation) -> list[Scope]:
    """Those that it may hold or is told of still; where there are none the type alone."""
    found = set(views.scopes_of_type(model, subject, scope_type))
    found |= {scope for scope in map(parse_scope, present.held) if scope.type == scope_type}
    return sorted(found) or [Scope(scope_type)]


def _explain(model: Model, subject: Subject, scope: Scope, present: Situation, read: ReadPart) -> HoldingExplanation:
    held, allowed = present.held.get(scope.name), present.recoveries.get(scope.name)
    why = because(model, subject, scope)
    if scope == TRUST_BUNDLE:
        return HoldingExplanation(scope.name, True, why, _published_facts(held))
    if not views.holds(model, subject, scope):
        return HoldingExplanation(scope.name, False, why, _published_facts(held))
    waiting = features.unreadable_scopes([scope], present.features)
    if waiting:
        return HoldingExplanation(scope.name, True, why, _published_facts(held), {}, waiting[scope].words)
    content = compile_scope(model, subject.node_id, scope, read)
    return HoldingExplanation(scope.name, True, why, _published_facts(held), differing(content, held, allowed))


def _why(model: Model, subject: Subject, scope_type: str) -> str:
    granting = sorted(role for role in subject.roles if scope_type in ROLES[role])
    granted = "every node has it" if scope_type in EVERY_NODE else f"granted by the role {', '.join(granting)}"
    return "; ".join(filter(None, (granted, VIEWS[scope_type].detail(model, subject))))


def _why_not(subject: Subject, scope_type: str) -> str:
    if subject.member.kind == "witness":
        return "a witness holds node_bootstrap, trust_bundle and degraded_mode_policy only"
    granting = sorted(role for role, types in ROLES.items() if scope_type in types)
    return f"none of its roles ({', '.join(subject.roles) or 'none'}) grants it; these do: {', '.join(granting)}"


def _published_facts(held: PublishedDocument | None) -> PublishedFacts | None:
    if held is None:
        return None
    one = held.envelope
    return PublishedFacts(
        **vars(held.entry),
        issued_at=format_time(one.issued_at),
        refresh_after=format_time(one.refresh_after),
        expires_at=format_time(one.expires_at),
        roles=one.roles,
        organization_ids=one.organization_ids,
        sections={name: entry.size for name, entry in held.sections.items()},
        subject_node_id=one.subject_node_id,
    )
