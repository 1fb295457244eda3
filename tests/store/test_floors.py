from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot.verifier_state import Mark
from store.base import sealed
from store.base.disk import Disk
from store.base.floors import MAGIC, NAMES, ActivatingScope, FloorRecord, Floors, ScopeFloor
from store.base.timefloor import TimeFloor

HASH = "sha256:" + "a" * 64


def record(version, **changes):
    scopes = {"route_policy": ScopeFloor(Mark(1, version, HASH), HASH)}
    return replace(FloorRecord("blue", scopes=scopes, generation=version), **changes)


@pytest.fixture
def places(tmp_path):
    for name in ("floors", "tmp"):
        (tmp_path / name).mkdir()
    return tmp_path / "floors", tmp_path / "tmp"


def load(places, cluster_id="blue"):
    return Floors.load(*places, Disk(), cluster_id)


def version(floors):
    return floors.record.scopes["route_policy"].mark.config_version


def test_records_alternate_and_the_higher_counts(places):
    """rules L32; threats D-24"""
    floors = load(places)
    assert not floors.found
    for number in range(1, 6):
        floors.write(record(number))
        assert version(load(places)) == number
    assert {sealed.read(MAGIC, places[0] / name)[0] for name in NAMES} == {4, 5}


def test_a_record_holds_everything(places):
    """threats D-24"""
    full = record(
        3,
        authority_epoch=2,
        bundle_version=7,
        time_floor=TimeFloor(2, 1_900_000_000.5, "boot", 12.25),
        used_nonces=frozenset({"n1", "n2"}),
        activating=(ActivatingScope("route_policy", HASH, (HASH,), 1.5, "n1"),),
    )
    load(places).write(full)
    assert load(places).record == replace(full, sequence=1)


def test_a_floor_never_goes_down(places):
    """rules L32"""
    floors = load(places)
    floors.write(record(9, used_nonces=frozenset({"n"})))
    floors.write(record(4))
    assert version(floors) == version(load(places)) == 9
    assert load(places).record.used_nonces == {"n"}


def test_of_equal_marks_the_later_envelope_counts(places):
    """rules S87: after a recovery the mark stays, the envelope is another"""
    floors = load(places)
    floors.write(record(9))
    back = {"route_policy": ScopeFloor(Mark(1, 9, HASH), "sha256:" + "b" * 64)}
    floors.write(replace(floors.record, scopes=back))
    assert load(places).record.scopes == back


def test_where_a_recovery_led_is_kept_until_a_higher_mark(places):
    """rules S87: files of before, which do not say it, are read; one of another shape is damage"""
    floors = load(places)
    floors.write(record(9))
    sequence, payload = sealed.read(MAGIC, places[0] / NAMES[0])
    assert "returned" not in payload["scopes"]["route_policy"]
    returned = Mark(1, 7, "sha256:" + "b" * 64)
    back = {"route_policy": ScopeFloor(Mark(1, 9, HASH), "sha256:" + "c" * 64, returned)}
    floors.write(replace(floors.record, scopes=back))
    assert load(places).record.scopes == back
    floors.write(record(8))
    assert load(places).record.scopes == back, "neither the mark nor this goes back"
    sequence, payload = sealed.read(MAGIC, places[0] / NAMES[0])
    payload["scopes"]["route_policy"]["returned"] = "7"
    (places[0] / NAMES[0]).write_bytes(sealed.seal(MAGIC, sequence, payload))
    assert load(places).faults
    floors.write(record(10))
    floors.write(record(10))
    assert load(places).record.scopes["route_policy"].returned is None


@pytest.mark.parametrize("damaged", NAMES)
def test_one_damaged_record_leaves_the_other(places, damaged):
    """threats D-24"""
    floors = load(places)
    floors.write(record(1))
    floors.write(record(2))
    data = bytearray((places[0] / damaged).read_bytes())
    data[30] ^= 1
    (places[0] / damaged).write_bytes(data)
    found = load(places)
    assert found.found
    assert damaged in found.faults[0]
    assert version(found) == (2 if damaged == "a.rec" else 1)
    found.write(record(2))
    assert load(places).faults == ()


def test_both_damaged_is_lost(places):
    """threats D-24"""
    floors = load(places)
    floors.write(record(1))
    floors.write(record(2))
    for name in NAMES:
        (places[0] / name).write_bytes(b"")
    found = load(places)
    assert not found.found
    assert len(found.faults) == 2


def test_a_missing_one_is_named(places):
    floors = load(places)
    floors.write(record(1))
    floors.write(record(2))
    (places[0] / "b.rec").unlink()
    assert load(places).faults == ("floors/b.rec: missing",)


def test_another_clusters_floors_do_not_count(places):
    """rules L6"""
    load(places).write(record(5))
    found = load(places, "green")
    assert not found.found
    assert found.record.scopes == {}


@given(st.data())
def test_no_flipped_bit_and_no_cut_is_taken_for_a_record(data):
    """threats D-24"""
    whole = sealed.seal(MAGIC, 7, {"cluster_id": "blue", "x": [1, 2]})
    assert sealed.unseal(MAGIC, whole) == (7, {"cluster_id": "blue", "x": [1, 2]})
    position = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        broken = whole[:position]
    else:
        flipped = bytearray(whole)
        flipped[position] ^= 1 << data.draw(st.integers(0, 7))
        broken = bytes(flipped)
    with pytest.raises(sealed.UnreadableFile):
        sealed.unseal(MAGIC, broken)


marks = st.builds(Mark, st.integers(1, 3), st.integers(1, 5), st.just(HASH))
records = st.builds(
    FloorRecord,
    cluster_id=st.just("blue"),
    generation=st.integers(0, 9),
    authority_epoch=st.integers(0, 3),
    bundle_version=st.integers(0, 3),
    time_floor=st.none()
    | st.builds(TimeFloor, st.integers(0, 2), st.just(5.0) | st.just(9.0), st.just("b"), st.just(1.0)),
    used_nonces=st.frozensets(st.sampled_from("abc")),
    scopes=st.dictionaries(st.sampled_from(["x", "y"]), st.builds(ScopeFloor, marks, st.just(HASH))),
)


@given(st.lists(records, min_size=1, max_size=6))
def test_whatever_is_merged_nothing_is_lower(merged):
    """rules L32"""
    total = FloorRecord("blue")
    for sequence, one in enumerate(merged):
        total = replace(one, sequence=sequence).merge(total)
    for one in merged:
        assert total.covers(replace(one, sequence=total.sequence))
        for scope, floor in one.scopes.items():
            assert total.scopes[scope].order >= floor.order
