"""A seed that every test knows, and what holds the running digests against the tables."""

from sqlalchemy.exc import SQLAlchemyError

from coordinator.database import running_digests
from coordinator.database.database import Database
from coordinator.database.history import FirstLink, LinkedHistory
from coordinator.keys.seed import Seed

SEED = Seed(b"\x01" * 32, b"\x02" * 32)
HISTORY = LinkedHistory(SEED.history_key)


def begin(database: Database, *, now: float) -> None:
    """Over the state as it stands; from then on each change is a link."""
    database.history = FirstLink(HISTORY.key)
    with database.change(actor="root", now=now) as transaction:
        transaction.audit("history.begin", "prod")
    database.history = HISTORY


def check_digests(database: Database) -> None:
    """Of every table that has one, from all of its rows. What a test has left unreadable is no digest's fault."""
    if getattr(database, "is_tampered", False):
        return
    try:
        with database.read() as transaction:
            connection = transaction.connection
            for name, kept in running_digests.read(connection).items():
                whole = running_digests.whole(connection, running_digests.TABLES[name])
                assert whole == kept, f"the running digest of {name} is not that of its rows"
    except SQLAlchemyError:
        return
