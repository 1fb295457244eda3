"""Joining and what follows, on both databases; seed 000's own tests by name."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import select

from coordinator.base.refusal import Code, Refused
from coordinator.database import catalog, cluster_state, schema
from coordinator.database.database import Database
from coordinator.declared import change_impact, peers, views
from coordinator.membership import admission, membership, revocation
from coordinator.publishing import declarations
from coordinator.reports import heartbeats
from tests.coordinator.candidates import (
    NOW,
    Candidate,
    admit,
    allow,
    contents,
    found,
    join,
    join_one,
    look_at,
    remove_node,
    token_for,
    verifier_of,
)
from tests.coordinator.profiling import entered_files
from tests.coordinator.publications import basis, document, publication, publish
from tests.coordinator.refusals import refused
from tests.coordinator.reports import events, heartbeat
from wire.operators.operator_answers import AllowlistEntry

KEPT = ("nodes", "allowlist", "tombstones", "retired_certificates", "tokens", "cluster", "sites", "revocations")


def ids(database: Database) -> list[str]:
    return [entry.node_id for entry in catalog.nodes(database)]


def model(database: Database):
    with database.read() as transaction:
        return catalog.load(transaction)


def test_successful_join_admits_authorized_data_member(cluster: Database) -> None:
    """rules J18: 3 members, baseline met; rules J9: the grant is made from the state after admission."""
    admit(cluster, "node-a")
    admit(cluster, "node-b")
    node = Candidate("node-c")
    allow(cluster, node)
    grant = join(cluster, node, token_for(cluster))
    assert grant.outcome == "admitted"
    assert grant.member.node_id == "node-c" and grant.member.pins == (node.pin,)
    assert grant.generation == catalog.nodes(cluster)[2].generation == 1
    assert ids(cluster) == ["node-a", "node-b", "node-c"]
    assert sum(entry.kind == "data" for entry in catalog.nodes(cluster)) >= 3


def test_joined_member_starts_empty(cluster: Database) -> None:
    """rules J19, J8: no roles, no services."""
    admit(cluster, "node-c")
    subject = model(cluster).subjects["node-c"]
    assert (subject.roles, subject.organizations) == ((), ())


def test_unauthorized_peer_is_rejected(cluster: Database) -> None:
    """rules J20, J14, J24: a stranger is refused, and neither listed nor told of."""
    admit(cluster, "node-a")
    stranger = Candidate("node-x")
    before = contents(cluster, *KEPT)
    refusal = refused(join, cluster, stranger, token_for(cluster))
    assert refusal.code is Code.UNAUTHORIZED_PEER
    assert ids(cluster) == ["node-a"]
    assert "node-x" not in model(cluster).subjects
    assert contents(cluster, "nodes", "allowlist") == {name: before[name] for name in ("nodes", "allowlist")}


def test_wrong_cluster_join_is_rejected(cluster: Database) -> None:
    """rules J21: an authorised peer with the wrong cluster stays unauthorised, and joins with the right one."""
    node = Candidate("node-c")
    allow(cluster, node)
    token = token_for(cluster)
    assert refused(join, cluster, node, token, cluster_id="staging").code is Code.WRONG_CLUSTER
    assert ids(cluster) == []
    assert join(cluster, node, token).outcome == "admitted"


def test_kind_mismatch_is_rejected(cluster: Database) -> None:
    """rules J22: allowed as data, asks for witness."""
    allow(cluster, Candidate("node-c"))
    refusal = refused(join, cluster, Candidate("node-c", "witness"), token_for(cluster))
    assert refusal.code is Code.KIND_MISMATCH
    assert ids(cluster) == []


def test_rejoin_is_idempotent(cluster: Database) -> None:
    """rules J23, J12, J29: the member count is unchanged, and so is what it was."""
    node = Candidate("node-c")
    allow(cluster, node)
    token = token_for(cluster)
    assert join(cluster, node, token).outcome == "admitted"
    before = contents(cluster, *KEPT)
    for again in (token, None):
        grant = join(cluster, node, again, now=NOW + 5)
        assert (grant.outcome, grant.touched) == ("already_member", frozenset())
    assert contents(cluster, *KEPT) == before
    assert catalog.nodes(cluster)[0].first_seen == NOW


def test_health_and_topology_list_a_node_only_after_its_join(cluster: Database) -> None:
    """rules J24, J14"""
    node = Candidate("node-c")
    allow(cluster, node)
    assert "node-c" not in model(cluster).subjects
    join(cluster, node, token_for(cluster))
    assert "node-c" in model(cluster).subjects
    assert "stranger" not in model(cluster).subjects


@pytest.mark.parametrize("fault", ["cluster", "token", "allowlist", "kind", "certificate", "revoked", "removed"])
def test_a_refusal_leaves_everything_as_it_was(cluster: Database, fault: str) -> None:
    """rules J11, X20: catalog, tokens and history byte-equal; the audit log has the details, the peer the code."""
    admit(cluster, "node-a")
    gone = admit(cluster, "node-gone")
    end = remove_node if fault == "removed" else revocation.revoke_node
    end(cluster, "node-gone", reason="lost", actor="root", now=NOW)
    node = Candidate("node-c")
    if fault != "allowlist":
        allow(cluster, node)
    token = token_for(cluster)
    before = contents(cluster, *KEPT)
    attempts = {
        "cluster": lambda: join(cluster, node, token, cluster_id="staging"),
        "token": lambda: join(cluster, node, token + "x"),
        "allowlist": lambda: join(cluster, node, token),
        "kind": lambda: join(cluster, Candidate("node-c", "witness"), token),
        "certificate": lambda: join(cluster, Candidate("node-a"), token),
        "revoked": lambda: join(cluster, gone, token),
        "removed": lambda: join(cluster, gone, token),
    }
    refusal = refused(attempts[fault])
    assert contents(cluster, *KEPT) == before
    assert refusal.detail in contents(cluster, "audit")["audit"][-1] or any(
        refusal.code.value in row for row in contents(cluster, "audit")["audit"]
    )
    if fault != "allowlist":
        assert join(cluster, node, token).outcome == "admitted"


def test_a_token_works_once(cluster: Database) -> None:
    """rules K26, threats J04, D-52: another node, or another certificate, is refused."""
    first, second = Candidate("node-a"), Candidate("node-b")
    allow(cluster, first)
    allow(cluster, second)
    token = token_for(cluster)
    join(cluster, first, token)
    assert refused(join, cluster, second, token).code is Code.TOKEN_USED
    assert refused(join, cluster, first.renewed(), token).code is Code.TOKEN_USED
    assert join(cluster, second, token_for(cluster)).outcome == "admitted"


def test_a_revoked_token_is_refused_on_every_replica_at_once(cluster: Database, second: Database) -> None:
    """rules K25"""
    node = Candidate("node-a")
    allow(cluster, node)
    token = token_for(cluster)
    (entry,) = admission.list_tokens(second)
    admission.revoke_token(second, entry.jti, actor="root", now=NOW)
    assert refused(join, cluster, node, token).code is Code.TOKEN_REVOKED
    assert refused(admission.revoke_token, cluster, entry.jti, actor="root", now=NOW).code is Code.NOT_FOUND


def test_a_token_of_the_other_replica_is_good(cluster: Database, second: Database) -> None:
    """rules K26: signed by the issuing replica's own key, whose public half is in the state."""
    node = Candidate("node-a")
    allow(second, node)
    assert join(cluster, node, token_for(second)).outcome == "admitted"


def test_an_expired_token(cluster: Database) -> None:
    node = Candidate("node-a")
    allow(cluster, node)
    token = token_for(cluster, lifetime_s=600)
    assert refused(join, cluster, node, token, now=NOW + 600).code is Code.TOKEN_EXPIRED
    assert join(cluster, node, token, now=NOW + 599).outcome == "admitted"


def test_a_nonce_works_once(cluster: Database, second: Database) -> None:
    """rules J3: also through another replica, and also after a refusal."""
    node = Candidate("node-a")
    allow(cluster, node)
    request = node.request(token_for(cluster), verifier=verifier_of(cluster))
    assert join_one(cluster, request, now=NOW).outcome == "admitted"
    assert refused(join_one, second, request, now=NOW).code is Code.BAD_PROOF


FABRIC = "kind: Organization\nid: acme\n" + "".join(
    f"---\nkind: Node\nid: n{number}\nspec: {{roles: [core_mesh], organizations: [acme]}}\n" for number in range(6)
)


def test_what_a_join_touches_is_not_worked_out_under_the_lock(cluster: Database) -> None:
    members = [admit(cluster, f"n{number}") for number in range(6)]
    declarations.apply(cluster, {"a.yaml": FABRIC}, actor="alice", now=NOW)
    request = members[0].renewed().request(None, verifier=verifier_of(cluster), connection=members[0].pin)
    foreseen = membership.foresee(cluster, [look_at(cluster, request)])
    grants = []
    entered = entered_files(lambda: grants.extend(membership.join(cluster, [request], foreseen, now=NOW)))
    assert not entered & {peers.__file__, views.__file__}
    assert change_impact.__file__ in entered, "what was found is handed on, so it is asked"
    assert grants[0].touched == {f"n{number}" for number in range(6)}


def test_what_was_foreseen_before_another_change_does_not_count(cluster: Database, second: Database) -> None:
    members = [admit(cluster, f"n{number}") for number in range(6)]
    request = members[0].renewed().request(None, verifier=verifier_of(cluster), connection=members[0].pin)
    foreseen = membership.foresee(cluster, [look_at(cluster, request)])
    declarations.apply(second, {"a.yaml": FABRIC}, actor="alice", now=NOW)
    (grant,) = membership.join(cluster, [request], foreseen, now=NOW)
    touched = grant.touched
    assert touched == {f"n{number}" for number in range(6)}
    with cluster.read() as transaction:
        assert len(catalog.load(transaction).resources) == 7


def test_nodes_that_join_together_are_decided_one_after_the_other(cluster: Database) -> None:
    """rules J11, K25: in one transaction; who is refused leaves a nonce and an audit row, and holds nobody up."""
    nodes = [Candidate(f"n{number}") for number in range(4)]
    for node in nodes[:3]:
        allow(cluster, node)
    token, verifier = token_for(cluster), verifier_of(cluster)
    tokens = (token_for(cluster), token, token, token_for(cluster))  # one for two of them, and one is not allowed
    requests = [node.request(each, verifier=verifier) for node, each in zip(nodes, tokens, strict=True)]
    foreseen = membership.foresee(cluster, [look_at(cluster, each) for each in requests[:2]])
    with cluster.read() as transaction:
        revision = cluster_state.standing(transaction).revision
    first, second, third, fourth = membership.join(cluster, requests, foreseen, now=NOW)
    assert (first.outcome, second.outcome) == ("admitted", "admitted")
    assert (third.code, fourth.code) == (Code.TOKEN_USED, Code.UNAUTHORIZED_PEER)
    assert ids(cluster) == ["n0", "n1"]
    with cluster.read() as transaction:
        assert cluster_state.standing(transaction).revision == revision + 1
        assert catalog.load(transaction) is foreseen.after
        rows = transaction.rows(select(schema.audit).where(schema.audit.c.action == "join"))
    told = [(row.actor, row.subject, row.outcome) for row in rows]
    assert told == [(f"node:n{n}", f"n{n}", row.outcome) for n, row in enumerate(rows)]
    assert [row.outcome for row in rows] == ["done", "done", "token_used", fourth.code.value]
    assert [each.code for each in membership.join(cluster, requests[2:], now=NOW)] == [Code.BAD_PROOF] * 2
    again = nodes[2].request(token_for(cluster), verifier=verifier)
    assert join_one(cluster, again, now=NOW).outcome == "admitted"


def test_one_node_that_asks_twice_at_once_is_recognised(cluster: Database) -> None:
    """rules J12: the second is a retry."""
    node = Candidate("n0")
    allow(cluster, node)
    token, verifier = token_for(cluster), verifier_of(cluster)
    requests = [node.request(token, verifier=verifier) for _ in range(2)]
    assert [each.outcome for each in membership.join(cluster, requests, now=NOW)] == ["admitted", "already_member"]


def test_nothing_is_foreseen_of_who_is_refused_or_changes_nothing(cluster: Database) -> None:
    member = admit(cluster, "node-a")
    again = member.request(None, verifier=verifier_of(cluster), connection=member.pin)
    assert look_at(cluster, again) is None
    stranger = Candidate("node-b").request(token_for(cluster), verifier=verifier_of(cluster))
    assert look_at(cluster, stranger) is None
    assert membership.foresee(cluster, []) is None


def test_a_renewed_certificate_is_one_of_two_until_it_is_used(cluster: Database) -> None:
    """rules X8, J3, K18"""
    admit(cluster, "node-b")
    old = admit(cluster, "node-a")
    new = old.renewed()
    grant = join(cluster, new, connection=old.pin)
    assert grant.outcome == "already_member"
    assert grant.member.pins == (old.pin, new.pin)
    assert "node-a" in grant.touched
    assert not membership.confirm_pin(cluster, old.pin, now=NOW)
    assert membership.confirm_pin(cluster, new.pin, now=NOW)
    assert not membership.confirm_pin(cluster, new.pin, now=NOW)
    with cluster.read() as transaction:
        assert catalog.member(transaction, "node-a").pins == (new.pin,)
    assert join(cluster, new).outcome == "already_member"
    assert refused(join, cluster, old, token_for(cluster)).code is Code.IDENTITY_CONFLICT


def test_a_lost_certificate_is_replaced_by_a_bound_token(cluster: Database) -> None:
    """rules X8, X23: the id outlives the repair."""
    old = admit(cluster, "node-a")
    new = old.renewed()
    assert refused(join, cluster, new, token_for(cluster)).code is Code.IDENTITY_CONFLICT
    grant = join(cluster, new, token_for(cluster, "node-a"))
    assert grant.member.pins == (new.pin,)
    assert catalog.nodes(cluster)[0].first_seen == NOW


def test_two_members_never_have_one_certificate(cluster: Database) -> None:
    """rules K34"""
    first = admit(cluster, "node-a")
    thief = Candidate("node-b", key=first.key, der=first.der)
    allow(cluster, thief)
    assert refused(join, cluster, thief, token_for(cluster)).code is Code.IDENTITY_CONFLICT


def test_members_are_listed_in_byte_order(cluster: Database) -> None:
    """rules J33: also where the database's own order is another."""
    for node_id in ("b", "a.b", "a-b", "ab", "a_b", "a1"):
        admit(cluster, node_id)
    assert ids(cluster) == sorted(["b", "a.b", "a-b", "ab", "a_b", "a1"], key=str.encode)


def test_one_token_in_many_hands_admits_one(database_url: str) -> None:
    """rules K26, H38, J11: consumed in the admitting transaction, whoever comes first."""
    database = Database(database_url)
    found(database)
    candidates = [Candidate(f"node-{number}") for number in range(6)]
    for candidate in candidates:
        allow(database, candidate)
    token = token_for(database)
    outcomes: list[str] = []

    def attempt(candidate: Candidate) -> None:
        own = Database(database_url)
        try:
            outcomes.append(join(own, candidate, token).outcome)
        except Refused as refusal:
            outcomes.append(refusal.code.value)
        finally:
            own.close()

    threads = [threading.Thread(target=attempt, args=(candidate,)) for candidate in candidates]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["admitted"] + ["token_used"] * 5
    assert len(ids(database)) == 1
    database.close()


def test_a_join_touches_its_peers(cluster: Database) -> None:
    """rules K21, seed 002: a change of the entries raises the generations of whom it touches, and the site's."""
    core = "kind: Node\nid: {}\nspec: {{roles: [core_mesh]}}\n"
    declarations.apply(
        cluster, {"n.yaml": "---\n".join(core.format(each) for each in ("node-a", "node-b"))}, actor="root", now=NOW
    )
    admit(cluster, "node-a")
    admit(cluster, "node-w", "witness")
    generations = {entry.node_id: entry.generation for entry in catalog.nodes(cluster)}
    with cluster.read() as transaction:
        site = cluster_state.site_generations(transaction)["default"]
    node = Candidate("node-b")
    allow(cluster, node)
    grant = join(cluster, node, token_for(cluster))
    assert grant.touched == {"node-a", "node-b"}
    after = {entry.node_id: entry.generation for entry in catalog.nodes(cluster)}
    assert after == {"node-a": generations["node-a"] + 1, "node-b": 1, "node-w": generations["node-w"]}
    with cluster.read() as transaction:
        assert cluster_state.site_generations(transaction)["default"] == site + 1


def test_the_allowlist_never_contradicts_the_catalog(cluster: Database) -> None:
    """rules H-000-1, J17"""
    admit(cluster, "node-a")
    entry = AllowlistEntry("node-a", "witness")
    assert refused(admission.allow, cluster, entry, actor="root", now=NOW).code is Code.CONTRADICTION
    assert admission.allowlist_entries(cluster) == [AllowlistEntry("node-a", "data")]


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (AllowlistEntry("Node-A"), Code.BAD_REQUEST),
        (AllowlistEntry("node-a", "arbiter"), Code.BAD_REQUEST),
        (AllowlistEntry("node-a", site_id="berlin"), Code.UNKNOWN_SITE),
        (AllowlistEntry("node-a", certificate_sha256="abc"), Code.BAD_REQUEST),
    ],
)
def test_an_entry_out_of_form_is_refused(cluster: Database, entry: AllowlistEntry, code: Code) -> None:
    """rules K12, J27"""
    assert refused(admission.allow, cluster, entry, actor="root", now=NOW).code is code
    assert admission.allowlist_entries(cluster) == []


def test_nobody_is_admitted_without_a_state(database: Database) -> None:
    """rules J34, H37"""
    request = Candidate("node-a").request()
    assert refused(join_one, database, request, now=NOW).code is Code.NO_STATE
    assert refused(verifier_of, database).code is Code.NO_STATE


# ---- what a node has reported, and what becomes of its membership


def reported_of(database: Database) -> list[tuple[str, object, object]]:
    with database.read() as transaction:
        rows = transaction.rows(schema.node_status.select())
    return [(row.node_id, json.loads(row.recorded), row.acknowledged_event) for row in rows]


def reporting(database: Database) -> Candidate:
    """node-a, which holds version 3 of a scope that was published for it, and says so."""
    node = admit(database, "node-a")
    made = document("route_policy", 3, b"3", content_hash=CONTENT)
    assert not publish(database, publication(basis(database), made))
    heartbeats.record(database, [heartbeat(journal=events(7))], now=NOW)
    assert reported_of(database) == RECORDED
    return node


CONTENT = "sha256:" + "ab" * 32
RECORDED = [("node-a", {"route_policy": [1, 3, CONTENT]}, 7)]


@pytest.mark.parametrize("end", [remove_node, revocation.revoke_node])
def test_who_is_admitted_again_has_reported_nothing(cluster: Database, end: Callable[..., object]) -> None:
    """rules K37, K41: what was said under the old membership is not held against the new one"""
    reporting(cluster)
    end(cluster, "node-a", reason="stolen", actor="root", now=NOW)
    revocation.readmit(cluster, AllowlistEntry("node-a"), actor="root", now=NOW)
    admit(cluster, "node-a", incarnation="i-2")
    assert reported_of(cluster) == []
    assert contents(cluster, "heartbeat_history") == {"heartbeat_history": []}
    (answer,) = heartbeats.record(cluster, [heartbeat(scopes={}, incarnation="i-2")], now=NOW + 30)
    assert (answer.comparisons, answer.recorded) == ({}, {})


def test_of_a_removed_node_no_report_is_left(cluster: Database) -> None:
    """rules J14"""
    reporting(cluster)
    remove_node(cluster, "node-a", reason="sold", actor="root", now=NOW)
    assert contents(cluster, "node_status", "heartbeat_history") == {"node_status": [], "heartbeat_history": []}


def test_a_new_store_under_a_new_certificate_begins_anew(cluster: Database) -> None:
    """rules K37, K39, X23: neither is the one that reported"""
    node = reporting(cluster)
    join(cluster, replace(node.renewed(), incarnation="i-2"), token_for(cluster, "node-a"))
    assert reported_of(cluster) == []


@pytest.mark.parametrize("way", ["renewed", "replaced", "asked again"])
def test_marks_outlive_a_certificate(cluster: Database, way: str) -> None:
    """rules K30, K41, X8: the store is the same, so an old copy of it is noticed whatever the certificate"""
    node = reporting(cluster)
    if way == "renewed":
        new = replace(node.renewed(), incarnation="i-2")
        join(cluster, new, connection=node.pin)
        assert membership.confirm_pin(cluster, new.pin, now=NOW)
    elif way == "replaced":
        join(cluster, node.renewed(), token_for(cluster, "node-a"))
    else:
        join(cluster, replace(node, incarnation="i-2"))
    assert reported_of(cluster) == RECORDED
    (answer,) = heartbeats.record(cluster, [heartbeat(scopes={})], now=NOW + 30)
    assert answer.is_behind
