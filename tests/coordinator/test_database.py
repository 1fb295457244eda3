"""The engine and its transactions, on both databases."""

import contextlib
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import delete, insert, select, text, update
from sqlalchemy.exc import DBAPIError, OperationalError

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state, migrations, schema
from coordinator.database import database as databases
from coordinator.database.database import Database
from tests.coordinator import migrated
from tests.coordinator.candidates import found


@pytest.fixture(autouse=True)
def as_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each migration is run (migrated.py)."""
    monkeypatch.setattr(migrations, "upgrade", migrated.plain())


def test_migrations_lead_to_the_schema(database: Database) -> None:
    """rules S1: one schema on both databases, and the migrations make exactly it."""
    with database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []


def test_migrating_again_changes_nothing(database: Database) -> None:
    last = max(path.stem for path in Path(migrations.__file__).parent.glob("m????_*.py"))
    assert database.migrate() == database.migrate() == last.partition("_")[0]


def test_a_newer_schema_is_refused_untouched(database: Database) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'm9999'"))
    with pytest.raises(Refused) as refused:
        database.migrate()
    assert refused.value.code is Code.SCHEMA_TOO_NEW
    with database.engine.begin() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "m9999"


def test_a_change_has_its_audit_row(database: Database) -> None:
    with database.change(actor="alice", now=5.5) as transaction:
        transaction.run(insert(schema.sites).values(site_id="a", generation=1, created_at=5.5))
        transaction.audit("site.add", "a", None, {"generation": 1})
    with database.read() as transaction:
        row = transaction.row(select(schema.audit))
        assert row is not None
        assert (row.actor, row.at, row.action, row.before, row.after) == (
            "alice", 5.5, "site.add", "null", '{"generation":1}',
        )  # fmt: skip


def test_a_change_without_an_audit_row_is_not_committed(database: Database) -> None:
    with pytest.raises(AssertionError), database.change(actor="alice", now=1) as transaction:
        transaction.run(insert(schema.sites).values(site_id="a", generation=1, created_at=1))
    assert _sites(database) == 0


def test_an_error_rolls_everything_back(database: Database) -> None:
    with pytest.raises(ZeroDivisionError), database.change(actor="alice", now=1) as transaction:
        transaction.run(insert(schema.sites).values(site_id="a", generation=1, created_at=1))
        transaction.audit("site.add", "a")
        raise ZeroDivisionError
    assert _sites(database) == 0


def test_a_rehearsal_commits_nothing(database: Database) -> None:
    with database.rehearse(actor="alice", now=1) as transaction:
        transaction.run(insert(schema.sites).values(site_id="a", generation=1, created_at=1))
        transaction.audit("site.add", "a")
        assert len(transaction.rows(select(schema.sites))) == 1
    assert _sites(database) == 0


def test_sqlite_is_durable_and_readable_while_written(tmp_path: Path) -> None:
    """rules P7: WAL, synchronous FULL."""
    database = Database(f"sqlite:///{tmp_path}/state.db")
    database.migrate()
    with database.read() as transaction:
        assert transaction.connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert transaction.connection.execute(text("PRAGMA synchronous")).scalar() == 2
    with database.change(actor="a", now=1) as writer:
        writer.audit("nothing", "x")
        with database.read() as reader:
            assert reader.rows(select(schema.audit)) == []
    database.close()


def test_the_sqlite_file_is_ours_alone(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/state.db")
    database.migrate()
    with database.change(actor="a", now=1) as transaction:
        transaction.audit("nothing", "x")
        assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("state.db*")} == {0o600}
    database.close()


def fill(database: Database, rows: int) -> None:
    with database.record() as transaction:
        made = [{"node_id": "n", "incarnation": "i", "sequence": number, "received_at": 1.0} for number in range(rows)]
        transaction.run(insert(schema.events), [{**each, "body": "x" * 1_000} for each in made])


def shrunk(database: Database) -> int:
    """All is deleted, and the disk is given back what is free; the file's bytes then."""
    with database.record() as transaction:
        transaction.run(delete(schema.events))
    steps = 1
    while database.shrink():
        steps += 1
    assert 3 < steps <= 100
    with database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")
    return Path(str(database.url.database)).stat().st_size


def test_a_sqlite_file_shrinks_again(tmp_path: Path) -> None:
    """In small steps, each a transaction of its own; a little stays for the next changes"""
    database = Database(f"sqlite:///{tmp_path}/state.db")
    database.migrate()
    fill(database, 14_000)
    with database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")
    assert (tmp_path / "state.db").stat().st_size > 14 << 20
    assert shrunk(database) < 8 << 20
    assert (tmp_path / "state.db-wal").stat().st_size <= 32 << 20
    assert not database.shrink(), "there is nothing more to give"
    fill(database, 10)
    database.close()


def test_a_sqlite_file_that_could_not_shrink_is_written_anew_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with contextlib.closing(sqlite3.connect(path)) as old:
        old.execute("PRAGMA journal_mode = WAL")
        old.execute("CREATE TABLE before (a TEXT)")
        old.execute("INSERT INTO before VALUES ('kept')")
        old.commit()
    database = Database(f"sqlite:///{path}")
    with database.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA auto_vacuum").scalar() == 0
    assert not database.shrink(), "and it ends"
    database.migrate()
    with database.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA auto_vacuum").scalar() == 2
        assert connection.exec_driver_sql("SELECT a FROM before").scalar() == "kept"
    fill(database, 14_000)
    assert shrunk(database) < 8 << 20
    database.close()


def test_a_server_shrinks_by_itself(database: Database) -> None:
    fill(database, 10)
    assert not database.shrink()


def test_a_second_coordinator_on_one_sqlite_file_stops(tmp_path: Path) -> None:
    """rules P8: the second stops; when the first is gone, it may."""
    first, second = (Database(f"sqlite:///{tmp_path}/state.db") for _ in range(2))
    first.claim()
    with pytest.raises(Refused) as refused:
        second.claim()
    assert refused.value.code is Code.IN_USE
    first.close()
    second.claim()
    second.close()


def test_an_unknown_database_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        Database("mysql://localhost/x")
    assert refused.value.code is Code.INVALID_SETTINGS


def _sites(database: Database) -> int:
    with database.read() as transaction:
        return len(transaction.rows(select(schema.sites)))


def test_no_report_waits_without_an_end_for_what_another_one_is_writing(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That may be a coordinator that stands still, and here all who write wait for whoever waits. SQLite has an end of
    its own (`busy_timeout`).
    """
    monkeypatch.setattr(databases, "_LOCK_TIMEOUT_MS", 100)
    one, other = Database(postgresql_url), Database(postgresql_url)
    with contextlib.closing(one), contextlib.closing(other):
        with one.record() as transaction:
            transaction.run(insert(schema.sites).values(site_id="a", generation=1, created_at=1))
        with one.record() as transaction:
            transaction.run(update(schema.sites).values(generation=2))
            with pytest.raises(OperationalError, match="lock timeout"), other.record() as late:
                late.run(update(schema.sites).values(generation=3))
        with other.record() as transaction:
            transaction.run(update(schema.sites).values(generation=3))
            assert [row.generation for row in transaction.rows(select(schema.sites))] == [3]


def test_a_coordinator_that_stands_still_within_a_change_keeps_no_other_one_from_its_own(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For longer than a while; what it was at is as if it had never begun."""
    monkeypatch.setattr(databases, "_IDLE_MS", 100)
    still, other = Database(postgresql_url), Database(postgresql_url)

    def add(transaction: databases.Transaction, site_id: str) -> None:
        transaction.run(insert(schema.sites).values(site_id=site_id, generation=1, created_at=1))
        transaction.audit("site.add", site_id)

    with contextlib.closing(still), contextlib.closing(other):
        with pytest.raises(DBAPIError), still.change(actor="alice", now=1) as late:
            add(late, "a")
            with other.change(actor="bob", now=1) as transaction:
                add(transaction, "b")
            add(late, "c")
        with still.change(actor="alice", now=1) as transaction:
            add(transaction, "d")
            assert sorted(row.site_id for row in transaction.rows(select(schema.sites))) == ["b", "d"]


def test_a_database_serves_several_threads(database: Database) -> None:
    """trio's worker threads come and go; a connection must not belong to one of them."""
    rows: list[int] = []

    def act(number: int) -> None:
        with database.change(actor="thread", now=number) as transaction:
            transaction.audit("count", str(number))
        with database.read() as transaction:
            rows.append(len(transaction.rows(select(schema.audit))))

    for number in range(6):
        thread = threading.Thread(target=act, args=(number,))
        thread.start()
        thread.join()
    assert rows == [1, 2, 3, 4, 5, 6]


_BESIDE = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("UPDATE cluster SET revision = revision + 1000")
database.commit()
database.close()
"""


def test_a_command_beside_the_daemon_does_not_take_its_log_away(tmp_path: Path) -> None:
    """Whoever opens and closes the file by hand loses the locks on it: the next to close removes the log in use."""
    first = Database(f"sqlite:///{tmp_path}/state.db")
    first.migrate()
    found(first)
    first.migrate()  # with connections open
    for times in (1, 2):
        subprocess.run([sys.executable, "-c", _BESIDE, str(tmp_path / "state.db")], check=True, timeout=60)
        assert (tmp_path / "state.db-wal").exists()
        with first.read() as transaction:
            assert cluster_state.standing(transaction).revision >= 1000 * times
    first.close()
