"""What nodes report to hold, against what was ever published for them (rules K37, K41, X16)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import delete, event, update

from coordinator.base.settings import CoordinatorSettings
from coordinator.database import documents, schema
from coordinator.database.database import Database
from coordinator.database.documents import Recovery
from coordinator.fleet import fleet
from coordinator.reports import heartbeats, report_check
from coordinator.reports.checkin import Comparison, ReportedMark
from coordinator.reports.heartbeat_form import ReceivedHeartbeat
from tests.coordinator import copies
from tests.coordinator.candidates import NOW, admit, contents, members
from tests.coordinator.daemon import running
from tests.coordinator.founding import Founded
from tests.coordinator.publications import basis, document, publication, publish
from tests.coordinator.reports import body, heartbeat, mark, scope

ROUTES = "route_policy"
AHEAD, BEHIND, CONFLICT = Comparison.NODE_AHEAD, Comparison.NODE_BEHIND, Comparison.CONFLICT


@pytest.fixture
def published(database: Database) -> str:
    """Versions 3 and 4 of one scope of node-a; the content hash of 4."""
    return copies.made(database, "versions 3 and 4", publish_both)


def publish_both(database: Database) -> str:
    members(database, "node-a")
    for version in (3, 4):
        made = document(ROUTES, version, b"%d" % version)
        assert not publish(database, publication(basis(database), made))
    return made.content_hash


def doubts(database: Database, **scopes: ReportedMark) -> dict[str, Comparison]:
    claims = {("node-a", name, claim) for name, claim in scopes.items()}
    with database.record() as transaction:
        return {scope: doubt for (_, scope, _), doubt in report_check.doubtful(transaction, claims).items()}


def test_what_was_published_is_no_doubt(database: Database, published: str) -> None:
    """rules K37"""
    assert doubts(database, route_policy=ReportedMark(1, 4, published)) == {}


def test_what_nobody_published_is_ahead(database: Database, published: str) -> None:
    """rules K37, K41: a higher version, a higher epoch, a scope that it was never given"""
    claims = {"route_policy": ReportedMark(1, 5, published), "qos_policy": ReportedMark(1, 1, published)}
    assert doubts(database, **claims) == {"route_policy": AHEAD, "qos_policy": AHEAD}
    assert doubts(database, route_policy=ReportedMark(2, 1, published)) == {"route_policy": AHEAD}


def test_what_was_published_for_another_node_is_ahead(database: Database, published: str) -> None:
    """rules K37"""
    admit(database, "node-b")
    mine, claim = ("node-a", ROUTES, ReportedMark(1, 4, published)), ("node-b", ROUTES, ReportedMark(1, 4, published))
    with database.record() as transaction:
        assert report_check.doubtful(transaction, [mine, claim]) == {claim: AHEAD}


def test_another_content_under_one_version_is_a_conflict(database: Database, published: str) -> None:
    """rules X16, K37"""
    assert doubts(database, route_policy=ReportedMark(1, 3, published)) == {"route_policy": CONFLICT}


def test_a_version_of_which_nothing_is_kept_any_more_is_no_doubt(database: Database, published: str) -> None:
    """rules, Numbers: increment history"""
    database.is_tampered = True  # the product says it to the digests as well
    with database.record() as transaction:
        transaction.run(delete(schema.published).where(schema.published.c.config_version == 3))
    assert doubts(database, route_policy=ReportedMark(1, 3, published)) == {}


def test_a_trust_bundle_is_held_against_the_bundles(database: Database, published: str) -> None:
    """rules K37: it is handed out beside the heads, so a node may hold it before its head lists it"""
    made = document("trust_bundle", 2, b"keys", subject="*")
    documents.add_trust_bundle(database, made, announces_epoch=2, actor="root", now=NOW)
    assert doubts(database, trust_bundle=ReportedMark(1, 2, made.content_hash)) == {}
    assert doubts(database, trust_bundle=ReportedMark(1, 2, published)) == {"trust_bundle": CONFLICT}
    assert doubts(database, trust_bundle=ReportedMark(1, 2**53 - 1, published)) == {"trust_bundle": AHEAD}


def test_a_claim_is_no_record(database: Database, published: str) -> None:
    """rules K37, K41: it alarms as long as it is made, and the state is as it was; what is true is recorded"""
    before = contents(database, "published", "heads", "nodes")
    lies = {ROUTES: scope(mark(2**53 - 1, epoch=2**53 - 1)), "qos_policy": scope(mark(1))}
    for at in (NOW, NOW + 30):
        (answer,) = heartbeats.record(database, [heartbeat(scopes=lies)], now=at)
        assert (answer.comparisons, json.loads(answer.to_bytes())["recorded"]) == (
            {ROUTES: AHEAD, "qos_policy": AHEAD},
            {},
        )
    assert contents(database, "published", "heads", "nodes") == before
    (answer,) = heartbeats.record(database, [holding(4, published)], now=NOW + 60)
    assert (answer.comparisons, answer.recorded) == ({}, {ROUTES: ReportedMark(1, 4, published)})
    (answer,) = heartbeats.record(database, [heartbeat(scopes=lies)], now=NOW + 90)
    assert answer.recorded == {ROUTES: ReportedMark(1, 4, published)}


def test_two_claims_of_one_batch(database: Database, published: str) -> None:
    """rules K37: each of them is looked at, in either order"""
    for batch in ([holding(9), holding(4, published)], [holding(4, published), holding(9)]):
        answers = heartbeats.record(database, batch, now=NOW)
        assert sorted(list(answer.comparisons.values()) for answer in answers) == [[], [AHEAD]]
        assert answers[-1].recorded == {ROUTES: ReportedMark(1, 4, published)}


def test_what_says_nothing_new_costs_nothing(database: Database, published: str) -> None:
    heartbeats.record(database, [holding(4, published)], now=NOW)
    with statements(database) as said:
        heartbeats.record(database, [holding(4, published)], now=NOW + 30)
    assert not [text for text in said if "FROM published" in text or "FROM heads" in text]


# ---- a recovery, a withdrawal, a membership that ended


def test_an_allowed_recovery_is_no_alarm(database: Database, published: str) -> None:
    """rules S31, S87, K41: the node took back what its head announces; what is below that is noticed as before"""
    heartbeats.record(database, [holding(4, published)], now=NOW)
    first = document(ROUTES, 3, b"3")
    allowed = document(ROUTES, 5, kind="recovery", content_hash="sha256:" + "e1" * 32)
    documents.add_recovery(database, Recovery(allowed, 4, 3, first.content_hash, "n-1"), actor="root", now=NOW)
    (answer,) = heartbeats.record(database, [holding(3, first.content_hash)], now=NOW + 10)
    assert answer.is_behind, "allowed, but its head does not say so yet"
    assert not publish(database, publication(basis(database), first))
    for at in (NOW + 30, NOW + 60):
        (answer,) = heartbeats.record(database, [holding(3, first.content_hash)], now=at)
        assert (answer.comparisons, answer.recorded) == ({}, {ROUTES: ReportedMark(1, 3, first.content_hash)})
    assert not fleet.observe(database, now=NOW + 60, settings=CoordinatorSettings()).stragglers
    (answer,) = heartbeats.record(database, [holding(2)], now=NOW + 90)
    assert answer.comparisons == {ROUTES: BEHIND}
    (answer,) = heartbeats.record(database, [heartbeat(scopes={})], now=NOW + 120)
    assert answer.comparisons == {ROUTES: BEHIND}


def test_another_content_than_the_recovered_one_is_no_recovery(database: Database, published: str) -> None:
    """rules S87, K41"""
    heartbeats.record(database, [holding(4, published)], now=NOW)
    first = document(ROUTES, 3, b"3")
    allowed = document(ROUTES, 5, kind="recovery", content_hash="sha256:" + "e1" * 32)
    documents.add_recovery(database, Recovery(allowed, 4, 3, first.content_hash, "n-1"), actor="root", now=NOW)
    assert not publish(database, publication(basis(database), first))
    (answer,) = heartbeats.record(database, [holding(3, "sha256:" + "00" * 32)], now=NOW)
    assert answer.comparisons == {ROUTES: BEHIND}


def test_a_scope_that_its_head_lists_no_more_is_not_missed(database: Database, published: str) -> None:
    """rules S3, K41"""
    heartbeats.record(database, [holding(4, published)], now=NOW)
    assert not publish(database, publication(basis(database)))
    (answer,) = heartbeats.record(database, [heartbeat(scopes={})], now=NOW + 30)
    assert (answer.comparisons, answer.recorded) == ({}, {})


def test_a_lie_that_is_on_record_from_before_ends_when_the_node_holds_what_its_head_lists(
    database: Database, published: str
) -> None:
    """rules K37: an earlier version took it; the node catches up, and nothing needs to be removed"""
    heartbeats.record(database, [holding(4, published)], now=NOW)
    poisoned = json.dumps({ROUTES: [2**53 - 1, 2**53 - 1, published], "invented": [1, 1, published]})
    with database.record() as transaction:
        transaction.run(update(schema.node_status).values(recorded=poisoned))
    (answer,) = heartbeats.record(database, [holding(3)], now=NOW + 30)
    assert answer.comparisons == {ROUTES: BEHIND}
    (answer,) = heartbeats.record(database, [holding(4, published)], now=NOW + 60)
    assert (answer.comparisons, answer.recorded) == ({}, {ROUTES: ReportedMark(1, 4, published)})


def holding(version: int, content_hash: str | None = None) -> ReceivedHeartbeat:
    """A report of one scope."""
    content = {} if content_hash is None else {"content_hash": content_hash}
    return heartbeat(scopes={ROUTES: scope({**mark(version), **content})})


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
        (entry,) = (await at.ask("GET", "/v1/audit?action=restored_backup.unproven"))["entries"]
        assert entry["after"] == {"scope": ROUTES, "authority_epoch": 1, "version": 9}
        assert (await at.probe("/probe/readiness"))[0] == 200
