"""What the agent's verifier refuses is never given out, whatever the compiler did (rules S69; S72..S82)."""

import pytest

from coordinator.keys import signer
from coordinator.keys.signer import SignedDocument
from coordinator.publishing.review import review
from coordinator.publishing.signing_context import Unpublishable
from snapshot.manifest import Revocations
from tests.fakes.cluster import HOUR, NOW, Cluster, key

ROUTES = {"routes": {"r1": {"organization_id": "amber"}}}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def reason(cluster: Cluster, document: SignedDocument, *roles: str, now: float = NOW) -> str:
    holder = cluster.node(*(roles or ("core_mesh",))).holder
    with pytest.raises(Unpublishable) as found:
        review(document, holder, now)
    return found.value.reason


def test_what_is_good_passes(cluster: Cluster) -> None:
    """rules S71"""
    made = cluster.snapshot(ROUTES, organization_ids=["amber"])
    assert review(made, cluster.node("core_mesh").holder, NOW).scope == "route_policy"


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"cluster_id": "elsewhere"}, "wrong_cluster"),  # rules S73
        ({"subject_node_id": "node-b"}, "wrong_node"),  # rules S74
        ({"expires_at": NOW - 1, "refresh_after": NOW - 2, "valid_from": NOW - HOUR}, "bad_validity"),  # rules S75
        ({"roles": ["ingress"]}, "role_not_allowed"),  # rules S80
        ({"organization_ids": ["foreign"]}, "organization_not_allowed"),  # rules S79
        ({"authority_epoch": 2}, "epoch_ahead"),
        ({"min_trust_bundle_version": 9}, "trust_bundle_too_old"),
    ],
)
def test_an_envelope_that_a_node_refuses_is_not_given_out(cluster: Cluster, members: dict, expected: str) -> None:
    assert reason(cluster, cluster.forge(cluster.snapshot({"routes": {}}), **members)) == expected


def test_what_has_expired_is_not_given_out(cluster: Cluster) -> None:
    """rules S75"""
    assert reason(cluster, cluster.snapshot({"routes": {}}), now=NOW + 8 * 24 * HOUR) == "expired"


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({"routes": {"r1": {"api_key": "x" * 20}}}, "raw_secret"),  # rules S78
        ({"routes": {"r1": {"organization_id": "foreign"}}}, "unrelated_organization"),  # rules S79
        ({"routes": {"audit_authority": True}}, "bad_content"),
    ],
)
def test_content_that_a_node_refuses_is_not_given_out(cluster: Cluster, sections: dict, expected: str) -> None:
    assert reason(cluster, cluster.snapshot(sections, organization_ids=["amber"])) == expected


def test_a_scope_type_that_no_role_grants_is_not_given_out(cluster: Cluster) -> None:
    """rules S80"""
    assert reason(cluster, cluster.snapshot({"routes": {}}, scope="qos_policy"), "ingress") == "role_not_allowed"


def test_signatures_that_do_not_count_are_not_given_out(cluster: Cluster) -> None:
    """rules S72, S82"""
    good = cluster.snapshot({"routes": {}})
    altered = tuple((key_id, bytes(64)) for key_id, _ in good.signatures)
    spoilt = SignedDocument(good.envelope, good.envelope_bytes, altered, good.manifest_bytes, good.sections)
    assert reason(cluster, spoilt) == "bad_signature"
    assert reason(cluster, cluster.snapshot({"routes": {}}, keys=[key("stranger")])) == "unknown_key"
    node = cluster.node("core_mesh")
    signers = frozenset(key_id for key_id, _ in good.signatures)
    node.take(cluster.head({}, revocations=Revocations(1, key_ids=signers), keys=[key("config-2")]))
    with pytest.raises(Unpublishable, match="key_revoked"):
        review(good, node.holder, NOW)


def test_a_version_that_goes_back_and_one_that_says_nothing_new_are_not_given_out(cluster: Cluster) -> None:
    """rules S76, S85"""
    node = cluster.node("core_mesh")
    first, second = cluster.snapshot({"routes": {"a": 1}}), cluster.snapshot({"routes": {"a": 2}})
    node.take(second)
    for document, expected in ((first, "rollback"), (second, "no_effect")):
        with pytest.raises(Unpublishable, match=expected):
            review(document, node.holder, NOW)


def test_an_increment_that_does_not_fit_its_base_is_not_given_out(cluster: Cluster) -> None:
    """rules S81, S77"""
    node = cluster.node("core_mesh")
    node.take(cluster.snapshot({"routes": {"a": 1}}))
    cluster.snapshot({"routes": {"a": 2}})
    with pytest.raises(Unpublishable, match="base_mismatch"):
        review(cluster.increment(sets={"routes": {"a": 3}}), node.holder, NOW)


def test_a_section_that_is_not_what_was_signed_is_not_given_out(cluster: Cluster) -> None:
    good = cluster.snapshot({"routes": {}})
    other = SignedDocument(good.envelope, good.envelope_bytes, good.signatures, good.manifest_bytes, (b'{"x":1}',))
    assert reason(cluster, other) == "content_mismatch"
    assert signer.content_hash(good.manifest_bytes) == good.envelope.content_hash
