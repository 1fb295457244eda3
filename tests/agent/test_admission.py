"""A snapshot that fits into a transaction: its slot is written while it is judged from memory."""

import threading

import pytest

from agent.base.byte_source import Chunks
from agent.update import admission
from agent.update.admission import SMALL_BYTES, AskedDocument, Candidate
from snapshot.envelope import SNAPSHOT
from snapshot.reasons import Reason, Rejected
from snapshot.verify import verify
from store.base.errors import StoreError, StoreFault
from tests.agent.bench import bench
from tests.agent.test_waiting_head import fail_commits
from tests.journeys.lab import ROUTES

ASKED = AskedDocument(SNAPSHOT, "bench", ROUTES)


@pytest.fixture
async def made(one, mock_clock):
    async with bench(one) as found:
        await found.settle()
        yield found


def large(made, **member):
    routes = {f"route-{number:04}": {"note": "x" * 200, **member} for number in range(500)}
    document = made.server.snapshot({"routes": routes}, ROUTES)
    assert len(document.to_bytes()) > SMALL_BYTES
    return document


async def receive(made, document):
    receiving = made.outside.update.admission.receive
    return await receiving(Chunks(document.to_bytes()), ASKED, made.node.holder())


async def test_its_slot_is_written_while_it_is_judged(made, monkeypatch):
    """rules S66, L39: neither waits for the other, and the verdict comes once it is durable"""
    judged, written = threading.Event(), []

    def judge(*arguments, **named):
        verdict = verify(*arguments, **named)
        judged.set()
        return verdict

    def write_after_that(step):
        if step == "commit":
            written.append(judged.wait(30))

    monkeypatch.setattr(admission, "verify", judge)
    monkeypatch.setattr(made.disk, "about_to", write_after_that)
    candidate = await receive(made, large(made))
    assert isinstance(candidate, Candidate)
    assert written == [True]
    assert [(held.scope, held.sealed) for held in made.node.store.pending()] == [(ROUTES, True)]
    await made.outside.update.activating.activate([candidate])
    assert made.node.holdings.view.scopes[ROUTES].identity[1] == 2


async def test_a_disk_that_refuses_leaves_nothing_of_what_was_judged(made, monkeypatch):
    """rules L35, S53"""

    def refuse(step):
        raise OSError(28, "No space left on device")

    document = large(made)
    monkeypatch.setattr(made.disk, "about_to", refuse)
    with pytest.raises(StoreError) as refused:
        await receive(made, document)
    assert refused.value.fault is StoreFault.STORE_FULL
    monkeypatch.undo()
    assert made.node.store.pending() == []
    assert made.node.holdings.view.scopes[ROUTES].identity[1] == 1
    await made.take(document)
    assert made.node.holdings.view.scopes[ROUTES].identity[1] == 2


async def test_what_is_refused_leaves_its_slot(made):
    """rules S53, L39: though that was written meanwhile"""
    with pytest.raises(Rejected) as refused:
        await receive(made, large(made, password="p"))
    assert refused.value.reason is Reason.RAW_SECRET
    assert made.node.store.pending() == []
    assert made.node.holdings.view.scopes[ROUTES].identity[1] == 1
    await made.take(large(made))
    assert made.node.holdings.view.scopes[ROUTES].identity[1] == 3


async def test_what_is_activated_next_finishes_a_head_that_failed_at_its_commit(made, monkeypatch):
    """rules L32, S67: a document that was judged before; the head would be refused as accepted, and never be active"""
    candidate = await receive(made, made.server.snapshot({"routes": {"south": {}}}, ROUTES))
    before = made.node.holdings.held_head
    head = made.server.announce()
    fail_commits(monkeypatch, 1)
    await made.outside.refresh.ask(made.coordinator)
    assert (made.node.holdings.held_head, made.node.store.is_unfinished) == (before, True)
    await made.outside.update.waiting_head.activate([candidate])
    assert made.node.holdings.view.scopes[ROUTES].identity[1] == 2
    assert made.node.holdings.held_head == head.envelope.version
