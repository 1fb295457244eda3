"""What goes with time, and what never goes (rules, Numbers; K39, D-52)."""

from dataclasses import replace

import pytest
from sqlalchemy import insert

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import DAY, CoordinatorSettings
from coordinator.changes import records
from coordinator.changes.records import ChangeNode
from coordinator.changes.states import ChangeState
from coordinator.database import documents, journals, schema
from coordinator.database.database import Database
from coordinator.membership import admission, revocation
from coordinator.reports import heartbeats
from coordinator.runtime import retention
from tests.coordinator.begun_changes import PLAN_HASH, begin
from tests.coordinator.candidates import (
    NOW,
    Candidate,
    admit,
    allow,
    contents,
    join,
    members,
    remove_node,
    token_for,
)
from tests.coordinator.publications import basis, document, publication, publish
from tests.coordinator.reports import events, heartbeat, mark, scope


@pytest.fixture
def cluster(database: Database) -> Database:
    members(database, "node-a")
    return database


def trim(database: Database, now: float, **numbers: int):
    return retention.trim(database, now=now, settings=CoordinatorSettings(**numbers))


def versions(database: Database, count: int, *, now: float = NOW) -> list[documents.Document]:
    made = []
    for version in range(1, count + 1):
        full = document("route_policy", version, b"shared", bytes([version]))
        step = document(
            "route_policy", version, bytes([version]), kind="increment",
            base_config_version=version - 1 or 1, content_hash=full.content_hash,
        )  # fmt: skip
        assert publish(database, publication(basis(database), full, step), now=now) == {}
        made.append(full)
    return made


def test_increment_history_is_bounded_by_versions(cluster: Database) -> None:
    """rules K39: 64 versions, or 7 days, whichever is less."""
    made = versions(cluster, 6)
    trim(cluster, NOW, increment_history_versions=3)
    kept = contents(cluster, "documents")["documents"]
    assert sum("'increment'" in row for row in kept) == 3
    for gone in made[:3]:
        with pytest.raises(Refused):
            documents.document(cluster, "node-a", gone.snapshot_id)
    assert documents.document(cluster, "node-a", made[-1].snapshot_id) == made[-1]
    assert documents.increment(cluster, "node-a", "route_policy", 5).config_version == 6


def test_and_by_time_but_what_is_announced_stays(cluster: Database) -> None:
    made = versions(cluster, 3)
    assert trim(cluster, NOW + 7 * DAY)["documents"] == 0
    gone = trim(cluster, NOW + 7 * DAY + 1)
    assert gone["documents"] == 5
    assert documents.document(cluster, "node-a", made[-1].snapshot_id) == made[-1]
    assert documents.head(cluster, "node-a").kind == "head"
    assert sorted(contents(cluster, "objects")["objects"]) == sorted(
        row for row in contents(cluster, "objects")["objects"] if "shared" in row or "\\x03" in row
    )


def test_numbers_do_not_come_again(cluster: Database) -> None:
    """rules X16: the last version stays on record when its document is gone."""
    versions(cluster, 3)
    publish(cluster, publication(basis(cluster)))
    for _ in range(2):
        trim(cluster, NOW + 30 * DAY)
    again = publication(basis(cluster), document("route_policy", 3, b"other"))
    assert publish(cluster, again)["node-a"].code is Code.CONFLICT
    assert publish(cluster, publication(basis(cluster), document("route_policy", 4, b"other"))) == {}


def test_trust_bundles_and_recoveries_never_go(cluster: Database) -> None:
    bundle = document("trust_bundle", 1, b"keys", subject="*")
    documents.add_trust_bundle(cluster, bundle, announces_epoch=1, actor="root", now=NOW)
    permission = documents.Recovery(document("route_policy", 3, kind="recovery"), 3, 2, "sha256:" + "0" * 64, "n")
    documents.add_recovery(cluster, permission, actor="root", now=NOW)
    trim(cluster, NOW + 400 * DAY)
    assert documents.trust_bundles(cluster, 0) == [bundle]
    assert documents.recovery(cluster, "node-a", "route_policy") == permission.document


def test_tokens_are_kept_until_they_expire(cluster: Database) -> None:
    """threats D-52: a used token is `token_used` as long as it could be used."""
    node, other = Candidate("node-b"), Candidate("node-c")
    allow(cluster, node)
    allow(cluster, other)
    token = token_for(cluster, lifetime_s=3_600)
    join(cluster, node, token)
    trim(cluster, NOW + 3_599)
    with pytest.raises(Refused) as caught:
        join(cluster, other, token, now=NOW + 3_599)
    assert caught.value.code is Code.TOKEN_USED
    assert trim(cluster, NOW + 3_600 + 301)["tokens"] == 2
    assert admission.list_tokens(cluster) == []


def test_nonces_events_and_audit_rows(cluster: Database) -> None:
    heartbeats.record(cluster, [heartbeat(journal=events(1, 2))], now=NOW)
    assert trim(cluster, NOW + 59)["used_nonces"] == 0
    assert trim(cluster, NOW + 61)["used_nonces"] == 1
    assert trim(cluster, NOW + 30 * DAY + 1)["events"] == 2
    before = len(contents(cluster, "audit")["audit"])
    assert trim(cluster, NOW + 366 * DAY)["audit"] > 0
    assert len(contents(cluster, "audit")["audit"]) < before


def test_a_share_that_has_become_smaller(cluster: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of nodes that do not report any more"""
    heartbeats.record(cluster, [heartbeat(journal=events(*range(1, 41)))], now=NOW)
    assert trim(cluster, NOW + DAY)["events"] == 0
    monkeypatch.setattr(journals, "IN_ALL", 20)
    monkeypatch.setattr(journals, "LEAST_EVENTS", 1)
    assert trim(cluster, NOW + DAY)["events"] == 25
    assert trim(cluster, NOW + DAY)["events"] == 0


LATER = NOW + 366 * DAY


def kept_changes(database: Database, now: float) -> list[int]:
    trim(database, now)
    with database.read() as transaction:
        return sorted(change.change_id for change in records.list_changes(transaction))


def test_changes_are_kept_as_long_as_the_audit_log(cluster: Database) -> None:
    """With their timelines and approvals; the last one stays, so that its number does not come again."""
    for _ in range(3):
        begin(cluster, state=ChangeState.DONE, settled_at=NOW)
    approved = {"operator": "operator:bob", "at": NOW, "plan_hash": PLAN_HASH}
    with cluster.change(actor="coordinator", now=NOW) as transaction:
        for change_id in (1, 3):
            records.note(transaction, change_id, "done")
            transaction.run(insert(schema.change_approvals).values(change_id=change_id, **approved))
        transaction.audit("test", "changes")
    assert kept_changes(cluster, NOW + 365 * DAY) == [1, 2, 3]
    assert kept_changes(cluster, LATER) == [3]
    left = contents(cluster, "change_events", "change_approvals")
    assert [len(rows) for rows in left.values()] == [1, 1]
    assert begin(cluster).name == "c-4"


def test_nothing_goes_that_came_after_what_is_not_over(cluster: Database) -> None:
    """Or holds a node still: what stands in the place of what must be found by whoever releases it."""
    begin(cluster, state=ChangeState.DONE, settled_at=NOW)
    held = ChangeNode(0, "node-a", ("route_policy",))
    begin(cluster, held, state=ChangeState.SUPERSEDED, settled_at=NOW, superseded_by=3)
    begin(cluster, state=ChangeState.SUPERSEDED, settled_at=NOW, superseded_by=4)
    standing = begin(cluster, held, state=ChangeState.HALTED)
    assert kept_changes(cluster, LATER) == [2, 3, 4]
    with cluster.change(actor="coordinator", now=LATER) as transaction:
        records.let_go(transaction, records.save(transaction, replace(standing, settled_at=LATER)), ["node-a"])
        transaction.audit("test", "changes")
    assert kept_changes(cluster, LATER) == [4]


def test_what_is_about_to_be_taken_back_stays(cluster: Database) -> None:
    begin(cluster, state=ChangeState.DONE, settled_at=NOW)
    begin(cluster, state=ChangeState.DONE, settled_at=NOW)
    begin(cluster, approvals=1, reverts=1)
    assert kept_changes(cluster, LATER) == [1, 3]


def test_trimming_an_empty_database(database: Database) -> None:
    assert set(trim(database, NOW).values()) == {0}


@pytest.mark.parametrize("end", [remove_node, revocation.revoke_node], ids=["removed", "revoked"])
def test_a_tombstone_stays_for_ever(cluster: Database, end) -> None:
    """rules K43, X7, H-000-2: nothing that is kept for a time brings an id back, nor does time"""
    end(cluster, "node-a", reason="sold", actor="root", now=NOW)
    before = contents(cluster, "tombstones", "retired_certificates")
    trim(cluster, NOW + 100 * 365 * DAY, audit_history_s=30 * DAY)
    assert contents(cluster, "tombstones", "retired_certificates") == before
    with pytest.raises(Refused) as refused:
        allow(cluster, Candidate("node-a"))
    assert refused.value.code in (Code.REMOVED, Code.REVOKED)


def test_what_a_node_reports_to_have_stays(cluster: Database) -> None:
    """It may have to be signed for it again; what another claims of it keeps nothing."""
    first, second, *_ = versions(cluster, 4)
    admit(cluster, "node-b")
    has = {"authority_epoch": 1, "config_version": 2, "content_hash": second.content_hash}
    scopes = {"route_policy": scope({**mark(2), **has, "snapshot_id": second.snapshot_id})}
    theirs = {"route_policy": scope({**mark(1), "snapshot_id": first.snapshot_id})}
    batch = [heartbeat("node-a", scopes=scopes), heartbeat("node-b", scopes=theirs)]
    heartbeats.record(cluster, batch, now=NOW)
    trim(cluster, NOW + 30 * DAY)
    assert documents.document(cluster, "node-a", second.snapshot_id) == second
    with pytest.raises(Refused):
        documents.document(cluster, "node-a", first.snapshot_id)
    lines = contents(cluster, "published")["published"]
    assert any(second.snapshot_id in row for row in lines)
    heartbeats.record(cluster, [heartbeat("node-a", scopes=theirs)], now=NOW)
    trim(cluster, NOW + 31 * DAY)
    with pytest.raises(Refused):
        documents.document(cluster, "node-a", second.snapshot_id)
