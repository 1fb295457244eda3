"""What the head lists and this node has refused: since when, why, and until when it goes on with what it has. Pure.

    refused_scopes(view, awaited, last, now)   by scope
    expired_scopes(facts, now)                 what is active and authorises nothing any more

A refusal here stands as long as the refused version is listed; the coordinator renews what runs meanwhile. Whether it
does is not believed: what matters is when what runs expires.
"""

from collections.abc import Callable, Collection, Mapping

from agent.state.view import ActiveScope, View
from snapshot.degraded import GateFacts
from snapshot.frozen import frozen
from snapshot.identifiers import format_time
from snapshot.manifest import ScopeVersion
from store.base.records import Rejection
from wire.local.node_status import ScopeRefusal

SOON = 1 / 3  # of its lifetime: as for all that ends


@frozen
class RefusedScope:
    """`refused`, `runs`: "epoch.version"; `runs` is None where nothing of it is active. `soon`: what runs has expired,
    or will within a third of its lifetime.
    """

    scope: str
    refused: str
    since: float
    reason: str
    step: int
    source: str
    runs: str | None
    expires_at: int | None
    soon: bool

    def to_message(self) -> ScopeRefusal:
        """What the refused document was about is for the scope's readers, and not in here."""
        expires_at = None if self.expires_at is None else format_time(self.expires_at)
        return ScopeRefusal(**{**vars(self), "since": format_time(int(self.since)), "expires_at": expires_at})

    def sentence(self) -> str:
        until = "" if self.expires_at is None else f", good until {format_time(self.expires_at)}"
        runs = f"runs {self.runs}{until}" if self.runs else "runs nothing of it"
        why = f"{self.reason} by {self.source}" if self.source else self.reason
        return f"{self.scope} has refused {self.refused} since {format_time(int(self.since))} ({why}), {runs}"


def refused_scopes(
    view: View, awaited: Mapping[str, ScopeVersion], last: Callable[[str], Rejection | None], now: float
) -> list[RefusedScope]:
    """`awaited`: what the head lists and is not active. `last`: the last refusal in a scope."""
    found = []
    for scope, listed in sorted(awaited.items()):
        refusal = last(scope)
        if refusal is not None and refusal.config_version == listed.config_version:
            found.append(_refused_scope(listed, refusal, view.scopes.get(scope), now))
    return found


def expired_scopes(facts: GateFacts, now: float) -> list[str]:
    return sorted(name for name, scope in facts.scopes.items() if now >= scope.expires_at)


def warnings(refused: Collection[RefusedScope]) -> list[str]:
    """Of what has expired, or soon will."""
    return [refusal.sentence() for refusal in refused if refusal.soon]


def _refused_scope(listed: ScopeVersion, refusal: Rejection, active: ActiveScope | None, now: float) -> RefusedScope:
    runs = None if active is None else "{}.{}".format(*active.document.version)
    return RefusedScope(
        scope=refusal.scope,
        refused=f"{listed.authority_epoch}.{listed.config_version}",
        since=refusal.since or refusal.at,
        reason=refusal.reason,
        step=refusal.step,
        source=refusal.source,
        runs=runs,
        expires_at=None if active is None else active.expires_at,
        soon=active is None or _ends_soon(active, now),
    )


def _ends_soon(active: ActiveScope, now: float) -> bool:
    envelope = active.document.envelope
    return envelope.expires_at - now < SOON * (envelope.expires_at - envelope.issued_at)
