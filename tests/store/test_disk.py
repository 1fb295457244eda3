"""SIGKILL at every step: rules S68, L28, L32, L36, P7, J47; threats C01, I22."""

import shutil
import signal

import pytest

from coordinator.keys import signer
from snapshot.manifest import SectionChange
from snapshot.reasons import Rejected
from snapshot.verify import Verified
from store.base import pending
from store.fsck.check import check
from tests.store.cluster import BOOT, CLUSTER, NOW, SCOPE, Cluster, Node
from tests.store.dying import DyingDisk, in_a_child

A, B = {"a": {"v": 1}, "b": "constant" * 40}, {"a": {"v": 2}, "b": "constant" * 40}


@pytest.fixture(scope="module")
def cluster():
    return Cluster()


def whole(sections):
    from coordinator.keys.signer import section_bytes

    return {name: section_bytes(value) for name, value in sections.items()}


def deaths(tmp_path, cluster, prepare, work, judge):
    """Prepare a root; then die at each step of `work` in turn, on a fresh copy, and judge what is left."""
    origin = tmp_path / "origin"
    with Node(origin, cluster) as node:
        prepare(node)
    for at in range(1, 200):
        copy = tmp_path / f"at-{at}"
        shutil.copytree(origin, copy)

        def run(path=copy, at=at):
            work(Node(path, cluster, disk=DyingDisk(at=at)))

        ended = in_a_child(run)
        assert ended in (0, -signal.SIGKILL), f"step {at} ended with {ended}"
        node = Node(copy, cluster)
        judge(node, ended)
        node.close()
        assert list(check(copy, CLUSTER)) == []
        shutil.rmtree(copy)
        if ended == 0:
            return at - 1
    raise AssertionError("it never came to an end")


def prepared(node):
    node.apply(node.cluster.bundle())
    node.apply(node.cluster.snapshot(1, A))


def test_death_within_a_flush_of_many_sections(tmp_path, cluster, monkeypatch):
    """rules S68, S66, L36: several transactions, and a slot that is whole or still receives."""
    monkeypatch.setattr(pending, "SECTIONS_AT_ONCE", 2)
    document = cluster.snapshot(2, {f"s{number}": number for number in range(9)})

    def receive(node):
        node.open()
        node.download(document)

    def whole_or_receiving(node, ended):
        node.open()
        for held in node.store.pending():
            assert held.sealed or ended != 0
            if held.sealed:
                assert isinstance(node.judge(node.store.slot(SCOPE, held.envelope_hash), "snapshot"), Verified)
        node.store.garbage.run()
        node.apply(document)
        assert node.contents() == {f"s{number}": b"%d" % number for number in range(9)}

    assert deaths(tmp_path, cluster, prepared, receive, whole_or_receiving) > 5


def test_death_while_results_of_patches_are_kept(tmp_path, cluster, monkeypatch):
    """rules S66, L36: who judges that slot again keeps the others beside those, and none goes as garbage."""
    monkeypatch.setattr(pending, "SECTIONS_AT_ONCE", 2)
    first = cluster.snapshot(1, {f"s{number}": {"x": number} for number in range(7)})
    held = {f"s{number}": signer.entry_of(signer.section_bytes({"x": number})) for number in range(7)}
    results = {name: signer.section_bytes({"x": name}) for name in held}
    brought = {name: signer.section_bytes([{"op": "replace", "path": "/x", "value": name}]) for name in held}
    changes = {
        name: SectionChange("patch", signer.entry_of(brought[name]), signer.entry_of(results[name])) for name in held
    }
    base = type("Base", (), {"envelope": first.envelope, "state": held})
    document = cluster.increment(2, base, changes, brought)

    def prepare(node):
        node.apply(node.cluster.bundle())
        node.apply(first)

    def receive(node):
        node.open()
        slot = node.download(document)
        node.judge(slot, "increment")
        slot.flush()

    def goes_on(node, ended):
        node.open()
        (slot,) = [node.store.slot(SCOPE, found.envelope_hash) for found in node.store.pending() if found.sealed] or [
            node.download(document)
        ]
        verdict = node.judge(slot, "increment")
        slot.flush()
        node.store.garbage.run()
        node.store.activate(verdict, now=NOW, boot=BOOT)
        assert node.contents() == results

    assert deaths(tmp_path, cluster, prepare, receive, goes_on) > 7


def old_or_new(cluster, following):
    def judge(node, ended):
        node.open()
        floor = node.store.floors.scopes[SCOPE].order
        assert node.contents() in ((whole(B),) if ended == 0 else (whole(A), whole(B)))
        assert floor >= node.store.active(SCOPE).version >= (1, 1)
        assert node.store.standing().lost == frozenset()
        assert not node.store.is_unfinished
        node.apply(following)
        assert node.contents() == {"a": b'{"v":3}'}

    return judge


def config(cluster, version, data):
    """A config of one raw file of two parts."""
    parts = {"raw.a.0": data[:3], "raw.a.1": data[3:]}
    files = {"a": {"sections": sorted(parts), "size": len(data), "mode": "0644"}}
    return cluster.snapshot(version, {"files": files, **parts}, "config", scope_ids=("web",), raw=parts)


def test_a_config_killed_at_every_step(tmp_path, cluster):
    """format.md 11: its raw sections are old or new, and never of both."""
    old, new, following = (
        config(cluster, version, data) for version, data in ((1, b"\x00old"), (2, b"\xffnew"), (3, b"3333"))
    )

    def prepare(node):
        node.apply(node.cluster.bundle())
        node.apply(old)

    def work(node):
        node.open()
        node.apply(new)

    def judge(node, ended):
        node.open()
        held = node.contents("config/web")
        found = held["raw.a.0"] + held["raw.a.1"]
        assert found in ((b"\xffnew",) if ended == 0 else (b"\x00old", b"\xffnew"))
        assert node.store.active("config/web").sections["raw.a.0"].is_raw
        node.apply(following)

    assert deaths(tmp_path, cluster, prepare, work, judge) == 7


def test_a_snapshot_killed_at_every_step(tmp_path, cluster):
    """rules L28, L32, P7, J47; threats C01"""
    document, following = cluster.snapshot(2, B), cluster.snapshot(3, {"a": {"v": 3}})

    def work(node):
        node.open()
        node.apply(document)

    died = deaths(tmp_path, cluster, prepared, work, old_or_new(cluster, following))
    assert died == 7  # opening, slot, four of the floors, swap


def test_an_increment_killed_at_every_step(tmp_path, cluster):
    """rules L32; threats I22"""
    following = cluster.snapshot(3, {"a": {"v": 3}})

    def work(node):
        node.open()
        held = node.store.active(SCOPE)
        base = type("Base", (), {"envelope": held.envelope, "state": held.sections})
        node.apply(cluster.setting(2, base, "a", {"v": 2}))

    deaths(tmp_path, cluster, prepared, work, old_or_new(cluster, following))


def test_two_scopes_killed_at_every_step(tmp_path, cluster):
    """rules X17: both are old, or both are new"""
    one, two = cluster.snapshot(2, B), cluster.snapshot(2, {"q": 2}, scope="qos_policy")

    def prepare(node):
        prepared(node)
        node.apply(cluster.snapshot(1, {"q": 1}, scope="qos_policy"))

    def work(node):
        node.open()
        node.store.activate(node.verified(one), node.verified(two), now=NOW, boot=BOOT)

    seen = set()

    def judge(node, ended):
        node.open()
        versions = (node.store.active(SCOPE).version, node.store.active("qos_policy").version)
        assert versions in (((1, 1), (1, 1)), ((1, 2), (1, 2)))
        seen.add(versions)
        node.apply(cluster.snapshot(3, {"a": {"v": 3}}))

    deaths(tmp_path, cluster, prepare, work, judge)
    assert len(seen) == 2


def test_a_head_and_what_it_lists_killed_at_every_step(tmp_path, cluster):
    """rules X17, L32: no head without its document, and no document without its head"""
    head, document = cluster.head(2), cluster.snapshot(2, B)

    def prepare(node):
        prepared(node)
        node.apply(cluster.head(1))

    def work(node):
        node.open()
        node.store.activate(node.verified(head), node.verified(document), now=NOW, boot=BOOT)

    seen = set()

    def judge(node, ended):
        node.open()
        versions = (node.store.active("head").version, node.store.active(SCOPE).version)
        assert versions in (((1, 1), (1, 1)), ((1, 2), (1, 2)))
        seen.add(versions)
        node.apply(cluster.head(3))
        node.apply(cluster.snapshot(3, {"a": {"v": 3}}))

    deaths(tmp_path, cluster, prepare, work, judge)
    assert len(seen) == 2


def test_after_the_floors_it_goes_forward(tmp_path, cluster):
    """rules L32; threats D-24: the commit alone is missing"""
    document = cluster.snapshot(2, B)
    with Node(tmp_path / "root", cluster) as node:
        prepared(node)
        node.verified(document)

    class DiesAtCommit(DyingDisk):
        def about_to(self, step):
            if step == "commit" and "rename" in self.steps:
                self.at = self.seen + 1
            self.steps.append(step)
            super().about_to(step)

    def work():
        disk = DiesAtCommit()
        disk.steps = []
        node = Node(tmp_path / "root", cluster, disk=disk)
        node.open()
        slot = node.store.slot(SCOPE, node.store.pending()[0].envelope_hash)
        node.store.activate(node.judge(slot, "snapshot"), now=NOW, boot=BOOT)

    assert in_a_child(work) == -signal.SIGKILL
    with Node(tmp_path / "root", cluster) as node:
        assert [(finding.happened, finding.scope) for finding in node.store.findings] == [("rolled_forward", SCOPE)]
        assert node.contents() == whole(B)
        held = node.store.active(SCOPE)
        assert held.signers == (cluster.config.key_id,)
        assert held.judged_at == NOW
        assert node.store.journal.events()[-1].event == "rolled_forward"


def test_a_recovery_killed_at_every_step(tmp_path, cluster):
    """rules S87: nonce and swap are one; a nonce is never free again once the swap is done. The floors know where it
    has led to: what was given up does not come back when the store is lost
    """
    old, given_up = cluster.snapshot(1, A), cluster.snapshot(2, B)

    def prepare(node):
        node.apply(cluster.bundle())
        node.apply(old)
        node.apply(given_up)
        node.store.keep_recovery(node.verified_alone(cluster.recovery(2, old)), now=NOW)

    def work(node):
        node.open()
        node.apply(old)

    def judge(node, ended):
        node.open()
        back = node.contents() == whole(A)
        assert back or node.contents() == whole(B)
        assert ("n1" in node.store.standing().used_nonces) == back
        assert node.store.standing().marks[SCOPE].config_version == 2
        assert node.store.standing().lost == frozenset()
        if not back:
            node.apply(old)
        assert node.contents() == whole(A)
        node.close()
        shutil.rmtree(node.path / "clusters" / CLUSTER / "store")
        node.open()
        node.apply(cluster.bundle())
        with pytest.raises(Rejected):
            node.judge(node.download(given_up), "snapshot")
        node.apply(old)
        assert node.contents() == whole(A)

    deaths(tmp_path, cluster, prepare, work, judge)


def test_garbage_collection_killed_at_every_step(tmp_path, cluster):
    """rules L36"""

    def prepare(node):
        prepared(node)
        for version in (2, 3):
            node.apply(cluster.snapshot(version, A | {"c": "x" * 5000 + str(version)}))
        node.store.set(b"garbage")

    def work(node):
        node.open()
        node.store.garbage.run()

    def judge(node, ended):
        node.open()
        assert node.contents()["b"] == whole(A)["b"]
        node.store.garbage.run()
        with node.store.read() as reading:
            previous = reading.previous(SCOPE)
            assert all(previous.read(name) for name in previous.sections)

    assert deaths(tmp_path, cluster, prepare, work, judge) >= 2


def test_the_first_start_killed_at_every_step(tmp_path, cluster):
    """rules L31: a first start that died is a first start, and no damage"""
    for at in range(1, 100):
        path = tmp_path / f"at-{at}"

        def run(path=path, at=at):
            Node(path, cluster, disk=DyingDisk(at=at)).open()

        ended = in_a_child(run)
        with Node(path, cluster) as node:
            assert {finding.happened for finding in node.store.findings} <= {"floor_repaired"}
            assert not node.store.is_floor_lost
            node.apply(cluster.bundle())
        assert list(check(path, CLUSTER)) == []
        if ended == 0:
            break
    assert at > 20


def test_a_rebuild_killed_at_every_step(tmp_path, cluster):
    """rules L33"""

    def prepare(node):
        prepared(node)

    def work(node):
        (node.path / "clusters" / CLUSTER / "store" / "data.mdb").write_bytes(b"")
        node.open()

    def judge(node, ended):
        node.open()
        assert node.store.standing().marks[SCOPE].config_version == 1
        if node.contents() is None:
            node.apply(cluster.bundle())
            node.apply(cluster.snapshot(2, B))
        assert node.store.floors.scopes[SCOPE].order >= (1, 1)

    deaths(tmp_path, cluster, prepare, work, judge)
