"""Increments: one base, one result, and nothing of the base is looked at that does not change."""

import hashlib
from dataclasses import replace

import pytest

from snapshot import canonical
from snapshot.reasons import Reason
from tests.fakes.cluster import DAY, NOW, PEER_DIRECTORY, Cluster, State

SCOPE = "route_policy"
BASE = {"alpha": {"list": [1, 2, 3], "name": "a"}, "beta": {"flag": True, "one": 1}, "gamma": [7]}


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def node(cluster):
    node = cluster.node("core_mesh")
    node.take(cluster.snapshot(BASE))
    return node


def section(node, name, scope=SCOPE):
    return canonical.loads(node.holder.active[scope].read(name))


def patch(*operations):
    return {"alpha": list(operations)}


# What applies


def test_all_three_ways_of_changing_a_section(cluster, node):
    """rules S25, S81: the whole new state follows, and what did not change is shared."""
    before = node.holder.active[SCOPE].sections
    operations = [{"op": "add", "path": "/list/-", "value": 4}, {"op": "remove", "path": "/name"}]
    taken = node.take(cluster.increment(sets={"delta": "new"}, removes=["gamma"], patches={"alpha": operations}))
    assert sorted(taken.state) == ["alpha", "beta", "delta"]
    assert section(node, "alpha") == {"list": [1, 2, 3, 4]}
    assert taken.state["beta"] == before["beta"]
    assert taken.content_hash == "sha256:" + hashlib.sha256(taken.state_bytes).hexdigest()
    assert taken.mark.content_hash == taken.content_hash == taken.envelope.next_content_hash


def test_keep_is_given_results_not_patches(cluster, node):
    """rules S33; threats D-54: the bytes that are handed on hash to what the manifest says of the result."""
    operations = [{"op": "replace", "path": "/name", "value": "b"}]
    taken = node.take(cluster.increment(sets={"delta": "new"}, removes=["gamma"], patches=patch(*operations)))
    assert [name for name, _ in node.kept] == ["alpha", "delta"]
    for name, data in node.kept:
        assert hashlib.sha256(data).hexdigest() == taken.state[name].sha256
        assert len(data) == taken.state[name].size


def test_an_increment_costs_what_it_changes(cluster, node):
    """rules S81; format.md 5: no section that it leaves alone is read."""
    read = []

    class Watched:
        def __init__(self, held):
            self.envelope, self.content_hash, self.sections = held.envelope, held.content_hash, held.sections
            self._held = held

        def read(self, name):
            read.append(name)
            return self._held.read(name)

    watched = Watched(node.holder.active[SCOPE])
    before, node.holder = node.holder, replace(node.holder, active=node.holder.active | {SCOPE: watched})
    verdict = node.judge(cluster.increment(sets={"beta": 1}, removes=["gamma"], patches=patch()))
    assert read == ["alpha"]
    node.holder = before
    node.accept(verdict)


def test_one_increment_after_another(cluster, node):
    """rules S24, S81: the state is the same as that of a full snapshot of it."""
    for number in range(5):
        node.take(cluster.increment(sets={f"s{number}": number}, patches=patch({"op": "remove", "path": "/list/0"})
                                    if number < 3 else None))  # fmt: skip
    whole = cluster.snapshot(dict(cluster.states[SCOPE].sections), config_version=cluster.versions[SCOPE])
    assert node.applied_already(whole)


def test_versions_may_leave_gaps(cluster, node):
    """threats I07: 1 to 8 is fine."""
    node.take(cluster.increment(sets={"a": 1}, config_version=8, next_config_version=8))


def test_its_own_dates_hold(cluster, node):
    """threats I23"""
    longer = cluster.increment(sets={"a": 1}, expires_at=NOW + 20 * DAY)
    node.take(longer)
    assert node.holder.active[SCOPE].envelope.expires_at == NOW + 20 * DAY


def test_an_increment_that_changes_nothing(cluster, node):
    """rules S81: an empty one is a new version of the same content."""
    node.take(cluster.increment())
    node.take(cluster.increment(patches=patch()))


# Its base


def test_no_base_at_all(cluster):
    """rules S24, S77: only a full snapshot sets a scope up."""
    node = cluster.node("core_mesh")
    full = cluster.snapshot(BASE)
    node.refuses(cluster.increment(sets={"a": 1}), 9, Reason.BASE_MISMATCH, then=full)


def test_an_older_base(cluster, node):
    """rules S26, S27, S81; threats I05"""
    first = cluster.states[SCOPE]
    node.take(cluster.snapshot(BASE | {"more": 1}))
    node.refuses(cluster.increment(base=first, sets={"a": 1}), 9, Reason.BASE_MISMATCH, then=cluster.snapshot())


def test_a_base_that_we_have_not_seen(cluster, node):
    """rules S26, S77; threats V24"""
    missed = cluster.snapshot(BASE | {"more": 1})
    ahead = cluster.increment(sets={"a": 1})
    node.refuses(ahead, 9, Reason.BASE_MISMATCH, then=missed)
    node.take(ahead)


def test_the_right_version_with_another_hash(cluster, node):
    """rules S26, S81"""
    forked = State(1, {"alpha": b"{}"})
    good = cluster.increment(sets={"a": 1})
    node.refuses(cluster.increment(base=forked, sets={"a": 1}), 9, Reason.BASE_MISMATCH, then=good)


def test_the_right_hash_with_another_version(cluster, node):
    """rules S26"""
    renewed = replace(cluster.states[SCOPE], config_version=2)
    node.refuses(cluster.increment(base=renewed, sets={"a": 1}, config_version=3, next_config_version=3), 9,
                 Reason.BASE_MISMATCH)  # fmt: skip


def test_a_base_that_was_lost_or_withdrawn(cluster, node):
    """rules S24; threats D-24: a mark is no base."""
    node.holder = replace(node.holder, active={}, lost=frozenset({SCOPE}))
    node.refuses(cluster.increment(sets={"a": 1}), 9, Reason.BASE_MISMATCH, then=cluster.snapshot())


def test_an_old_increment_after_a_resync(cluster, node):
    """threats I20: lower is `rollback`; the same version with the same state is `already_applied`."""
    old = cluster.increment(sets={"a": 1})
    same = cluster.increment(sets={"a": 2})
    node.take(cluster.snapshot(dict(cluster.states[SCOPE].sections), config_version=3))
    node.refuses(old, 9, Reason.ROLLBACK)
    assert node.applied_already(same)
    cluster.versions[SCOPE] = 2
    other = cluster.increment(base=State(1, {"x": b"1"}), sets={"a": 9})
    node.refuses(other, 9, Reason.VERSION_CONFLICT)


AT_ODDS = {
    "next-is-not-the-version": {"next_config_version": 3},
    "base-is-the-version": {"base_config_version": 2},
    "base-is-later": {"base_config_version": 3},
    "of-a-trust-bundle": {"scope_type": "trust_bundle"},
    "base-hash-empty": {"base_content_hash": ""},
}


@pytest.mark.parametrize("members", AT_ODDS.values(), ids=AT_ODDS)
def test_an_envelope_at_odds(cluster, node, members):
    """rules S41; threats I07, I17"""
    good = cluster.increment(sets={"a": 1})
    node.refuses(cluster.forge(good, **members), 1, Reason.BAD_ENVELOPE, kind="increment", then=good)


# Its patches

LONG = "/list" + "/0" * 32
BAD_PATCHES = {
    "not-an-array": {"op": "remove", "path": "/name"},
    "null": None,
    "unknown-op": [{"op": "merge", "path": "/name", "value": 1}],
    "copy": [{"op": "copy", "from": "/name", "path": "/b"}],
    "move": [{"op": "move", "from": "/name", "path": "/b"}],
    "more-members": [{"op": "remove", "path": "/name", "value": 1}],
    "no-value": [{"op": "add", "path": "/b"}],
    "operation-is-text": ["remove"],
    "root-replace": [{"op": "replace", "path": "", "value": {}}],
    "root-test": [{"op": "test", "path": "", "value": {}}],
    "root-remove": [{"op": "remove", "path": ""}],
    "no-slash": [{"op": "remove", "path": "name"}],
    "tilde-2": [{"op": "add", "path": "/~2", "value": 1}],
    "tilde-at-the-end": [{"op": "add", "path": "/a~", "value": 1}],
    "missing-member": [{"op": "remove", "path": "/b"}],
    "into-a-scalar": [{"op": "add", "path": "/name/x", "value": 1}],
    "index-past-the-end": [{"op": "add", "path": "/list/4", "value": 1}],
    "index-zero-led": [{"op": "remove", "path": "/list/01"}],
    "index-minus": [{"op": "remove", "path": "/list/-1"}],
    "dash-to-remove": [{"op": "remove", "path": "/list/-"}],
    "test-true-is-not-1": [{"op": "test", "path": "/list/0", "value": True}],
    "test-other-text": [{"op": "test", "path": "/name", "value": "b"}],
    "33-tokens": [{"op": "test", "path": LONG, "value": 1}],
    "1001-operations": [{"op": "test", "path": "/name", "value": "a"}] * 1001,
    "the-last-fails": [{"op": "remove", "path": "/name"}, {"op": "remove", "path": "/name"}],
}


@pytest.mark.parametrize("operations", BAD_PATCHES.values(), ids=BAD_PATCHES)
def test_a_patch_that_does_not_apply(cluster, node, operations):
    """rules S27, S51; threats I09, I10, I11, I12, I14, I16"""
    before, base = node.holder, cluster.states[SCOPE]
    node.refuses(cluster.increment(patches={"alpha": operations}), 11, Reason.PATCH_FAILED)
    assert node.holder.active[SCOPE] == before.active[SCOPE]
    node.take(cluster.increment(base=base, patches=patch({"op": "remove", "path": "/name"})))


@pytest.mark.parametrize("change", [{"removes": ["zeta"]}, {"patches": {"zeta": []}}], ids=["remove", "patch"])
def test_a_change_of_a_section_that_the_base_lacks(cluster, node, change):
    """rules S51; format.md 7, details"""
    node.refuses(cluster.increment(**change), 11, Reason.PATCH_FAILED, then=cluster.snapshot())


@pytest.mark.parametrize("data", [b"[ ]", b'[{"op":"remove","op":"remove","path":"/name"}]', b"", b"\xff"])
def test_a_patch_that_is_not_canonical(cluster, node, data):
    """rules S13; format.md 7, details"""
    node.refuses(cluster.increment(patches={"alpha": data}), 11, Reason.BAD_CONTENT, then=cluster.snapshot())


def test_a_patch_gives_other_bytes_than_signed(cluster, node):
    """rules S33, S51; threats I08: nothing of it is kept."""
    operations = [{"op": "remove", "path": "/name"}]
    bad = cluster.increment(patches=patch(*operations), results={"alpha": b'{"list":[]}'})
    node.refuses(bad, 11, Reason.RESULT_MISMATCH, then=cluster.snapshot())
    assert node.refusal(bad)[1] is Reason.ROLLBACK


def test_a_result_of_the_right_hash_and_another_size(cluster, node):
    """rules S33"""
    good = cluster.increment(patches=patch({"op": "remove", "path": "/name"}))
    manifest = canonical.loads(good.manifest_bytes)
    manifest["alpha"]["result_size"] += 1
    node.refuses(cluster.forge(good, manifest=manifest), 11, Reason.RESULT_MISMATCH, then=good)


def test_a_state_of_another_hash_than_signed(cluster, node):
    """rules S33, S51; threats I08"""
    good = cluster.increment(sets={"a": 1})
    bad = cluster.forge(good, next_content_hash="sha256:" + "0" * 64)
    node.refuses(bad, 11, Reason.RESULT_MISMATCH, then=good)


# What they give

RESULTS = {
    "authority": ({"query_grants": 1}, 11, Reason.BAD_CONTENT),
    "organization": ({"organization_id": "onyx"}, 11, Reason.UNRELATED_ORGANIZATION),
    "secret": ({"password": "x"}, 12, Reason.RAW_SECRET),
}


@pytest.mark.parametrize(("value", "step", "reason"), RESULTS.values(), ids=RESULTS)
def test_what_is_set_is_looked_at(cluster, node, value, step, reason):
    """rules S23, S52; threats X11"""
    node.refuses(cluster.increment(sets={"delta": value}), step, reason, then=cluster.snapshot())


@pytest.mark.parametrize(("value", "step", "reason"), RESULTS.values(), ids=RESULTS)
def test_the_result_is_looked_at_not_the_patch(cluster, node, value, step, reason):
    """threats I18, D-54: each operation is harmless, and what they give together is not."""
    (name, item), before = *value.items(), node.holder.active
    operations = [{"op": "add", "path": f"/{name}", "value": item}]
    node.refuses(cluster.increment(patches={"beta": operations}), step, reason)
    assert node.holder.active[SCOPE] is before[SCOPE]
    harmless = [{"op": "add", "path": f"/{name}", "value": item}, {"op": "remove", "path": f"/{name}"}]
    node.take(cluster.snapshot(BASE))
    node.take(cluster.increment(patches={"beta": harmless}))


def test_a_result_too_deep(cluster, node):
    """threats I18"""
    deep = canonical.loads(b"[" * 30 + b"]" * 30)
    node.refuses(cluster.increment(patches=patch({"op": "add", "path": "/list/-", "value": [deep]})), 11,
                 Reason.BAD_CONTENT)  # fmt: skip


# A thin node's peers, over several parts


def peers(*numbers):
    return {f"node-{number}": {} for number in numbers}


@pytest.fixture
def thin(cluster):
    node = cluster.node("thin")
    node.take(cluster.snapshot({"peers.a": peers(*range(8)), "peers.b": peers(*range(8, 15))}, PEER_DIRECTORY))
    return node


THIN = {
    "one-more-patched-in": ({"patches": {"peers.a": [{"op": "add", "path": "/x", "value": {}}]}}, True),
    "two-more-patched-in": (
        {"patches": {"peers.a": [{"op": "add", "path": f"/x{number}", "value": {}} for number in (1, 2)]}},
        False,
    ),
    "one-more-in-a-new-part": ({"sets": {"peers.c": peers(15)}}, True),
    "two-more-in-a-new-part": ({"sets": {"peers.c": peers(15, 16)}}, False),
    "two-more-and-a-part-gone": ({"sets": {"peers.c": peers(15, 16)}, "removes": ["peers.b"]}, True),
    "a-part-replaced-by-sixteen": ({"sets": {"peers.a": peers(*range(20, 36))}}, False),
}


@pytest.mark.parametrize(("change", "applies"), THIN.values(), ids=THIN)
def test_a_thin_nodes_bound_holds_for_the_whole_new_state(cluster, thin, change, applies):
    """rules S21; format.md 7, details"""
    document = cluster.increment(PEER_DIRECTORY, **change)
    if applies:
        thin.take(document)
    else:
        thin.refuses(document, 11, Reason.BAD_CONTENT)
