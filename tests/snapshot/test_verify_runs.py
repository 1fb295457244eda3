"""Runs of trust bundles: a node that was away walks them, one durable step at a time (format.md 8)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.keys import signer
from snapshot.bundle import ROOT
from snapshot.container import ChunkParts
from snapshot.reasons import Reason, Rejected
from snapshot.verify import NotYetValid, follow, verify
from tests.examples import examples
from tests.fakes.cluster import DAY, NOW, Cluster, key
from tests.fakes.damage import without_signature

SHORT = {"refresh_after": NOW + DAY, "expires_at": NOW + DAY}
LATE = NOW + 2 * DAY


def parts(documents):
    return [ChunkParts(one.chunks()) for one in documents]


def walked(node, documents, now=NOW):
    """The versions that a run gives, and why it ended early, if it did; the node takes what came before."""
    versions = []
    sections = {signer.entry_of(data): data for one in documents for data in one.sections}
    try:
        for step in follow(parts(documents), node.holder, now=now):
            if isinstance(step, NotYetValid):
                return versions, Reason.NOT_YET_VALID
            versions.append(step.bundle.version)
            node.kept = [(name, sections[entry]) for name, entry in step.state.items()]
            node.accept(step)
    except Rejected as refused:
        return versions, refused.reason
    return versions, None


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def node(cluster):
    return cluster.node("core_mesh")


def rotated(cluster, count, **members):
    """Bundles of which each replaces one root; after three, the roots are all others."""
    chain = []
    for number in range(1, count + 1):
        cluster.trusted.pop(f"root-{number}")
        cluster.trust(f"root-{number + 3}", purpose=ROOT)
        chain.append(cluster.trust_bundle(**members))
    return chain


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_a_run_over_rotations(cluster, node, count):
    """rules S36; threats T09, D-14"""
    chain = rotated(cluster, count)
    assert walked(node, chain) == ([*range(2, count + 2)], None)
    assert node.holder == _near(cluster, chain).holder
    node.take(cluster.snapshot())


def _near(cluster, chain):
    """A node that took each bundle when it came."""
    near = Cluster().node("core_mesh")
    for document in chain:
        near.take(document)
    near.cluster = cluster
    near.holder = replace(near.holder, roots=Cluster().roots())
    return near


def test_those_in_between_may_have_expired(cluster, node):
    """threats T08, T09; format.md 8: in a run, the last alone must not."""
    chain = [*rotated(cluster, 2, **SHORT), *[cluster.trust_bundle()]]
    assert walked(node, chain, LATE) == ([2, 3, 4], None)


def test_the_last_must_not(cluster, node):
    """threats T08: verified steps stay."""
    chain = rotated(cluster, 3, **SHORT)
    assert walked(node, chain, LATE) == ([2, 3], Reason.EXPIRED)
    assert node.holder.bundle.version == 3


def test_the_first_bad_step_ends_the_run(cluster, node):
    """threats T10, D-14: nothing after it is tried."""
    second, third, fourth = rotated(cluster, 3)
    bad = without_signature(third, key("root-3"))
    bad = without_signature(bad, key("root-4"))
    assert walked(node, [second, bad, fourth]) == ([2], Reason.THRESHOLD_NOT_MET)
    assert node.holder.bundle.version == 2
    node.take(third)
    node.take(fourth)


def test_a_gap_ends_the_run(cluster, node):
    """threats T05"""
    second, third, fourth = rotated(cluster, 3)
    assert walked(node, [second, fourth]) == ([2], Reason.BASE_MISMATCH)
    assert walked(node, [third]) == ([3], None)


def test_what_is_held_already_is_passed_over(cluster, node):
    """rules S36: a run may begin where we are."""
    chain = rotated(cluster, 2)
    assert walked(node, [cluster.first_bundle, *chain]) == ([2, 3], None)


def test_each_step_is_judged_when_it_is_asked_for(cluster, node):
    """threats D-14: the one before is durable by then; a run that is dropped has judged no more than it gave."""
    opened = []

    class Watched(ChunkParts):
        def opening(self):
            opened.append(self)
            return super().opening()

    run = follow([Watched(one.chunks()) for one in rotated(cluster, 3)], node.holder, now=NOW)
    for count in (1, 2, 3):
        assert next(run).bundle.version == count + 1
        assert len(opened) == count


def test_at_most_256_steps(cluster, node):
    """threats T11: those stay, and the next cycle goes on."""
    chain = [cluster.trust_bundle(keys=[key("root-1"), key("root-2")]) for _ in range(258)]
    assert walked(node, chain) == ([*range(2, 258)], None)
    assert walked(node, chain[256:]) == ([258, 259], None)


def test_a_step_whose_time_has_not_come_ends_the_run(cluster, node):
    """threats V16: it is waited for, and nothing is built on it."""
    second = cluster.trust_bundle()
    waiting = cluster.trust_bundle(valid_from=NOW + 60)
    assert walked(node, [second, waiting, cluster.trust_bundle()]) == ([2], Reason.NOT_YET_VALID)


def test_only_a_bundle_may_have_expired(cluster, node):
    """rules S75: `superseded` excuses no other document."""
    document = cluster.snapshot(**SHORT)
    with pytest.raises(Rejected) as refused:
        verify(ChunkParts(document.chunks()), node.holder, kind="snapshot", now=LATE, superseded=True)
    assert refused.value.reason is Reason.EXPIRED


def test_a_run_holds_nothing_but_bundles(cluster, node):
    """threats N12, A19: another scope's document in a run is not what was asked for."""
    second, other = cluster.trust_bundle(), cluster.snapshot()
    run = list(follow(parts([second]), node.holder, now=NOW))
    with pytest.raises(Rejected):
        run += follow(parts([other]), node.holder, now=NOW)
    assert [step.scope for step in run] == ["trust_bundle"]


def test_given_roots_are_not_asked_again_in_a_run(cluster, node):
    """rules S35; format.md 8: roots that were rotated out long ago sign nothing, whatever stands between."""
    for number in (1, 2, 3):
        cluster.trusted.pop(f"root-{number}")
        cluster.trust(f"root-{number + 3}", purpose=ROOT)
    node.take(cluster.trust_bundle())
    thief = Cluster()
    thief.versions["trust_bundle"] = 2
    stolen = thief.trust_bundle(keys=[key("root-1"), key("root-2")])
    assert node.refusal(stolen) == (4, Reason.UNKNOWN_KEY)
    with pytest.raises(Rejected):
        list(follow(parts([cluster.snapshot(), stolen]), node.holder, now=NOW))


# Any chain


@st.composite
def chains(draw):
    """Two to five bundles, each of which changes roots, threshold, keys or epoch, and is signed as it must be."""
    cluster, chain = Cluster(), []
    for number in range(draw(st.integers(2, 5))):
        roots = [name for name, one in cluster.trusted.items() if one.purpose == ROOT and one.status != "revoked"]
        change = draw(st.sampled_from(["add", "remove", "revoke", "retire", "threshold", "epoch", "config", "none"]))
        if change == "add":
            cluster.trust(f"root-new-{number}", purpose=ROOT)
        elif change == "remove" and len(roots) > cluster.root_threshold:
            cluster.trusted.pop(draw(st.sampled_from(roots)))
        elif change in ("revoke", "retire") and len(roots) > cluster.root_threshold:
            cluster.trust(draw(st.sampled_from(roots)), status=f"{change}d" if change == "revoke" else "retiring")
        elif change == "threshold":
            cluster.root_threshold = draw(st.integers(1, len(roots)))
        elif change == "epoch":
            cluster.authority_epoch += 1
        elif change == "config":
            cluster.trust(f"config-new-{number}")
        chain.append(cluster.trust_bundle())
    return cluster, chain


@examples(60)
@given(chains(), st.data())
def test_any_chain_is_followed_and_no_part_of_one(made, data):
    """rules S36; threats T01, T02, T05, T10: with a step missing or badly signed, it ends before it."""
    cluster, chain = made
    near, away = Cluster().node("core_mesh"), Cluster().node("core_mesh")
    for document in chain:
        near.take(document)
    assert walked(away, chain) == ([*range(2, len(chain) + 2)], None)
    assert away.holder == near.holder
    broken = data.draw(st.integers(0, len(chain) - 1))
    lone = Cluster().node("core_mesh")
    stranger = cluster.forge(chain[broken], keys=[key("other")])
    versions, reason = walked(lone, [*chain[:broken], stranger, *chain[broken + 1 :]])
    assert (versions, reason) == ([*range(2, broken + 2)], Reason.BAD_SIGNATURE)
    if broken < len(chain) - 1:
        missing = Cluster().node("core_mesh")
        versions, reason = walked(missing, [*chain[:broken], *chain[broken + 1 :]])
        assert versions == [*range(2, broken + 2)]
        assert reason is not None
