"""What a damaged disk does: never a dead process, a lowered floor, or bytes with a wrong hash (rules L29..L34, J47)."""

import shutil

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from store.base import blobs, sealed
from store.base.documents import HashedDocument
from store.base.errors import StoreError, StoreFault
from store.base.floors import MAGIC
from store.fsck.check import check
from store.fsck.metapage import FileState, inspect
from store.fsck.quarantine import MOST_COPIES
from tests.examples import examples
from tests.store.cluster import BOOT, CLUSTER, DAY, NOW, SCOPE, Cluster, Node
from tests.store.test_pages import free_the_root

FILLER = "constant" * 700  # sections of more than a page


def sections(version):
    return {"a": {"v": version}, "b": FILLER}


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    """A small store with active and previous, closed, never changed."""
    node = Node(tmp_path_factory.mktemp("origin") / "root", Cluster())
    with node:
        node.apply(node.cluster.bundle())
        for version in (1, 2, 3):
            node.apply(node.cluster.snapshot(version, sections(version)))
        node.store.garbage.run()
    return node


@pytest.fixture
def copy(origin, tmp_path):
    shutil.copytree(origin.path, tmp_path / "root")
    node = Node(tmp_path / "root", origin.cluster)
    yield node
    node.close()
    assert list(check(node.path, CLUSTER)) == []


def home(node):
    return node.path / "clusters" / CLUSTER


def data_file(node):
    return home(node) / "store" / "data.mdb"


def happened(node):
    return {finding.happened for finding in node.store.findings}


def opens_with_its_floors(node):
    """Whatever was done to it: it opens, holds the mark, serves nothing wrong, takes the next one."""
    node.open()
    assert node.store.floors.scopes[SCOPE].order >= (1, 3)
    assert node.store.standing().marks[SCOPE].version >= (1, 3)
    told = [event.event for event in node.store.journal.events(0)]
    assert {str(one) for one in happened(node)} <= set(told)
    if node.store.active("trust_bundle") is None:
        node.apply(node.cluster.bundle(1))
    served = node.contents()
    if served is not None:
        assert served["b"] == b'"' + FILLER.encode() + b'"'
        assert served["a"] in (b'{"v":1}', b'{"v":2}', b'{"v":3}')
    node.apply(node.cluster.snapshot(4, sections(4)))
    assert node.contents()["a"] == b'{"v":4}'


def rebuilt(node):
    """A store that was lost: floors and identity stay, everything is asked for again."""
    store = node.open()
    assert "store_rebuilt" in happened(node)
    assert store.active(SCOPE) is None
    assert store.standing().marks[SCOPE].version == (1, 3)
    assert store.standing().lost == {SCOPE, "trust_bundle"}
    assert store.journal.events(0)[0].event == "store_rebuilt"
    return store


def test_the_scenario_is_sound(copy):
    copy.open()
    assert happened(copy) == set()
    assert inspect(data_file(copy)).state is FileState.WHOLE


def test_zero_length(copy, origin):
    """rules L31, M8"""
    incarnation, generation = incarnation_of(copy)
    data_file(copy).write_bytes(b"")
    store = rebuilt(copy)
    assert store.incarnation != incarnation  # rules L38
    assert store.watch.generation > generation
    (aside,) = (home(copy) / "quarantine").iterdir()
    assert (aside / "data.mdb").stat().st_size == 0


def incarnation_of(node):
    node.open()
    found = node.store.incarnation, node.store.watch.generation
    node.close()
    return found


@pytest.mark.parametrize("what", ["data.mdb", "store"])
def test_missing_beside_floors(copy, what):
    """rules L31; threats C04"""
    target = data_file(copy) if what == "data.mdb" else home(copy) / "store"
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    rebuilt(copy)


def test_missing_beside_an_enrolment(copy):
    """rules L31: also when the floors are gone with it"""
    from store.base.enrolment import Enrolment

    copy.open()
    copy.store.enrol(Enrolment(CLUSTER, "node-1", {}, 1, 1, 1, NOW, "configuration", NOW))
    copy.close()
    shutil.rmtree(home(copy) / "store")
    for file in (home(copy) / "floors").iterdir():
        file.unlink()
    store = copy.open()
    assert {"store_rebuilt", "floor_lost"} <= {str(one) for one in happened(copy)}
    assert store.is_floor_lost
    assert store.floors.authority_epoch == 1


def test_at_the_floor_the_same_content_is_taken_again(origin, tmp_path):
    """threats C04; rules S63: below the floor it is a rollback"""
    from snapshot.reasons import Rejected

    cluster = Cluster()
    bundle, two, three = cluster.bundle(), cluster.snapshot(2, sections(2)), cluster.snapshot(3, sections(3))
    node = Node(tmp_path / "root", cluster)
    with node:
        for document in (bundle, two, three):
            node.apply(document)
    shutil.rmtree(home(node) / "store")
    with node:
        node.apply(bundle)
        with pytest.raises(Rejected):
            node.judge(node.download(two), "snapshot")
        node.apply(three)
        assert node.contents()["a"] == b'{"v":3}'
        assert node.store.standing().lost == frozenset()
    with node:
        assert happened(node) == set()
    assert list(check(node.path, CLUSTER)) == []


@pytest.fixture
def returned(tmp_path):
    """A node that a recovery has led from version 2 back to version 1; the documents."""
    cluster = Cluster()
    bundle, old, given_up = cluster.bundle(), cluster.snapshot(1, sections(1)), cluster.snapshot(2, sections(2))
    node = Node(tmp_path / "root", cluster)
    with node:
        for document in (bundle, old, given_up):
            node.apply(document)
        node.store.keep_recovery(node.verified_alone(cluster.recovery(2, old)), now=NOW)
        node.apply(old)
    return node, bundle, old, given_up


def goes_back_to_what_a_recovery_led_to(node, bundle, old, given_up):
    from snapshot.reasons import Rejected

    with node:
        node.apply(bundle)
        assert SCOPE in node.store.standing().lost
        with pytest.raises(Rejected, match="rollback"):
            node.judge(node.download(given_up), "snapshot")
        node.apply(node.cluster.snapshot(1, sections(1), expires_at=NOW + 3 * DAY))
        assert node.contents()["a"] == b'{"v":1}'
        assert node.store.standing().marks[SCOPE].version == (1, 2)
    with node:
        assert happened(node) == set()
        node.apply(node.cluster.snapshot(3, sections(3)))
        assert node.store.standing().returned == {}
    assert list(check(node.path, CLUSTER)) == []


def test_after_a_recovery_a_lost_store_takes_what_it_led_to_and_not_what_was_given_up(returned):
    """rules S87, L32; threats D-16"""
    shutil.rmtree(home(returned[0]) / "store")
    goes_back_to_what_a_recovery_led_to(*returned)


def test_floors_from_before_they_said_where_a_recovery_led_learn_it_from_the_store(returned):
    """rules S87: an older agent's files, read by this one"""
    node, *_ = returned
    for name in ("a.rec", "b.rec"):
        file = home(node) / "floors" / name
        sequence, payload = sealed.read(MAGIC, file)
        payload["scopes"][SCOPE].pop("returned", None)
        file.write_bytes(sealed.seal(MAGIC, sequence, payload))
    with node:
        assert happened(node) == set()
        assert node.store.floors.scopes[SCOPE].returned.version == (1, 1)
    shutil.rmtree(home(node) / "store")
    goes_back_to_what_a_recovery_led_to(*returned)


def test_what_a_recovery_gave_up_does_not_serve_when_what_it_led_to_is_damaged(returned):
    """rules S87, L34"""
    node, *_ = returned
    with node:
        assert node.store.fall_back(SCOPE, now=NOW, cause="a flipped bit") == "active_lost"
        assert node.store.active(SCOPE) is None


def test_pages_that_read_well_and_would_be_written_over(copy):
    """rules L30, J47: LMDB sees nothing wrong until it writes"""
    free_the_root(data_file(copy))
    rebuilt(copy)


@pytest.mark.parametrize("page", [0, 1])
def test_a_destroyed_meta_page(copy, page):
    """rules L30, M6; threats C02"""
    with data_file(copy).open("r+b") as file:
        file.seek(page * 4096)
        file.write(bytes(4096))
    rebuilt(copy)


def test_a_damaged_transaction_number_opens_an_older_state(copy):
    """threats fact 1, C02: no error from LMDB, so the floors find it"""
    import struct

    with data_file(copy).open("r+b") as file:
        head = file.read(8192)
        numbers = [struct.unpack_from("<Q", head, start + 144)[0] for start in (0, 4096)]
        newest = numbers.index(max(numbers))
        file.seek(newest * 4096 + 144)
        file.write(bytes(8))
    copy.open()
    assert copy.store.standing().marks[SCOPE].version == (1, 3)
    assert copy.store.floors.scopes[SCOPE].order == (1, 3)
    copy.apply(copy.cluster.snapshot(4, sections(4)))


def test_an_older_file_put_back(tmp_path):
    """rules L32, M11; threats C06: the floors hold, the last verified serves on"""
    node = Node(tmp_path / "root", Cluster())
    with node:
        node.apply(node.cluster.bundle())
        node.apply(node.cluster.snapshot(1, sections(1)))
    older = data_file(node).read_bytes()
    current = node.cluster.snapshot(3, sections(3))
    with node:
        node.apply(node.cluster.snapshot(2, sections(2)))
        node.apply(current)
    data_file(node).write_bytes(older)
    with node:
        assert happened(node) == {"store_regressed"}
        assert node.contents()["a"] == b'{"v":1}'
        assert node.store.standing().marks[SCOPE].version == (1, 3)
        assert node.store.standing().lost == {SCOPE}
        assert node.store.journal.events()[-1].event == "store_regressed"
        node.apply(current)
        assert node.contents()["a"] == b'{"v":3}'
    assert list(check(node.path, CLUSTER)) == []


def test_an_older_file_from_before_a_recovery_put_back(tmp_path):
    """rules S87, L32: the nonce stays used"""
    node = Node(tmp_path / "root", Cluster())
    old = node.cluster.snapshot(1, sections(1))
    with node:
        node.apply(node.cluster.bundle())
        node.apply(old)
        node.apply(node.cluster.snapshot(2, sections(2)))
        node.store.keep_recovery(node.verified_alone(node.cluster.recovery(2, old)), now=NOW)
    before = data_file(node).read_bytes()
    with node:
        node.apply(old)
    data_file(node).write_bytes(before)
    with node:
        assert happened(node) == {"store_regressed"}
        assert node.store.standing().used_nonces == {"n1"}


@pytest.mark.parametrize("lost", [("a.rec",), ("b.rec",)])
def test_one_floor_file(copy, lost):
    """threats D-24: the other serves, and it is written again"""
    for name in lost:
        (home(copy) / "floors" / name).write_bytes(b"rubbish")
    opens_with_its_floors(copy)
    assert happened(copy) == {"floor_repaired"}
    copy.reopen()
    assert happened(copy) == set()


def test_both_floor_files(copy):
    """threats D-24: `floor_lost`, and the store's own copy and active state give them back"""
    for name in ("a.rec", "b.rec"):
        (home(copy) / "floors" / name).write_bytes(b"")
    copy.open()
    assert happened(copy) == {"floor_lost"}
    assert copy.store.is_floor_lost
    assert copy.store.floors.scopes[SCOPE].order == (1, 3)
    assert copy.store.time_floor.time == NOW - 60
    copy.reopen()
    assert happened(copy) == set()
    assert copy.store.is_floor_lost  # until it is confirmed
    copy.store.confirm_floors()
    copy.reopen()
    assert not copy.store.is_floor_lost
    assert copy.store.floors.scopes[SCOPE].order == (1, 3)


def test_floors_behind_the_store_are_repaired(tmp_path):
    """rules L32"""
    node = Node(tmp_path / "root", Cluster())
    with node:
        node.apply(node.cluster.bundle())
        node.apply(node.cluster.snapshot(1, sections(1)))
    shutil.copytree(home(node) / "floors", tmp_path / "older")
    with node:
        node.apply(node.cluster.snapshot(5, sections(5)))
    shutil.rmtree(home(node) / "floors")
    shutil.copytree(tmp_path / "older", home(node) / "floors")
    with node:
        assert happened(node) == {"floor_repaired"}
        assert node.store.floors.scopes[SCOPE].order == (1, 5)
        assert node.contents()["a"] == b'{"v":5}'
    assert sealed.read(MAGIC, home(node) / "floors" / "a.rec")
    assert list(check(node.path, CLUSTER)) == []


def flip_in(node, needle):
    """Damage a stored section where its bytes lie."""
    data = bytearray(data_file(node).read_bytes())
    found = data.count(needle)
    position = 0
    for _ in range(found):
        position = data.index(needle, position)
        data[position] ^= 1
        position += 1
    data_file(node).write_bytes(data)
    return found


def test_a_flipped_bit_in_an_active_section_falls_back(copy):
    """rules L29, L34, J47; threats C09"""
    assert flip_in(copy, b'{"v":3}')
    copy.open()
    assert happened(copy) == {"running_on_previous"}
    assert copy.contents()["a"] == b'{"v":2}'
    assert copy.store.standing().marks[SCOPE].version == (1, 3)
    assert copy.store.standing().lost == {SCOPE}
    events = [event.event for event in copy.store.journal.events(0)]
    assert events[-2:] == ["running_on_previous", "section_damaged"]
    copy.reopen()
    assert happened(copy) == set()  # said once
    assert copy.store.standing().lost == {SCOPE}  # known for as long as it is so
    copy.apply(copy.cluster.snapshot(4, sections(4)))
    assert copy.store.standing().lost == frozenset()


def test_a_shared_section_damaged_leaves_nothing(copy):
    """rules L34: previous is damaged too"""
    assert flip_in(copy, FILLER[:64].encode())
    copy.open()
    assert happened(copy) == {"active_lost"}
    assert copy.contents() is None
    assert copy.store.standing().marks[SCOPE].version == (1, 3)
    copy.apply(copy.cluster.snapshot(4, sections(4)))
    assert copy.contents()["a"] == b'{"v":4}'


def test_an_expired_previous_does_not_serve(copy):
    """rules L34"""
    assert flip_in(copy, b'{"v":3}')
    copy.open(now=NOW + 8 * DAY)
    assert happened(copy) == {"active_lost"}


def test_a_previous_of_another_epoch_does_not_serve(tmp_path):
    """rules L34"""
    node = Node(tmp_path / "root", Cluster())
    with node:
        node.apply(node.cluster.bundle())
        node.apply(node.cluster.snapshot(1, sections(1)))
        node.apply(node.cluster.bundle(2, announced=2))
        node.apply(node.cluster.snapshot(3, sections(3), authority_epoch=2))
    assert flip_in(node, b'{"v":3}')
    with node:
        assert happened(node) == {"active_lost"}


def test_what_the_start_has_hashed_is_known(copy):
    """threats D-26; rules L29: hashed once at each start, and again at each read whatever the start has said"""
    copy.open()
    assert copy.store.hashed_at_start
    held = copy.store.active(SCOPE)
    digest = held.sections["a"].sha256
    with copy.store._environment.write() as transaction:
        transaction.put("sections", bytes.fromhex(digest), b'{"v":9}')
    judged = HashedDocument.just_now(held)
    assert judged.holds("a", digest)
    assert not judged.holds("a", "00" * 32)
    assert not judged.holds("no such section", digest)
    with pytest.raises(StoreError):
        judged.read("a")
    copy.reopen()
    assert not copy.store.hashed_at_start
    assert copy.contents()["a"] == b'{"v":2}'


def test_damage_that_is_met_while_running(copy):
    """rules L29: nothing with a wrong hash is handed out, and the scope leaves it"""
    copy.open()
    held = copy.store.active(SCOPE)
    digest = bytes.fromhex(held.sections["a"].sha256)
    with copy.store._environment.write() as transaction:
        transaction.put("sections", digest, b'{"v":9}')
    with pytest.raises(StoreError) as caught:
        held.read("a")
    assert caught.value.fault is StoreFault.STORE_CORRUPT
    with pytest.raises(StoreError):  # what is judged again at start is hashed then, too
        held.holds("a", held.sections["a"].sha256)
    assert not held.holds("a", "00" * 32)
    assert not held.holds("no such section", held.sections["a"].sha256)
    seen = []
    copy.store.watch.subscribe(seen.append)
    assert copy.store.fall_back(SCOPE, now=NOW, cause="section a") == "running_on_previous"
    assert copy.contents()["a"] == b'{"v":2}'
    assert [change.scopes for change in seen] == [(SCOPE,)]
    assert copy.store.fall_back("qos_policy", now=NOW, cause="") is None
    copy.apply(copy.cluster.snapshot(4, sections(4)))
    copy.store.garbage.run()


def test_scrubbing_finds_it_in_rounds(copy):
    """threats D-26"""
    copy.open()
    while not (step := copy.store.scrub.step(NOW, most=2)).done:
        assert step.blobs == 2
        assert step.damaged == 0
    digest = bytes.fromhex(copy.store.active(SCOPE).sections["a"].sha256)
    with copy.store._environment.write() as transaction:
        transaction.put("sections", digest, b'{"v":9}')
    happenings = {}
    while not (step := copy.store.scrub.step(NOW, most=2)).done:
        happenings |= step.happened
    assert happenings | step.happened == {SCOPE: "running_on_previous"}
    assert copy.contents()["a"] == b'{"v":2}'


def test_a_step_of_the_rounds_is_bounded_by_bytes(copy):
    """threats D-26: large sections are hashed a few at a time, and each of them in every round"""
    copy.open()
    for number in range(20):
        copy.store.set(bytes([number]) * (1 << 20))
    steps = []
    while not steps or not steps[-1].done:
        steps.append(copy.store.scrub.step(NOW))
    assert max(step.blobs for step in steps) < 20
    with copy.store._environment.read() as transaction:
        count = len(list(blobs.digests(transaction)))
    assert sum(step.blobs for step in steps) == count
    assert copy.store.scrub.step(NOW).blobs > 0  # the next round


def test_a_damaged_scope_record(copy):
    """rules L32: the mark comes back from the floors"""
    copy.open()
    with copy.store._environment.write() as transaction:
        (key,) = [key for key, data in transaction.items("scopes") if SCOPE.encode() in data]
        data = bytearray(transaction.get("scopes", key))
        data[10] ^= 1
        transaction.put("scopes", key, bytes(data))
    copy.reopen()
    assert {"record_lost", "store_regressed"} == {str(one) for one in happened(copy)}
    assert copy.store.standing().marks[SCOPE].version == (1, 3)
    assert copy.contents() is None
    copy.apply(copy.cluster.snapshot(4, sections(4)))


def test_quarantine_is_bounded(copy):
    """rules L33: three copies, the oldest go first"""
    for number in range(MOST_COPIES + 2):
        data_file(copy).write_bytes(b"%d" % number)
        copy.open(now=NOW + number)
        copy.close()
    kept = sorted(path.name for path in (home(copy) / "quarantine").iterdir())
    assert len(kept) == MOST_COPIES
    contents = {(home(copy) / "quarantine" / name / "data.mdb").read_bytes() for name in kept}
    assert contents == {b"2", b"3", b"4"}


def test_quarantine_of_the_same_second(copy):
    for number in range(3):
        data_file(copy).write_bytes(b"%d" % number)
        copy.open()
        copy.close()
    assert len(list((home(copy) / "quarantine").iterdir())) == 3


def test_truncation_at_every_page_border(origin, tmp_path):
    """rules L30, M7; threats C03, fact 2"""
    size = data_file(origin).stat().st_size
    for length in range(0, size, 4096):
        node = Node(tmp_path / f"at-{length}", origin.cluster)
        shutil.copytree(origin.path, node.path)
        with data_file(node).open("r+b") as file:
            file.truncate(length)
        survives(node)
        shutil.rmtree(node.path)


def survives(node):
    """It opens, holds its floors, serves nothing wrong, and takes the next."""
    with node:
        assert node.store.standing().marks[SCOPE].version >= (1, 3)
        assert node.store.floors.scopes[SCOPE].order >= (1, 3)
        served = node.contents()
        if served is not None:
            assert served == {"a": b'{"v":%d}' % node.store.active(SCOPE).envelope.config_version, "b": filler()}
        elif node.store.findings:
            assert node.store.journal.events(0)
        if node.store.active("trust_bundle") is not None:
            node.apply(node.cluster.snapshot(4, sections(4)))
            assert node.contents()["a"] == b'{"v":4}'
    assert list(check(node.path, CLUSTER)) == []


def filler():
    return b'"' + FILLER.encode() + b'"'


@examples(20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bits_anywhere(origin, tmp_path_factory, data):
    """rules J47, M6; threats C02, C09"""
    size = data_file(origin).stat().st_size
    flips = data.draw(st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, 7)), min_size=1, max_size=4))
    path = tmp_path_factory.mktemp("flip") / "root"
    shutil.copytree(origin.path, path)
    node = Node(path, origin.cluster)
    damaged = bytearray(data_file(node).read_bytes())
    for position, bit in flips:
        damaged[position] ^= 1 << bit
    data_file(node).write_bytes(damaged)
    survives(node)
    shutil.rmtree(path.parent)


def test_activation_after_a_rebuild_keeps_the_generation_rising(copy):
    copy.open()
    before = copy.store.watch.generation
    copy.close()
    data_file(copy).write_bytes(b"")
    copy.open()
    verdict = copy.apply(copy.cluster.bundle(2))
    assert copy.store.watch.generation > before
    assert copy.store.active("trust_bundle").envelope_hash == verdict.envelope_hash
    assert BOOT.boot_id == "boot-1"
