"""A database of the first release, with state in it, on the way to the present schema (rules S1, P8)."""

import importlib
import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection, MetaData, text

from coordinator.database import (
    catalog,
    cluster_state,
    declared_places,
    history_check,
    migrations,
    schema,
    scope_versions,
)
from coordinator.database.database import Database
from coordinator.membership import operators
from coordinator.publishing import declarations, heads
from coordinator.reports import last_seen
from tests.coordinator import histories, migrated
from tests.coordinator.candidates import NOW, Candidate
from wire.certificate import make_identity

NODE = Candidate("node-a")


@pytest.fixture(autouse=True)
def as_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each migration is run (migrated.py)."""
    monkeypatch.setattr(migrations, "upgrade", migrated.plain())


@pytest.fixture
def first(database: Database) -> Database:
    """On SQLite and on PostgreSQL: a cluster and a member, as revision m0001 has them."""
    with database.engine.begin() as connection:
        present = MetaData()
        present.reflect(connection)
        present.drop_all(connection)
        with Operations.context(MigrationContext.configure(connection)):
            importlib.import_module("coordinator.database.migrations.m0001_first").upgrade()
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('m0001')"))
        fill(connection)
    return database


def fill(connection: Connection) -> None:
    connection.execute(
        text(
            "INSERT INTO cluster (id, cluster_id, authority_epoch, revision, state_id, revocations_version,"
            " last_issued_at, nonce_key, initialised_at) VALUES (1, 'prod', 3, 7, 's', 0, 5, :key, 1.5)"
        ),
        {"key": b"k" * 32},
    )
    connection.execute(text("INSERT INTO sites (site_id, generation, created_at) VALUES ('default', 4, 1.5)"))
    connection.execute(
        text(
            "INSERT INTO nodes (node_id, kind, site_id, certificate, certificate_sha256, incarnation, first_seen,"
            " generation) VALUES ('node-a', 'data', 'default', :der, :sha256, 'i-1', 2.5, 9)"
        ),
        {"der": NODE.der, "sha256": NODE.pin},
    )


def test_the_first_schema_becomes_the_present_one(first: Database) -> None:
    """rules S1: the same on both databases, whichever revision it began with."""
    assert first.migrate() == first.migrate() == "m0022"
    with first.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []


def test_what_was_in_it_stays_and_is_sound(first: Database) -> None:
    """rules K41: nobody has proven anything yet."""
    first.migrate()
    with first.read() as transaction:
        standing = cluster_state.sound(transaction)
    assert (standing.cluster_id, standing.authority_epoch, standing.revision) == ("prod", 3, 7)
    assert (standing.nonce_key, standing.put_back_epoch) == (b"k" * 32, None)
    (entry,) = catalog.nodes(first)
    assert (entry.node_id, entry.generation, entry.first_seen, entry.last_seen) == ("node-a", 9, 2.5, None)


def test_shared_documents_are_numbered_above_all_that_any_node_had(first: Database) -> None:
    """Also of one that has left, and of an epoch before; a service has a line of versions for each node."""
    rows = [("node-a", "route_policy", 2, 4), ("node-b", "route_policy", 1, 9), ("gone", "config/edge", 3, 7)]
    rows += [
        ("node-a", "node_runtime", 3, 5),
        ("node-a", "service_assignment/web", 3, 6),
        ("node-a", "trust_bundle", 1, 8),
    ]
    line = "INSERT INTO published VALUES (:node, :scope, :epoch, :version, 'sha256:0', 's', 1.5)"
    with first.engine.begin() as connection:
        for node, scope, epoch, version in rows:
            connection.execute(text(line), {"node": node, "scope": scope, "epoch": epoch, "version": version})
    first.migrate()
    with first.read() as transaction:
        found = scope_versions.read(transaction, [scope for _, scope, _, _ in rows])
    assert found == {"route_policy": 9, "config/edge": 7}


def test_who_is_to_get_a_new_head_is_who_was(first: Database) -> None:
    """By the heads that are out: one that is behind, one that is not, one without any."""
    head = (
        "INSERT INTO heads (node_id, authority_epoch, generation, snapshot_id, refresh_after, expires_at, listing)"
        " VALUES (:node, 1, :generation, :node, 100, 200, '{}')"
    )
    node = (
        "INSERT INTO nodes"
        " (node_id, kind, site_id, certificate, certificate_sha256, incarnation, first_seen, generation) VALUES"
        " (:node, 'data', 'default', :der, :node, 'i-1', 2.5, 9)"
    )
    with first.engine.begin() as connection:
        for name in ("node-b", "node-c"):
            connection.execute(text(node), {"node": name, "der": name.encode()})
        for name, generation in (("node-a", 9), ("node-b", 8), ("gone", 3)):
            connection.execute(text(head), {"node": name, "generation": generation})
    first.migrate()
    with first.read() as transaction:
        assert heads.due(transaction, 99) == ["node-c", "node-b"]
        assert heads.due(transaction, 100) == ["node-c", "node-a", "node-b"]


def test_what_came_later_works_in_it(first: Database) -> None:
    """rules K18: operators, and who asked for a head."""
    first.migrate()
    operators.add(first, "alice", make_identity("alice", NOW).der, actor="uid:0", now=NOW)
    last_seen.record(first, {"node-a": NOW})
    assert [each.name for each in operators.list_operators(first)] == ["alice"]
    assert [entry.last_seen for entry in catalog.nodes(first)] == [NOW]


def test_where_older_resources_were_declared_is_said_by_the_next_apply(first: Database) -> None:
    """Of what was applied before nothing is made up; the same files, applied again, change nothing else."""
    line = "INSERT INTO resources VALUES ('Organization', 'acme', '{}', 7)"
    with first.engine.begin() as connection:
        connection.execute(text(line))
    first.migrate()
    acme = ("Organization", "acme")
    with first.read() as transaction:
        assert declared_places.read(transaction, [acme]) == {}
    plan = declarations.apply(first, {"f/a.yaml": "\nkind: Organization\nid: acme\n"}, actor="alice", now=NOW)
    assert (plan.changes, plan.unchanged, plan.moved) == ((), 1, 1)
    with first.read() as transaction:
        assert declared_places.read(transaction, [acme]) == {acme: ("f/a.yaml", 2)}


def test_a_history_is_begun_over_what_was_in_it(first: Database) -> None:
    """rules H12: with the member of before among its digests, and the audit rows"""
    first.migrate()
    histories.begin(first, now=NOW)
    assert {history_check.compare(first, table) for table in history_check.COMPARED} == {""}
    assert history_check.verify(first).faults == []
    with first.engine.begin() as connection:
        connection.execute(text("UPDATE nodes SET site_id = 'elsewhere'"))
    first.is_tampered = True
    assert "nodes" in history_check.compare(first, "nodes")


def test_what_other_tests_share_is_what_the_migrations_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statement by statement and row by row: migrated.py is as good as what it stands for."""
    made = []
    for begin in (lambda: monkeypatch.setattr(migrations, "upgrade", migrated.plain()), migrated.share):
        begin()
        file = tmp_path / f"{len(made)}.db"
        database = Database(f"sqlite:///{file}")
        database.migrate()
        database.close()
        made.append(_all_in(file))
    assert made[0] == made[1]
    assert len(made[0]) > 50


def _all_in(file: Path) -> list[object]:
    with sqlite3.connect(file) as connection:
        settings = ("user_version", "application_id", "auto_vacuum", "journal_mode", "encoding", "page_size")
        found = [row for name in settings for row in connection.execute(f"PRAGMA {name}")]
        found += connection.iterdump()
    connection.close()
    return found
