"""Who keeps a store up, of several coordinators over one database, and how it stands: a row for each.

    hold    this coordinator goes on with it, or begins; whether it does. What it says of the store stands in the row
    all_of  how each store stands, by the last word of whoever keeps it up

A store that all of them reach is kept up by one, so that the others do not send the same. Its row counts for LEASE_S
after it was seen last to change, by the clock of whoever looks, as claims of nodes do (replicas/claims.py): no clock
has to agree with another one, and who dies costs the store that time. So does who comes to nothing there: it goes on
trying, and says that it gives way; whoever has heard that for LEASE_S takes the store over, and perhaps has the link or
the key that the first one lacks. Two at once, for a moment, do no harm: a file is put whole, and what the other has
changed is found when the store is listed.

A directory is of one machine: each coordinator keeps up its own, in a row of its own.
"""

import json
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace

from sqlalchemy import ColumnElement, delete, select, text

from coordinator.database import schema
from coordinator.database.database import Database, Transaction
from snapshot import canonical

LEASE_S = 30.0
KEEP_S = LEASE_S / 3
SHARED = ""
_TABLE = schema.storage_reports
_LOCK_MS = 5_000


@dataclass(frozen=True)
class StoreReport:
    """How a store stands. `way`: how it is written to. `behind`: files that it lacks, since `behind_since`; `refused`:
    those of them that it does not take. `fault`, `detail`: why the last round came to nothing, or nothing; `gives_way`:
    then another coordinator may try. Times are Unix seconds.
    """

    way: str = ""
    files: int = 0
    behind: int = 0
    behind_since: float | None = None
    refused: int = 0
    fault: str = ""
    detail: str = ""
    good_at: float | None = None  # when all was last there
    written: int = 0
    removed: int = 0
    gives_way: bool = False


@dataclass(frozen=True)
class HeardStore:
    """`coordinator_id`: whose word it is, said `at`."""

    endpoint_id: str
    coordinator_id: str
    at: float
    report: StoreReport


@dataclass
class _Others:
    """What another one has last said, since when that is known, and since when it gives way; by a monotonic clock."""

    coordinator_id: str = ""
    word: str = ""
    at: float = 0.0
    gives_way_since: float | None = None


@dataclass
class StoreLease:
    """Of one store, for one coordinator. `place`: SHARED, or whose directory it is. `elapsed`: a monotonic clock."""

    database: Database
    endpoint_id: str
    place: str
    coordinator_id: str
    elapsed: Callable[[], float]
    _others: _Others = field(default_factory=_Others)
    _said: dict[str, object] = field(default_factory=dict)

    def hold(self, report: StoreReport, now: float) -> bool:
        """Whether it is ours. Of a row that nobody else may have, nothing is written that says nothing new."""
        said = asdict(report)
        if self._is_alone and said == self._said:
            return True
        with self.database.record(now=now) as transaction:
            if not self._is_alone:
                _lock(transaction)
                if not self._may_take(transaction):
                    return False
            row = {"endpoint_id": self.endpoint_id, "place": self.place, "coordinator_id": self.coordinator_id}
            body = canonical.dumps(said).decode()
            transaction.put(_TABLE, [{**row, "word": secrets.token_hex(8), "at": now, "body": body}])
        self._said = said
        return True

    def recall(self) -> StoreReport | None:
        """The last word of whoever kept it up; why another one came to nothing there is left out."""
        with self.database.read() as transaction:
            row = transaction.row(select(_TABLE.c.coordinator_id, _TABLE.c.body).where(self._mine))
        if row is None:
            return None
        report = _read_report(row.body)
        is_ours = row.coordinator_id == self.coordinator_id
        return report if is_ours else replace(report, fault="", detail="", gives_way=False)

    @property
    def _mine(self) -> ColumnElement[bool]:
        return (_TABLE.c.endpoint_id == self.endpoint_id) & (_TABLE.c.place == self.place)

    @property
    def _is_alone(self) -> bool:
        return self.database.is_sqlite or self.place != SHARED

    def _may_take(self, transaction: Transaction) -> bool:
        columns = select(_TABLE.c.coordinator_id, _TABLE.c.word, _TABLE.c.body)
        row = transaction.row(columns.where(self._mine))
        if row is None or row.coordinator_id == self.coordinator_id:
            self._others = _Others()
            return True
        heard, now = self._others, self.elapsed()
        if row.coordinator_id != heard.coordinator_id:
            heard = self._others = _Others(row.coordinator_id)
        if row.word != heard.word:
            heard.word, heard.at = row.word, now
            if not _read_report(row.body).gives_way:
                heard.gives_way_since = None
            elif heard.gives_way_since is None:
                heard.gives_way_since = now
        since = heard.at if heard.gives_way_since is None else heard.gives_way_since
        return now - since >= LEASE_S


def all_of(database: Database) -> list[HeardStore]:
    """By endpoint, then by whose word it is."""
    with database.read() as transaction:
        rows = transaction.rows(select(_TABLE).order_by(_TABLE.c.endpoint_id, _TABLE.c.coordinator_id))
    return [HeardStore(row.endpoint_id, row.coordinator_id, row.at, _read_report(row.body)) for row in rows]


def _read_report(body: str) -> StoreReport:
    """What a newer coordinator says beside it is passed over: while they are upgraded, two versions run."""
    said, known = json.loads(body), {entry.name for entry in fields(StoreReport)}
    return StoreReport(**{name: value for name, value in said.items() if name in known})


def forget_undeclared(database: Database, declared: frozenset[str]) -> None:
    """Of endpoints that are declared no more nothing is said."""
    with database.record() as transaction:
        transaction.run(delete(_TABLE).where(_TABLE.c.endpoint_id.not_in(sorted(declared))))


def _lock(transaction: Transaction) -> None:
    """One takes at a time."""
    transaction.connection.execute(text(f"SET LOCAL lock_timeout = {_LOCK_MS}"))
    transaction.connection.execute(text("SET LOCAL synchronous_commit = off"))
    transaction.connection.execute(text(f"LOCK TABLE {_TABLE.name} IN EXCLUSIVE MODE"))
