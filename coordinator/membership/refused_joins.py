"""Joins of strangers that were refused, summed until they are written: strangers cost nothing to be.

A row for each would be as many synced transactions as anybody likes to ask for. So they are counted by code, network
(/24, /64) and minute, and go into the audit log together: once a minute, and when the coordinator stops. Who shows a
token of ours or a pinned certificate is named, in a row of its own (membership.py). A crash loses a minute of counts;
writing each first was rejected, as nothing follows from them.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network

import trio
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Refused, bound_text
from coordinator.base.threads import in_database
from coordinator.database.database import Database
from coordinator.database.database_fault import line_of
from snapshot.identifiers import format_time
from wire.logs import log

MOST = 1_000  # sums at a time; what is beyond goes to `ELSEWHERE`, so that none is lost
FLUSH_S = 60.0
ELSEWHERE = "elsewhere"
Key = tuple[str, str, int]
"""Code, network, and the minute's first second."""


@dataclass(slots=True)
class Sum:
    count: int = 0
    detail: str = ""  # of the last one


@dataclass
class RefusedJoins:
    """Noted by the thread that decides, taken by the one that writes."""

    _sums: dict[Key, Sum] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __len__(self) -> int:
        return len(self._sums)

    def note(self, address: str, refused: Refused, now: float) -> None:
        minute = int(now // 60) * 60
        key = (refused.code.value, network_of(address), minute)
        with self._lock:
            if key not in self._sums and len(self._sums) >= MOST:
                key = (refused.code.value, ELSEWHERE, minute)
            found = self._sums.setdefault(key, Sum())
            found.count += 1
            found.detail = bound_text(refused.detail)

    def take(self) -> dict[Key, Sum]:
        with self._lock:
            taken, self._sums = self._sums, {}
        return taken

    def put_back(self, sums: Mapping[Key, Sum]) -> None:
        """They could not be written: the next minute's transaction takes them, too."""
        with self._lock:
            for key, total in sums.items():
                found = self._sums.setdefault(key, Sum(0, total.detail))
                found.count += total.count

    async def flush(self, database: Database, now: float) -> None:
        sums = self.take()
        if not sums:
            return
        try:
            await in_database(write, database, sums, now=now)
        except SQLAlchemyError as error:
            self.put_back(sums)
            log.error("refused joins are not in the audit log yet", sums=len(sums), reason=line_of(error))  # noqa: TRY400 - no trace needed
        except trio.Cancelled:
            self.put_back(sums)
            raise


def network_of(address: str) -> str:
    """The /24 or /64 that an address is in; an address that is none stands for itself."""
    try:
        found = ip_address(address)
    except ValueError:
        return bound_text(address)
    mapped = getattr(found, "ipv4_mapped", None) or found
    return str(ip_network((mapped, 24 if mapped.version == 4 else 64), strict=False))


def write(database: Database, sums: Mapping[Key, Sum], *, now: float) -> None:
    """One transaction, however many there are."""
    with database.change(actor="coordinator", now=now, after_move=True) as transaction:
        for (code, network, minute), total in sorted(sums.items()):
            after = {"count": total.count, "minute": format_time(minute), "detail": total.detail}
            transaction.audit("join", network, None, after, outcome=code)
