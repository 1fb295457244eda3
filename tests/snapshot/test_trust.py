"""Steps 4 and 5: which keys may sign this now, and how many of them did."""

from dataclasses import replace

import pytest

from snapshot.bundle import ROOT
from snapshot.identifiers import HEAD, SCOPE_TYPES
from snapshot.manifest import Revocations
from snapshot.reasons import Reason
from tests.fakes.cluster import DAY, NOW, Cluster, key
from tests.fakes.damage import flipped, with_signature, without_signature

FIRST, SECOND, OTHER = key("config-1"), key("config-2"), key("other")


@pytest.fixture
def cluster():
    """`config-1` signs what is right; `spare` is listed as a test wants it."""
    return Cluster()


def taken(cluster, **spare):
    """A node that knows `spare` as well, in the state that these members say."""
    cluster.trust("spare", **spare)
    cluster.trust_bundle()
    return cluster.node("core_mesh")


# Step 4

PRIMARIES = {
    "not-listed": (None, Reason.UNKNOWN_KEY),
    "of-another-cluster": ({"cluster_id": "raven-2"}, Reason.UNKNOWN_KEY),
    "expired": ({"not_after": NOW}, Reason.KEY_EXPIRED),
    "not-yet": ({"not_before": NOW + 1}, Reason.KEY_EXPIRED),
    "revoked": ({"status": "revoked"}, Reason.KEY_REVOKED),
    "for-another-scope": ({"scope_types": ("qos_policy", HEAD)}, Reason.KEY_NOT_FOR_SCOPE),
    "for-no-scope": ({"scope_types": ()}, Reason.KEY_NOT_FOR_SCOPE),
    "a-root-key": ({"purpose": ROOT, "scope_types": ("route_policy",)}, Reason.KEY_NOT_FOR_SCOPE),
    "another-cluster-before-expired": ({"cluster_id": "raven-2", "not_after": NOW}, Reason.UNKNOWN_KEY),
    "expired-before-revoked": ({"not_after": NOW, "status": "revoked"}, Reason.KEY_EXPIRED),
    "revoked-before-scope": ({"status": "revoked", "scope_types": ()}, Reason.KEY_REVOKED),
}


@pytest.mark.parametrize(("spare", "reason"), PRIMARIES.values(), ids=PRIMARIES)
def test_no_listed_signer_is_trusted(cluster, spare, reason):
    """rules S34, S37, S44, S82, S88; threats K01, K02, K03, K04: the verdict is what the primary fails first."""
    node = cluster.node("core_mesh") if spare is None else taken(cluster, **spare)
    by_spare = cluster.snapshot(keys=[key("spare")])
    node.refuses(by_spare, 4, reason, then=cluster.snapshot())


@pytest.mark.parametrize("spare", [{"not_after": NOW + 1}, {"not_before": NOW}, {"status": "retiring"}], ids=str)
def test_a_signer_that_is_just_trusted(cluster, spare):
    """rules S40, S47: both edges of a key's time; a retiring key verifies."""
    taken(cluster, **spare).take(cluster.snapshot(keys=[key("spare")]))


def test_revoked_although_issued_before(cluster):
    """threats K02, D-38: the signer chose `issued_at` himself."""
    old = cluster.snapshot(keys=[key("spare")], issued_at=NOW - 20 * DAY, valid_from=NOW - 20 * DAY)
    taken(cluster, status="revoked").refuses(old, 4, Reason.KEY_REVOKED, then=cluster.snapshot())


@pytest.mark.parametrize("scope_type", [*SCOPE_TYPES, HEAD])
def test_a_key_for_one_scope_type_signs_no_other(cluster, scope_type):
    """rules S44; threats K04"""
    node = taken(cluster, scope_types=("qos_policy",))
    if scope_type == HEAD:
        made = cluster.head(keys=[key("spare")])
    elif scope_type == "trust_bundle":
        made = cluster.trust_bundle(keys=[key("spare")])
    else:
        scope = "config/web" if scope_type == "config" else scope_type
        made = cluster.snapshot(scope=scope, keys=[key("spare")])
    if scope_type == "qos_policy":
        node.take(made)
    else:
        node.refuses(made, 4, Reason.KEY_NOT_FOR_SCOPE)


@pytest.mark.parametrize("kind", ["trust_bundle", "recovery"])
def test_a_config_key_never_signs_what_is_roots(cluster, kind):
    """rules S44; threats T15, T19; format.md 8: whatever its record says."""
    node = taken(cluster, scope_types=("route_policy", "trust_bundle"))
    document = cluster.snapshot()
    signers = {"keys": [key("spare"), FIRST]}
    made = cluster.trust_bundle(**signers) if kind == "trust_bundle" else cluster.recovery(document, **signers)
    node.refuses(made, 4, Reason.KEY_NOT_FOR_SCOPE, then=document)


@pytest.mark.parametrize("kind", ["snapshot", "head", "increment"])
def test_a_root_key_signs_nothing_else(cluster, kind):
    """rules S44; threats K04"""
    node = cluster.node("core_mesh")
    node.take(cluster.snapshot())
    changes = {"sets": {"a": 1}} if kind == "increment" else {}
    made = getattr(cluster, kind)(keys=[key("root-1"), key("root-2")], **changes)
    node.refuses(made, 4, Reason.KEY_NOT_FOR_SCOPE)


def test_the_primary_speaks_for_the_verdict_and_a_cosigner_can_save_it(cluster):
    """rules S37, S39; threats D-62: one listed signer that is trusted is enough to go on."""
    node = taken(cluster, status="revoked")
    node.refuses(cluster.snapshot(keys=[key("spare"), OTHER]), 4, Reason.KEY_REVOKED)
    node.refuses(cluster.snapshot(keys=[OTHER, key("spare")]), 4, Reason.UNKNOWN_KEY)
    assert node.take(cluster.snapshot(keys=[key("spare"), OTHER, FIRST])).signers == (FIRST.key_id,)


def test_a_head_revokes_a_config_key_and_never_a_root_key(cluster):
    """rules S44, S82; format.md 5: what an expired head revoked stays revoked."""
    cluster.trust("spare")
    cluster.trust_bundle()
    node = cluster.node("core_mesh")
    ids = frozenset({key("spare").key_id, key("root-1").key_id})
    node.take(cluster.head(revocations=Revocations(version=1, key_ids=ids)))
    node.refuses(cluster.snapshot(keys=[key("spare")]), 4, Reason.KEY_REVOKED, now=NOW + DAY)
    node.take(cluster.trust_bundle(keys=[key("root-1"), key("root-2")]))


def test_the_algorithm_is_the_key_records(cluster):
    """rules S12; threats D-11: though the signature would be good."""
    node, good = cluster.node("core_mesh"), cluster.snapshot()
    bad = cluster.forge(good, signature_algorithm="rsa-pss-sha256")
    node.refuses(bad, 4, Reason.ALGORITHM_MISMATCH, then=good)


def test_the_algorithm_of_a_known_primary_that_is_not_trusted(cluster):
    """rules S88: trust by a cosigner does not excuse it, and nobody knows an unknown primary's."""
    node = taken(cluster, status="revoked")
    good = cluster.snapshot(keys=[key("spare"), FIRST])
    bad = cluster.forge(good, signature_algorithm="rsa-pss-sha256")
    node.refuses(bad, 4, Reason.ALGORITHM_MISMATCH, then=good)
    unknown = cluster.snapshot(keys=[OTHER, FIRST])
    node.take(cluster.forge(unknown, signature_algorithm="rsa-pss-sha256"))


def test_a_bundle_that_is_too_old(cluster):
    """rules S44; threats T22, D-62"""
    node = cluster.node("core_mesh")
    bad = cluster.snapshot(min_trust_bundle_version=2)
    node.refuses(bad, 4, Reason.TRUST_BUNDLE_TOO_OLD, then=cluster.snapshot(min_trust_bundle_version=1))
    newer = cluster.snapshot(min_trust_bundle_version=2)
    node.refuses(newer, 4, Reason.TRUST_BUNDLE_TOO_OLD, then=cluster.trust_bundle())
    node.take(newer)


def test_nothing_but_a_bundle_is_judged_under_an_expired_bundle(cluster):
    """threats T08, T09"""
    node, late = cluster.node("core_mesh"), NOW + 90 * DAY
    fresh = cluster.snapshot(expires_at=late + DAY)
    assert node.refusal(fresh, now=late) == (4, Reason.TRUST_BUNDLE_TOO_OLD)
    node.take(cluster.trust_bundle(expires_at=late + 90 * DAY), now=late)
    node.take(fresh, now=late)


def test_a_document_without_any_bundle(cluster):
    """rules S35: first trust comes from enrolment, never with a document."""
    node = cluster.node("core_mesh", take_bundle=False)
    node.refuses(cluster.snapshot(), 4, Reason.UNKNOWN_KEY, then=cluster.first_bundle)


def test_key_before_bundle_age(cluster):
    """rules S88"""
    node = cluster.node("core_mesh")
    node.refuses(cluster.snapshot(keys=[OTHER], min_trust_bundle_version=9), 4, Reason.UNKNOWN_KEY)
    bad = cluster.snapshot(signature_algorithm="rsa-pss-sha256", min_trust_bundle_version=9)
    node.refuses(bad, 4, Reason.ALGORITHM_MISMATCH)


# Step 5


@pytest.mark.parametrize("wrong", [b"", b"x" * 63, b"x" * 64, b"\0" * 64, b"x" * 65, b"x" * 512], ids=len)
def test_bytes_that_are_no_signature(cluster, wrong):
    """rules S45, S72; threats S03"""
    node, good = cluster.node("core_mesh"), cluster.snapshot()
    node.refuses(with_signature(good, FIRST, wrong), 5, Reason.BAD_SIGNATURE, then=good)


def test_a_signature_by_another_key_under_a_trusted_name(cluster):
    """rules S45"""
    node, good = cluster.node("core_mesh"), cluster.snapshot()
    stolen = with_signature(good, OTHER).signatures[-1][1]
    node.refuses(with_signature(good, FIRST, stolen), 5, Reason.BAD_SIGNATURE, then=good)


@pytest.mark.parametrize("kind", ["increment", "head", "recovery", "trust_bundle", ""])
def test_a_signature_of_another_kinds_type(cluster, kind):
    """threats S16"""
    node, good = cluster.node("core_mesh"), cluster.snapshot()
    node.refuses(cluster.forge(good, signed_as=kind), 5, Reason.BAD_SIGNATURE, then=good)


def test_the_length_that_is_signed_counts_bytes(cluster):
    """threats S19: an envelope holds ASCII alone, so what a wrong count would sign is another length."""
    node, good = cluster.node("core_mesh"), cluster.snapshot()
    body = good.envelope_bytes
    wrong = FIRST.sign(b"DSSEv1 41 application/vnd.holdfast.snapshot.v1+json %d %b" % (len(body) - 1, body))
    node.refuses(with_signature(good, FIRST, wrong), 5, Reason.BAD_SIGNATURE, then=good)
    node.refuses(with_signature(good, FIRST, FIRST.sign(body)), 5, Reason.BAD_SIGNATURE)


@pytest.fixture
def quorum():
    """Two config signatures are needed, three keys could give them."""
    cluster = Cluster(config_threshold=2)
    cluster.trust("config-3")
    cluster.trust_bundle()
    return cluster


def test_fewer_than_the_threshold(quorum):
    """rules S39, S45; threats S06, S20: one stripped on the way, or one spoilt."""
    node, good = quorum.node("core_mesh"), quorum.snapshot()
    node.refuses(without_signature(good, SECOND), 5, Reason.THRESHOLD_NOT_MET, then=good)
    good = quorum.snapshot()
    spoilt = with_signature(good, SECOND, flipped(dict(good.signatures)[SECOND.key_id], 9))
    node.refuses(spoilt, 5, Reason.THRESHOLD_NOT_MET, then=good)


def test_the_primary_need_not_be_among_those_that_count(quorum):
    """rules S39; threats S13, S20: a cosigner's signature weighs as much."""
    node = quorum.node("core_mesh")
    three = quorum.snapshot(keys=[FIRST, SECOND, key("config-3")])
    assert set(node.take(without_signature(three, FIRST)).signers) == {SECOND.key_id, key("config-3").key_id}
    three = quorum.snapshot(keys=[FIRST, SECOND, key("config-3")])
    assert len(node.take(with_signature(three, FIRST, b"x" * 64)).signers) == 2


def test_what_is_not_counted_is_no_fault(quorum):
    """rules S39; threats S12, S21: unknown signers, listed or not, also with signatures that are none."""
    node = quorum.node("core_mesh")
    listed = quorum.snapshot(keys=[FIRST, SECOND, OTHER])
    assert len(node.take(with_signature(listed, OTHER, b"?")).signers) == 2
    unlisted = with_signature(quorum.snapshot(), OTHER, b"?")
    assert len(node.take(with_signature(unlisted, key("another"))).signers) == 2


@pytest.mark.parametrize(
    "cosigner", [{"status": "revoked"}, {"not_after": NOW}, {"scope_types": ()}, {"cluster_id": "raven-2"}], ids=str
)
def test_a_cosigner_that_may_not_sign_this_does_not_count(quorum, cosigner):
    """rules S39; threats S06"""
    quorum.trust("spare", **cosigner)
    quorum.trust_bundle()
    node = quorum.node("core_mesh")
    node.refuses(quorum.snapshot(keys=[FIRST, key("spare")]), 5, Reason.THRESHOLD_NOT_MET, then=quorum.snapshot())


def test_a_trusted_key_that_is_not_listed_does_not_count(quorum):
    """rules S39: who signs is part of what is signed."""
    node, good = quorum.node("core_mesh"), quorum.snapshot()
    swapped = with_signature(without_signature(good, SECOND), key("config-3"))
    node.refuses(swapped, 5, Reason.THRESHOLD_NOT_MET, then=good)


def test_signatures_that_are_none_of_the_listed_ones(cluster):
    """rules S45: a good signature by a trusted key that the envelope does not name."""
    node, good = cluster.node("core_mesh"), cluster.snapshot()
    node.refuses(with_signature(without_signature(good, FIRST), SECOND), 5, Reason.BAD_SIGNATURE, then=good)


@pytest.mark.parametrize("threshold", [0, -1])
def test_a_threshold_of_nothing_is_still_one(cluster, threshold):
    """threats S08, D-13: whatever a record says, no signature is never enough."""
    node, good = cluster.node("core_mesh"), cluster.snapshot()
    lax = replace(node.holder.bundle, thresholds={"root": threshold, "config": threshold})
    node.holder = replace(node.holder, bundle=lax)
    assert node.refusal(with_signature(good, FIRST, b"")) == (5, Reason.BAD_SIGNATURE)
    node.take(good)


def test_trust_does_not_cross_to_a_nodes_other_cluster():
    """rules S34, S73; threats A04"""
    here, there = Cluster(), Cluster(cluster_id="raven-2")
    node, good = here.node("core_mesh"), here.snapshot()
    node.refuses(there.snapshot(), 2, Reason.WRONG_CLUSTER, then=good)
    there.node("core_mesh").take(there.snapshot())
