"""Bytes into the pending slot: what is not vouched for or not asked for leaves nothing behind."""

import itertools

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from agent.base.byte_source import Chunks
from agent.update.download import Arrival, NotListedError, download, most_bytes
from snapshot.limits import Limits
from snapshot.reasons import Reason, Rejected
from tests.examples import examples
from tests.fakes.clock import Inline
from tests.store.cluster import NOW, SCOPE, Cluster, Node


@pytest.fixture(scope="module")
def cluster():
    return Cluster()


@pytest.fixture
def node(tmp_path, cluster):
    with Node(tmp_path / "root", cluster) as made:
        made.apply(cluster.bundle())
        yield made


def arrival(node, wanted=None, **limits):
    holder = node.holder()
    if limits:
        holder = type(holder)(**{**vars(holder), "limits": Limits(**limits)})
    return Arrival(node.store, holder, "snapshot", NOW, wanted)


async def test_a_document_lies_in_its_slot_sealed(node, cluster):
    """rules S67, L39"""
    document = cluster.snapshot(1, {"a": {"x": 1}, "b": [2]})
    slot, size = await download(Inline(), arrival(node), Chunks(document.to_bytes()), lambda slot: slot.record.size)
    assert size == slot.record.size
    assert slot.record.sealed
    assert slot.scope == SCOPE
    parts = slot.parts()
    assert parts.opening().envelope == document.envelope_bytes
    assert list(parts.sections([len(data) for data in document.sections])) == list(document.sections)


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 2000), max_size=8))
def test_any_split_of_the_bytes_is_the_same_document(node, cluster, cuts):
    data = cluster.snapshot(1, {"a": {"x": "y" * 900}}).to_bytes()
    coming = arrival(node)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        if end > start:
            coming.feed(data[start:end])
    coming.feed(b"")
    assert coming.slot.record.sealed


def nothing(slot):
    """With the slot of a document that is not taken."""
    raise AssertionError(slot)


async def refused(node, document_bytes, reason, **more):
    before = node.store.pending()
    with pytest.raises(Rejected) as caught:
        await download(Inline(), arrival(node, **more), Chunks(document_bytes), nothing)
    assert caught.value.reason is reason
    assert node.store.pending() == before, "nothing is left behind"


async def test_an_opening_that_nobody_vouches_for_makes_no_slot(node, cluster):
    """rules S8: before a section is read"""
    stranger = Cluster().snapshot(1, {"a": 1})
    await refused(node, stranger.to_bytes(), Reason.UNKNOWN_KEY)


async def test_a_cut_one_leaves_no_slot(node, cluster):
    data = cluster.snapshot(1, {"a": {"x": 1}}).to_bytes()
    await refused(node, data[:-1], Reason.BAD_CONTAINER)
    await refused(node, data + b"\0", Reason.BAD_CONTAINER)


async def test_a_section_over_the_limit_is_not_read(node, cluster):
    """rules S8"""
    data = cluster.snapshot(1, {"a": "x" * 5000}).to_bytes()
    await refused(node, data, Reason.TOO_LARGE, section_bytes=1000)


async def test_another_document_than_was_asked_for(node, cluster):
    """rules S86"""
    document = cluster.snapshot(1, {"a": 1})
    with pytest.raises(NotListedError) as caught:
        await download(Inline(), arrival(node, wanted=lambda _: False), Chunks(document.to_bytes()), nothing)
    assert caught.value.envelope == document.envelope
    assert node.store.pending() == []


def test_the_most_that_a_container_can_be():
    assert most_bytes(Limits()) > Limits().content_bytes + Limits().manifest_bytes
