"""Whoever writes rows of several nodes takes them in one order, so that two never wait for each other."""

from collections.abc import Collection, Iterator
from dataclasses import replace

import pytest
from sqlalchemy import select

from coordinator.database import schema
from coordinator.database.database import Database
from coordinator.publishing import heads
from coordinator.publishing.heads import Publication
from coordinator.reports import heartbeats, refusal_records
from coordinator.reports.refusal_records import RefusalOutcome
from tests.coordinator.lock_waits import Session, until_waiting, writes
from tests.coordinator.picky import Picky
from tests.coordinator.publishing import DAY, HOUR, STATE, Press

ROUTES = "route_policy"
NEXT = STATE.replace("www.example", "shop.example").replace("roles: [ingress]", "roles: [ingress, egress_service]")
NODES = ("node-a", "node-b")


@pytest.fixture
def server(postgresql_url: str) -> Iterator[Database]:
    opened = Database(postgresql_url)
    yield opened
    opened.close()


@pytest.fixture
def refusing(server: Database) -> list[Picky]:
    """Both refuse what is declared, and have taken what was renewed for them since, which nobody knows yet."""
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
