"""Who may come in over TLS: a name and a certificate that is nobody else's (protocol 2; rules K34)."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from coordinator.base.refusal import Code
from coordinator.database.database import Database
from coordinator.keys import certificates
from coordinator.membership import admission, operators
from tests.coordinator.candidates import (
    NOW,
    Candidate,
    admit,
    allow,
    contents,
    join,
    make_certificate,
    remove_node,
    token_for,
)
from tests.coordinator.refusals import refused
from wire.certificate import Certificate, make_identity
from wire.operators.operator_answers import AllowlistEntry
from wire.operators.operator_roles import OperatorRole

HOW = {"actor": "uid:0", "now": NOW}
ALICE = make_identity("alice", NOW).der


def test_an_operator_is_added_and_removed(cluster: Database) -> None:
    added = operators.add(cluster, "alice", ALICE, **HOW)
    assert operators.list_operators(cluster) == [added]
    assert added.certificate_sha256 == certificates.fingerprint(ALICE) and added.added_by == "uid:0"
    assert added.expires_at == Certificate.read(ALICE).not_after
    assert operators.names_by_certificate(cluster) == {ALICE: "alice"}
    operators.check(cluster, "alice", added.certificate_sha256, NOW)
    operators.remove(cluster, "alice", **HOW)
    assert operators.list_operators(cluster) == []
    assert refused(operators.check, cluster, "alice", added.certificate_sha256, NOW).code is Code.PERMISSION_DENIED
    assert refused(operators.remove, cluster, "alice", **HOW).code is Code.NOT_FOUND
    assert operators.add(cluster, "alice", ALICE, **HOW) == added
    assert sum("operator." in row and "uid:0" in row for row in contents(cluster, "audit")["audit"]) == 3


def test_a_role_is_what_it_covers() -> None:
    """Author and approver have nothing of each other: or one alone would be both pairs of eyes."""
    covered = {role: {str(needed) for needed in OperatorRole if role.covers(needed)} for role in OperatorRole}
    assert covered == {
        OperatorRole.VIEWER: {"viewer"},
        OperatorRole.AUTHOR: {"viewer", "author"},
        OperatorRole.APPROVER: {"viewer", "approver"},
        OperatorRole.ADMIN: {"viewer", "author", "approver", "admin"},
    }


def test_a_role_is_another_one_at_once(cluster: Database) -> None:
    added = operators.add(cluster, "alice", ALICE, **HOW)
    assert added.role == "admin"  # as before there were roles
    for role in OperatorRole:
        changed = operators.set_role(cluster, "alice", role, **HOW)
        assert changed.role == role and operators.list_operators(cluster) == [changed]
        assert operators.check(cluster, "alice", added.certificate_sha256, NOW) is role
    audited = [row for row in contents(cluster, "audit")["audit"] if "operator.role" in row]
    assert len(audited) == 4 and '{"role":"admin"}' in audited[0] and '{"role":"viewer"}' in audited[0]
    before = contents(cluster, "operators", "audit")
    assert refused(operators.set_role, cluster, "bob", OperatorRole.VIEWER, **HOW).code is Code.NOT_FOUND
    assert contents(cluster, "operators", "audit") == before


def test_a_certificate_past_its_end_opens_nothing(cluster: Database) -> None:
    """Both edges: validity is half-open."""
    added = operators.add(cluster, "alice", ALICE, **HOW)
    operators.check(cluster, "alice", added.certificate_sha256, added.expires_at - 1)
    for now in (added.expires_at, added.expires_at + 1):
        refusal = refused(operators.check, cluster, "alice", added.certificate_sha256, now)
        assert refusal.code is Code.CERTIFICATE_EXPIRED


P256 = ec.generate_private_key(ec.SECP256R1())


@pytest.mark.parametrize(
    ("name", "der"),
    [
        ("Alice", ALICE),
        ("", ALICE),
        ("alice", b""),
        ("alice", b"no certificate"),
        ("alice", make_certificate(P256, ca=True)),
        ("alice", make_certificate(ec.generate_private_key(ec.SECP384R1()))),
        ("alice", make_certificate(P256, start=NOW + 60)),
        ("alice", make_certificate(P256, start=NOW - 60, lifetime_s=60)),
    ],
)
def test_what_cannot_be_an_operator(cluster: Database, name: str, der: bytes) -> None:
    before = contents(cluster, "operators", "audit")
    assert refused(operators.add, cluster, name, der, **HOW).code is Code.BAD_REQUEST
    assert contents(cluster, "operators", "audit") == before
    operators.add(cluster, "alice", ALICE, **HOW)


def test_a_name_and_a_certificate_are_one_operators(cluster: Database) -> None:
    operators.add(cluster, "alice", ALICE, **HOW)
    assert refused(operators.add, cluster, "bob", ALICE, **HOW).code is Code.CONFLICT
    assert refused(operators.add, cluster, "alice", make_identity("alice", NOW).der, **HOW).code is Code.CONFLICT
    assert list(operators.names_by_certificate(cluster).values()) == ["alice"]


def test_a_nodes_certificate_is_no_operators(cluster: Database) -> None:
    """rules K34: of a member, of one that has left, of one that may join."""
    member, gone, expected = admit(cluster, "node-a"), admit(cluster, "node-b"), Candidate("node-c")
    remove_node(cluster, "node-b", reason="old", **HOW)
    allow(cluster, expected, certificate_sha256=expected.pin)
    for node in (member, gone, expected):
        assert refused(operators.add, cluster, "alice", node.der, **HOW).code is Code.CONFLICT
    assert operators.list_operators(cluster) == []


def test_an_operators_certificate_is_no_nodes(cluster: Database) -> None:
    """rules K34: neither in a join nor on the allowlist."""
    node = Candidate("node-a")
    operators.add(cluster, "alice", node.der, **HOW)
    entry = AllowlistEntry("node-a", certificate_sha256=node.pin)
    assert refused(admission.allow, cluster, entry, **HOW).code is Code.CONTRADICTION
    allow(cluster, node)
    assert refused(join, cluster, node, token_for(cluster)).code is Code.IDENTITY_CONFLICT
    operators.remove(cluster, "alice", **HOW)
    assert join(cluster, node, token_for(cluster)).outcome == "admitted"


def test_there_are_no_operators_without_a_cluster(database: Database) -> None:
    """rules J34"""
    assert refused(operators.add, database, "alice", ALICE, **HOW).code is Code.NO_STATE
