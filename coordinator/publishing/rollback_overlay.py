"""A recovery beside what is declared: which of them the next publication follows (rules S65, S87). Pure."""

from coordinator.declared.compiler import Audience, ScopeContent
from coordinator.publishing.published_state import AllowedRecovery
from snapshot.envelope import SHARED
from snapshot.identifiers import Scope


def governing(allowed: AllowedRecovery | None, declared: ScopeContent) -> AllowedRecovery | None:
    """A recovery holds as long as what is declared gives the content that was given up, or the one gone back to."""
    if allowed is None or declared.content_hash not in (allowed.given_up, allowed.held.content_hash):
        return None
    return allowed


def content_of(allowed: AllowedRecovery) -> ScopeContent:
    """What it went back to."""
    target, one = allowed.held, allowed.held.envelope
    audience = Audience(one.roles, one.organization_ids)
    is_shared = one.subject_node_id == SHARED
    scope = Scope(one.scope_type, one.scope_ids)
    return ScopeContent(scope, audience, target.stored_sections, target.raw, is_shared, target.source)
