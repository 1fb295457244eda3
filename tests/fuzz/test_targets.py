"""The fuzz targets hold for their seeds, and for a few other bytes; `make fuzz` goes on from there."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot import canonical
from snapshot.reasons import Reason
from snapshot.verify import Verified
from tests.fuzz import seeds
from tests.fuzz.targets import PLACES, TARGETS, lab, verdict

PATCH = 1  # of the places
OTHERS = [place for place in range(len(PLACES)) if place != PATCH]


@pytest.mark.parametrize("name", TARGETS)
def test_seeds(name):
    """threats E25, D-57"""
    found = sorted(set(seeds.SEEDS[name]()))
    assert len(found) > 100
    for data in found:
        if name != "sections" or is_tried_here(data):
            TARGETS[name](data)


def is_tried_here(data):
    """What is no patch is tried as one of six things; `make fuzz` begins with all of them."""
    return data[0] in (PATCH, OTHERS[zlib.crc32(data[1:]) % len(OTHERS)])


def test_seeds_are_files(tmp_path):
    assert seeds.write("container", tmp_path) == len(list(tmp_path.iterdir())) > 100
    assert {path.read_bytes() for path in tmp_path.iterdir()} == set(seeds.containers())


@given(st.sampled_from(sorted(TARGETS)), st.binary(max_size=200))
def test_any_bytes(name, data):
    """threats E25"""
    TARGETS[name](data)


@pytest.mark.parametrize("number", range(5))
def test_the_documents_that_are_signed_anew_are_good_ones(number):
    document = lab().documents[number]
    assert verdict(document.chunks(), document.envelope.kind)[0] is Verified


def test_a_target_sees_what_is_wrong(monkeypatch):
    """A fuzzer that cannot fail finds nothing."""
    monkeypatch.setattr(canonical, "dumps", lambda value: b"")
    with pytest.raises(AssertionError, match="canonical bytes"):
        TARGETS["sections"](b'\x07{"a":1}')


def test_a_fault_of_the_verifiers_own_is_a_finding(monkeypatch):
    """threats D-57"""

    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("snapshot.verify.envelope.parse", broken)
    with pytest.raises(ZeroDivisionError):
        verdict(lab().snapshot.chunks(), "snapshot")
    assert Reason.VERIFIER_FAULT == "verifier_fault"
