"""Who holds a version: the node's own word beside what was published, and who else has that content."""

import pytest

from coordinator.database.database import Database
from coordinator.fleet.holders import holders
from coordinator.membership import revocation
from coordinator.reports import heartbeat_form, heartbeats
from tests.coordinator import copies, reports
from tests.coordinator.candidates import NOW, admit, members
from tests.coordinator.publications import basis, document, entry, publication, publish
from wire.operators.fleet_answers import Holders

SCOPE = "service_assignment/web"
NODES = ("node-a", "node-b", "node-c")


@pytest.fixture
def shared(database: Database) -> Database:
    """Three members, and the same content of a scope for each of them."""
    copies.made(database, "the same for three", publish_all)
    return database


def publish_all(database: Database) -> None:
    members(database, *NODES)
    for node_id in NODES:
        publish_for(database, node_id)


def publish_for(database: Database, node_id: str) -> None:
    made = document(SCOPE, 1, b"{}", subject=node_id)
    publish(database, publication(basis(database, node_id), made, node_id=node_id))


CONTENT = document(SCOPE, 1, b"{}").content_hash


def tell(database: Database, node_id: str, active: dict[str, object] | None, *, scope: str = SCOPE, **more: object):
    said = {**reports.scope(active), **more}
    heartbeats.record(database, [heartbeat_form.parse(reports.body(node_id, scopes={scope: said}))], now=NOW)


def mark(version: int = 1, content: str = CONTENT, **other: object) -> dict[str, object]:
    return {**reports.mark(version), "content_hash": content, **other}


def who(database: Database, node_id: str = "node-a", *, published: bool = True) -> Holders:
    with database.read() as transaction:
        listed = entry(document(SCOPE, 1, b"{}")) if published else None
        return holders(transaction, node_id, SCOPE, listed)


def test_nobody_was_heard_of_yet(shared: Database) -> None:
    assert who(shared) == Holders("unheard", None, 2, (), 0)


@pytest.mark.parametrize(
    ("active", "standing"),
    [
        (mark(1), "same"),
        (mark(2), "ahead"),
        (mark(9, authority_epoch=2), "ahead"),
        (mark(1, "sha256:" + "0" * 64), "other_content"),
        (None, "nothing"),
    ],
)
def test_how_the_node_itself_stands(shared: Database, active, standing) -> None:
    """rules K41"""
    tell(shared, "node-a", active)
    assert who(shared).standing == standing


def test_a_node_that_is_behind(shared: Database) -> None:
    tell(shared, "node-a", mark(1))
    with shared.read() as transaction:
        assert holders(transaction, "node-a", SCOPE, entry(document(SCOPE, 2, b"[]"))).standing == "behind"


def test_what_was_refused_and_what_waits_is_told(shared: Database) -> None:
    held = {"authority_epoch": 1, "config_version": 3, "content_hash": CONTENT, "snapshot_id": "s-3"}
    tell(shared, "node-a", mark(), last_rejected=reports.rejected(2, "bad_signature"), pending=held)
    told = who(shared).reported
    assert (told.last_refused, told.pending, told.state, told.at) == ("bad_signature", 3, "active", NOW)


def test_without_a_publication_there_is_nothing_to_compare(shared: Database) -> None:
    tell(shared, "node-a", mark())
    tell(shared, "node-b", mark())
    assert who(shared, published=False) == Holders("unpublished", who(shared).reported, 0, (), 0)


def test_others_hold_it_who_report_that_content_under_that_scope(shared: Database) -> None:
    tell(shared, "node-b", mark(7))
    tell(shared, "node-c", mark(1), scope="qos_policy")
    told = who(shared)
    assert (told.published_for, told.others, told.others_total) == (2, ("node-b",), 1)


def test_who_was_revoked_holds_nothing(shared: Database) -> None:
    """rules K22"""
    tell(shared, "node-b", mark())
    revocation.revoke_node(shared, "node-b", reason="lost", actor="root", now=NOW)
    assert who(shared).others == ()


def test_the_names_are_bounded_and_counted(shared: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.fleet.holders.MOST_NAMED", 5)
    for number in range(5 + 3):
        admit(shared, f"peer-{number:03}")
        tell(shared, f"peer-{number:03}", mark())
    told = who(shared)
    assert (len(told.others), told.others_total) == (5, 5 + 3)
    assert told.others[0] == "peer-000"
