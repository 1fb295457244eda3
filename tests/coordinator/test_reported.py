"""What nodes report to hold, against what was ever published for them (rules K37, K41, X16)."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import delete, event

from coordinator import heartbeats, reported, schema
from coordinator.checkin import Comparison, Mark
from coordinator.database import Database
from tests.coordinator.candidates import NOW, admit, contents, found
from tests.coordinator.daemon import running
from tests.coordinator.founding import Founded
from tests.coordinator.publications import basis, document, publication, publish
from tests.coordinator.reports import body, heartbeat, mark, scope

ROUTES = "route_policy"
AHEAD, CONFLICT = Comparison.NODE_AHEAD, Comparison.CONFLICT


@pytest.fixture
def published(database: Database) -> str:
    """Versions 3 and 4 of one scope of node-a; the content hash of 4."""
    found(database)
    admit(database, "node-a")
    for version in (3, 4):
        made = document(ROUTES, version, b"%d" % version)
        assert not publish(database, publication(basis(database), made))
    return made.content_hash


def doubts(database: Database, **scopes: Mark) -> dict[str, Comparison]:
    claims = {("node-a", name): claim for name, claim in scopes.items()}
    with database.record() as transaction:
        return {scope: doubt for (_, scope), doubt in reported.doubtful(transaction, claims).items()}


def test_what_was_published_is_no_doubt(database: Database, published: str) -> None:
    """rules K37: nor is a trust bundle, which is handed out beside the heads."""
    assert doubts(database, route_policy=Mark(1, 4, published)) == {}
    assert doubts(database, trust_bundle=Mark(1, 99, published)) == {}


def test_what_nobody_published_is_ahead(database: Database, published: str) -> None:
    """rules K37, K41: a higher version, a higher epoch, a scope that it was never given"""
    claims = {"route_policy": Mark(1, 5, published), "qos_policy": Mark(1, 1, published)}
    assert doubts(database, **claims) == {"route_policy": AHEAD, "qos_policy": AHEAD}
    assert doubts(database, route_policy=Mark(2, 1, published)) == {"route_policy": AHEAD}


def test_another_content_under_one_version_is_a_conflict(database: Database, published: str) -> None:
    """rules X16, K37"""
    assert doubts(database, route_policy=Mark(1, 3, published)) == {"route_policy": CONFLICT}


def test_a_version_of_which_nothing_is_kept_any_more_is_no_doubt(database: Database, published: str) -> None:
    """rules, Numbers: increment history"""
    with database.record() as transaction:
        transaction.run(delete(schema.published).where(schema.published.c.config_version == 3))
    assert doubts(database, route_policy=Mark(1, 3, published)) == {}


def test_a_report_says_it_once(database: Database, published: str) -> None:
    """rules K37: it is recorded, so the same report again is no news; and the state is as it was"""
    before = contents(database, "published", "heads", "nodes")
    ahead = heartbeat(scopes={ROUTES: scope(mark(9))})
    assert [dict(answer.comparisons) for answer in heartbeats.record(database, [ahead], now=NOW)] == [{ROUTES: AHEAD}]
    with statements(database) as said:
        (answer,) = heartbeats.record(database, [ahead], now=NOW + 30)
    assert answer.comparisons == {}
    assert not [text for text in said if "FROM published" in text], "what says nothing new costs nothing"
    assert contents(database, "published", "heads", "nodes") == before


@contextmanager
def statements(database: Database) -> Iterator[list[str]]:
    said: list[str] = []

    def note(_connection: object, _cursor: object, text: str, *_more: object) -> None:
        said.append(text)

    event.listen(database.engine, "before_cursor_execute", note)
    yield said
    event.remove(database.engine, "before_cursor_execute", note)


async def test_the_operator_is_told(tmp_path, database_url: str) -> None:
    """rules K37, K41: an alarm and an audit row, and nothing else"""
    async with running(Founded(tmp_path, database_url)) as at:
        node = await at.admit("node-a")
        await node.report(body(scopes={ROUTES: scope(mark(9))}))
        assert (await at.ask("GET", "/v1/status"))["alarms"] == {"node_ahead": 1}
        (entry,) = (await at.ask("GET", "/v1/audit?action=put_back.unproven"))["entries"]
        assert entry["after"] == {"scope": ROUTES, "authority_epoch": 1, "version": 9}
        assert (await at.probe("/probe/readiness"))[0] == 200
