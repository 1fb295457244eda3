"""The database that a cluster is begun in: opened as the account that it is for, and gone if nothing comes of it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state as authority
from coordinator.database.database import Database, Transaction
from coordinator.keys.acting import as_owner_of
from coordinator.setup.cluster_request import ClusterRequest


@contextmanager
def open_new(wanted: ClusterRequest) -> Iterator[Database]:
    """The database, its schema up to date; a file that is new goes again when nothing comes of it."""
    database = _OwnersDatabase(wanted.database_url)
    path = Path(str(database.url.database)) if database.is_sqlite else None
    is_new = path is not None and not path.exists()
    try:
        database.claim()
        database.migrate()
        yield database
    except BaseException:
        if path is not None and is_new and _holds_nothing(database):
            database.close()
            with as_owner_of(path.parent):
                for suffix in ("", "-wal", "-shm", ".lock"):
                    Path(f"{path}{suffix}").unlink(missing_ok=True)
        raise
    finally:
        database.close()


class _OwnersDatabase(Database):
    """What it does with files it does as the account whose directory they lie in."""

    def _as_owner(self) -> AbstractContextManager[None]:
        return as_owner_of(Path(str(self.url.database)).parent) if self.is_sqlite else nullcontext()

    def claim(self) -> None:
        with self._as_owner():
            super().claim()

    def migrate(self) -> str:
        with self._as_owner():
            return super().migrate()

    @contextmanager
    def change(self, *, actor: str, now: float, after_move: bool = False) -> Iterator[Transaction]:
        with self._as_owner(), super().change(actor=actor, now=now, after_move=after_move) as transaction:
            yield transaction

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        with self._as_owner(), super().read() as transaction:
            yield transaction

    def close(self) -> None:
        with self._as_owner():
            super().close()


def is_initialised(database: Database) -> bool:
    try:
        with database.read() as transaction:
            authority.standing(transaction)
    except Refused as refused:
        if refused.code is Code.NO_STATE:
            return False
        raise
    return True


def _holds_nothing(database: Database) -> bool:
    try:
        return not is_initialised(database)
    except (Refused, SQLAlchemyError):  # who cannot say what is there removes nothing
        return False


class OneTransaction(Database):
    """The operations of several modules, each of which makes one change of its own, as one."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    @contextmanager
    def change(self, *, actor: str, now: float, after_move: bool = False) -> Iterator[Transaction]:
        yield self._transaction

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        yield self._transaction
