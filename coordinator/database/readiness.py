"""Since when members could have been seen without a gap: by any coordinator of the cluster (rules X29).

One row. Each replica that is ready, and of whom some member has been seen within the last hour, says so once a minute.
An hour without that word is a gap, and the time begins anew: so it does after an outage of all coordinators, in a
database that was restored, and where a clock has leapt. Less is none, or no fleet whose coordinator is restarted now
and then would ever be trimmed: a node that lives asks within the hour, however long it backs off (rules, Numbers).

Rejected: a row for each replica, which says no more; and the time since this process has started, which a restart each
month would keep at nothing, and which knows nothing of the others.
"""

from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from coordinator.base.settings import CLOCK_SKEW_S, HOUR
from coordinator.database import schema
from coordinator.database.database import Database, Transaction

GAP_S = HOUR


@dataclass(frozen=True)
class ReadyTime:
    """Times are Unix seconds."""

    since: float
    until: float

    def follows(self, now: float) -> bool:
        """Whether it lasts still, as of `now`."""
        return -CLOCK_SKEW_S <= now - self.until <= GAP_S


def note(database: Database, *, now: float) -> None:
    """This replica is ready now, and nodes find it."""
    table = schema.readiness
    with database.record(now=now) as transaction:
        known = _read(transaction)
        follows = known is not None and known.follows(now)
        since, until = (known.since, max(known.until, now)) if known is not None and follows else (now, now)
        transaction.run(delete(table))
        transaction.run(insert(table).values(id=1, since=since, until=until))


def since(transaction: Transaction, now: float) -> float | None:
    """None where there is a gap up to now."""
    known = _read(transaction)
    return known.since if known is not None and known.follows(now) else None


def _read(transaction: Transaction) -> ReadyTime | None:
    row = transaction.row(select(schema.readiness))
    return None if row is None else ReadyTime(row.since, row.until)
