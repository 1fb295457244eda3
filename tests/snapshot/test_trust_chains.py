"""Trust bundles one after the other: each is signed by the roots before it and by its own (format.md 8)."""

from dataclasses import replace

import pytest

from snapshot.bundle import ROOT
from snapshot.reasons import Reason
from snapshot.verifier_state import Roots
from tests.fakes.cluster import DAY, NOW, Cluster, key
from tests.fakes.damage import flipped, with_signature, without_signature

R1, R2, R3, R4, R5, R6 = (key(f"root-{number}") for number in range(1, 7))


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def node(cluster):
    return cluster.node("core_mesh")


# The first one


def test_a_first_bundle_by_the_given_roots(cluster):
    """rules S35; threats D-19"""
    node = cluster.node("core_mesh", take_bundle=False)
    taken = node.take(cluster.first_bundle)
    assert set(taken.signers) == {R1.key_id, R2.key_id, R3.key_id}
    node.take(cluster.snapshot())


def test_a_first_bundle_below_the_given_threshold(cluster):
    """rules S35; threats T12"""
    node = cluster.node("core_mesh", take_bundle=False)
    alone = without_signature(without_signature(cluster.first_bundle, R2), R3)
    node.refuses(alone, 5, Reason.THRESHOLD_NOT_MET, then=cluster.first_bundle)


def test_a_first_bundle_below_its_own_threshold(cluster):
    """threats T12, D-19: though the given roots would be content with less."""
    node = cluster.node("core_mesh", take_bundle=False)
    node.holder = replace(node.holder, roots=Roots(cluster.roots().keys, 1))
    alone = without_signature(without_signature(cluster.first_bundle, R2), R3)
    node.refuses(alone, 5, Reason.THRESHOLD_NOT_MET, then=cluster.first_bundle)


def test_an_attackers_own_root(cluster):
    """threats T25, T12: whole in itself, and nobody has given us his key."""
    theirs = Cluster()
    for name in ("root-1", "root-2", "root-3"):
        theirs.trust(name, key=key(f"their-{name}"))
    theirs.versions.clear()
    bundle = theirs.trust_bundle(keys=[key("their-root-1"), key("their-root-2")])
    node = cluster.node("core_mesh", take_bundle=False)
    node.refuses(bundle, 4, Reason.UNKNOWN_KEY, then=cluster.first_bundle)


def test_a_first_bundle_without_given_roots(cluster):
    """rules S35: it never comes from a server unasked."""
    node = cluster.node("core_mesh", take_bundle=False)
    node.holder = replace(node.holder, roots=None)
    assert node.refusal(cluster.first_bundle) == (4, Reason.UNKNOWN_KEY)


def test_given_roots_are_not_asked_again(cluster, node):
    """rules S35: once a bundle is held, it alone says who root is."""
    stranger = Cluster()
    stranger.trust("root-4", purpose=ROOT)
    node.holder = replace(node.holder, roots=stranger.roots())
    by_given = cluster.trust_bundle(keys=[R4, R1])
    node.refuses(by_given, 5, Reason.THRESHOLD_NOT_MET)


@pytest.mark.parametrize("given", [{"not_after": NOW}, {"not_before": NOW + 1}, {"status": "revoked"}], ids=str)
def test_given_roots_that_may_not_sign_now(cluster, given):
    """rules S37"""
    node = cluster.node("core_mesh", take_bundle=False)
    for name in ("root-1", "root-2", "root-3"):
        cluster.trust(name, **given)
    node.holder = replace(node.holder, roots=cluster.roots())
    reason = Reason.KEY_REVOKED if "status" in given else Reason.KEY_EXPIRED
    assert node.refusal(cluster.first_bundle) == (4, reason)


# One step


def rotate(cluster, gone, new):
    """One root key for another, in the bundle to come."""
    cluster.trusted.pop(gone)
    cluster.trust(new, purpose=ROOT)


ONE_STEP = {
    "old-roots-alone": ([R1, R2], 5, Reason.THRESHOLD_NOT_MET),
    "new-roots-alone": ([R4, R5], 4, Reason.UNKNOWN_KEY),
    "new-roots-and-one-old": ([R4, R5, R1], 5, Reason.THRESHOLD_NOT_MET),
    "old-roots-and-one-new": ([R1, R2, R4], 5, Reason.THRESHOLD_NOT_MET),
    "one-of-each": ([R1, R4], 5, Reason.THRESHOLD_NOT_MET),
    "config-keys": ([key("config-1"), key("config-2")], 4, Reason.KEY_NOT_FOR_SCOPE),
    "nobody-known": ([key("other")], 4, Reason.UNKNOWN_KEY),
}


@pytest.mark.parametrize(("keys", "step", "reason"), ONE_STEP.values(), ids=ONE_STEP)
def test_both_thresholds_are_asked_for(cluster, node, keys, step, reason):
    """rules S36, S45; threats T01, T02, T15: the root threshold of N and of N+1, over the same signatures."""
    for gone, new in (("root-1", "root-4"), ("root-2", "root-5"), ("root-3", "root-6")):
        rotate(cluster, gone, new)
    bad = cluster.trust_bundle(keys=keys)
    cluster.versions["trust_bundle"] = 1
    good = cluster.trust_bundle(keys=[R1, R2, R4, R5])
    before = node.holder.bundle
    node.refuses(bad, step, reason, then=good)
    assert node.holder.bundle.version == before.version + 1


def test_a_signature_that_was_spoilt_counts_for_neither(cluster, node):
    """threats T10, S13"""
    rotate(cluster, "root-3", "root-4")
    good = cluster.trust_bundle(keys=[R1, R2])
    spoilt = with_signature(good, R2, flipped(dict(good.signatures)[R2.key_id]))
    node.refuses(spoilt, 5, Reason.THRESHOLD_NOT_MET, then=good)


def test_a_raised_threshold_holds_for_the_bundle_that_raises_it(cluster, node):
    """rules S36; threats T02"""
    cluster.root_threshold = 3
    bad = cluster.trust_bundle(keys=[R1, R2])
    cluster.versions["trust_bundle"] = 1
    node.refuses(bad, 5, Reason.THRESHOLD_NOT_MET, then=cluster.trust_bundle(keys=[R1, R2, R3]))
    cluster.root_threshold = 1
    low = cluster.trust_bundle(keys=[R1])
    cluster.versions["trust_bundle"] = 2
    node.refuses(low, 5, Reason.THRESHOLD_NOT_MET, then=cluster.trust_bundle(keys=[R1, R2, R3]))
    node.take(cluster.trust_bundle(keys=[R1]))


def test_a_root_that_the_next_bundle_revokes_signs_it_for_the_last(cluster, node):
    """rules S36, S37: it counts for N, which trusts it still, and not for N+1."""
    cluster.trust("root-1", status="revoked")
    two = cluster.trust_bundle(keys=[R1, R2])
    cluster.versions["trust_bundle"] = 1
    node.refuses(two, 5, Reason.THRESHOLD_NOT_MET, then=cluster.trust_bundle(keys=[R1, R2, R3]))


def test_a_version_left_out(cluster, node):
    """rules S49; threats T05: N+1 is asked for; and it is judged, not skipped."""
    second = cluster.trust_bundle()
    third = cluster.trust_bundle()
    node.refuses(third, 9, Reason.BASE_MISMATCH, then=second)
    node.take(third)


def test_an_older_bundle_and_a_forked_one(cluster, node):
    """rules S49; threats T24, V05"""
    node.take(cluster.trust_bundle())
    node.refuses(cluster.first_bundle, 9, Reason.ROLLBACK)
    assert node.applied_already(cluster.published["trust_bundle"])
    cluster.trust("config-3")
    node.refuses(cluster.trust_bundle(config_version=2), 9, Reason.VERSION_CONFLICT, then=cluster.trust_bundle())


def test_the_same_number_under_a_higher_epoch_is_no_next_bundle(cluster, node):
    """format.md 12; rules S49"""
    node.take(cluster.trust_bundle())
    cluster.authority_epoch = 2
    node.refuses(cluster.trust_bundle(config_version=2), 9, Reason.ROLLBACK, then=cluster.trust_bundle())


def test_the_bundle_that_we_hold_decides_what_is_next(cluster, node):
    """format.md 8; threats T05, D-14: a store put back holds N, its floor says N+1; N+2 is not next."""
    second, third = cluster.trust_bundle(), cluster.trust_bundle()
    taken = node.judge(second)
    node.holder = replace(node.holder, marks=node.holder.marks | {"trust_bundle": taken.mark})
    assert node.refusal(third) == (9, Reason.BASE_MISMATCH)


@pytest.mark.parametrize("offered", [0, 2])
def test_a_bundle_that_is_held_counts_without_a_mark(cluster, node, offered):
    """format.md 8; threats D-14, D-24: neither an older bundle nor N+2 in place of what is held."""
    first, second, third, fourth = cluster.first_bundle, *(cluster.trust_bundle() for _ in range(3))
    node.take(second)
    node.holder = replace(node.holder, marks={})
    assert node.refusal((first, third, fourth)[offered])[0] == 9


def test_a_store_that_was_put_back_takes_the_bundle_at_its_floor(cluster, node):
    """threats C02, C04, D-24: at the floor, the same content; below it, nothing."""
    second, third = cluster.trust_bundle(), cluster.trust_bundle()
    node.take(second)
    back = node.holder
    node.take(third)
    node.holder = replace(back, marks=node.holder.marks, lost=frozenset({"trust_bundle"}))
    node.refuses(second, 9, Reason.ROLLBACK, then=third)
    assert node.holder.bundle.version == 3


def test_no_recovery_leads_back_to_an_older_bundle(cluster, node):
    """rules S87; format.md 8: a bundle's next version is N+1 exactly."""
    first = cluster.first_bundle
    node.take(cluster.trust_bundle())
    node.holder = replace(node.holder, recoveries=(cluster.recovery(first).to_bytes(),))
    node.refuses(first, 9, Reason.ROLLBACK, then=cluster.trust_bundle())


def test_epochs_of_bundles(cluster, node):
    """rules S48; format.md 8: what a bundle announces never goes back, nor is its own epoch above it."""
    cluster.authority_epoch = 3
    node.take(cluster.trust_bundle(authority_epoch=1))
    sections = cluster.bundle_sections()
    sections["authority"]["authority_epoch"] = 2
    lower = cluster.trust_bundle(sections, authority_epoch=2)
    cluster.versions["trust_bundle"] = 2
    node.refuses(lower, 8, Reason.STALE_EPOCH)
    above = cluster.trust_bundle(authority_epoch=4)
    cluster.versions["trust_bundle"] = 2
    node.refuses(above, 8, Reason.EPOCH_AHEAD, then=cluster.trust_bundle())
    node.take(cluster.snapshot())


def test_a_bundle_is_never_an_increment(cluster, node):
    """threats I17"""
    good = cluster.trust_bundle()
    node.refuses(cluster.forge(good, kind="increment"), 1, Reason.BAD_ENVELOPE, kind="increment", then=good)


def test_a_bundle_for_one_node_alone(cluster, node):
    """rules S43: shared needs no role; for another node it is his."""
    other = cluster.trust_bundle(subject_node_id="node-b")
    cluster.versions["trust_bundle"] = 1
    node.refuses(other, 3, Reason.WRONG_NODE, then=cluster.trust_bundle(subject_node_id="node-a"))


# Walking


@pytest.mark.parametrize("rotations", [1, 2, 3])
def test_a_node_that_was_away_walks_the_bundles_and_ends_equal(cluster, rotations):
    """rules S36; threats T09: the whole set of roots is another one in the end."""
    away, near = cluster.node("core_mesh"), cluster.node("core_mesh")
    chain = []
    for number in range(rotations):
        rotate(cluster, f"root-{number + 1}", f"root-{number + 4}")
        chain.append(cluster.trust_bundle())
        near.take(chain[-1])
    for document in chain:
        away.take(document)
    assert away.holder == near.holder
    away.take(cluster.snapshot())
    away.take(cluster.recovery(cluster.published["route_policy"], from_version=2))


def test_a_badly_signed_one_in_the_middle(cluster, node):
    """threats T10, D-14: what is behind it is out of reach, and what was before it stays."""
    second = cluster.trust_bundle()
    rotate(cluster, "root-1", "root-4")
    third = cluster.trust_bundle()
    fourth = cluster.trust_bundle()
    node.take(second)
    node.refuses(without_signature(without_signature(third, R2), R3), 5, Reason.THRESHOLD_NOT_MET)
    node.refuses(fourth, 9, Reason.BASE_MISMATCH)
    assert node.holder.bundle.version == 2
    node.take(third)
    node.take(fourth)


def test_one_bundle_that_has_expired(cluster, node):
    """threats T08; format.md 8: alone, or as the last of a run, an expired bundle is not taken."""
    late = NOW + 10 * DAY
    second = cluster.trust_bundle(refresh_after=late, expires_at=late)
    assert node.refusal(second, now=late) == (7, Reason.EXPIRED)
    node.take(second, now=late - 1)
    node.take(cluster.trust_bundle(), now=late)


def test_old_and_new_config_key_together(cluster, node):
    """rules S36, S39; threats D-62: good for the node that knows either, on both sides of the rotation."""
    cluster.trust("config-1", status="retiring")
    cluster.trust("config-9")
    both = cluster.snapshot(keys=[key("config-9"), key("config-1")])
    assert node.take(both).signers == (key("config-1").key_id,)
    cluster.trusted.pop("config-1")
    newcomer = Cluster(trusted=dict(cluster.trusted), versions={}).node("core_mesh")
    assert newcomer.take(both).signers == (key("config-9").key_id,)


def test_a_dropped_signer_is_unknown_from_then_on(cluster, node):
    """rules S37, S82; threats T14"""
    node.take(cluster.snapshot())
    cluster.trusted.pop("config-1")
    node.take(cluster.trust_bundle())
    node.refuses(cluster.snapshot(keys=[key("config-1")]), 4, Reason.UNKNOWN_KEY)
