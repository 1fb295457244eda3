"""Whoever signs scopes can fill what is for scopes; the head and the bundle that take his key away still go in."""

import shutil
import signal
from dataclasses import replace

import pytest

from coordinator.keys import signer
from coordinator.keys.signing_key import SigningKey
from snapshot.container import Opening
from snapshot.manifest import Revocations, ScopeVersion
from store.base.errors import StoreError, StoreFault
from store.base.pending import MOST_WAITING
from store.fsck.check import check
from tests.fakes.signed import signed_head
from tests.store.cluster import CLUSTER, DAY, NODE, NOW, SCOPE, Cluster, Node
from tests.store.dying import DyingDisk, in_a_child
from tests.store.filling import fill_slots, receive

OTHER = "qos_policy"
LATER = {"valid_from": NOW + DAY, "refresh_after": NOW + DAY, "expires_at": NOW + 2 * DAY}


def received(node, document, scope):
    return receive(node.store.receive(scope, now=NOW), document)


def fill(node):
    fill_slots(node.store, node.cluster.snapshot(1, {"a": 1}, **LATER))


def repaired_bundle(cluster, version=2):
    """By the root: another config key in place of the stolen one, and a higher epoch."""
    cluster.config = SigningKey.generate()
    return cluster.bundle(version, announced=2)


def head(cluster, generation, listed=(), **changes):
    claims = cluster.claims("head", generation, subject_node_id=NODE, **changes)
    return signed_head(claims, dict(listed), [cluster.config])


def listing(document):
    envelope = document.envelope
    return ScopeVersion(envelope.authority_epoch, envelope.config_version, envelope.content_hash, envelope.snapshot_id)


@pytest.fixture
def own():
    """A cluster whose keys a test changes."""
    return Cluster()


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A node whose slots are all taken, closed, never changed."""
    node = Node(tmp_path_factory.mktemp("filled") / "root", Cluster())
    with node:
        node.apply(node.cluster.bundle())
        node.apply(node.cluster.snapshot(1, {"a": 1}))
        fill(node)
    return node


@pytest.fixture
def full(tmp_path, filled):
    """A copy of it; its cluster's keys a test may change."""
    shutil.copytree(filled.path, tmp_path / "root")
    with Node(tmp_path / "root", replace(filled.cluster)) as node:
        yield node
    assert list(check(node.path, CLUSTER)) == []


def test_no_slot_is_left_for_scopes_and_the_repair_has_its_own(full):
    """rules L39, S44: the bundle frees what the key that it no longer names has filled"""
    own = full.cluster
    with pytest.raises(StoreError, match="at most 1024 pending slots"):
        full.apply(own.snapshot(2, {"a": 2}))
    assert full.contents() == {"a": b"1"}
    full.apply(repaired_bundle(own))
    assert full.store.pending() == []
    own.epoch = 2
    new = own.snapshot(1, {"a": 3})
    full.apply(head(own, 1, {SCOPE: listing(new)}))
    full.apply(new)
    assert full.contents() == {"a": b"3"}


def test_a_recovery_has_a_slot_when_all_are_taken(full):
    """rules S87"""
    own = full.cluster
    slot = full.store.receive(SCOPE, now=NOW, kind="recovery")
    receive(slot, own.recovery(1, own.snapshot(2, {"a": 2})))
    assert slot.slot is not None
    slot.drop()


def test_what_waits_is_bounded_in_number(full):
    """rules X26: and what waits already stays"""
    own = full.cluster
    full.store.withdraw("service_assignment/s1023", now=NOW)
    slot = received(full, own.snapshot(2, {"a": 2}, **LATER), SCOPE)
    with pytest.raises(StoreError, match=f"at most {MOST_WAITING} documents wait") as caught:
        slot.wait(NOW + DAY)
    assert caught.value.fault is StoreFault.TOO_LARGE
    slot.drop()
    assert len(full.store.waiting()) == MOST_WAITING


def test_what_waits_is_bounded_in_bytes(tmp_path, own):
    """rules X26: also in the place of a smaller one"""
    with Node(tmp_path / "root", own, map_bytes=8 << 20) as node:
        node.apply(own.bundle())
        small = received(node, own.snapshot(1, {"a": 1}, **LATER), SCOPE)
        small.wait(NOW + DAY)
        large = {f"s{number}": [number, ["x" * 1000] * 800] for number in range(3)}
        slot = received(node, own.snapshot(2, large, **LATER), SCOPE)
        with pytest.raises(StoreError, match="at most 2097152 bytes"):
            slot.wait(NOW + DAY)
        slot.drop()
        (held,) = node.store.pending()
        assert held.envelope_hash == small.envelope_hash
        node.reopen()
        again = received(node, own.snapshot(3, {"s0": large["s0"]}, **LATER), OTHER)
        again.wait(NOW + DAY)
        assert again.record.size > 800_000
        node.reopen()
        assert {one.scope for one in node.store.pending()} == {SCOPE, OTHER}
        with pytest.raises(StoreError, match="at most 2097152 bytes"):
            received(node, own.snapshot(4, {"s0": large["s0"], "s1": large["s1"]}, **LATER), "exit_policy").wait(
                NOW + DAY
            )


def test_a_head_leaves_what_it_lists_and_nothing_else(tmp_path, own):
    """rules S3: unlisted scopes go, what is listed goes on, and what the head's own revocations name goes"""
    with Node(tmp_path / "root", own) as node:
        node.apply(own.bundle())
        listed, stray = own.snapshot(1, {"a": 1}, **LATER), own.snapshot(1, {"a": 2}, OTHER, **LATER)
        received(node, listed, SCOPE).wait(NOW + DAY)
        received(node, stray, OTHER).wait(NOW + DAY)
        unopened = node.store.receive("exit_policy", now=NOW)
        unopened.receive(Opening(stray.envelope_bytes, ()))
        unopened.flush()
        node.apply(head(own, 1, {SCOPE: listing(listed)}))
        assert [one.scope for one in node.store.pending()] == [SCOPE]
        node.apply(head(own, 2, {SCOPE: replace(listing(listed), config_version=2)}))
        assert [one.scope for one in node.store.pending()] == [SCOPE]
        node.apply(head(own, 3, {SCOPE: replace(listing(listed), authority_epoch=2)}))
        assert node.store.pending() == []


def test_what_a_revoked_key_signed_goes_with_the_head_that_revokes_it(tmp_path, own):
    """rules S44"""
    with Node(tmp_path / "root", own) as node:
        node.apply(own.bundle())
        document = own.snapshot(1, {"a": 1}, **LATER)
        received(node, document, SCOPE).wait(NOW + DAY)
        thief = own.config
        own.config = SigningKey.generate()
        both = signer.trust_bundle_sections(
            {
                key.key_id: signer.key_record(
                    key, purpose=purpose, cluster_id=CLUSTER, not_before=NOW - DAY, not_after=NOW + 900 * DAY
                )
                for key, purpose in ((own.root, "root"), (own.config, "config"), (thief, "config"))
            },
            root_threshold=1,
            config_threshold=1,
            authority_epoch=1,
        )
        claims = own.claims("trust_bundle", 2, roles=(), expires_at=NOW + 90 * DAY)
        node.apply(signer.snapshot(claims, both, [own.root]))
        assert [one.scope for one in node.store.pending()] == [SCOPE], "it is trusted still"
        revoking = signed_head(
            own.claims("head", 1, subject_node_id=NODE),
            {SCOPE: listing(document)},
            [own.config],
            revocations=Revocations(version=1, key_ids=frozenset({thief.key_id})),
        )
        node.apply(revoking)
        assert node.store.pending() == []


def test_bytes_that_scopes_have_filled_keep_neither_head_nor_bundle_out(tmp_path, own):
    """rules L35: nor what is let go afterwards, nor a start in between"""
    with Node(tmp_path / "root", own, map_bytes=4 << 20) as node:
        node.apply(own.bundle())
        node.apply(own.snapshot(1, {"a": 1}))
        version, step = 1, 400
        while step:  # to the brim
            version += 1
            try:
                content = {"s": [version, ["x" * 1000] * step]}
                node.apply(
                    own.snapshot(1, content, "service_assignment", scope_ids=(f"s{version}",), subject_node_id=NODE)
                )
            except StoreError as error:
                assert error.fault is StoreFault.STORE_FULL
                node.store._slots.popitem()[1].drop()
                step //= 2
        scopes = [one for one in node.store.standing().active if one.startswith("service_assignment")]
        many = {
            f"service_assignment/{number:060}": ScopeVersion(1, 1, f"sha256:{number:064x}", "s")
            for number in range(3000)
        }
        node.apply(head(own, 1, many))
        assert node.store.fill_level() > 1
        node.reopen()
        node.apply(repaired_bundle(own))
        own.epoch = 2
        new = own.snapshot(1, {"a": 2})
        node.apply(head(own, 1, {SCOPE: listing(new)}))
        node.store.withdraw(*scopes, now=NOW)
        node.apply(new)
        assert node.contents() == {"a": b"2"}
        assert node.store.fill_level() < 0.5
    assert list(check(node.path, CLUSTER)) == []


def test_killed_at_each_step_of_the_repair(tmp_path, filled):
    """rules S67, L32: whatever is done by then, the repair goes through after the next start"""
    origin, own = filled.path, replace(filled.cluster)
    bundle = repaired_bundle(own)
    own.epoch = 2
    documents = [bundle, head(own, 1)]
    for at in range(1, 100):
        copy = tmp_path / f"at-{at}"
        shutil.copytree(origin, copy)

        def repair(path=copy, at=at):
            with Node(path, own, disk=DyingDisk(at=at)) as node:
                for document in documents:
                    node.apply(document)

        ended = in_a_child(repair)
        assert ended in (0, -signal.SIGKILL)
        with Node(copy, own) as node:
            for document in documents:
                held = node.store.active(document.envelope.scope)
                if held is None or held.envelope_bytes != document.envelope_bytes:
                    node.apply(document)
            assert node.store.pending() == []
            assert node.contents() == {"a": b"1"}
        assert list(check(copy, CLUSTER)) == []
        shutil.rmtree(copy)
        if ended == 0:
            return
    raise AssertionError("it never came to an end")
