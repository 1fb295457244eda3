"""Pending becomes active: rules S66, S67, S87, L28, L32; threats D-16, D-24, D-27."""

from dataclasses import replace

import pytest

from coordinator.keys import signer
from snapshot.container import ChunkParts
from snapshot.manifest import ScopeVersion, SectionChange
from snapshot.reasons import Rejected
from snapshot.signature import pae  # noqa: F401 - proves that the agent's side can be imported without a signer
from snapshot.verify import AlreadyApplied, verify
from store.base.disk import Disk
from store.base.errors import StoreError, StoreFault
from store.base.records import name_of
from store.base.tables import Name
from tests.fakes.signed import signed_head
from tests.store.cluster import BOOT, CLUSTER, DAY, NODE, NOW, SCOPE, Cluster, Node

SECTIONS = {"a": {"x": 1}, "b": {"y": "z" * 300}}


def record_of(node, scope=SCOPE):
    with node.store.read() as reading:
        return reading.scope(scope)


def refused(call, fault):
    with pytest.raises(StoreError) as caught:
        call()
    assert caught.value.fault is fault


class Steps(Disk):
    """Notes the order of what is written."""

    def __init__(self):
        self.seen = []

    def about_to(self, step):
        self.seen.append(step)


def test_a_snapshot_is_pending_then_active(node, cluster):
    """rules S66, S67"""
    document = cluster.snapshot(1, SECTIONS)
    slot = node.download(document)
    assert node.store.active(SCOPE) is None
    verdict = node.judge(slot, "snapshot")
    before = node.store.watch.generation
    assert node.store.activate(verdict, now=NOW, boot=BOOT) == before + 1
    held = node.store.active(SCOPE)
    assert held.envelope == document.envelope
    assert held.envelope_hash == verdict.envelope_hash
    assert (held.envelope_bytes, held.signatures) == (document.envelope_bytes, document.signatures)
    assert held.manifest_bytes == held.state_bytes == document.manifest_bytes
    assert held.signers == (cluster.config.key_id,)
    assert held.judged_at == NOW
    assert held.content_hash == document.envelope.content_hash
    assert node.contents() == {"a": b'{"x":1}', "b": b'{"y":"' + b"z" * 300 + b'"}'}
    record = record_of(node)
    assert (record.order, record.expires_at) == ((1, 1), document.envelope.expires_at)
    assert node.store.pending() == []
    event = node.store.journal.events()[-1]
    assert (event.event, event.scope, event.at) == ("applied", SCOPE, NOW)


def test_everything_survives_a_restart(node, cluster):
    """rules S84, L1"""
    node.apply(cluster.snapshot(1, SECTIONS))
    before = (node.store.standing().marks, node.contents(), node.store.watch.generation, node.store.incarnation)
    node.reopen()
    assert (node.store.standing().marks, node.contents(), node.store.watch.generation, node.store.incarnation) == before
    assert node.store.findings == ()


def test_the_previous_is_kept(node, cluster):
    """rules S66"""
    one, two = node.apply(cluster.snapshot(1, SECTIONS)), node.apply(cluster.snapshot(2, {"a": {"x": 2}}))
    with node.store.read() as reading:
        assert reading.active(SCOPE).envelope_hash == two.envelope_hash
        assert reading.previous(SCOPE).envelope_hash == one.envelope_hash
        assert reading.previous(SCOPE).read("b") == b'{"y":"' + b"z" * 300 + b'"}'


def test_a_renewal_of_equal_content_is_no_new_previous(node, cluster):
    """rules S66, L34: what is kept to fall back to is the last other content"""
    one = node.apply(cluster.snapshot(1, SECTIONS))
    for version in (2, 3, 4):
        two = node.apply(cluster.snapshot(version, {"a": {"x": 2}}))
    with node.store.read() as reading:
        assert reading.active(SCOPE).envelope_hash == two.envelope_hash
        assert reading.previous(SCOPE).envelope_hash == one.envelope_hash
    node.store.garbage.run()
    with node.store.read() as reading:
        assert reading.previous(SCOPE).read("b") == b'{"y":"' + b"z" * 300 + b'"}'
    node.apply(cluster.snapshot(5, SECTIONS))
    with node.store.read() as reading:
        assert reading.previous(SCOPE).envelope_hash == two.envelope_hash, "the last signing of the other content"


def test_floors_are_durable_before_the_one_transaction(tmp_path, cluster):
    """rules L32; threats D-24: write, fsync, rename, fsync of the directory, then exactly one commit"""
    node = Node(tmp_path / "root", cluster, disk=Steps())
    with node:
        node.apply(cluster.bundle())
        verdict = node.verified(cluster.snapshot(1, SECTIONS))
        node.disk.seen.clear()
        node.store.activate(verdict, now=NOW, boot=BOOT)
        assert node.disk.seen == ["write", "fsync", "rename", "fsync_directory", "commit"]
        assert node.store.floors.scopes[SCOPE].envelope_hash == verdict.envelope_hash


def test_an_increment_shares_what_it_does_not_change(node, cluster):
    """rules L28, S26; threats D-27"""
    base = node.apply(cluster.snapshot(1, SECTIONS))
    with node.store._environment.read() as transaction:
        before = transaction.count("sections")
    step = node.apply(cluster.setting(2, base, "a", {"x": 2}))
    assert node.contents()["a"] == b'{"x":2}'
    assert node.contents()["b"] == b'{"y":"' + b"z" * 300 + b'"}'
    held = node.store.active(SCOPE)
    assert held.content_hash == step.envelope.next_content_hash
    assert held.manifest_bytes != held.state_bytes
    with node.store._environment.read() as transaction:
        assert transaction.count("sections") == before + 3  # the section, the changes, the state
    node.reopen()
    assert node.contents()["a"] == b'{"x":2}'


def test_a_patch_keeps_its_result(node, cluster):
    """rules S33; threats I22"""

    base = node.apply(cluster.snapshot(1, SECTIONS))
    operations = signer.section_bytes([{"op": "replace", "path": "/x", "value": 5}])
    change = SectionChange("patch", signer.entry_of(operations), signer.entry_of(b'{"x":5}'))
    node.apply(cluster.increment(2, base, {"a": change}, {"a": operations}))
    assert node.contents()["a"] == b'{"x":5}'
    node.store.garbage.run()
    node.reopen()
    assert node.contents()["a"] == b'{"x":5}'


def test_a_removal(node, cluster):
    base = node.apply(cluster.snapshot(1, SECTIONS))
    node.apply(cluster.increment(2, base, {"a": SectionChange("remove", None, None)}, {}))
    assert list(node.contents()) == ["b"]


def test_a_document_verified_straight_from_its_stream(node, cluster):
    """The slot keeps what the verifier hands over, and is sealed by the activation."""
    document = cluster.snapshot(1, SECTIONS)
    slot = node.store.receive(SCOPE, now=NOW)
    verdict = verify(ChunkParts(document.chunks()), node.holder(), kind="snapshot", now=NOW, keep=slot.keep)
    assert node.store.activate(verdict, now=NOW, boot=BOOT) == 2
    assert sorted(node.contents()) == ["a", "b"]


def test_without_its_bytes_nothing_is_activated(node, cluster):
    """rules L28: what a slot does not hold cannot be rolled forward"""
    verdict = node.verified_alone(cluster.snapshot(1, SECTIONS))
    floors = node.store.floors
    refused(lambda: node.store.activate(verdict, now=NOW, boot=BOOT), StoreFault.NOT_DURABLE)
    assert node.store.floors == floors
    assert node.contents() is None
    node.apply(cluster.snapshot(2, SECTIONS))


@pytest.mark.parametrize("thing", [None, "a verified", object(), b""])
def test_only_a_verified_is_activated(node, thing):
    """rules S67, L3"""
    with pytest.raises(TypeError):
        node.store.activate(thing, now=NOW, boot=BOOT)
    with pytest.raises(TypeError):
        node.store.activate(now=NOW, boot=BOOT)


def test_several_scopes_are_one_transaction(node, cluster):
    """rules X17; architecture, Store"""
    one = node.verified(cluster.snapshot(1, {"a": 1}))
    two = node.verified(cluster.snapshot(1, {"q": 2}, scope="qos_policy"))
    generation = node.store.watch.generation
    assert node.store.activate(one, two, now=NOW, boot=BOOT) == generation + 1
    with node.store.read() as reading:
        assert reading.scope(SCOPE).generation == reading.scope("qos_policy").generation == generation + 1


def test_several_scopes_or_none(node, cluster):
    """rules K46, X17: one of two conflicts, neither is swapped"""
    one = node.verified(cluster.snapshot(1, {"a": 1}))
    two = node.verified(cluster.snapshot(1, {"q": 2}, scope="qos_policy"))
    node.store.activate(two, now=NOW, boot=BOOT)
    generation = node.store.watch.generation
    refused(lambda: node.store.activate(one, two, now=NOW, boot=BOOT), StoreFault.CONFLICT)
    assert node.store.active(SCOPE) is None
    assert node.store.watch.generation == generation
    assert SCOPE not in node.store.floors.scopes
    node.store.activate(node.verified(cluster.snapshot(1, {"a": 1})), now=NOW, boot=BOOT)


def test_get_and_set(node):
    """seed 004; rules L29"""
    name = node.store.set(b"some bytes")
    assert node.store.get(name) == b"some bytes"
    refused(lambda: node.store.get(name_of(bytes(32))), StoreFault.NOT_FOUND)


def test_what_is_active_is_what_it_was_verified_against(node, cluster):
    """rules L28: an older verdict does not overwrite a newer swap"""
    base = node.apply(cluster.snapshot(1, SECTIONS))
    step = node.verified(cluster.setting(2, base, "a", {"x": 2}))
    node.apply(cluster.snapshot(3, {"a": {"x": 3}}))
    refused(lambda: node.store.activate(step, now=NOW, boot=BOOT), StoreFault.CONFLICT)
    assert node.contents() == {"a": b'{"x":3}'}


def test_an_increment_on_another_base_is_a_conflict(node, cluster):
    """rules S26, L28"""
    base = node.apply(cluster.snapshot(1, SECTIONS))
    step = node.verified(cluster.setting(5, base, "a", {"x": 2}))
    node.apply(cluster.snapshot(3, {"a": {"x": 3}}))
    refused(lambda: node.store.activate(step, now=NOW, boot=BOOT), StoreFault.CONFLICT)


def test_the_same_again_is_no_activation(node, cluster):
    """threats V04"""
    document = cluster.snapshot(1, SECTIONS)
    verdict = node.apply(document)
    assert isinstance(node.judge(node.download(document), "snapshot"), AlreadyApplied)
    refused(lambda: node.store.activate(verdict, now=NOW, boot=BOOT), StoreFault.CONFLICT)


def test_a_recovery_goes_back_once_and_the_mark_stays(node, cluster):
    """rules S31, S87; threats D-16"""
    old = cluster.snapshot(1, {"a": 1})
    node.apply(old)
    node.apply(cluster.snapshot(2, {"a": 2}))
    with pytest.raises(Rejected):
        node.judge(node.download(old), "snapshot")
    node.store.keep_recovery(node.verified_alone(cluster.recovery(2, old)), now=NOW)
    node.reopen()
    node.apply(old)
    assert node.contents() == {"a": b"1"}
    assert record_of(node).order == (1, 2)
    assert record_of(node).previous is None, "what was given up is not kept to fall back to"
    standing = node.store.standing()
    assert standing.used_nonces == {"n1"} == node.store.floors.used_nonces
    assert standing.marks[SCOPE].config_version == 2
    assert standing.lost == frozenset()
    node.reopen()
    assert node.store.findings == ()
    assert node.contents() == {"a": b"1"}
    assert len(node.store.standing().recoveries) == 1  # for the check at start
    node.apply(cluster.snapshot(3, {"a": 3}))
    assert node.store.standing().recoveries == ()
    assert node.store.standing().used_nonces == {"n1"}
    with pytest.raises(Rejected):
        node.judge(node.download(old), "snapshot")


def test_a_recovery_is_kept_never_active(node, cluster):
    """rules S87"""
    old = cluster.snapshot(1, {"a": 1})
    node.apply(old)
    node.apply(cluster.snapshot(2, {"a": 2}))
    verdict = node.verified_alone(cluster.recovery(2, old))
    refused(lambda: node.store.activate(verdict, now=NOW, boot=BOOT), StoreFault.CONFLICT)
    with pytest.raises(TypeError):
        node.store.keep_recovery(node.verified(cluster.snapshot(3, {"a": 3})), now=NOW)


def test_a_head_is_a_scope_without_sections(node, cluster):
    """rules S16"""
    node.apply(cluster.head(1))
    node.apply(cluster.head(2))
    held = node.store.active("head")
    assert held.sections == {}
    assert held.envelope.config_version == 2
    assert b'"generation":2' in held.state_bytes
    with pytest.raises(KeyError):
        held.read("a")


def test_bundle_raises_version_epoch_and_time(node, cluster):
    """threats D-21, D-24"""
    floors = node.store.floors
    assert (floors.bundle_version, floors.authority_epoch) == (1, 1)
    assert floors.time_floor.time == NOW - 60
    node.apply(cluster.bundle(2, announced=3, issued_at=NOW - 500))
    assert (node.store.floors.bundle_version, node.store.floors.authority_epoch) == (2, 3)
    assert node.store.time_floor.time == NOW - 500  # a higher epoch sets it back
    node.apply(cluster.snapshot(1, {"a": 1}, issued_at=NOW - 100))
    assert node.store.time_floor.time == NOW - 100
    node.apply(cluster.snapshot(2, {"a": 2}, issued_at=NOW - 300))
    assert node.store.time_floor.time == NOW - 100
    node.reopen()
    assert node.store.time_floor.time == NOW - 100


def test_the_time_floor_is_saved_at_check_ins(node):
    """rules A17"""
    later = replace(BOOT, elapsed=BOOT.elapsed + 50)
    node.store.save_time_floor(later)
    assert node.store.time_floor.time == NOW - 10
    node.reopen()
    assert node.store.time_floor.at(replace(later, boot_id="another")) == NOW - 10


def test_a_time_floor_that_was_just_written_is_not_written_again(node, cluster):
    """rules A17: of less than a second nothing that is compared with it tells; in another boot it is written"""
    node.apply(cluster.snapshot(1, {"a": 1}))
    written = node.store.floors.sequence
    node.store.save_time_floor(replace(BOOT, elapsed=BOOT.elapsed + 0.5))
    assert node.store.floors.sequence == written
    node.store.save_time_floor(replace(BOOT, elapsed=BOOT.elapsed + 1.5))
    assert node.store.floors.sequence == written + 1
    node.store.save_time_floor(replace(BOOT, boot_id="another"))
    assert node.store.floors.sequence == written + 2


def test_rows_for_people_are_written_with_the_swap_and_never_keep_it_from_being(node, cluster):
    """rules L3: who asks where a document came from is told of the one that is active"""
    verified = node.judge(node.download(cluster.snapshot(1, {"a": 1})), "snapshot")
    health = node.store.table(Name.HEALTH)
    node.store.activate(verified, now=NOW, boot=BOOT, beside={"origins": {SCOPE: "here"}, "large": "x" * (1 << 20)})
    assert health.items() == {"origins": {SCOPE: "here"}}
    assert node.store.active(SCOPE) is not None


def test_withdrawal_is_one_transaction_and_the_mark_stays(node, cluster):
    """rules S3"""
    node.apply(cluster.snapshot(1, {"a": 1}))
    document = cluster.snapshot(2, {"a": 2})
    node.apply(document)
    node.download(cluster.snapshot(3, {"a": 3}))
    generation = node.store.watch.generation
    assert node.store.withdraw(SCOPE, now=NOW) == generation + 1
    assert node.store.active(SCOPE) is None
    assert node.store.pending() == []
    assert node.store.standing().marks[SCOPE].config_version == 2
    assert node.store.journal.events()[-1].event == "withdrawn"
    node.reopen()
    assert node.store.findings == ()
    assert node.store.active(SCOPE) is None
    with pytest.raises(Rejected):
        node.judge(node.download(cluster.snapshot(1, {"a": 1})), "snapshot")
    node.apply(document)  # listed again, same version: taken again
    assert node.contents() == {"a": b"2"}


def test_a_full_snapshot_of_a_higher_epoch_and_lower_version(node, cluster):
    """threats T18; rules X6"""
    node.apply(cluster.snapshot(9, {"a": 1}))
    node.apply(cluster.bundle(2, announced=2))
    node.apply(cluster.snapshot(1, {"a": 2}, authority_epoch=2))
    assert record_of(node).order == (2, 1)
    node.reopen()
    assert node.store.findings == ()


def test_a_scope_name_longer_than_a_key(node, cluster):
    """threats D-37: LMDB's keys have 511 bytes, a scope name may have thousands"""
    ids = tuple(sorted(f"{'x' * 60}{number:03d}" for number in range(64)))
    verdict = node.apply(cluster.snapshot(1, {"a": 1}, scope_ids=ids))
    assert len(verdict.scope) > 4000
    assert node.store.active(verdict.scope).read("a") == b"1"


def test_enrolment_sets_the_least_and_is_written_once(node, cluster):
    """threats D-19; rules L12, L40"""
    from store.base.enrolment import Enrolment

    enrolled = Enrolment(CLUSTER, NODE, {cluster.root.key_id: "AAAA"}, 1, 5, 7, NOW + 5, "configuration", NOW)
    node.store.enrol(enrolled)
    file = node.store.paths.identity / "enrolment.rec"
    assert file.stat().st_mode & 0o777 == 0o400
    floors = node.store.floors
    assert (floors.authority_epoch, floors.bundle_version, floors.time_floor.time) == (5, 7, NOW + 5)
    refused(lambda: node.store.enrol(replace(enrolled, node_id="node-2")), StoreFault.CONFLICT)
    node.store.enrol(replace(enrolled, confirmed=True))
    node.reopen()
    assert node.store.enrolment == replace(enrolled, confirmed=True)
    assert node.store.findings == ()


def test_readers_keep_what_they_began_with(node, cluster):
    """rules P3; threats D-45, C12"""
    node.apply(cluster.snapshot(1, {"a": 1}))
    with node.store.read() as reading:
        first = reading.active(SCOPE)
        for version in (2, 3, 4):
            node.apply(cluster.snapshot(version, {"a": version}))
        node.store.garbage.run()
        assert reading.generation == 2
        assert reading.active(SCOPE).read("a") == first.read("a") == b"1"
    with node.store.read() as reading:
        assert reading.active(SCOPE).read("a") == b"4"


def test_a_stranger_cluster_signs_nothing_here(node):
    with pytest.raises(Rejected):
        node.judge(node.download(Cluster().snapshot(1, {"a": 1})), "snapshot")
    assert node.store.active(SCOPE) is None


def test_expiry_is_kept_for_each_scope(node, cluster):
    """rules S16"""
    node.apply(cluster.snapshot(1, {"a": 1}, expires_at=NOW + DAY))
    node.apply(cluster.snapshot(1, {"a": 1}, scope="qos_policy", expires_at=NOW + 2 * DAY))
    assert (record_of(node).expires_at, record_of(node, "qos_policy").expires_at) == (NOW + DAY, NOW + 2 * DAY)


def test_a_head_issued_again_raises_no_generation(node, cluster):
    """rules X17; protocol.md 4: only what a reader could read anew counts; the head itself is the new one."""
    node.apply(cluster.head(1))
    generation = node.store.watch.generation
    node.apply(cluster.head(2))
    assert node.store.watch.generation == generation
    assert node.store.active("head").envelope.config_version == 2
    listed = {SCOPE: ScopeVersion(1, 1, "sha256:" + "0" * 64, "s-1")}
    claims = cluster.claims("head", 3, subject_node_id=NODE)
    node.apply(signed_head(claims, listed, [cluster.config]))
    assert node.store.watch.generation == generation + 1
