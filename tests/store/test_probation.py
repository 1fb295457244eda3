"""New content on probation, and the way back: rules L28, L32, L34, L35, L36, S86, S87."""

import json
import shutil
from dataclasses import replace

import pytest

from snapshot.reasons import Reason, Rejected
from store.base import failed_content
from store.base.errors import StoreError, StoreFault
from store.base.probation import MOST_CRASHES, MOST_REBOOTS, left_s
from store.base.records import ProbationRecord, ProbationTerms, name_of, pack
from store.base.timefloor import Boot
from store.fsck.check import check
from tests.store.cluster import BOOT, CLUSTER, DAY, NOW, SCOPE, Cluster, Node
from tests.store.dying import FailingDisk

TERMS = ProbationTerms(60.0)
A, B, C, Z = ({"a": {"x": letter}, "b": letter * 300} for letter in "ABCZ")
OTHER = "qos_policy"


def try_out(node, version, sections, scope=SCOPE, terms=TERMS, now=NOW, **changes):
    """Active on probation."""
    verdict = node.verified(node.cluster.snapshot(version, sections, scope, **changes), now)
    node.store.activate(verdict, now=now, boot=BOOT, probations={scope: terms})
    return verdict


def failing(node, *scopes, now=NOW + 5, **more):
    return node.store.revert(*(scopes or (SCOPE,)), check="web", detail="exit 1", now=now, **more)


def good_contents(node, scope=SCOPE):
    with node.store.read() as reading:
        return [name_of(entry.content) for entry in reading.good(scope)]


def probations(node):
    return dict(node.store.standing().probations)


def content(node, sections):
    return node.cluster.snapshot(999, sections).envelope.content_hash


def is_served(node, sections, scope=SCOPE):
    held = node.store.active(scope)
    return held is not None and held.content_hash == content(node, sections)


@pytest.fixture
def tried(node):
    """Z and A are good, B is on probation."""
    node.apply(node.cluster.snapshot(1, Z))
    node.apply(node.cluster.snapshot(2, A))
    try_out(node, 3, B)
    return node


# ---- what is good


def test_what_comes_without_probation_is_good_at_once(node, cluster):
    for version, sections in enumerate((Z, A, B, C), 1):
        node.apply(cluster.snapshot(version, sections))
    assert good_contents(node) == [content(node, sections) for sections in (C, B, A)]
    assert probations(node) == {}


def test_good_moves_by_a_passed_probation_alone(tried):
    assert good_contents(tried) == [content(tried, A), content(tried, Z)]
    assert probations(tried)[SCOPE].until == NOW + 60
    generation = tried.store.watch.generation
    assert tried.store.pass_probation(SCOPE, now=NOW + 60) == (SCOPE,)
    assert good_contents(tried) == [content(tried, sections) for sections in (B, A, Z)]
    assert probations(tried) == {}
    assert tried.store.watch.generation == generation, "readers have nothing to read anew"
    assert tried.store.journal.events()[-1].event == "probation_passed"
    assert tried.store.pass_probation(SCOPE, now=NOW + 60) == ()


def test_a_renewal_of_equal_content_inherits(tried, cluster):
    """What is on probation stays on it, and as long; what is good is good, and the newer document of it."""
    began = probations(tried)[SCOPE]
    for version, terms in ((4, None), (5, ProbationTerms(600.0))):
        verdict = tried.verified(cluster.snapshot(version, B))
        tried.store.activate(verdict, now=NOW + 9, boot=BOOT, probations={SCOPE: terms} if terms else {})
        assert probations(tried)[SCOPE] == began
        assert good_contents(tried)[0] == content(tried, A)
    tried.store.pass_probation(SCOPE, now=NOW + 60)
    renewed = try_out(tried, 6, B, now=NOW + 61)
    assert probations(tried) == {}, "good content needs no other probation"
    with tried.store.read() as reading:
        assert name_of(reading.good(SCOPE)[0].document) == renewed.envelope_hash


def test_good_content_that_comes_back_is_good(tried):
    """The coordinator gives a change up before the node does: what serves is the old content, signed anew."""
    try_out(tried, 4, A)
    assert probations(tried) == {}
    assert good_contents(tried) == [content(tried, A), content(tried, Z)]


def test_the_next_content_begins_anew(tried):
    try_out(tried, 4, C, terms=ProbationTerms(30.0, way=True), now=NOW + 50)
    row = probations(tried)[SCOPE]
    assert (row.until, row.lasts_s, row.way) == (NOW + 80, 30.0, True)
    assert good_contents(tried) == [content(tried, A), content(tried, Z)], "B was never through"
    assert failing(tried, now=NOW + 51) == {SCOPE: "reverted"}
    assert is_served(tried, A)


def test_neither_head_nor_trust_bundle_are_ever_on_probation(node, cluster):
    """rules S44: to go back would take back a revocation"""
    verdict = node.verified(cluster.head(1))
    bundle = node.verified(cluster.bundle(2))
    terms = {"head": TERMS, "trust_bundle": TERMS}
    node.store.activate(verdict, bundle, now=NOW, boot=BOOT, probations=terms)
    assert probations(node) == {}
    assert failing(node, "head", "trust_bundle") == {}
    assert node.store.active("trust_bundle").version == (1, 2)


def test_a_store_of_before_has_what_is_active_for_good(node, cluster):
    """No row says so there: the first change with a probation has a way back."""
    node.apply(cluster.snapshot(1, A))
    with node.store._environment.write() as transaction:
        for key, _ in list(transaction.items("updates", b"good/")):
            transaction.delete("updates", key)
    assert good_contents(node) == [content(node, A)]
    try_out(node, 2, B)
    assert failing(node) == {SCOPE: "reverted"}
    assert is_served(node, A)


# ---- the way back


def test_back_to_what_is_good_and_the_mark_stays(tried):
    """rules L32, S86: what serves is A; a source leads nowhere below B"""
    floors, generation = tried.store.floors, tried.store.watch.generation
    assert failing(tried) == {SCOPE: "reverted"}
    assert is_served(tried, A)
    assert tried.store.watch.generation == generation + 1
    assert tried.store.floors == floors
    standing = tried.store.standing()
    assert standing.marks[SCOPE].config_version == 3
    assert standing.reverted == standing.lost == {SCOPE}
    assert standing.quarantine == {SCOPE: {content(tried, B)}}
    with tried.store.read() as reading:
        record, failed = reading.scope(SCOPE), reading.failure(SCOPE)
        assert reading.previous(SCOPE).content_hash == content(tried, Z)
    assert (record.activated_at, record.on_previous) == (NOW + 5, False)
    assert (failed.config_version, failed.check, failed.detail, failed.at) == (3, "web", "exit 1", NOW + 5)
    event = tried.store.journal.events()[-1]
    assert (event.event, event.scope) == ("reverted", SCOPE)
    assert event.detail == "epoch 1 version 3 to 1.2: web: exit 1"
    assert failing(tried) == {}, "it is done once"


def test_it_survives_restarts_and_nothing_is_found(tried):
    failing(tried)
    for _ in range(2):
        tried.reopen()
        assert tried.store.findings == ()
        assert is_served(tried, A)
        assert tried.store.standing().reverted == {SCOPE}
        assert tried.store.standing().marks[SCOPE].config_version == 3
    tried.store.garbage.run()
    assert is_served(tried, A)
    assert tried.contents()["b"] == b'"' + b"A" * 300 + b'"'


@pytest.mark.parametrize("version", [1, 2])
def test_no_source_leads_below_the_mark(tried, cluster, version):
    """rules S86: neither what serves, once more, nor what was before it"""
    failing(tried)
    with pytest.raises(Rejected) as caught:
        tried.judge(tried.download(cluster.snapshot(version, A)), "snapshot")
    assert caught.value.reason is Reason.ROLLBACK
    assert is_served(tried, A)
    tried.apply(cluster.snapshot(4, C))
    assert is_served(tried, C)


def test_what_failed_is_not_activated_again(tried, cluster):
    """Under whichever version; and once a person has cleared it, it is"""
    failing(tried)
    for version in (3, 4):
        verdict = tried.verified(cluster.snapshot(version, B))
        floors = tried.store.floors
        with pytest.raises(StoreError, match="in quarantine") as caught:
            tried.store.activate(verdict, now=NOW + 6, boot=BOOT)
        assert caught.value.fault is StoreFault.CONFLICT
        assert (tried.store.floors, is_served(tried, A)) == (floors, True)
    assert [entry.check for entry in tried.store.clear_quarantine(SCOPE, now=NOW + 7, by="uid 0")] == ["web"]
    event = tried.store.journal.events()[-1]
    assert (event.event, event.detail) == ("quarantine_cleared", "epoch 1 version 3, by uid 0")
    assert tried.store.standing().quarantine == {}
    assert tried.store.clear_quarantine(SCOPE, now=NOW + 7, by="uid 0") == ()
    try_out(tried, 3, B)
    assert is_served(tried, B)
    assert tried.store.standing().reverted == frozenset()
    assert SCOPE in probations(tried)


def test_the_old_content_under_a_new_version_is_a_renewal(tried, cluster):
    """It is what serves, and good; what was tried is told on, until other content comes"""
    failing(tried)
    tried.reopen()
    try_out(tried, 4, A)
    standing = tried.store.standing()
    assert (standing.lost, standing.reverted, standing.probations) == (frozenset(), frozenset(), {})
    with tried.store.read() as reading:
        assert reading.failure(SCOPE).config_version == 3
        assert reading.active(SCOPE).version == (1, 4)
    tried.reopen()
    assert tried.store.findings == ()
    with pytest.raises(Rejected):
        tried.judge(tried.download(cluster.snapshot(3, B)), "snapshot")
    try_out(tried, 5, C)
    with tried.store.read() as reading:
        assert reading.failure(SCOPE) is None
    failing(tried)
    assert is_served(tried, A)
    assert tried.store.active(SCOPE).version == (1, 4), "the newest document of what is good"


def test_all_that_came_together_goes_together(node, cluster):
    """rules X17: one transaction; a reader sees both old or both new"""
    for scope in (SCOPE, OTHER):
        node.apply(cluster.snapshot(1, A, scope))
    verdicts = [node.verified(cluster.snapshot(2, B, scope)) for scope in (SCOPE, OTHER)]
    node.store.activate(*verdicts, now=NOW, boot=BOOT, probations={SCOPE: TERMS, OTHER: TERMS})
    generation = node.store.watch.generation
    assert {row.began for row in probations(node).values()} == {generation}
    assert failing(node, SCOPE, OTHER, "config/web") == {SCOPE: "reverted", OTHER: "reverted"}
    assert node.store.watch.generation == generation + 1
    with node.store.read() as reading:
        assert reading.scope(SCOPE).generation == reading.scope(OTHER).generation == generation + 1


def test_without_anything_good_it_stays_and_says_so(node, cluster):
    try_out(node, 1, B)
    generation = node.store.watch.generation
    assert failing(node) == {SCOPE: "nothing_to_go_back_to"}
    assert is_served(node, B)
    assert node.store.watch.generation == generation
    standing = node.store.standing()
    assert (standing.lost, standing.quarantine, standing.probations) == (frozenset(), {}, {})
    assert node.store.journal.events()[-1].event == "nothing_to_go_back_to"
    with node.store.read() as reading:
        assert reading.failure(SCOPE).content_hash == content(node, B)
    node.apply(cluster.snapshot(2, B))  # renewed: it would end otherwise
    assert good_contents(node) == [], "and is none the better for it"
    node.apply(cluster.snapshot(3, C))
    assert good_contents(node) == [content(node, C)]
    with node.store.read() as reading:
        assert reading.failure(SCOPE) is None


def damage(node, sections):
    """A section of that content loses a bit."""
    manifest = json.loads(node.cluster.snapshot(999, sections).manifest_bytes)
    digest = bytes.fromhex(manifest["b"]["sha256"])
    with node.store._environment.write() as transaction:
        key, data = next(iter(transaction.items("sections", digest)))
        transaction.put("sections", key, data[:-1] + bytes([data[-1] ^ 1]))


def test_of_damaged_good_content_the_next_serves(tried, cluster):
    damage(tried, A)
    assert failing(tried) == {SCOPE: "reverted"}
    assert is_served(tried, Z)
    assert good_contents(tried) == [content(tried, Z)]
    tried.reopen()
    assert is_served(tried, Z)
    tried.apply(cluster.snapshot(4, A))
    assert is_served(tried, A)


def test_all_of_it_damaged_it_stays(tried, cluster):
    for sections in (A, Z):
        damage(tried, sections)
    assert failing(tried) == {SCOPE: "nothing_to_go_back_to"}
    assert is_served(tried, B)
    tried.reopen()
    assert is_served(tried, B)
    tried.apply(cluster.snapshot(4, C))


@pytest.mark.parametrize("why", ["expired", "not vouched for"])
def test_what_may_not_serve_is_passed_over(node, cluster, why):
    """A revert brings back nothing that the roots have taken away, nor what authorises nothing."""
    node.apply(cluster.snapshot(1, Z, expires_at=NOW + 9 * DAY))
    node.apply(cluster.snapshot(2, A, expires_at=NOW + DAY))
    try_out(node, 3, B, expires_at=NOW + 9 * DAY)
    if why == "expired":
        failing(node, now=NOW + DAY)
    else:
        failing(node, serves=lambda held: held.content_hash != content(node, A))
    assert is_served(node, Z)


def test_nothing_of_an_ended_epoch_serves_again(tmp_path):
    cluster = Cluster()
    with Node(tmp_path / "root", cluster) as node:
        node.apply(cluster.bundle())
        node.apply(cluster.snapshot(1, A))
        node.apply(cluster.bundle(2, announced=2))
        cluster.epoch = 2
        try_out(node, 1, B)
        assert good_contents(node) == []
        assert failing(node) == {SCOPE: "nothing_to_go_back_to"}
        assert is_served(node, B)
        node.apply(cluster.snapshot(2, B))


def test_equal_content_of_the_next_epoch_is_good(tmp_path):
    cluster = Cluster()
    with Node(tmp_path / "root", cluster) as node:
        node.apply(cluster.bundle())
        node.apply(cluster.snapshot(1, A))
        node.apply(cluster.bundle(2, announced=2))
        cluster.epoch = 2
        renewed = try_out(node, 1, A)
        with node.store.read() as reading:
            assert [name_of(entry.document) for entry in reading.good(SCOPE)] == [renewed.envelope_hash]


def test_what_a_recovery_has_given_up_is_not_good(node, cluster):
    """rules S87"""
    old = cluster.snapshot(1, A)
    node.apply(old)
    node.apply(cluster.snapshot(2, B))
    node.store.keep_recovery(node.verified_alone(cluster.recovery(2, old)), now=NOW)
    node.apply(old)
    assert good_contents(node) == [content(node, A)]
    try_out(node, 3, C)
    failing(node)
    assert is_served(node, A)
    node.reopen()
    assert is_served(node, A)


# ---- damage, loss and want of room, after it


def test_damage_after_a_revert(tried, cluster):
    """rules L34: the next good content serves, and never what is in quarantine"""
    failing(tried)
    assert tried.store.fall_back(SCOPE, now=NOW + 6, cause="a test") == "running_on_previous"
    assert is_served(tried, Z)
    assert tried.store.standing().reverted == frozenset(), "now it is damage that keeps it there"
    assert tried.store.fall_back(SCOPE, now=NOW + 7, cause="a test") == "active_lost"
    assert tried.contents() is None
    tried.reopen()
    with pytest.raises(StoreError, match="in quarantine"):
        tried.apply(cluster.snapshot(3, B))
    tried.apply(cluster.snapshot(4, A))
    assert is_served(tried, A)


def test_damage_on_probation_ends_it(tried):
    """The same content comes again, and is judged anew"""
    assert tried.store.fall_back(SCOPE, now=NOW + 6, cause="a test") == "running_on_previous"
    assert is_served(tried, A)
    assert probations(tried) == {}
    assert failing(tried) == {}
    try_out(tried, 3, B)
    assert SCOPE in probations(tried)


def test_a_store_that_is_lost_after_a_revert(tried, cluster):
    """rules L31, L33, S86: the mark is that of what failed; what was before it comes from nobody"""
    failing(tried)
    tried.close()
    shutil.rmtree(tried.path / "clusters" / CLUSTER / "store")
    tried.open()
    assert tried.store.standing().marks[SCOPE].config_version == 3
    tried.apply(cluster.bundle())
    for version in (1, 2):
        with pytest.raises(Rejected) as caught:
            tried.judge(tried.download(cluster.snapshot(version, A)), "snapshot")
        assert caught.value.reason is Reason.ROLLBACK
    tried.apply(cluster.snapshot(4, A))
    assert is_served(tried, A)


def test_a_store_that_was_put_back_ends_its_probations(tried, cluster):
    """rules L32: nobody has seen through what was active there"""
    tried.close()
    shutil.copytree(tried.path / "clusters" / CLUSTER / "store", tried.path.parent / "kept")
    tried.open()
    tried.apply(cluster.snapshot(4, C))
    tried.close()
    shutil.rmtree(tried.path / "clusters" / CLUSTER / "store")
    shutil.copytree(tried.path.parent / "kept", tried.path / "clusters" / CLUSTER / "store")
    tried.open()
    assert probations(tried) == {}
    assert good_contents(tried) == [content(tried, A), content(tried, Z)]
    assert tried.store.standing().lost == {SCOPE}
    tried.apply(cluster.snapshot(4, C))


def test_withdrawn_it_is_forgotten_and_its_quarantine_is_not(tried, cluster):
    failing(tried)
    tried.store.withdraw(SCOPE, now=NOW + 6)
    assert good_contents(tried) == []
    with tried.store.read() as reading:
        assert reading.failure(SCOPE) is None
    with pytest.raises(StoreError, match="in quarantine"):
        tried.apply(cluster.snapshot(3, B))
    tried.apply(cluster.snapshot(4, C))


def test_garbage_keeps_what_is_good(tried):
    for number in range(30):
        tried.store.set(b"garbage %d" % number)
    tried.store.garbage.run()
    failing(tried)
    tried.store.garbage.run()
    damage(tried, A)
    assert tried.store.scrub.step(NOW + 6).happened == {SCOPE: "running_on_previous"}
    assert tried.contents()["b"] == b'"' + b"Z" * 300 + b'"'


def test_a_full_store_gives_up_good_content_but_for_the_newest(tmp_path, cluster):
    """rules L35: no less room than before, and the way back stays"""
    big = [{str(part): [f"{part}".ljust(60_000, letter)] for part in range(17)} for letter in "ABCD"]
    with Node(tmp_path / "root", cluster, map_bytes=4 << 20) as node:
        node.apply(cluster.bundle())
        for version, sections in enumerate(big[:3], 1):
            node.apply(cluster.snapshot(version, sections))
        assert len(good_contents(node)) == 3
        try_out(node, 4, big[3])
        assert good_contents(node) == [content(node, big[2])]
        with pytest.raises(StoreError) as caught:
            node.apply(cluster.snapshot(5, {str(part): [f"{part}".ljust(60_000, "E")] for part in range(50)}, OTHER))
        assert caught.value.fault is StoreFault.STORE_FULL
        failing(node)
        assert is_served(node, big[2])
        node.reopen()
        assert is_served(node, big[2])
    assert list(check(node.path, CLUSTER)) == []


def test_the_quarantine_is_bounded(node, cluster):
    node.apply(cluster.snapshot(1, A))
    for number in range(failed_content.MOST_OF_A_SCOPE + 3):
        try_out(node, 2 + number, {"a": number}, now=NOW + number)
        failing(node, now=NOW + number)
    with node.store.read() as reading:
        held = reading.in_quarantine()
    assert len(held) == failed_content.MOST_OF_A_SCOPE
    assert min(entry.config_version for entry in held) == 5, "the oldest have gone"


def test_what_has_just_failed_is_in_quarantine_whatever_the_clock_says(node, cluster):
    """It would be tried again and again, by a clock that went back since the quarantine was filled"""
    node.apply(cluster.snapshot(1, A))
    for number in range(failed_content.MOST_OF_A_SCOPE + 2):
        try_out(node, 2 + number, {"a": number}, now=NOW - number)
        failing(node, now=NOW - number)
        assert content(node, {"a": number}) in node.store.standing().quarantine[SCOPE]


@pytest.mark.parametrize("row", [b"good/", b"probation/", b"reverted/", b"quarantine/"])
def test_a_damaged_row_is_taken_out(tried, cluster, row):
    """rules L33, L34: the rest goes on"""
    if row in (b"reverted/", b"quarantine/"):
        failing(tried)
    before = tried.store.active(SCOPE).version
    with tried.store._environment.write() as transaction:
        (key, data), *_ = transaction.items("updates", row)
        transaction.put("updates", key, data[:-1] + bytes([data[-1] ^ 1]))
    assert [fault.code for fault in check(tried.path, CLUSTER)] == ["record_damaged"]
    tried.store.standing()
    tried.reopen()
    assert [str(finding.happened) for finding in tried.store.findings] == ["record_lost"]
    assert tried.store.active(SCOPE).version == before
    tried.reopen()
    assert tried.store.findings == ()
    tried.apply(cluster.snapshot(9, C))


# ---- killed at every step


def back_or_not(cluster, seen):
    def judge(node, ended):
        node.open()
        assert node.store.findings == ()
        back = is_served(node, A)
        assert back or is_served(node, B)
        assert back or ended != 0
        standing = node.store.standing()
        assert standing.marks[SCOPE].config_version == 3
        assert (SCOPE in standing.reverted, SCOPE in standing.quarantine) == (back, back)
        assert (SCOPE in standing.probations) != back
        assert node.store.floors.scopes[SCOPE].mark.config_version == 3
        seen.add(back)
        assert failing(node) == ({} if back else {SCOPE: "reverted"})
        assert is_served(node, A)
        with pytest.raises(StoreError, match="in quarantine"):
            node.apply(cluster.snapshot(4, B))
        node.apply(cluster.snapshot(5, A))
        node.apply(cluster.snapshot(6, C))

    return judge


def prepare(node):
    node.apply(node.cluster.bundle())
    node.apply(node.cluster.snapshot(1, Z))
    node.apply(node.cluster.snapshot(2, A))
    try_out(node, 3, B)


def deaths(tmp_path, cluster, work, judge):
    from tests.store.test_disk import deaths as dying

    return dying(tmp_path, cluster, prepare, work, judge)


def test_a_revert_killed_at_every_step(tmp_path, cluster):
    """rules L28, L32, P7, J47: one transaction, and no step beside it"""
    seen = set()

    def work(node):
        node.open()
        failing(node)

    assert deaths(tmp_path, cluster, work, back_or_not(cluster, seen)) == 2  # opening, and the one commit
    assert seen == {False, True}


def test_a_probation_that_begins_or_ends_killed_at_every_step(tmp_path, cluster):
    """The terms lie in the floors until the swap is made: what is rolled forward is on probation as well."""
    document = cluster.snapshot(4, C)
    rolled = set()

    def work(node):
        node.open()
        node.store.activate(node.verified(document), now=NOW, boot=BOOT, probations={SCOPE: TERMS})
        node.store.pass_probation(SCOPE, now=NOW + 60)

    def judge(node, ended):
        node.open()
        passed = content(node, C) in good_contents(node)
        assert passed == (ended == 0)
        rolled.update(str(finding.happened) for finding in node.store.findings)
        assert (SCOPE in probations(node)) == (not passed)
        node.store.note_start(BOOT, NOW)
        if not passed:
            assert left_s(probations(node)[SCOPE], BOOT, NOW) == 60
            failing(node)
            assert is_served(node, A)
        node.apply(cluster.snapshot(5, Z))

    deaths(tmp_path, cluster, work, judge)
    assert rolled == {"rolled_forward"}


@pytest.mark.parametrize("error", [OSError(5, "failed"), OSError(28, "failed")], ids=["EIO", "ENOSPC"])
def test_a_disk_that_refuses_the_revert(tmp_path, cluster, error):
    """rules L35: nothing has changed, and the next attempt goes through, in the same process"""
    with Node(tmp_path / "root", cluster, disk=FailingDisk()) as node:
        prepare(node)
        node.disk.fail(1, error)
        with pytest.raises(StoreError):
            failing(node)
        assert is_served(node, B)
        assert SCOPE in probations(node)
        node.disk.broken = False
        assert failing(node) == {SCOPE: "reverted"}
        assert is_served(node, A)


def test_an_activation_that_the_floors_name_comes_first(tmp_path, cluster):
    """A renewal of what fails, half made: it does not serve again after the revert."""
    with Node(tmp_path / "root", cluster, disk=FailingDisk()) as node:
        prepare(node)
        verdict = node.verified(cluster.snapshot(4, B))
        node.disk.fail(5, OSError(5, "failed"))  # the commit, after the floors
        with pytest.raises(StoreError):
            node.store.activate(verdict, now=NOW, boot=BOOT)
        node.disk.broken = False
        assert node.store.is_unfinished
        assert failing(node) == {SCOPE: "reverted"}
        assert not node.store.is_unfinished
        node.reopen()
        assert is_served(node, A)
        assert node.store.standing().marks[SCOPE].config_version == 4


# ---- how long, and starts


def row(**changes):
    return replace(ProbationRecord(SCOPE, NOW + 60, 60.0, boot_id="boot-1", ends=BOOT.elapsed + 60), **changes)


@pytest.mark.parametrize(
    ("boot", "now", "left"),
    [
        (replace(BOOT, elapsed=BOOT.elapsed + 20), NOW + 20, 40),
        (replace(BOOT, elapsed=BOOT.elapsed + 20), NOW + 5 * DAY, 40),  # the wall clock jumped ahead
        (replace(BOOT, elapsed=BOOT.elapsed + 20), NOW - 5 * DAY, 40),  # and back
        (replace(BOOT, elapsed=BOOT.elapsed + 61), NOW - 5 * DAY, 0),
        (Boot("boot-2", 3.0), NOW + 20, 40),
        (Boot("boot-2", 3.0), NOW + 5 * DAY, 0),
        (Boot("boot-2", 3.0), NOW - 5 * DAY, 60),  # never longer than it was to last
    ],
)
def test_how_long_it_lasts(boot, now, left):
    assert left_s(row(), boot, now) == left


def starts(node, *boots, stopped=False):
    """What the last of these starts says."""
    found = {}
    for boot in boots:
        node.reopen()
        found = node.store.note_start(boot, NOW + 1)
        if stopped:
            node.store.note_stop()
    return found


def test_a_crash_loop_of_the_agent_is_a_failed_check(tried):
    assert starts(tried, *[BOOT] * (MOST_CRASHES - 1)) == {}
    assert starts(tried, BOOT) == {SCOPE: "the agent ended 3 times without order"}


def test_two_reboots_without_order_are_a_failed_check(tried):
    boots = [Boot(f"boot-{number}", 5.0) for number in range(2, 2 + MOST_REBOOTS)]
    assert starts(tried, *boots[:-1]) == {}
    assert probations(tried)[SCOPE].ends == 5.0 + 59
    assert starts(tried, boots[-1]) == {SCOPE: "the machine ended 2 times without order"}


def test_ends_in_order_show_nothing(tried):
    """A new version of the agent, a new kernel: as often as one likes"""
    tried.store.note_stop()
    assert starts(tried, *[BOOT] * 5, *[Boot(f"boot-{number}", 5.0) for number in range(2, 6)], stopped=True) == {}
    found = probations(tried)[SCOPE]
    assert (found.crashes, found.reboots) == (0, 0)


def test_without_a_probation_a_start_writes_nothing(node):
    number = node.store.commit_number
    assert node.store.note_start(BOOT, NOW) == {}
    assert node.store.commit_number == number


def test_a_probation_that_nobody_timed_is_timed_at_the_start(tried):
    """What was rolled forward: no clock of a boot is read there, and no start is counted."""
    with tried.store._environment.write() as transaction:
        key, _ = next(iter(transaction.items("updates", b"probation/")))
        transaction.put("updates", key, pack(row(boot_id="", ends=0.0)))
    assert starts(tried, BOOT) == {}
    found = probations(tried)[SCOPE]
    assert (found.boot_id, found.ends, found.crashes, found.reboots) == (BOOT.boot_id, BOOT.elapsed + 59, 0, 0)
