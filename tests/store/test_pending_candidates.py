"""Candidates in their slots: beside what is to run, bounded by themselves, and the first to give way."""

from dataclasses import replace

import pytest

from coordinator.keys import signer
from snapshot.container import Opening
from snapshot.manifest import ScopeVersion, SectionChange
from snapshot.verify import NotYetValid, Verified
from store.base import pending
from store.base.errors import StoreError, StoreFault
from store.base.pending import CANDIDATES_SHARE, MOST_CANDIDATES, SECTIONS_AT_ONCE, Pending
from store.base.records import PendingRecord, digest_from_name
from store.fsck.check import check
from tests.fakes.signed import signed_head
from tests.store.cluster import BOOT, CLUSTER, DAY, NODE, NOW, SCOPE, Node
from tests.store.dying import FailingDisk
from tests.store.filling import fill_slots, receive

OTHER = "qos_policy"
PLENTY = 1 << 30


def candidate(node, document, room=PLENTY) -> Pending:
    """Received whole and judged once, as the agent does."""
    slot = receive(node.store.receive_candidate(document.envelope.scope, room=room), document)
    assert isinstance(node.judge(slot, document.envelope.kind), Verified)
    slot.flush()
    return slot


def slot_of(node, scope=SCOPE) -> Pending:
    return node.store.slot(scope, node.store.candidates().by_scope[scope].envelope_hash)


def held(node) -> set[str]:
    return set(node.store.candidates().by_scope)


def listed(document, **changes) -> ScopeVersion:
    envelope = document.envelope
    return replace(ScopeVersion(*envelope.version, envelope.state_hash, envelope.snapshot_id), **changes)


def say(node, generation, scopes=(), candidates=()) -> None:
    """A head."""
    claims = node.cluster.claims("head", generation, subject_node_id=NODE)
    node.apply(signed_head(claims, dict(scopes), [node.cluster.config], candidates=dict(candidates)))


@pytest.fixture
def node(node):
    """Whatever a test has done, the store is sound."""
    yield node
    node.close()
    assert list(check(node.path, CLUSTER)) == []


def test_it_lies_beside_what_is_received_and_what_waits_and_outlives_the_process(node, cluster):
    """rules L39, X26: none of the three evicts another"""
    node.apply(cluster.snapshot(1, {"a": 1}))
    waits = node.download(cluster.snapshot(3, {"a": 3}, valid_from=NOW + 9, refresh_after=NOW + 9))
    assert isinstance(node.judge(waits, "snapshot"), NotYetValid)
    waits.wait(NOW + 9)
    runs = node.download(cluster.snapshot(2, {"a": 2}))
    comes = candidate(node, cluster.snapshot(4, {"a": 4}))
    assert {each.envelope_hash for each in node.store.pending()} == {
        slot.envelope_hash for slot in (waits, runs, comes)
    }
    newer = candidate(node, cluster.snapshot(5, {"a": 5}))
    runs.drop()
    assert {each.envelope_hash for each in node.store.pending()} == {waits.envelope_hash, newer.envelope_hash}
    node.reopen()
    assert isinstance(node.judge(slot_of(node), "snapshot"), Verified)
    assert node.contents() == {"a": b"1"}
    assert node.store.standing().marks[SCOPE].config_version == 1


def test_it_becomes_active_out_of_its_slot(node, cluster):
    node.apply(cluster.snapshot(1, {"a": 1}))
    candidate(node, cluster.snapshot(2, {"a": 2, "b": 3}))
    node.reopen()
    node.store.activate(node.judge(slot_of(node), "snapshot"), now=NOW, boot=BOOT)
    assert node.contents() == {"a": b"2", "b": b"3"}
    assert node.store.pending() == []


def test_what_an_increment_leads_to_is_kept_and_judged_again_without_growing(node, cluster):
    base = node.apply(cluster.snapshot(1, {"a": {"x": 1}, "b": 2}))
    brought = signer.section_bytes([{"op": "add", "path": "/y", "value": 2}])
    entry, result = signer.entry_of(brought), signer.entry_of(signer.section_bytes({"x": 1, "y": 2}))
    made = cluster.increment(2, base, {"a": SectionChange("patch", entry, result)}, {"a": brought})
    candidate(node, made)
    room = node.store.candidates().room
    for _ in range(3):
        node.reopen()
        slot = slot_of(node)
        verdict = node.judge(slot, "increment")
        slot.flush()
        assert node.store.candidates().room == room
    node.store.garbage.run()
    node.store.activate(verdict, now=NOW, boot=BOOT)
    assert node.contents() == {"a": b'{"x":1,"y":2}', "b": b"2"}


def test_there_are_so_many_and_no_more_and_they_take_no_slot_of_what_is_to_run(node, cluster):
    """rules L39: a candidate keeps nothing out, and nothing keeps a candidate out but other candidates"""
    document = cluster.snapshot(2, {"a": 2})
    with node.store._environment.write() as transaction:
        for number in range(MOST_CANDIDATES):
            record = PendingRecord(f"config/c{number}", candidate=True)
            write = lambda change, _: change(transaction)  # noqa: E731
            receive(Pending(node.store._environment, write, None, record, node.holder().limits), document)
    with pytest.raises(StoreError, match=f"at most {MOST_CANDIDATES} candidates"):
        candidate(node, document)
    node.apply(document)
    node.store.drop_candidates(["config/c7", "config/unknown"])
    candidate(node, cluster.snapshot(3, {"a": 3}))
    assert len(held(node)) == MOST_CANDIDATES
    node.store.drop_candidates(held(node))
    fill_slots(node.store, cluster.snapshot(9, {"a": 9}, valid_from=NOW + DAY, refresh_after=NOW + DAY))
    candidate(node, cluster.snapshot(4, {"a": 4}))


def test_they_take_so_much_and_no_more(node, cluster):
    assert node.store.candidates().room == node.map_bytes // CANDIDATES_SHARE
    node.apply(cluster.snapshot(1, {"a": 1}))
    with pytest.raises(StoreError) as caught:
        candidate(node, cluster.snapshot(2, {"a": "x" * 5000}), room=5000)
    assert caught.value.fault is StoreFault.TOO_LARGE
    candidate(node, cluster.snapshot(2, {"a": "x" * 4000}), room=5000)
    assert 0 < node.map_bytes // CANDIDATES_SHARE - node.store.candidates().room < 6000


@pytest.mark.parametrize("done", [1, 2, 3])
def test_what_a_death_leaves_of_one_takes_no_room(node, cluster, done):
    """rules L39: the process dies between the transactions in which one is made durable. Nobody goes on with it, so the
    next start lets it go: it would take room from others, and from itself when it is fetched again.
    """
    sections = {f"s{number:04}": f"{number:04}" * 500 for number in range(4 * SECTIONS_AT_ONCE)}
    document = cluster.snapshot(2, sections)
    room = node.store.candidates().room
    slot = node.store.receive_candidate(SCOPE, room=PLENTY)
    write, written = slot._write, []

    def dying(change, room) -> None:
        if len(written) == done:
            raise Died
        written.append(write(change, room))

    slot._write = dying
    with pytest.raises(Died):
        receive(slot, document)
    assert [(lying.scope, lying.sealed) for lying in node.store.pending()] == [(SCOPE, False)]
    node.reopen()
    assert (node.store.pending(), node.store.candidates().room) == ([], room)
    whole = candidate(node, document)
    node.reopen()
    assert (held(node), room - node.store.candidates().room) == ({SCOPE}, whole.record.size)


class Died(Exception):
    pass


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OSError(5, "failed")], ids=["ENOSPC", "EIO"])
def test_a_disk_that_does_not_let_one_go_keeps_no_node_from_starting(tmp_path, cluster, error):
    """rules A14, L35: what fills a disk is often what a death then leaves half received."""
    with Node(tmp_path / "root", cluster, disk=FailingDisk()) as node:
        node.apply(cluster.bundle())
        node.apply(cluster.snapshot(1, {"a": 1}))
        node.disk.seen.clear()
        node.reopen()
        usual = len(node.disk.seen)
        slot = node.store.receive_candidate(SCOPE, room=PLENTY)
        slot.receive(Opening(b"of a candidate", ()))
        slot.flush()
        node.close()
        node.disk.fail(usual + 1, error)
        node.open()
        assert node.contents() == {"a": b"1"}
        assert [(lying.scope, lying.sealed) for lying in node.store.pending()] == [(SCOPE, False)]
        node.disk.broken = False
        node.reopen()
        assert node.store.pending() == []


def big(cluster, version, scope, letter, mebibytes):
    sections = {f"s{number}": {"n": number, "l": [letter * 50_000] * 10} for number in range(2 * mebibytes)}
    return cluster.snapshot(version, sections, scope)


def test_they_go_first_where_there_is_no_room_and_nothing_goes_for_them(tmp_path, cluster):
    """rules L35: what is to run finds room; a candidate that finds none is not taken, and all else stays"""
    with Node(tmp_path / "root", cluster, map_bytes=48 << 20) as node:
        node.apply(cluster.bundle())
        node.apply(big(cluster, 1, SCOPE, "a", 14))
        candidate(node, big(cluster, 1, OTHER, "b", 10))
        node.apply(big(cluster, 2, SCOPE, "c", 14))
        assert held(node) == {OTHER}
        with pytest.raises(StoreError) as caught:
            candidate(node, big(cluster, 3, SCOPE, "d", 18))
        assert caught.value.fault is StoreFault.STORE_FULL
        node.store.drop_candidates([SCOPE])
        assert b"ccc" in node.contents()["s0"]
        assert node.store.standing().active[SCOPE].envelope.config_version == 2
        assert held(node) == {OTHER}, "nor does one candidate for another"
        node.apply(big(cluster, 3, SCOPE, "e", 12))
        assert held(node) == set()


def test_the_one_that_becomes_active_is_spared(node, cluster):
    slots = [candidate(node, cluster.snapshot(1, {"a": 1}, scope)) for scope in (SCOPE, OTHER)]
    spared = {digest_from_name(slots[0].envelope_hash)}
    with node.store._environment.write() as transaction:
        assert pending.let_candidates_go(transaction, spared) == (OTHER,)
    assert held(node) == {SCOPE}


def test_one_that_gives_way_while_it_comes_in_is_not_half_there(node, cluster):
    slot = node.store.receive_candidate(SCOPE, room=PLENTY)
    document = cluster.snapshot(2, {f"s{number}": [str(number) * 50_000] * 19 for number in range(6)})
    with pytest.raises(StoreError) as caught:
        _give_way_in_the_middle(node, slot, document)
    assert caught.value.fault is StoreFault.STORE_FULL
    assert node.store.pending() == []
    candidate(node, document)


def _give_way_in_the_middle(node, slot, document) -> None:
    take = slot.receive

    def taking(part) -> None:
        take(part)
        if slot.slot is not None:
            node.store.drop_candidates([SCOPE])

    slot.receive = taking
    receive(slot, document)


def test_one_whose_time_has_not_come_at_its_release_waits_as_any_other(node, cluster):
    """rules X26"""
    node.apply(cluster.snapshot(1, {"a": 1}))
    slot = receive(
        node.store.receive_candidate(SCOPE, room=PLENTY),
        cluster.snapshot(2, {"a": 2}, valid_from=NOW + 9, refresh_after=NOW + 9),
    )
    slot.wait(NOW + 9)
    assert (held(node), set(node.store.waiting())) == (set(), {SCOPE})


@pytest.mark.parametrize("where", ["candidates", "scopes"])
def test_it_stays_as_long_as_the_head_lists_exactly_it(node, cluster, where):
    """to come or to be run: so a release finds it"""
    one, two = cluster.snapshot(1, {"a": 1}), cluster.snapshot(2, {"a": 2})
    node.apply(one)
    candidate(node, two)
    candidate(node, cluster.snapshot(2, {"q": 2}, OTHER))
    say(node, 2, **{"scopes": {SCOPE: listed(one)}, where: {SCOPE: listed(two)}})
    assert held(node) == {SCOPE}, "another, that is not listed, is gone"
    say(node, 3, {SCOPE: listed(one)}, {SCOPE: listed(two, content_hash="sha256:" + "0" * 64)})
    assert held(node) == set()


def test_a_withdrawal_takes_it_along(node, cluster):
    """rules S3"""
    node.apply(cluster.snapshot(1, {"a": 1}))
    candidate(node, cluster.snapshot(2, {"a": 2}))
    node.store.withdraw(SCOPE, now=NOW)
    assert held(node) == set()


def test_a_damaged_one_is_taken_out_at_the_start(node, cluster):
    """rules L34"""
    slot = candidate(node, cluster.snapshot(2, {"a": 2}))
    with node.store._environment.write() as transaction:
        for digest in pending.digests(transaction, slot.slot, slot.record):
            transaction.delete("sections", digest)
    node.reopen()
    assert held(node) == set()
    candidate(node, cluster.snapshot(3, {"a": 3}))
    assert held(node) == {SCOPE}
