"""What one caller is shown, the same on whatever way out: socket, files, status, readiness, metrics. Pure.

    CallerSight(access, peer).sees(scope)      a scope that may be read; what may not be does not exist (access.py)
              .sees_service(patterns)          a service of which at least one scope may be read
    visible_status(status, sight)              the status without the rest, of which only the number is told

Over TCP nobody is known: as long as there is no `[access]` everybody is shown the names of what a node holds, since
monitoring asks there; with it nobody is, but at the socket, where the kernel says who asks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.access.access import Access, may_administer
from wire.peer import Peer, UnixPeer

_BY_SCOPE = ("scopes", "refused", "awaited", "origins")
_LISTS = ("expired", "recovering", "refresh_required", "passed_over")


@dataclass(frozen=True)
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


def visible_status(status: Mapping[str, object], sight: CallerSight) -> dict[str, object]:
    """`status` is what all of it is; `hidden` says how much of it is not for this caller."""
    seen = dict(status)
    scopes: set[str] = set()
    for name in _BY_SCOPE:
        table = _table(status.get(name))
        scopes |= {scope for scope in table if not sight.sees(scope)}
        seen[name] = {scope: value for scope, value in table.items() if scope not in scopes}
    for name in _LISTS:
        listed = _strings(status.get(name))
        scopes |= {scope for scope in listed if not sight.sees(scope)}
        seen[name] = [scope for scope in listed if scope not in scopes]
    services = {name: _visible_service(value, sight) for name, value in _table(status.get("services")).items()}
    seen["services"] = {name: value for name, value in services.items() if value is not None}
    seen["files"] = {**_table(status.get("files")), "error": ""}  # its words may name a file; the code does not
    seen["hidden"] = {"scopes": len(scopes), "services": sum(value is None for value in services.values())}
    return seen


def _visible_service(service: object, sight: CallerSight) -> object | None:
    told = _table(service)
    patterns = [string for string in _strings(told.get("scopes")) if sight.sees(string)]
    return {**told, "scopes": patterns} if patterns else None


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _strings(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
