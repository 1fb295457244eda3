"""What one caller is shown, the same on whatever way out: socket, files, status, readiness, metrics. Pure.

    CallerSight(access, peer).sees(scope)      a scope that may be read; what may not be does not exist (access.py)
              .sees_service(patterns)          a service of which at least one scope may be read
    visible_status(status, sight)              the status without the rest, of which only the number is told

Over TCP nobody is known: as long as there is no `[access]` everybody is shown the names of what a node holds, since
monitoring asks there; with it nobody is, but at the socket, where the kernel says who asks.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from agent.access.access import Access, may_administer
from snapshot.frozen import frozen
from wire.local.node_status import HiddenFromCaller, NodeStatus, ServiceState
from wire.peer import Peer, UnixPeer

T = TypeVar("T")


@frozen
class CallerSight:
    access: Access
    peer: Peer

    @property
    def sees_all(self) -> bool:
        if isinstance(self.peer, UnixPeer):
            return may_administer(self.peer) or self.access.reads_all(self.peer)
        return self.access.is_default

    def sees(self, scope: str) -> bool:
        if isinstance(self.peer, UnixPeer):
            return self.access.may_read(self.peer, scope)
        return self.access.is_default

    def sees_service(self, patterns: Iterable[str]) -> bool:
        return any(map(self.sees, patterns))


def visible_status(status: NodeStatus, sight: CallerSight) -> NodeStatus:
    """`status` is what all of it is; `hidden` says how much of it is not for this caller."""
    hidden = {scope for scope in _every_scope(status) if not sight.sees(scope)}
    services = {name: _visible_service(service, sight) for name, service in status.services.items()}
    shown = {name: service for name, service in services.items() if service is not None}
    return replace(
        status,
        scopes=_table_without(hidden, status.scopes),
        refused=_table_without(hidden, status.refused),
        awaited=_table_without(hidden, status.awaited),
        candidates=_table_without(hidden, status.candidates),
        origins=_table_without(hidden, status.origins),
        expired=_list_without(hidden, status.expired),
        recovering=_list_without(hidden, status.recovering),
        refresh_required=_list_without(hidden, status.refresh_required),
        passed_over=_list_without(hidden, status.passed_over),
        services=shown,
        files=replace(status.files, error=""),  # its words may name a file; the code does not
        hidden=HiddenFromCaller(len(hidden), len(services) - len(shown)),
    )


def _every_scope(status: NodeStatus) -> Iterator[str]:
    """Wherever a scope's name stands: what is not listed here is shown to everybody."""
    for table in (status.scopes, status.refused, status.awaited, status.candidates, status.origins):
        yield from table
    for names in (status.expired, status.recovering, status.refresh_required, status.passed_over):
        yield from names


def _visible_service(service: ServiceState, sight: CallerSight) -> ServiceState | None:
    patterns = tuple(pattern for pattern in service.scopes if sight.sees(pattern))
    return replace(service, scopes=patterns) if patterns else None


def _table_without(hidden: set[str], table: Mapping[str, T]) -> dict[str, T]:
    return {scope: value for scope, value in table.items() if scope not in hidden}


def _list_without(hidden: set[str], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in hidden)
