"""Why a node is told what it is told: by scope type, who grants it, what is published, what is about to change."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from coordinator import catalog, peers, situation, views
from coordinator.compiler import Content, compile_scope
from coordinator.database import Database
from coordinator.increments import changes
from coordinator.model import Model, Subject
from coordinator.recovered import content_of, governing
from coordinator.refusal import Code, Refused
from coordinator.situation import Allowed, Held, Situation
from snapshot.identifiers import SCOPE_TYPES, format_time
from snapshot.roles import EVERY_NODE, ROLES


@dataclass(frozen=True)
class Explanation:
    """One scope type for one node; `published` and `differs` are None where it may not hold it."""

    scope_type: str
    may_hold: bool
    because: str
    published: Mapping[str, object] | None = None
    differs: Mapping[str, str] | None = None  # section -> set, remove or patch: what the next publication changes


def explain(database: Database, node_id: str) -> list[Explanation]:
    """Every scope type; one of them in whole is explain_scope.py's. `not_found` for a stranger."""
    with database.read() as transaction:
        model = catalog.load(transaction)
        subject = subject_of(model, node_id)
        present = situation.read_situations(transaction, [node_id])[node_id]
        return [_explained(model, subject, each, present) for each in SCOPE_TYPES]


def subject_of(model: Model, node_id: str, scope_types: Iterable[str] = ()) -> Subject:
    """`not_found` for a stranger, one who was revoked, and for what is no scope type."""
    for scope_type in scope_types:
        if scope_type not in SCOPE_TYPES:
            remedy = f"there are {', '.join(SCOPE_TYPES)}"
            raise Refused(Code.NOT_FOUND, f"{scope_type} is no scope type", remedy=remedy)
    subject = model.subjects.get(node_id)
    if subject is None:
        raise Refused(Code.NOT_FOUND, f"{node_id} is no member", remedy="`holdfastctl nodes list` shows them")
    return subject


def because(model: Model, subject: Subject, scope_type: str) -> str:
    """Why the member may hold it, or why not."""
    if scope_type == "trust_bundle":
        return "every node trusts by it; root keys sign it"
    if scope_type not in views.scope_types(subject):
        return _why_not(subject, scope_type)
    return _why(model, subject, scope_type)


def differing(declared: Content, held: Held | None, allowed: Allowed | None) -> dict[str, str]:
    """Each section in which what is published next differs from what is published now; `allowed`: the last recovery."""
    recovery = governing(allowed, declared)
    content = declared if recovery is None else content_of(recovery)
    if held is None:
        return dict.fromkeys(content.sections, "set")
    if held.content_hash == content.content_hash:
        return {}
    return {name: change.op for name, change in changes(held.sections, held.read, content.sections).changes.items()}


def _explained(model: Model, subject: Subject, scope_type: str, present: Situation) -> Explanation:
    held, allowed = present.held.get(scope_type), present.recoveries.get(scope_type)
    why = because(model, subject, scope_type)
    if scope_type == "trust_bundle":
        return Explanation(scope_type, True, why, _published(held))
    if scope_type not in views.scope_types(subject):
        return Explanation(scope_type, False, why)
    content = compile_scope(model, subject.node_id, scope_type)
    return Explanation(scope_type, True, why, _published(held), differing(content, held, allowed))


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


def _published(held: Held | None) -> dict[str, object] | None:
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
