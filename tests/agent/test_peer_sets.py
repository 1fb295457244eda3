"""Which peers are asked first, and what is remembered of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.peer_cache import FRESH_S, KEPT_S, MOST, PeerCache
from agent.sources.peer_sets import Peer, PeerRecord, PeerSetSizes, sort_peers
from wire.endpoint import Endpoint

NOW = 1_800_000_000
SIZES = PeerSetSizes(active=4, warm=12, cold=3)


def peer(name, site="far", **more):
    return Peer(name, Endpoint.parse(f"https://{name}.example:7445"), frozenset({name.encode()}), site, **more)


def names(peers):
    return [each.node_id for each in peers]


def sort(peers, records=None, own_id="node-a", own_site="here"):
    found = sort_peers(peers, records or {}, SIZES, own_id, own_site)
    return names(found.active), names(found.warm), names(found.cold)


FAR = [peer(f"far-{number}") for number in range(10)]
NEAR = [peer(f"near-{number}", "here") for number in range(3)]


def test_near_before_far_and_warm_before_cold():
    """rules L21: as many as the numbers say, those of the same site first"""
    active, warm, cold = sort([*FAR, *NEAR])
    assert set(active[:3]) == {"near-0", "near-1", "near-2"}
    assert active[3] in names(FAR)
    assert len(warm) == 9
    assert cold == []
    active, warm, cold = sort([*NEAR, *[peer(f"far-{number}") for number in range(40)]])
    assert (len(active), len(warm), len(cold)) == (4, 12, 3)


def test_who_failed_last_is_cold_and_well_again_with_what_it_gives():
    """rules L21: one attempt, then its turn among the cold ones"""
    failed = {"near-1": PeerRecord(worked_at=NOW - 10, failed_at=NOW)}
    active, warm, cold = sort([*FAR, *NEAR], failed)
    assert "near-1" not in (*active, *warm)
    assert cold == ["near-1"]
    assert len(active) == 4
    active, _, cold = sort([*FAR, *NEAR], {"near-1": PeerRecord(worked_at=NOW + 1, failed_at=NOW)})
    assert active[0] == "near-1", "it has worked, the other two near ones were never asked"
    assert cold == []


def test_of_two_that_are_as_near_the_one_that_has_worked_comes_first():
    worked = {"far-7": PeerRecord(worked_at=NOW)}
    assert sort(FAR, worked)[0][0] == "far-7"


def test_bootstrap_peers_are_asked_last_until_they_have_worked():
    """rules S64, L14: coordinator, storage, active, warm, bootstrap peers"""
    seed = peer("seed", "", is_bootstrap=True)
    assert sort([seed]) == ([], [], ["seed"])
    assert sort([seed, *FAR])[2] == ["seed"]
    assert sort([seed], {"seed": PeerRecord(worked_at=NOW)}) == (["seed"], [], [])


def test_cold_ones_have_their_turns():
    """rules L21: who was asked the longest ago is asked first, so nobody is forgotten"""
    records = {each.node_id: PeerRecord(failed_at=NOW - number) for number, each in enumerate(FAR)}
    asked = set()
    for step in range(1, 5):
        _, _, cold = sort(FAR, records)
        assert len(cold) == 3
        asked.update(cold)
        records |= {name: PeerRecord(failed_at=NOW + step) for name in cold}
    assert asked == set(names(FAR))


def test_the_nodes_of_a_site_do_not_all_ask_the_same_peer():
    first = {sort(FAR, own_id=f"node-{number}")[0][0] for number in range(20)}
    assert len(first) >= 4


RECORDS = st.builds(PeerRecord, st.sampled_from([0, 5, 10]), st.sampled_from([0, 5, 10]))


@given(st.integers(0, 40), st.dictionaries(st.integers(0, 40), RECORDS), st.booleans())
def test_nobody_stands_in_two_sets_and_whoever_is_well_has_a_place_before_who_is_not(count, records, is_near):
    """rules L21"""
    peers = [peer(f"p{number}", "here" if is_near and number % 3 == 0 else "far") for number in range(count)]
    by_name = {f"p{number}": record for number, record in records.items()}
    active, warm, cold = sort(peers, by_name)
    together = [*active, *warm, *cold]
    assert len(together) == len(set(together)) >= min(count, SIZES.cold)
    assert (len(active), len(warm), len(cold)) <= (SIZES.active, SIZES.warm, SIZES.cold)
    assert not any(by_name.get(name, PeerRecord()).is_failing for name in (*active, *warm))
    if warm:
        assert len(active) == SIZES.active


class Time:
    now = float(NOW)

    def __call__(self):
        return self.now


@pytest.fixture
def time():
    return Time()


def test_what_is_remembered_outlives_a_process(time):
    """rules S84, L5"""
    cache = PeerCache(None, time)
    cache.note_worked("node-b")
    cache.note_failed("node-c")
    assert cache.is_changed
    again = PeerCache(cache.to_row(), time)
    assert again.records == cache.records
    assert not again.is_changed
    assert [again.records[name].is_failing for name in ("node-b", "node-c")] == [False, True]


def test_the_disk_is_written_for_news_alone(time):
    cache = PeerCache(None, time)
    cache.note_worked("node-b")
    cache.to_row()
    for _ in range(100):
        time.now += FRESH_S / 200
        cache.note_worked("node-b")
    assert not cache.is_changed
    cache.note_failed("node-b")
    assert cache.is_changed
    cache.to_row()
    time.now += FRESH_S
    cache.note_failed("node-b")
    assert cache.is_changed


def test_a_clock_that_goes_back_leaves_the_last_word_to_what_came_last(time):
    cache = PeerCache({"node-b": {"worked_at": NOW + 9_000, "failed_at": 0}}, time)
    cache.note_failed("node-b")
    assert cache.records["node-b"].is_failing
    time.now -= 500
    cache.note_worked("node-b")
    assert not cache.records["node-b"].is_failing


def test_the_old_ones_go_and_of_too_many_those_of_the_longest_ago(time):
    cache = PeerCache({"old": {"worked_at": NOW - KEPT_S - 1, "failed_at": 0}}, time)
    for number in range(MOST + 10):
        time.now += 1
        cache.note_worked(f"node-{number}")
    kept = cache.to_row()
    assert len(kept) == MOST
    assert not {"old", "node-0", "node-9"} & kept.keys()


@pytest.mark.parametrize("row", [
    None, 7, [], {"node-b": 1}, {"node-b": {"worked_at": "now", "failed_at": 0}}, {"node-b": {"worked_at": 1}},
    {3: {"worked_at": 1, "failed_at": 0}},
])  # fmt: skip
def test_what_is_not_in_form_is_not_known(time, row):
    """rules L3: nor does a row that somebody has planted authorise anybody"""
    assert PeerCache(row, time).records == {}
