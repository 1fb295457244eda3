"""Steps 8 and 9: epochs and versions. A scope goes forward on one line, and nothing leads back on it."""

from dataclasses import replace

import pytest

from snapshot.manifest import Revocations
from snapshot.reasons import Reason
from snapshot.verifier_state import Mark
from snapshot.verify import AlreadyApplied
from tests.fakes.cluster import DAY, NOW, Cluster, key

SCOPE = "route_policy"


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def node(cluster):
    return cluster.node("core_mesh")


def next_epoch(cluster, node, epoch=2):
    """Root announces an epoch, and the node follows."""
    cluster.authority_epoch = epoch
    node.take(cluster.trust_bundle())


# Step 8


def test_an_epoch_below_the_scopes_own(cluster, node):
    """rules S48, S89; threats V08: whatever the version says."""
    next_epoch(cluster, node)
    node.take(cluster.snapshot())
    stale = cluster.snapshot(authority_epoch=1, config_version=2**53 - 1)
    cluster.versions[SCOPE] = 1
    node.refuses(stale, 8, Reason.STALE_EPOCH, then=cluster.snapshot())


def test_the_floor_is_each_scopes_own(cluster, node):
    """rules S16, S89: a scope that has not come along yet is judged by where it stands."""
    old = cluster.snapshot(scope="qos_policy")
    next_epoch(cluster, node)
    node.take(cluster.snapshot())
    node.take(old)


def test_an_epoch_that_nobody_announced(cluster, node):
    """rules S48; threats T17, D-15: a config key can run the version up, and not the epoch."""
    node.refuses(cluster.snapshot(authority_epoch=2), 8, Reason.EPOCH_AHEAD)
    cluster.versions[SCOPE] = 0
    good = cluster.snapshot()
    node.refuses(cluster.forge(good, authority_epoch=2**53 - 1), 8, Reason.EPOCH_AHEAD, then=good)
    node.refuses(cluster.head(authority_epoch=2), 8, Reason.EPOCH_AHEAD, then=cluster.head())


def test_a_new_epoch_repairs_a_version_that_ran_away(cluster, node):
    """threats T16, T18: a full snapshot of the next epoch may have a lower version; an increment may not come first."""
    node.take(cluster.snapshot(config_version=2**53 - 1))
    next_epoch(cluster, node)
    cluster.versions[SCOPE] = 0
    node.take(cluster.snapshot())
    assert node.holder.marks[SCOPE].version == (2, 1)


def test_an_increment_does_not_bring_a_new_epoch(cluster, node):
    """rules S24, S32, S48"""
    node.take(cluster.snapshot())
    next_epoch(cluster, node)
    across = cluster.increment(sets={"a": 1})
    node.refuses(across, 8, Reason.EPOCH_NEEDS_SNAPSHOT, then=cluster.snapshot())
    node.refuses(cluster.increment(sets={"a": 1}, authority_epoch=1), 8, Reason.STALE_EPOCH)


OTHER_AUDIENCE = {
    "subject": {"subject_node_id": "*"},
    "roles": {"roles": ["core_mesh"]},
    "organizations": {"organization_ids": ["amber"]},
    "fewer-organizations": {"organization_ids": []},
}


@pytest.mark.parametrize("members", OTHER_AUDIENCE.values(), ids=OTHER_AUDIENCE)
def test_an_increment_keeps_its_bases_audience(cluster, node, members):
    """rules S32, S48"""
    same = {"roles": ["core_mesh", "thin"], "organization_ids": ["amber", "sable"]}
    node = cluster.node("core_mesh", "thin")
    node.take(cluster.snapshot(**same))
    good = cluster.increment(sets={"a": 1}, **same)
    node.refuses(cluster.forge(good, **members), 8, Reason.BAD_ENVELOPE, then=good)


def test_an_increment_of_other_scope_ids_is_one_of_another_scope(cluster, node):
    """rules S32, S81: there is nothing of that scope to change."""
    node.take(cluster.snapshot())
    good = cluster.increment(sets={"a": 1})
    node.refuses(cluster.forge(good, scope_ids=["b"]), 9, Reason.BASE_MISMATCH, then=good)


# Step 9


def test_a_lower_version(cluster, node):
    """rules S49, S76; threats V01"""
    old = cluster.snapshot()
    node.take(cluster.snapshot())
    node.refuses(old, 9, Reason.ROLLBACK, then=cluster.snapshot())


def test_the_mark_alone_refuses_a_lower_version(cluster, node):
    """threats C04, D-24: though the store holds nothing of the scope any more."""
    old, lost = cluster.snapshot(), cluster.snapshot()
    node.take(lost)
    node.holder = replace(node.holder, active={}, lost=frozenset({SCOPE}))
    node.refuses(old, 9, Reason.ROLLBACK, then=lost)
    assert node.holder.active[SCOPE].content_hash == lost.envelope.content_hash


def test_what_was_lost_comes_back_only_as_it_was(cluster, node):
    """threats C04, V05"""
    lost = cluster.snapshot()
    node.take(lost)
    node.holder = replace(node.holder, active={}, lost=frozenset({SCOPE}))
    other = cluster.snapshot({"other": 1}, config_version=1)
    node.refuses(other, 9, Reason.VERSION_CONFLICT, then=lost)
    assert node.applied_already(lost)


def test_equal_version_and_content_is_success_without_effect(cluster, node):
    """rules S49, S85; threats V04: also issued again with later times, which extends nothing."""
    document = cluster.snapshot()
    node.take(document)
    before = node.holder
    verdict = node.judge(cluster.forge(document, snapshot_id="again", refresh_after=NOW + 8, expires_at=NOW + 99))
    assert isinstance(verdict, AlreadyApplied)
    assert verdict.mark == node.holder.marks[SCOPE]
    assert node.accept(verdict) is before


def test_already_applied_ends_the_run(cluster, node):
    """format.md 7, details: what later steps would say of it is not asked."""
    document = cluster.snapshot()
    node.take(document)
    assert node.applied_already(cluster.forge(document, roles=["ingress"]))


def test_equal_version_other_content(cluster, node):
    """rules S49; threats V05"""
    node.take(cluster.snapshot())
    node.refuses(cluster.snapshot({"other": 1}, config_version=1), 9, Reason.VERSION_CONFLICT)


def test_one_line_whether_shared_or_ours_alone(cluster, node):
    """format.md 7, details"""
    shared = {"subject_node_id": "*", "roles": ["core_mesh"]}
    node.take(cluster.snapshot(**shared))
    own = cluster.snapshot()
    node.take(own)
    node.refuses(cluster.snapshot(**shared, config_version=1), 9, Reason.ROLLBACK)
    node.refuses(cluster.snapshot({"x": 1}, **shared, config_version=2), 9, Reason.VERSION_CONFLICT)


@pytest.mark.parametrize("step", [2, 3, 1000])
def test_versions_may_leave_gaps(cluster, node, step):
    """threats V24: a snapshot needs no version before it."""
    node.take(cluster.snapshot())
    node.take(cluster.snapshot(config_version=1 + step))


def test_scopes_of_one_type_are_apart(cluster, node):
    """rules S16"""
    node.take(cluster.snapshot(scope="route_policy/a", config_version=9))
    node.take(cluster.snapshot(scope="route_policy/b"))
    node.take(cluster.snapshot(scope="route_policy"))
    assert {scope: mark.config_version for scope, mark in node.holder.marks.items() if scope != "trust_bundle"} == {
        "route_policy/a": 9,
        "route_policy/b": 1,
        "route_policy": 1,
    }


def test_a_combined_runtime_and_special_scopes(cluster, node):
    """rules S15"""
    for scope in ("node_runtime", "route_policy", "qos_policy", "storage_directory"):
        node.take(cluster.snapshot(scope=scope, roles=["core_mesh"]))


# Heads


def test_a_heads_versions_are_its_generations(cluster, node):
    """rules S49, S85"""
    first, second = cluster.head(), cluster.head()
    node.take(second)
    assert node.applied_already(second)
    node.refuses(first, 9, Reason.ROLLBACK, then=cluster.head())
    again = cluster.head(revocations=Revocations(version=1), config_version=3)
    node.refuses(again, 9, Reason.VERSION_CONFLICT, then=cluster.head())


def test_revocations_do_not_go_back(cluster, node):
    """threats T24; format.md 5: a later generation with earlier revocations."""
    node.take(cluster.head(revocations=Revocations(version=5)))
    node.refuses(cluster.head(revocations=Revocations(version=4)), 9, Reason.ROLLBACK)
    node.take(cluster.head(revocations=Revocations(version=5)))
    node.take(cluster.head(revocations=Revocations(version=6)))


@pytest.mark.parametrize(
    "times",
    [
        {},
        {"expires_at": NOW - 1, "refresh_after": NOW - 2, "valid_from": NOW - 60, "issued_at": NOW - 60},
        {"issued_at": NOW + DAY, "valid_from": NOW + DAY, "refresh_after": NOW + 2 * DAY, "expires_at": NOW + 3 * DAY},
        {"valid_from": NOW + 60},
        {"refresh_after": NOW - DAY},
    ],
    ids=["good", "expired", "in the future", "not yet valid", "in no order"],
)
def test_revocations_that_go_back_are_met_once_the_manifest_is_read(cluster, node, times):
    """threats T24; format.md 5: whatever its times are, what it is is a rollback"""
    node.take(cluster.head(revocations=Revocations(version=5)))
    back = cluster.forge(cluster.head(revocations=Revocations(version=4)), **times)
    node.refuses(back, 9, Reason.ROLLBACK, then=cluster.head(revocations=Revocations(version=5)))


def test_the_versions_of_revocations_begin_anew_with_an_epoch(cluster, node):
    """threats T16; format.md 5: whoever ran them up has not ended them; what is ahead has the bundle asked for"""
    node.take(cluster.head(revocations=Revocations(version=2**53 - 1)))
    still = cluster.snapshot(scope="degraded_mode_policy")
    cluster.authority_epoch = 2
    head = cluster.head(revocations=Revocations(version=1))
    node.refuses(head, 8, Reason.EPOCH_AHEAD, then=still)
    node.take(cluster.trust_bundle())
    node.take(head)
    back = cluster.head(revocations=Revocations(version=0))
    node.refuses(back, 9, Reason.ROLLBACK, then=cluster.head(revocations=Revocations(version=1)))


def test_what_an_expired_head_revoked_stays_revoked(cluster, node):
    """format.md 5: also a head that has expired since is what the next one is held against"""
    node.take(cluster.head(revocations=Revocations(version=5)))
    cluster.now += DAY
    node.refuses(cluster.head(revocations=Revocations(version=4)), 9, Reason.ROLLBACK)


def test_what_nobody_signed_is_not_asked_about_revocations(cluster, node):
    """format.md 5: its signatures and its content come first"""
    node.take(cluster.head(revocations=Revocations(version=5)))
    back = cluster.head(revocations=Revocations(version=4))
    node.refuses(cluster.forge(back, sections=[b"{}"]), 6, Reason.CONTENT_MISMATCH)
    node.refuses(cluster.forge(back, keys=[key("nobody")]), 5, Reason.BAD_SIGNATURE)
    node.refuses(back, 9, Reason.ROLLBACK, then=cluster.head(revocations=Revocations(version=5)))


def test_a_head_withdraws_a_scope_and_its_mark_stays(cluster, node):
    """rules S3; threats T21"""
    old, new = cluster.snapshot(), cluster.snapshot()
    node.take(new)
    node.take(cluster.head({}))
    assert SCOPE not in node.holder.active
    node.refuses(old, 9, Reason.ROLLBACK)
    assert node.holder.marks[SCOPE] == Mark(1, 2, new.envelope.content_hash)
