"""What a node is told: swapped against what it was made from, one content under one version (rules K20, K21, X16)."""

import threading
from dataclasses import replace

import pytest
from sqlalchemy import delete, insert, select

from coordinator.base.refusal import Code, Refused
from coordinator.database import catalog, cluster_state, documents, schema
from coordinator.database.database import Database
from coordinator.database.documents import Recovery
from coordinator.publishing import heads
from coordinator.publishing.heads import Basis
from tests.coordinator.candidates import (
    NOW,
    Candidate,
    admit,
    allow,
    contents,
    found,
    join,
    members,
    remove_node,
    token_for,
)
from tests.coordinator.publications import ISSUED, basis, document, entry, publication, publish

KEPT = ("documents", "document_sections", "objects", "published", "heads", "nodes")


@pytest.fixture
def cluster(database: Database) -> Database:
    members(database, "node-a")
    return database


def not_published(database: Database, made) -> Refused:
    """Publishing is refused as a conflict, and nothing of it remains."""
    before = contents(database, *KEPT)
    refusal = publish(database, made)[made.node_id]
    assert refusal.code is Code.CONFLICT
    assert contents(database, *KEPT) == before
    return refusal


def test_a_publication_is_handed_out_as_it_was_signed(cluster: Database) -> None:
    """rules S7"""
    one = document("route_policy", 1, b"[1]", b"[2]")
    made = publication(basis(cluster), one)
    assert publish(cluster, made) == {}
    assert documents.document(cluster, "node-a", one.snapshot_id) == one
    assert documents.head(cluster, "node-a") == made.head
    with cluster.read() as transaction:
        assert documents.listing(transaction, "node-a") == {"route_policy": entry(one)}
        published = heads.published_head(transaction, "node-a")
        assert published is not None and published.pair == (1, made.head.config_version)
        assert heads.due(transaction, NOW) == []
        assert heads.due(transaction, ISSUED + 900) == ["node-a"]


def test_a_change_meanwhile_is_a_conflict(cluster: Database) -> None:
    """rules K21, H38, H9: the generation was raised between reading and publishing."""
    old = basis(cluster)
    with cluster.change(actor="x", now=NOW) as transaction:
        cluster_state.raise_generations(transaction, ["node-a"])
        transaction.audit("x", "x")
    not_published(cluster, publication(old, document("route_policy", 1, b"1")))
    assert publish(cluster, publication(basis(cluster), document("route_policy", 1, b"1"))) == {}
    assert basis(cluster) == Basis(old.generation + 1, old.generation + 1)


def test_a_head_that_lists_what_the_one_before_it_did(cluster: Database) -> None:
    """rules K20, S85: what that lists stays on record as it was; of one that is out no more, nothing is believed."""
    one, two = document("route_policy", 1, b"1"), document("route_policy", 2, b"2")
    first = publication(basis(cluster), one)
    publish(cluster, first)
    before = contents(cluster, "published", "document_sections")
    second = publication(basis(cluster), listing=first.listing, same_as=first.head.snapshot_id)
    assert publish(cluster, second) == {}
    assert contents(cluster, "published", "document_sections") == before
    third = publication(basis(cluster), two, same_as=first.head.snapshot_id)
    assert publish(cluster, third) == {}
    with cluster.read() as transaction:
        assert documents.listing(transaction, "node-a") == {"route_policy": entry(two)}
    unkept = publication(basis(cluster), listing={"route_policy": entry(document("route_policy", 3, b"3"))})
    assert "not kept" in not_published(cluster, replace(unkept, same_as=second.head.snapshot_id)).detail
    assert documents.head(cluster, "node-a") == third.head


def test_a_head_that_lists_what_the_one_before_it_did_but_for_some(cluster: Database) -> None:
    """rules K20, S85, S86: the others stay on record as they were, and what is new is judged like any other."""
    routes, qos, other = (document(scope, 1, b"1") for scope in ("route_policy", "qos_policy", "node_runtime"))
    first = publication(basis(cluster), routes, qos, other)
    publish(cluster, first)
    newer = document("qos_policy", 2, b"2")
    second = publication(basis(cluster), newer, listing={**first.listing, newer.scope: entry(newer)})
    second = replace(second, same_as=first.head.snapshot_id, but=(newer.scope,))
    assert publish(cluster, second) == {}
    with cluster.read() as transaction:
        assert documents.listing(transaction, "node-a") == second.listing
        assert heads.last_versions(transaction, ["node-a"])["node-a"]["qos_policy"].listed == (1, 2)
    back = publication(basis(cluster), listing=dict(first.listing))
    refusal = not_published(cluster, replace(back, same_as=second.head.snapshot_id, but=(newer.scope,)))
    assert "below" in refusal.detail


def test_the_same_generation_twice(cluster: Database) -> None:
    """rules S85: a head issued again is a new generation."""
    old = basis(cluster)
    assert publish(cluster, publication(old, document("route_policy", 1, b"1"))) == {}
    not_published(cluster, publication(old, document("route_policy", 2, b"2")))
    not_published(cluster, publication(basis(cluster), generation=old.generation))
    assert publish(cluster, publication(basis(cluster))) == {}


def test_two_contents_under_one_version(cluster: Database) -> None:
    """rules X16, S86: not even when the basis is right."""
    publish(cluster, publication(basis(cluster), document("route_policy", 5, b"1")))
    refusal = not_published(cluster, publication(basis(cluster), document("route_policy", 5, b"other")))
    assert "another content" in refusal.detail
    same = document("route_policy", 5, b"1")
    assert publish(cluster, publication(basis(cluster), same)) == {}
    assert documents.document(cluster, "node-a", same.snapshot_id) == same


def test_versions_do_not_go_back_without_a_recovery(cluster: Database) -> None:
    """rules S86, S87, S31"""
    first, second = document("route_policy", 1, b"1"), document("route_policy", 2, b"2")
    publish(cluster, publication(basis(cluster), first))
    publish(cluster, publication(basis(cluster), second))
    back = document("route_policy", 1, b"1")
    not_published(cluster, publication(basis(cluster), back))
    permission = document("route_policy", 2, kind="recovery")
    recovery = Recovery(permission, 2, 1, back.content_hash, "nonce-1")
    documents.add_recovery(cluster, recovery, actor="root", now=NOW)
    assert publish(cluster, publication(basis(cluster), back)) == {}
    assert documents.recovery(cluster, "node-a", "route_policy") == permission
    with pytest.raises(Refused) as caught:
        documents.add_recovery(cluster, replace(recovery, document=document("route_policy", 2)), actor="root", now=NOW)
    assert caught.value.code is Code.CONFLICT
    publish(cluster, publication(basis(cluster), document("route_policy", 3, b"3")))
    not_published(cluster, publication(basis(cluster), back))


def test_issue_times_and_epochs(cluster: Database) -> None:
    """rules K47, X6: never behind the last one, never above what the trust bundle announced."""
    publish(cluster, publication(basis(cluster), document("route_policy", 1, b"1")))
    early = document("route_policy", 2, b"2", issued_at=ISSUED - 1)
    not_published(cluster, publication(basis(cluster), early))
    not_published(cluster, publication(basis(cluster), issued_at=ISSUED - 1))
    ahead = document("route_policy", 2, b"2", authority_epoch=2)
    not_published(cluster, publication(basis(cluster), ahead))
    bundle = document("trust_bundle", 1, b"keys", subject="*")
    documents.add_trust_bundle(cluster, bundle, announces_epoch=2, actor="root", now=NOW)
    assert publish(cluster, publication(basis(cluster), ahead)) == {}


def test_one_that_lost_does_not_hold_up_the_others(cluster: Database) -> None:
    admit(cluster, "node-b")
    stale = publication(Basis(99, 99), document("route_policy", 1, b"1"))
    shared = document("qos_policy", 1, b"q", subject="*")
    good = publication(basis(cluster, "node-b"), shared, node_id="node-b")
    assert set(publish(cluster, stale, good)) == {"node-a"}
    assert documents.head(cluster, "node-b") == good.head


def test_a_head_announces_nothing_that_is_not_kept(cluster: Database) -> None:
    lost = entry(document("route_policy", 1, b"1"))
    not_published(cluster, publication(basis(cluster), listing={"route_policy": lost}))


def test_a_head_whose_predecessor_was_lost_goes_out(cluster: Database) -> None:
    """It takes the row of the one that it replaces; where that is gone, it has one of its own."""
    admit(cluster, "node-b")
    named = ("node-a", "node-b")
    first = [publication(basis(cluster, node_id), node_id=node_id) for node_id in named]
    assert publish(cluster, *first) == {}
    with cluster.change(actor="x", now=NOW) as transaction:
        gone = schema.documents.c.snapshot_id == first[0].head.snapshot_id
        transaction.run(delete(schema.documents).where(gone))
        transaction.audit("x", "x")
    again = [publication(basis(cluster, node_id), node_id=node_id) for node_id in named]
    assert publish(cluster, *again) == {}
    assert [documents.head(cluster, node_id) for node_id in named] == [made.head for made in again]
    with cluster.read() as transaction:
        ids = [made.head.snapshot_id for made in (*first, *again)]
        assert documents.existing_ids(transaction, ids) == set(ids[2:])


class Text(str):
    """What is kept of a head, and how much of it was looked through for one line after the other."""

    sought = 0

    def __contains__(self, part: object) -> bool:
        Text.sought += len(self)
        return super().__contains__(part)


@pytest.mark.parametrize("count", [8, heads.MOST_SOUGHT, heads.MOST_SOUGHT + 1, 1_000])
def test_lines_that_change_are_found_without_looking_at_each_pair_of_them(count: int) -> None:
    """What a node of very many scopes is told anew costs no more than they are, while every other change waits."""
    before = {one.scope: entry(one) for one in (document(f"config/c{number}", 1) for number in range(count))}
    another = document("config/c3", 2)
    made = publication(Basis(1, 1), listing={**before, another.scope: entry(another)})
    Text.sought, text = 0, Text(documents.listing_text(before))
    out = {"node-a": heads._HeadOut(Basis(1, 1), (1, 1), "head")}
    (changed,) = heads._find_changed([made], out, {"node-a": (text, "{}")})
    assert [(line.scope, line.entry) for line in changed.lines] == [(another.scope, entry(another))]
    assert Text.sought <= heads.MOST_SOUGHT * len(text)


def test_a_node_is_served_what_is_for_it(cluster: Database) -> None:
    """protocol 1: its own, and role data that its head announces; every other is `not_found`."""
    admit(cluster, "node-b")
    own, shared = document("route_policy", 1, b"1"), document("qos_policy", 1, b"q", subject="*")
    publish(cluster, publication(basis(cluster), own, shared))
    assert documents.document(cluster, "node-a", shared.snapshot_id) == shared
    for snapshot_id in (own.snapshot_id, shared.snapshot_id, "doc-none"):
        with pytest.raises(Refused) as caught:
            documents.document(cluster, "node-b", snapshot_id)
        assert caught.value.code is Code.NOT_FOUND
    again = publication(basis(cluster, "node-b"), shared, node_id="node-b")
    assert publish(cluster, again) == {}
    assert documents.document(cluster, "node-b", shared.snapshot_id) == shared


def test_an_increment_is_served_from_exactly_its_base(cluster: Database) -> None:
    """rules K37"""
    publish(cluster, publication(basis(cluster), document("route_policy", 1, b"1")))
    full = document("route_policy", 2, b"1", b"2")
    step = document("route_policy", 2, b"2", kind="increment", base_config_version=1, content_hash=full.content_hash)
    publish(cluster, publication(basis(cluster), full, step))
    assert documents.increment(cluster, "node-a", "route_policy", 1) == step
    for scope, base in (("route_policy", 2), ("route_policy", 0), ("qos_policy", 1)):
        with pytest.raises(Refused) as caught:
            documents.increment(cluster, "node-a", scope, base)
        assert caught.value.code is Code.NOT_FOUND
    publish(cluster, publication(basis(cluster), document("route_policy", 3, b"3")))
    with pytest.raises(Refused):
        documents.increment(cluster, "node-a", "route_policy", 1)


def test_trust_bundles_come_one_after_the_other(cluster: Database) -> None:
    """rules S36: N+1 exactly; the epoch that is announced never falls; every node gets a new head."""
    bundles = [document("trust_bundle", number, bytes([number]), subject="*") for number in range(1, 5)]
    before = basis(cluster).generation
    add = documents.add_trust_bundle
    for bundle in bundles[:2]:
        add(cluster, bundle, announces_epoch=3, actor="root", now=NOW)
    assert basis(cluster).generation == before + 2
    for bundle, epoch in ((bundles[3], 3), (bundles[1], 3), (bundles[2], 2)):
        with pytest.raises(Refused) as caught:
            add(cluster, bundle, announces_epoch=epoch, actor="root", now=NOW)
        assert caught.value.code is Code.CONFLICT
    add(cluster, bundles[2], announces_epoch=3, actor="root", now=NOW)
    assert documents.trust_bundles(cluster, 0) == bundles[:3]
    assert documents.trust_bundles(cluster, 2) == bundles[2:3]
    assert documents.trust_bundles(cluster, 3) == []
    with cluster.read() as transaction:
        assert cluster_state.standing(transaction).authority_epoch == 3


def test_a_readmitted_node_goes_on_from_its_generation(cluster: Database) -> None:
    """rules K32, P30: what a node may still hold is never gone below."""
    from coordinator.membership import revocation
    from coordinator.membership.admission import AllowlistEntry

    for version in range(1, 4):
        publish(cluster, publication(basis(cluster), document("route_policy", version, bytes([version]))))
    held = basis(cluster).published
    remove_node(cluster, "node-a", reason="moved", actor="root", now=NOW)
    revocation.readmit(cluster, AllowlistEntry("node-a"), actor="root", now=NOW)
    node = Candidate("node-a")
    assert join(cluster, node, token_for(cluster)).generation > held
    not_published(cluster, publication(basis(cluster), document("route_policy", 2, b"other")))


def test_two_coordinators_never_publish_two_contents(database_url: str) -> None:
    """rules X1, X16, H38, K21: many writers over one database, each with its own content for the next version."""
    database = Database(database_url)
    found(database)
    admit(database, "node-a")
    rounds, writers = 5, 4
    won: list[tuple[int, str]] = []
    barrier = threading.Barrier(writers, timeout=120)  # one that fails does not hold up the others for ever

    def write(name: int) -> None:
        own = Database(database_url)
        try:
            for number in range(1, rounds + 1):
                based_on = basis(own)
                barrier.wait()
                one = document("route_policy", number, f"{name} {number}".encode())
                if not publish(own, publication(based_on, one)):
                    won.append((number, one.snapshot_id))
                barrier.wait()
        finally:
            own.close()

    threads = [threading.Thread(target=write, args=(name,)) for name in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(number for number, _ in won) == list(range(1, rounds + 1))
    rows = contents(database, "published")["published"]
    assert len(rows) == rounds
    with database.read() as transaction:
        assert documents.listing(transaction, "node-a")["route_policy"].snapshot_id == dict(won)[rounds]
    database.close()


def test_who_is_due_soon_comes_with_who_is_due(cluster: Database) -> None:
    """Up to a batch, the earliest first; and nobody before one of them is due."""
    publish(cluster, publication(basis(cluster), document("route_policy", 1, b"1")))
    with cluster.change(actor="x", now=NOW) as transaction:
        node, head = (dict(transaction.row(select(table))._mapping) for table in (schema.nodes, schema.heads))
        for number in range(1, 5):
            own = {"node_id": f"soon-{number}"}
            transaction.run(insert(schema.nodes).values(**node | own | {"certificate_sha256": f"sha256:{number:064}"}))
            times = {"refresh_after": head["refresh_after"] + number * 10, "snapshot_id": f"head-{number}"}
            transaction.run(insert(schema.heads).values(**head | own | times))
        transaction.audit("x", "x")
        first = head["refresh_after"]
        assert heads.due(transaction, first - 1, round_s=30, most=4) == []
        assert heads.due(transaction, first, round_s=30, most=4) == ["node-a", "soon-1", "soon-2", "soon-3"]
        assert heads.due(transaction, first, round_s=30, most=2) == ["node-a", "soon-1"]
        assert heads.due(transaction, first, round_s=20, most=9) == ["node-a", "soon-1", "soon-2"]
        assert heads.due(transaction, first + 25, round_s=0, most=1) == ["node-a", "soon-1", "soon-2"]
        cluster_state.raise_generations(transaction, ["soon-4"])
        assert heads.due(transaction, first - 1, round_s=30, most=4) == ["soon-4"]  # a change brings nobody along


def test_bases_of_all(cluster: Database) -> None:
    node = Candidate("node-b")
    allow(cluster, node)
    join(cluster, node, token_for(cluster))
    with cluster.read() as transaction:
        each = [heads.bases(transaction, [id_]) for id_ in ("node-a", "node-b")]
        assert heads.bases(transaction) == each[0] | each[1] and all(each)
        assert heads.bases(transaction, ["stranger"]) == {}
        assert heads.due(transaction, NOW) == ["node-a", "node-b"]
    assert [each.node_id for each in catalog.nodes(cluster)] == ["node-a", "node-b"]
