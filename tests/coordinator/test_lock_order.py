"""Whoever writes rows of several nodes takes them in one order, so that two never wait for each other."""

import hashlib
from collections.abc import Callable, Collection, Iterator
from copy import copy
from dataclasses import replace

import pytest
from sqlalchemy import select, text, update

from coordinator.base.settings import CoordinatorSettings
from coordinator.changes import records, votes
from coordinator.changes.records import CandidateVote, ChangeNode, ChangeRecord
from coordinator.changes.states import ChangeState, Outcome, Step
from coordinator.changes.votes import SaidOfChanges, TakenBack
from coordinator.database import journals, schema, uploads
from coordinator.database.database import Database, Transaction
from coordinator.database.documents import section_key
from coordinator.publishing import heads
from coordinator.publishing.heads import Publication
from coordinator.reports import heartbeats, refusal_records
from coordinator.reports.refusal_records import RefusalOutcome
from coordinator.runtime import retention
from tests.coordinator import copies
from tests.coordinator.candidates import NOW, admit, found
from tests.coordinator.lock_waits import Session, deletes, until_waiting, writes
from tests.coordinator.picky import Picky
from tests.coordinator.publishing import DAY, HOUR, STATE, Press
from tests.coordinator.reports import events, heartbeat

ROUTES = "route_policy"
NEXT = STATE.replace("www.example", "shop.example").replace("roles: [ingress]", "roles: [ingress, egress_service]")
NODES = ("node-a", "node-b")
KEPT = ("refuses", "active", "expires", "applied", "last")  # of a node, from report to report


@pytest.fixture
def refusing(server: Database) -> list[Picky]:
    """Both refuse what is declared, and have taken what was renewed for them since, which nobody knows yet."""
    made = copies.made(server, "both refuse", refuse_both)
    press = made[0].press.over(server)
    return [replace(node, press=press, **{name: copy(getattr(node, name)) for name in KEPT}) for node in made]


def refuse_both(server: Database) -> list[Picky]:
    press = Press.published(server, *NODES)
    nodes = [Picky(press, node_id).follow() for node_id in NODES]
    press.now += HOUR
    press.apply(NEXT)
    press.publish()
    for node in nodes:
        node.refuses.add(ROUTES)
        node.follow()
    press.now += DAY - HOUR
    press.publish()
    for node in nodes:
        node.active = press.listing(node.node_id)
        node.applied = dict.fromkeys(node.active, int(press.now))
        node.expires = {scope: press.document(scope, node.node_id).expires_at for scope in node.active}
    return nodes


@pytest.mark.parametrize(("place", "settled"), [("standing_refusals", NODES), ("heads", NODES), ("heads", ())])
def test_reports_and_a_publication_of_the_same_nodes(
    refusing: list[Picky], server: Database, place: str, settled: Collection[str]
) -> None:
    """rules K30: the reports stand still with their first row of this table; what is published settles refusals of
    the same nodes, in the order in which heads end, and writes their heads. Both come to their end.
    """
    press = refusing[0].press
    batch = press.prepare(*reversed(NODES))
    publications = [settling(press, draft.publication, settled) for draft in batch.drafts]
    assert [each.node_id for each in publications] == ["node-b", "node-a"]
    said = [node.heartbeat() for node in refusing]
    reports = Session(server, lambda: heartbeats.record(server, said, now=press.now), writes(place)).start()
    publication = Session(server, lambda: heads.publish(server, publications, actor="x", now=press.now)).start()
    until_waiting(server)
    reports.go_on()
    reports.end()
    publication.end()
    with server.read() as transaction:
        kept = refusal_records.of_nodes(transaction, NODES)
        out = {row.node_id: row.snapshot_id for row in transaction.rows(select(schema.heads))}
    assert all(kept[node_id][ROUTES].renewed_at == press.now for node_id in settled)
    assert out == {each.node_id: each.head.snapshot_id for each in publications}


def settling(press: Press, made: Publication, settled: Collection[str]) -> Publication:
    if made.node_id not in settled:
        return replace(made, outcomes=())
    with press.database.read() as transaction:
        kept = refusal_records.of_nodes(transaction, [made.node_id])[made.node_id][ROUTES]
    outcome = RefusalOutcome(made.node_id, ROUTES, kept.refused.content_hash, replace(kept, renewed_at=press.now))
    return replace(made, outcomes=(outcome,))


# ---- votes, and what is decided


CHANGE, THREE = 1, ("node-c", "node-a", "node-b")  # in the order in which the server finds them
HASH = "sha256:" + "ab" * 32
VOTE = CandidateVote(HASH, "accepted", None, "", "", NOW)
RECORD = ChangeRecord(CHANGE, NOW, "x", "", ChangeState.ROLLING, "", "", ())
ACTS: dict[str, Callable[[Transaction], object]] = {
    "move": lambda transaction: records.move(transaction, RECORD, THREE, Step.RELEASED),
    "let go": lambda transaction: records.let_go(transaction, RECORD, ()),
    "leave aside": lambda transaction: records.leave_aside(transaction, CHANGE, THREE),
    "ask again": lambda transaction: records.forget_votes_of_failed(transaction, CHANGE),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS.keys())
def test_votes_and_what_is_decided_of_the_same_nodes(server: Database, act: Callable[[Transaction], object]) -> None:
    """The votes have come as far as node-b, which somebody else writes, and are to write node-c."""
    made = [
        ChangeNode(CHANGE, node_id, (ROUTES,), votes={ROUTES: VOTE}, step=Step.OFFERED, outcome=Outcome.REFUSED)
        for node_id in THREE
    ]
    found(server)
    with server.change(actor="x", now=NOW) as transaction:
        records.add_nodes(transaction, made)
        transaction.audit("x", "x")

    def vote() -> None:
        rows = {one.node_id: [replace(one, step=Step.RELEASED, outcome="")] for one in made}
        back = {ROUTES: TakenBack(HASH, "health")}
        said = [SaidOfChanges(node_id, (), {}, {}, {}, back) for node_id in THREE]
        with server.record(now=NOW) as transaction:
            assert votes.take(transaction, rows, said).taken_back == len(THREE)

    def decide() -> None:
        with server.change(actor="x", now=NOW) as transaction:
            act(transaction)
            transaction.audit("x", "x")

    with server.record() as transaction:
        transaction.run(update(schema.change_nodes).where(schema.change_nodes.c.node_id == "node-b").values(detail="x"))
        voting = Session(server, vote).start()
        until_waiting(server)
        deciding = Session(server, decide).start()
        until_waiting(server, 2)
    voting.end()
    deciding.end()


# ---- journals, and what goes with time


def test_reports_that_trim_journals_and_what_goes_with_time(server: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two nodes, whose events are found the other way round. The reports stand still when they have trimmed the
    first journal.
    """
    monkeypatch.setattr(journals, "MOST_EVENTS", 4)
    found(server)
    for node_id in reversed(NODES):
        admit(server, node_id)
        heartbeats.record(server, [heartbeat(node_id, journal=events(1, 2, 3, 4))], now=NOW)
    later = NOW + 60 * DAY
    said = [heartbeat(node_id, journal=events(5, 6)) for node_id in NODES]
    reports = Session(server, lambda: heartbeats.record(server, said, now=later), deletes("events")).start()
    gone: dict[str, int] = {}
    trim = Session(server, lambda: gone.update(retention.trim(server, now=later, settings=CoordinatorSettings())))
    trim.start()
    until_waiting(server)
    reports.go_on()
    reports.end()
    trim.end()
    assert gone["events"] == 2  # those that the reports have left of the old ones


# ---- parts of files, and what goes with time


PARTS = {hashlib.sha256(value).hexdigest(): value for value in (b"one", b"two", b"three", b"four")}
FIRST, SECOND, THIRD = sorted(PARTS)[:3]
LATER = NOW + 60 * DAY
OF_UPLOADS: dict[str, Callable[[Database], object]] = {
    "asked for": lambda server: uploads.missing(server, PARTS, now=LATER),
    "uploaded": lambda server: uploads.add_all(server, list(PARTS.values()), now=LATER),
    "retention": lambda server: retention.trim(server, now=LATER, settings=CoordinatorSettings()),
}


@pytest.mark.parametrize(
    ("first", "other"), [("asked for", "uploaded"), ("retention", "uploaded"), ("retention", "asked for")]
)
def test_the_same_parts_of_files(server: Database, first: str, other: str) -> None:
    """The server finds the third one last by its key, and in the middle by its place, where somebody else writes it."""
    found(server)
    for name in (SECOND, THIRD, FIRST):
        uploads.add_all(server, [PARTS[name]], now=NOW)
    mine = schema.uploads.c.object_key == section_key(THIRD)
    with server.record() as transaction:
        transaction.run(update(schema.uploads).where(mine).values(asked_at=NOW))
        one = Session(server, lambda: OF_UPLOADS[first](server)).start()
        until_waiting(server)
        another = Session(server, lambda: OF_UPLOADS[other](server)).start()
        until_waiting(server, 2)
    one.end()
    another.end()


def test_a_part_that_goes_while_it_is_uploaded_again(server: Database) -> None:
    """Who was told that it is kept finds it kept: retention has taken its row by then, and not yet its bytes."""
    found(server)
    uploads.add_all(server, [PARTS[FIRST]], now=NOW)
    trim = Session(server, lambda: OF_UPLOADS["retention"](server), deletes("uploads")).start()
    again = Session(server, lambda: uploads.add_all(server, [PARTS[FIRST]], now=LATER)).start()
    until_waiting(server)
    trim.go_on()
    trim.end()
    again.end()
    with server.read() as transaction:
        assert uploads.existing_parts(transaction, [FIRST]) == {FIRST}


# ---- whatever order the database has


BY_WORDS = "en-US-x-icu"  # as of a server whose locale is a language's: "a_1" comes before "a-1"
OTHERWISE = ("a-1", "a_1", "a_5")


@pytest.fixture
def by_words(server: Database) -> Iterator[Database]:
    def have(collation: str) -> None:
        with server.engine.begin() as connection:
            for table in ("node_status", "change_nodes"):
                connection.execute(text(f'ALTER TABLE {table} ALTER node_id TYPE VARCHAR COLLATE "{collation}"'))

    have(BY_WORDS)
    yield server
    have("default")


def test_reports_and_who_is_forgotten_where_ids_are_ordered_by_words(by_words: Database) -> None:
    """The reports have come as far as a_5, which somebody else writes."""
    found(by_words)
    for node_id in OTHERWISE:
        admit(by_words, node_id)
        heartbeats.record(by_words, [heartbeat(node_id)], now=NOW)

    def forget() -> None:
        with by_words.record(now=NOW) as transaction:
            heartbeats.forget(transaction, OTHERWISE[:2])

    said = [heartbeat(node_id) for node_id in OTHERWISE]
    mine = schema.node_status.c.node_id == OTHERWISE[2]
    with by_words.record() as transaction:
        transaction.run(update(schema.node_status).where(mine).values(mode="x"))
        reports = Session(by_words, lambda: heartbeats.record(by_words, said, now=NOW)).start()
        until_waiting(by_words)
        forgetting = Session(by_words, forget).start()
        until_waiting(by_words, 2)
    reports.end()
    forgetting.end()
