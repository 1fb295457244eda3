"""Revoke, remove, readmit (rules H-000-2, K22, K54, P29, S61)."""

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.database import catalog, revocations
from coordinator.database.database import Database
from coordinator.membership import admission, revocation
from tests.coordinator.candidates import NOW, Candidate, admit, allow, contents, join, members, remove_node, token_for
from tests.documented_commands import fault
from wire.operators.operator_answers import AllowlistEntry

HOW = {"actor": "root", "now": NOW}
KEPT = ("nodes", "allowlist", "tombstones", "retired_certificates", "tokens", "revocations", "cluster")


def code(act, *arguments, **options) -> Code:
    with pytest.raises(Refused) as caught:
        act(*arguments, **options)
    return caught.value.code


def manifest(database: Database):
    with database.read() as transaction:
        return revocations.manifest(transaction)


def generations(database: Database) -> dict[str, int]:
    return {entry.node_id: entry.generation for entry in catalog.nodes(database)}


def test_revoking_a_node_is_one_transaction(cluster: Database) -> None:
    """rules K54, K22, H-000-2: entry stays and is told, allowlist and tokens go, every head carries it."""
    node = admit(cluster, "node-a")
    admit(cluster, "node-b")
    bound = token_for(cluster, "node-a")
    before = generations(cluster)
    revocation.revoke_node(cluster, "node-a", reason="stolen", **HOW)
    (entry, _) = catalog.nodes(cluster)
    assert (entry.node_id, entry.revoked_at, entry.reason) == ("node-a", NOW, "stolen")
    assert manifest(cluster) == {
        "version": 1, "key_ids": [], "node_ids": ["node-a"], "role_assignments": [], "service_ids": [], "endpoints": [],
    }  # fmt: skip
    assert generations(cluster) == {id_: number + 1 for id_, number in before.items()}
    assert [each.node_id for each in admission.allowlist_entries(cluster)] == ["node-b"]
    with cluster.read() as transaction:
        assert "node-a" not in catalog.load(transaction).subjects
        assert catalog.member(transaction, "node-a").revoked
    assert code(join, cluster, node) is Code.REVOKED
    assert code(join, cluster, node.renewed(), bound) is Code.REVOKED
    assert all(each.revoked_at for each in admission.list_tokens(cluster) if each.node_id == "node-a")


@pytest.mark.parametrize("renewed", [False, True])
def test_a_removed_node_cannot_rejoin(cluster: Database, renewed: bool) -> None:
    """rules P29, H-000-2, P17: with its old key or a new one, until the operator says so."""
    node = admit(cluster, "node-a")
    touched = remove_node(cluster, "node-a", reason="moved", **HOW)
    assert touched == frozenset()
    assert catalog.nodes(cluster) == []
    again = node.renewed() if renewed else node
    assert code(join, cluster, again, token_for(cluster)) is Code.REMOVED
    assert code(admission.allow, cluster, AllowlistEntry("node-a"), **HOW) is Code.REMOVED
    revocation.readmit(cluster, AllowlistEntry("node-a"), **HOW)
    assert join(cluster, again, token_for(cluster)).outcome == "admitted"


@pytest.mark.parametrize("end", [remove_node, revocation.revoke_node])
def test_a_token_that_no_join_could_use_is_not_made(cluster: Database, end) -> None:
    """rules K25, H-000-2: the remedy is a command that there is, and then it is made."""
    admit(cluster, "node-a")
    end(cluster, "node-a", reason="moved", **HOW)
    before = contents(cluster, "tokens", "audit")
    with pytest.raises(Refused) as caught:
        token_for(cluster, "node-a")
    assert caught.value.code in {Code.REMOVED, Code.REVOKED}
    assert caught.value.remedy == "holdfastctl nodes readmit node-a"
    assert fault("holdfastctl nodes readmit node-a") == ""
    assert contents(cluster, "tokens", "audit") == before
    token_for(cluster, "node-b")
    revocation.readmit(cluster, AllowlistEntry("node-a"), **HOW)
    token_for(cluster, "node-a")


def test_a_key_that_left_does_not_come_back_under_another_name(cluster: Database) -> None:
    """rules P29"""
    node = admit(cluster, "node-a")
    remove_node(cluster, "node-a", reason="moved", **HOW)
    other = Candidate("node-b", key=node.key, der=node.der)
    allow(cluster, other)
    assert code(join, cluster, other, token_for(cluster)) is Code.REMOVED


def test_a_revoked_key_comes_back_only_where_the_operator_names_it(cluster: Database) -> None:
    """rules A9: left only by the operator's re-enrolment."""
    node = admit(cluster, "node-a")
    revocation.revoke_node(cluster, "node-a", reason="stolen", **HOW)
    assert code(admission.allow, cluster, AllowlistEntry("node-a"), **HOW) is Code.REVOKED
    revocation.readmit(cluster, AllowlistEntry("node-a"), **HOW)
    assert manifest(cluster)["node_ids"] == [] and manifest(cluster)["version"] == 2
    assert code(join, cluster, node, token_for(cluster)) is Code.REVOKED
    assert join(cluster, node.renewed(), token_for(cluster)).outcome == "admitted"


def test_readmitting_with_the_old_key_named(cluster: Database) -> None:
    node = admit(cluster, "node-a")
    revocation.revoke_node(cluster, "node-a", reason="found again", **HOW)
    revocation.readmit(cluster, AllowlistEntry("node-a", certificate_sha256=node.pin), **HOW)
    assert join(cluster, node, token_for(cluster)).outcome == "admitted"


def test_a_removed_member_can_still_be_revoked(cluster: Database) -> None:
    node = admit(cluster, "node-a")
    remove_node(cluster, "node-a", reason="lost", **HOW)
    revocation.revoke_node(cluster, "node-a", reason="stolen", **HOW)
    assert manifest(cluster)["node_ids"] == ["node-a"]
    assert code(join, cluster, node, token_for(cluster)) is Code.REVOKED


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda database: remove_node(database, "node-x", reason="", **HOW), Code.NOT_FOUND),
        (lambda database: revocation.revoke_node(database, "node-x", reason="", **HOW), Code.NOT_FOUND),
        (lambda database: revocation.revoke_node(database, "Node", reason="", **HOW), Code.BAD_REQUEST),
        (lambda database: revocation.readmit(database, AllowlistEntry("node-a"), **HOW), Code.NOT_FOUND),
        (lambda database: revocation.readmit(database, AllowlistEntry("node-r", "arbiter"), **HOW), Code.BAD_REQUEST),
        (lambda database: revocation.revoke_node(database, "node-r", reason="", **HOW), Code.REVOKED),
        (lambda database: remove_node(database, "node-r", reason="", **HOW), Code.REVOKED),
        (lambda database: revocation.revoke(database, "node_ids", "node-a", reason="", **HOW), Code.BAD_REQUEST),
        (lambda database: revocation.revoke(database, "users", "x", reason="", **HOW), Code.BAD_REQUEST),
        (lambda database: revocation.revoke(database, "endpoints", "http://x:1", reason="", **HOW), Code.BAD_REQUEST),
        (lambda database: revocation.restore(database, "service_ids", "web", **HOW), Code.NOT_FOUND),
    ],
)
def test_what_cannot_be_done_changes_nothing(database: Database, act, expected: Code) -> None:
    """rules J11, K23: revoked entries stay."""
    members(database, "node-a", "node-r")
    revocation.revoke_node(database, "node-r", reason="stolen", **HOW)
    before = contents(database, *KEPT)
    assert code(act, database) is expected
    assert contents(database, *KEPT) == before


@pytest.mark.parametrize(
    ("category", "value"),
    [
        ("key_ids", "sha256:" + "0" * 64),
        ("role_assignments", "node-a/ingress"),
        ("service_ids", "web"),
        ("endpoints", "https://s1.example:443"),
    ],
)
def test_the_other_categories(cluster: Database, category: str, value: str) -> None:
    """rules S60, S61: in every head from now on, and out again once the trust bundle carries it."""
    admit(cluster, "node-a")
    before = generations(cluster)
    revocation.revoke(cluster, category, value, reason="leaked", unknown=True, **HOW)
    assert manifest(cluster)[category] == [value]
    assert generations(cluster) == {"node-a": before["node-a"] + 1}
    assert code(revocation.revoke, cluster, category, value, reason="again", **HOW) is Code.REVOKED
    revocation.restore(cluster, category, value, **HOW)
    assert manifest(cluster)[category] == [] and manifest(cluster)["version"] == 2


def test_who_did_what_and_when(cluster: Database) -> None:
    """protocol 2: every change is in the audit log with who, when, what."""
    admit(cluster, "node-a")
    revocation.revoke_node(cluster, "node-a", reason="stolen\nlaptop\x00", actor="alice", now=NOW + 7)
    row = next(row for row in contents(cluster, "audit")["audit"] if "revoke.node" in row)
    assert "alice" in row and str(NOW + 7) in row and "node-a" in row
    assert "\\x00" in row
