"""Tokens for several nodes: counted in the transaction that admits, bound to each certificate (rules J17, K26)."""

import threading

import pytest
from sqlalchemy import select

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.database import catalog, schema
from coordinator.database.database import Database
from coordinator.keys.tokens import MultiUse
from coordinator.membership import admission, revocation
from coordinator.runtime import retention
from tests.coordinator.candidates import (
    NOW,
    Candidate,
    allow,
    contents,
    join,
    join_one,
    remove_node,
    token_for,
    verifier_of,
)
from tests.coordinator.refusals import refused
from wire.operators.operator_answers import TokenEntry

COUNT, MORE = 6, 5


def several(database: Database, uses: int, nodes: str | None = "gw-*") -> str:
    return token_for(database, several=MultiUse(uses, nodes))


def ids(database: Database) -> list[str]:
    return [entry.node_id for entry in catalog.nodes(database)]


def record(database: Database) -> TokenEntry:
    (entry,) = admission.list_tokens(database)
    return entry


def test_as_many_join_at_once_as_its_count(cluster: Database) -> None:
    """With five more than that: they are `token_used`, and nobody of them is a member."""
    token = several(cluster, COUNT)
    nodes = [Candidate(f"gw-{number}") for number in range(COUNT + MORE)]
    verifier = verifier_of(cluster)
    requests = [node.request(token, verifier=verifier) for node in nodes]
    start, outcomes = threading.Barrier(len(nodes)), []

    def one(request: object) -> None:
        start.wait()
        try:
            outcomes.append(join_one(cluster, request, now=NOW).outcome)
        except Refused as refusal:
            outcomes.append(refusal.code)

    threads = [threading.Thread(target=one, args=(request,)) for request in requests]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert outcomes.count("admitted") == COUNT
    assert [each for each in outcomes if each != "admitted"] == [Code.TOKEN_USED] * MORE
    assert len(ids(cluster)) == record(cluster).used == COUNT
    with cluster.read() as transaction:
        used = sorted(row.node_id for row in transaction.rows(select(schema.token_uses)))
    assert used == sorted(ids(cluster))
    later = Candidate("gw-later")
    allow(cluster, later)
    assert join(cluster, later, token_for(cluster)).outcome == "admitted"  # the next valid one goes through


def test_a_retry_is_not_counted_twice(cluster: Database) -> None:
    """rules J12: its answer may be lost; the same node and certificate may ask again, also when the count is spent."""
    token, first, second = several(cluster, 2), Candidate("gw-1"), Candidate("gw-2")
    assert [join(cluster, first, token).outcome for _ in range(3)] == ["admitted", *["already_member"] * 2]
    assert record(cluster).used == 1
    assert join(cluster, second, token).outcome == "admitted"
    assert join(cluster, first, token).outcome == "already_member"
    assert record(cluster).used == 2


def test_it_takes_no_members_place(cluster: Database) -> None:
    """rules X8: another certificate for an id that has joined is a conflict, and costs no use."""
    token = several(cluster, 3)
    join(cluster, Candidate("gw-1"), token)
    before = contents(cluster, "nodes", "tokens", "token_uses")
    assert refused(join, cluster, Candidate("gw-1"), token).code is Code.IDENTITY_CONFLICT
    assert contents(cluster, "nodes", "tokens", "token_uses") == before
    assert join(cluster, Candidate("gw-2"), token).outcome == "admitted"


@pytest.mark.parametrize("nodes", [None, "gw-*"])
def test_whom_nobody_has_named_is_refused(cluster: Database, nodes: str | None) -> None:
    """rules J17, J5: a count alone extends no allowlist; ids that an operator gave extend it by those."""
    token, stranger, named = several(cluster, 3, nodes), Candidate("db-1"), Candidate("db-2")
    before = contents(cluster, "nodes", "tokens", "token_uses")
    assert refused(join, cluster, stranger, token).code is Code.UNAUTHORIZED_PEER
    assert contents(cluster, "nodes", "tokens", "token_uses") == before
    allow(cluster, named)
    assert join(cluster, named, token).outcome == "admitted"


def test_it_lets_in_no_witness(cluster: Database) -> None:
    """rules J6"""
    token = several(cluster, 3)
    assert refused(join, cluster, Candidate("gw-1", "witness"), token).code is Code.KIND_MISMATCH
    assert join(cluster, Candidate("gw-1"), token).outcome == "admitted"


def test_what_was_removed_does_not_come_back_by_it(cluster: Database) -> None:
    """rules H-000-2: and the token stays good for the others."""
    token, gone = several(cluster, 3), Candidate("gw-1")
    join(cluster, gone, token)
    remove_node(cluster, "gw-1", reason="scaled in", actor="root", now=NOW)
    assert refused(join, cluster, gone, token).code is Code.REMOVED
    assert refused(join, cluster, Candidate("gw-1"), token).code is Code.REMOVED
    assert join(cluster, Candidate("gw-2"), token).outcome == "admitted"


def test_revoking_a_node_revokes_the_token_that_lay_on_it(cluster: Database) -> None:
    """rules K54: it is in other hands; nobody else comes in by it."""
    token = several(cluster, 3)
    join(cluster, Candidate("gw-1"), token)
    revocation.revoke_node(cluster, "gw-1", reason="stolen", actor="root", now=NOW)
    assert refused(join, cluster, Candidate("gw-2"), token).code is Code.TOKEN_REVOKED
    assert join(cluster, Candidate("gw-2"), several(cluster, 3)).outcome == "admitted"


def test_it_is_revoked_and_ends_as_every_token(cluster: Database) -> None:
    """rules K25, K26"""
    token = several(cluster, 3)
    assert refused(join, cluster, Candidate("gw-1"), token, now=NOW + 3_601).code is Code.TOKEN_EXPIRED
    admission.revoke_token(cluster, record(cluster).jti, actor="root", now=NOW)
    assert refused(join, cluster, Candidate("gw-1"), token).code is Code.TOKEN_REVOKED


def test_each_join_is_written_down_with_its_token(cluster: Database) -> None:
    token = several(cluster, 2)
    jti = record(cluster).jti
    for name in ("gw-1", "gw-2"):
        join(cluster, Candidate(name), token)
    with cluster.read() as transaction:
        rows = transaction.rows(select(schema.audit).where(schema.audit.c.action == "join"))
    assert [(row.subject, jti in row.after) for row in rows] == [("gw-1", True), ("gw-2", True)]


def test_uses_go_with_their_token(cluster: Database) -> None:
    join(cluster, Candidate("gw-1"), several(cluster, 2))
    gone = retention.trim(cluster, now=NOW + 10_000, settings=CoordinatorSettings())
    assert (gone["tokens"], gone["token_uses"]) == (1, 1)


@pytest.mark.parametrize(
    ("node_id", "count", "nodes", "word"),
    [
        ("gw-1", 2, None, "leave one out"),
        ("gw-1", 1, "gw-*", "leave one out"),
        (None, 0, None, "1 to 10000"),
        (None, 10_001, None, "1 to 10000"),
        (None, 2, "*", "gw-*"),
        (None, 2, "gw-1", "gw-*"),
        (None, 2, "g*w*", "gw-*"),
    ],
)
def test_what_makes_no_sense_is_refused(
    cluster: Database, node_id: str | None, count: int, nodes: str | None, word: str
) -> None:
    refusal = refused(token_for, cluster, node_id, several=MultiUse(count, nodes))
    assert (refusal.code, word in str(refusal)) == (Code.BAD_REQUEST, True)
    assert admission.list_tokens(cluster) == []
