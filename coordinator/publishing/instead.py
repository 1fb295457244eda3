"""What a scope is published with while its node refuses what is declared for it (standing_refusals.py). Pure.

choose(refusing, declared, listed, ...)   what the node has in its place, or not, and what becomes of the refusal
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from coordinator.declared.compiler import ScopeContent
from coordinator.publishing import withheld
from coordinator.publishing.published_state import PublishedDocument, Refusing
from coordinator.reports.checkin import ReportedMark
from coordinator.reports.standing_refusals import AGAIN_S, KeptRefusal, Offer, offer
from snapshot.holder import Holder

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
    holder: Holder,
    *,
    now: float,
    refresh_s: int,
    stays: Callable[[PublishedDocument], bool],
) -> Choice:
    """`stays`: whether a document may stand as it is while its content does."""
    refusal, running = refusing.refusal, refusing.running
    kept_back = _kept_back(refusing, holder)
    not_before = refusal.renewed_at + min(AGAIN_S, refresh_s)
    is_due = running is not None and not kept_back and now >= not_before and not stays(running)
    at = None if listed is None else ReportedMark(*listed.entry.pair, listed.content_hash)
    match offer(refusal, declared.content_hash, at, is_due=is_due):
        case Offer.OVER:
            return Choice(None)
        case Offer.RUNNING if running is not None:
            return Choice(_renewed(refusal, at, now), _content(running, declared, holder))
        case _:
            due_at = None if running is None or kept_back else max(running.envelope.refresh_after, int(not_before))
            return Choice(replace(refusal, withheld=kept_back or refusal.withheld), due_at=due_at)


def _kept_back(refusing: Refusing, holder: Holder) -> str:
    if refusing.running is not None:
        return withheld.reason(refusing.running, holder)
    return NOT_KEPT if refusing.refusal.running is not None else ""


def _renewed(refusal: KeptRefusal, listed: ReportedMark | None, now: float) -> KeptRefusal:
    """As it is where the renewal is listed already, and on its way."""
    running = refusal.running
    if listed is not None and running is not None and listed.content_hash == running.content_hash:
        return refusal
    return replace(refusal, renewed_at=now, withheld="")


def _content(running: PublishedDocument, declared: ScopeContent, holder: Holder) -> ScopeContent:
    """Byte for byte what the node has."""
    sections = {name: running.read(name) for name in running.sections}
    return replace(declared, audience=withheld.audience(running, holder), sections=sections)
