"""What the services of this node can take: limits that they set for the scopes that they live by (protocol.md 4).

    ServiceLimits(services).refuse(...)    OwnRefusalError, `blast_radius`, for a change that one of them cannot take
    ServiceLimits(services).narrowest(...) by scope, for reports

Judged in place of step 12, after secrets, of snapshots and of increments, by the whole state before and after it. What
has the content that runs already is not judged: a renewal must not end because a limit was set lower meanwhile. An
operator who lets a plan pass lifts `removed_percent` alone: how much a service has room for is nobody else's to say. It
is lifted too for content that was good on this node: the way back must not be refused for what it takes away.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.config.configuration import ServiceTable
from agent.config.patterns import matches
from agent.state.own_bounds import OwnRefusalError
from snapshot.blast_radius import ConsumerLimits, HeldSections, check_limits, compare
from snapshot.envelope import Envelope
from snapshot.reasons import safe_text
from wire.messages import ScopeLimits

BLAST_RADIUS = "blast_radius"
STEP = 12  # after all that the verifier asks


@dataclass(frozen=True)
class ServiceLimits:
    services: Sequence[ServiceTable]

    def refuse(self, envelope: Envelope, before: HeldSections | None, after: HeldSections, *, is_allowed: bool) -> None:
        """OwnRefusalError with the words of each limit that the change is beyond. `before`: None for a first one."""
        limits = list(self._of(envelope.scope))
        if not limits:
            return
        radius = compare(envelope.scope_type, before, after)
        found = [
            f"{service}: {excess.words}"
            for service, its in limits
            for excess in check_limits(radius, its, is_allowed=is_allowed)
        ]
        if found:
            raise OwnRefusalError(envelope, STEP, BLAST_RADIUS, safe_text("; ".join(found)))

    def concerns(self, scope: str) -> bool:
        return any(True for _ in self._of(scope))

    def narrowest(self, scopes: Collection[str]) -> Mapping[str, ScopeLimits]:
        """Of the scopes of which a service says anything."""
        found = {scope: [its for _, its in self._of(scope)] for scope in sorted(scopes)}
        return {scope: _narrowest(limits) for scope, limits in found.items() if limits}

    def _of(self, scope: str) -> Iterator[tuple[str, ConsumerLimits]]:
        for service in self.services:
            if service.limits is not None and matches(service.scopes, scope):
                yield service.name, ConsumerLimits(**vars(service.limits))


def _narrowest(limits: Sequence[ConsumerLimits]) -> ScopeLimits:
    said = {name: [limit for its in limits if (limit := getattr(its, name)) is not None] for name in vars(limits[0])}
    return ScopeLimits(**{name: min(found, default=None) for name, found in said.items()})
