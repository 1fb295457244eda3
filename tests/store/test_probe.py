"""rules L30; threats D-25: only what damage does counts as damage"""

import os
import sys
from pathlib import Path

import pytest

from store.base.errors import StoreError, StoreFault
from store.fsck import child
from store.fsck.probe import Findings, probe
from tests.store.cluster import Node

pytestmark = pytest.mark.usefixtures("started_plainly")


def speak():
    return {"said": [1, "two"]}


def die_of(number):
    os.kill(os.getpid(), number)


def raise_an_error():
    raise ValueError("read nonsense")


def called(function, *arguments, deadline_s=120.0):
    sys.path.insert(0, str(Path.cwd()))
    try:
        return child.call("tests.store.test_probe", function, arguments, deadline_s)
    finally:
        sys.path.pop(0)


def test_it_answers():
    assert called("speak") == {"said": [1, "two"]}


@pytest.mark.parametrize("number", [7, 11, 6])
def test_what_kills_it_by_itself_is_damage(number):
    """threats fact 2: SIGBUS, SIGSEGV, SIGABRT"""
    with pytest.raises(child.ChildDiedError, match="SIG"):
        called("die_of", number)


def test_an_exception_while_reading_is_damage():
    with pytest.raises(child.ChildDiedError, match="read nonsense"):
        called("raise_an_error")


def test_a_child_that_does_not_end_is_damage():
    """rules L30: no start hangs for ever"""
    with pytest.raises(child.ChildDiedError, match="end"):
        child.call("time", "sleep", [600], 5.0)


def test_a_child_that_had_no_time_to_begin_is_none():
    """A machine that is busy while it starts must not set its store aside."""
    with pytest.raises(StoreError, match="begin") as caught:
        child.call("time", "sleep", [600], 0.0)
    assert caught.value.fault is StoreFault.PROBE_FAILED


@pytest.mark.parametrize("number", [9, 15])
def test_being_ended_from_outside_is_none(number):
    """A service that is stopped while it starts must not set its store aside."""
    with pytest.raises(StoreError) as caught:
        called("die_of", number)
    assert caught.value.fault is StoreFault.PROBE_FAILED


def test_a_broken_installation_is_none(node, monkeypatch):
    """A package in the middle of an upgrade must not cost the store."""
    incarnation = node.store.incarnation
    node.close()
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(StoreError) as caught:
        node.open()
    assert caught.value.fault is StoreFault.PROBE_FAILED
    monkeypatch.undo()
    node.open()
    assert node.store.findings == ()
    assert node.store.incarnation == incarnation


def test_it_reads_everything(tmp_path, cluster):
    with Node(tmp_path / "root", cluster) as node:
        node.apply(cluster.bundle())
        store = node.store.paths.store
    found = probe(store)
    assert (found.fault, found.format, found.cluster_id, found.damaged) == ("", 1, "blue", [])
    assert found.blobs == 5  # four sections and the manifest
    assert isinstance(found, Findings)
    assert sorted(path.name for path in store.iterdir()) == ["data.mdb", "lock.mdb"]
