"""What a scope is published with while its node refuses what is declared for it (standing_refusals.py). Pure.

choose(refusing, declared, listed, ...)   what the node has in its place, or not, and what becomes of the refusal
governing(allowed, declared)              the recovery that is followed in place of what is declared, or None

A node that refuses what is declared goes on with what it has, and that will expire. Whoever refused may be wrong (a
validator with a bug) or right (a mistake in the declaration): in both cases taking its services down by letting the
old version expire is the worst answer, as long as nothing forbids the old one. So it is signed once more, byte for
byte, under a new version, when its renewal is due; what is declared is offered again after that.

Example. node-a runs `route_policy` 6 and refuses 7 with `validator_refused`. When 6 is to be renewed, 8 is published
with the content of 6. The node takes it, and what is declared comes again as 9. Where 9 is refused too, 10 renews 6,
and so on: versions rise, and `holdfastctl status` says since when.

What must not be signed again is not (`withheld.py`): content with a service, a key or a role that was revoked since.
Then the node's version expires, and that is meant.

Rejected:

- Longer lifetimes, so that it does not matter: they are also how long a stolen or revoked thing goes on.
- Listing 6 again: a version that goes down is a rollback to the node, and needs a recovery that roots sign.
- Waiting for the operator: it is three in the morning, and the old version is good.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from coordinator.declared.compiler import Audience, ScopeContent, may_be_shared
from coordinator.publishing import withheld
from coordinator.publishing.published_state import AllowedRecovery, PublishedDocument, Refusing
from coordinator.reports.checkin import ReportedMark
from coordinator.reports.standing_refusals import AGAIN_S, KeptRefusal, Offer, offer
from snapshot.envelope import SHARED
from snapshot.identifiers import Scope
from snapshot.verifier_state import VerifierState

NOT_KEPT = "what it has is not kept any more"


@dataclass(frozen=True)
class Choice:
    """`content`: in place of what is declared, or None. `after`: the refusal as it stands once that is published; None:
    it is over. `due_at`: when what the node has will have to be signed again; None where it will not be.
    """

    after: KeptRefusal | None
    content: ScopeContent | None = None
    due_at: int | None = None


def choose(
    refusing: Refusing,
    declared: ScopeContent,
    listed: PublishedDocument | None,
    holder: VerifierState,
    *,
    now: float,
    refresh_s: int,
    stays: Callable[[PublishedDocument], bool],
) -> Choice:
    """`stays`: whether a document may stand as it is while its content does."""
    refusal, running = refusing.refusal, refusing.running
    kept_back = _withhold_reason(refusing, holder)
    not_before = refusal.renewed_at + min(AGAIN_S, refresh_s)
    is_due = running is not None and not kept_back and now >= not_before and not stays(running)
    at = None if listed is None else ReportedMark(*listed.entry.pair, listed.content_hash)
    match offer(refusal, declared.content_hash, at, is_due=is_due):
        case Offer.OVER:
            return Choice(None)
        case Offer.RUNNING if running is not None:
            return Choice(_renew(refusal, at, now), _content(running, declared, holder))
        case _:
            due_at = None if running is None or kept_back else max(running.envelope.refresh_after, int(not_before))
            return Choice(replace(refusal, withheld=kept_back or refusal.withheld), due_at=due_at)


def _withhold_reason(refusing: Refusing, holder: VerifierState) -> str:
    if refusing.running is not None:
        return withheld.reason(refusing.running, holder)
    return NOT_KEPT if refusing.refusal.running is not None else ""


def _renew(refusal: KeptRefusal, listed: ReportedMark | None, now: float) -> KeptRefusal:
    """As it is where the renewal is listed already, and on its way."""
    running = refusal.running
    if listed is not None and running is not None and listed.content_hash == running.content_hash:
        return refusal
    return replace(refusal, renewed_at=now, withheld="")


def _content(running: PublishedDocument, declared: ScopeContent, holder: VerifierState) -> ScopeContent:
    """Byte for byte what the node has, in the form that it has: others may have to be given it as well."""
    audience = withheld.audience(running, holder)
    is_shared = running.envelope.subject_node_id == SHARED and may_be_shared(declared.scope.type, audience)
    scope, sections, raw = declared.scope, running.stored_sections, running.raw
    return ScopeContent(scope, audience, sections, raw, is_shared, running.source)


def governing(allowed: AllowedRecovery | None, declared: ScopeContent) -> AllowedRecovery | None:
    """A recovery holds as long as what is declared gives the content that was given up, or the one gone back to (rules
    S65, S87).
    """
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
