"""A head waits a moment for what it lists: one activation for both, and nothing that it says itself is held up."""

import errno
from dataclasses import replace

import pytest
import trio

from agent.services.probation_terms import ANSWERED_S
from agent.update.waiting_head import HOLD_S
from snapshot.manifest import Revocations
from store.base.disk import Disk
from store.store import Store
from tests.agent.test_update import handed_in
from tests.agent.test_update_occupied import begun
from tests.fakes.cluster import listing
from tests.fakes.thief import Thief, repair
from tests.journeys.lab import ROUTES, SELDOM, lab
from tests.world import elapsed
from wire.backoff import LEAST_S
from wire.messages import HeadAnswer
from wire.request import Response

SLOW = f"/v1/documents/{ROUTES}-2"
AT_ONCE_S = HOLD_S / 2
RESTS_S = 5.0  # until no round is under way


@pytest.fixture
async def one(tmp_path, mock_clock):
    async with lab(tmp_path, mock_clock) as found, found.agent():
        await found.settled()
        await trio.sleep(RESTS_S)
        yield found


def changed(one, where="south", **members):
    one.server.snapshot({"routes": {where: {}}}, ROUTES)
    return one.server.announce(**members)


def generation(one):
    return one.node.store.watch.generation


def activations(one):
    return one.node.counters.of("activations")


async def until_head(one, head, within_s):
    await one.until(lambda: one.node.holdings.held_head == head.envelope.version, within_s)


async def until_asked_for(one):
    await begun(one.server, f"GET {SLOW}")


async def test_a_head_and_what_it_lists_are_one_activation(one, mock_clock):
    """rules X17, S67: one generation, which has both, and the journal has both"""
    before, activated = generation(one), activations(one)
    head = changed(one)
    await one.until_active(ROUTES, 2)
    assert one.node.holdings.held_head == head.envelope.version
    assert generation(one) == before + 1
    assert activations(one) == activated + 1
    assert {event.scope for event in one.node.store.journal.events()[-2:]} == {"head", ROUTES}
    assert one.node.store.pending() == []


async def test_what_came_along_with_the_head_is_one_activation_with_it(one, mock_clock):
    """protocol 1: nothing is asked for"""
    document = one.server.snapshot({"routes": {"south": {}}}, ROUTES)

    def beside(head):
        answer = HeadAnswer(head, (document.to_bytes(),))
        return answer.media_type, answer.to_bytes()

    one.server.beside = beside
    before = generation(one)
    one.server.announce()
    await one.until_active(ROUTES, 2)
    assert generation(one) == before + 1
    assert f"GET {SLOW}" not in one.server.requests


async def test_a_head_does_not_wait_long_for_a_document(one, mock_clock):
    """rules P2: it becomes active alone, and the download goes on over the same connection"""
    one.server.hang = SLOW
    since = trio.current_time()
    head = changed(one)
    await until_asked_for(one)
    assert one.node.holdings.held_head != head.envelope.version
    await until_head(one, head, 2 * HOLD_S)
    assert elapsed.since(since) >= HOLD_S
    assert one.version(ROUTES) == 1
    one.server.hang = ""
    await one.until_active(ROUTES, 2)
    assert one.server.requests.count(f"GET {SLOW}") <= 2


async def test_a_revocation_does_not_wait_for_a_document(one, mock_clock):
    """rules A9, P2: the head says more than which versions there are"""
    one.server.hang = SLOW
    revoked = Revocations(version=1, service_ids=frozenset({"web"}))
    head = changed(one, revocations=revoked)
    await until_head(one, head, AT_ONCE_S)
    assert one.node.holdings.revocations.service_ids == {"web"}
    one.server.hang = ""
    await one.until_active(ROUTES, 2)


async def test_a_scope_that_is_listed_no_more_does_not_wait_for_a_document(one, mock_clock):
    """rules S3: what goes goes first"""
    one.server.snapshot({"qos": {}}, "qos_policy")
    one.server.announce()
    await one.until_active("qos_policy", 1)
    one.server.hang = SLOW
    one.server.snapshot({"routes": {"south": {}}}, ROUTES)
    listed = {scope: entry for scope, entry in one.cluster.listed().items() if scope != "qos_policy"}
    head = one.server.announce(scopes=listed)
    await until_head(one, head, AT_ONCE_S)
    await one.until(lambda: "qos_policy" not in one.node.holdings.scopes, AT_ONCE_S)
    one.server.hang = ""
    await one.until_active(ROUTES, 2)


async def test_the_head_that_ends_an_outage_does_not_wait_for_a_document(one, mock_clock):
    """rules K30: the head that is held has run out; the next one alone ends that"""
    now = int(one.clock.true)
    await until_head(one, one.server.announce(refresh_after=now + 5, expires_at=now + 10), AT_ONCE_S)
    await trio.sleep(15)
    assert not one.node.gate_facts().head_is_fresh(one.node.now())
    before = generation(one)
    changed(one)
    await one.until_active(ROUTES, 2)
    assert generation(one) == before + 2
    assert one.state == "active"


async def test_a_document_that_is_refused_leaves_the_head(one, mock_clock):
    """rules S53, S54: the head is active without it, the reason is recorded, and the next valid one goes in"""
    one.server.spoil = lambda path, data: data[:-1] + b"\x00" if path == SLOW else data
    head = changed(one)
    await until_head(one, head, AT_ONCE_S)
    await one.until(lambda: one.rejected(ROUTES) == "content_mismatch")
    assert one.version(ROUTES) == 1
    one.server.spoil = lambda _, data: data
    changed(one, "west")
    await one.until_active(ROUTES, 3)


async def test_a_head_whose_signer_is_taken_away_meanwhile_is_not_taken(one, mock_clock, monkeypatch):
    """threats D-41: its verdict is of what was held then; it is judged again, and the repair goes in"""
    monkeypatch.setattr("agent.update.waiting_head.HOLD_S", 60.0)
    thief = Thief(one.server)
    thief.generation = one.node.holdings.held_head[1] + 10
    thief.snapshot({"routes": {"his": {}}}, ROUTES)
    one.server.hang = SLOW
    held = one.node.holdings.held_head
    his = thief.say(one.cluster.listed())
    await until_asked_for(one)
    assert one.node.holdings.held_head == held
    thief.leave()
    one.server.instead = lambda _, data: Response(404)
    for bundle in repair(one.server)[:2]:
        await handed_in(one, bundle)
    assert one.node.holdings.bundle.authority_epoch == 2
    one.server.instead = None
    one.server.wake()
    await one.until(lambda: one.node.holdings.held_head[0] == 2)
    assert not any(his.envelope.snapshot_id in event.detail for event in one.node.store.journal.events())
    await one.until(lambda: one.state == "active")


async def test_what_it_lists_is_on_the_terms_that_it_says_whatever_comes_meanwhile(one, mock_clock, monkeypatch):
    """rules S86, S67: a trust bundle came while it waited; so it is judged again, and its documents come after it"""
    monkeypatch.setattr("agent.update.waiting_head.HOLD_S", 60.0)
    one.server.hang = SLOW
    document = one.server.snapshot({"routes": {"south": {}}}, ROUTES)
    scopes = one.cluster.listed()
    head = one.server.announce(scopes=scopes | {ROUTES: replace(listing(document), change="c-1", probation_s=300)})
    await until_asked_for(one)
    one.cluster.trust("config-more")
    await handed_in(one, one.cluster.trust_bundle(**one.server.times()))
    assert one.node.holdings.held_head != head.envelope.version
    one.server.hang = ""
    await one.until_active(ROUTES, 2)
    assert one.node.holdings.held_head == head.envelope.version
    assert [event.scope for event in one.node.store.journal.events()[-3:]] == ["trust_bundle", "head", ROUTES]
    assert one.node.holdings.kept.probations[ROUTES].lasts_s == 300


async def test_who_brings_it_has_answered_before_what_comes_with_it_is_on_probation(tmp_path, mock_clock):
    """rules S67, L34: of a change of where the coordinators are, losing them fails it, since one was there"""
    scope = "node_bootstrap"
    async with lab(tmp_path, mock_clock, text=SELDOM) as one, one.agent():
        await one.settled()
        await trio.sleep(2 * ANSWERED_S)
        document = one.server.snapshot({"node": {"site": "other"}}, scope)
        listed = replace(listing(document), change="c-1", probation_s=300)
        one.server.announce(scopes=one.cluster.listed() | {scope: listed})
        await one.until_active(scope, 2)
        assert one.node.holdings.kept.probations[scope].way


@pytest.mark.parametrize("hold_s", [HOLD_S, 0.0], ids=["joint", "alone"])
@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_head_that_fails_at_its_commit_is_taken_by_the_usual_retry(one, mock_clock, monkeypatch, times, hold_s):
    """rules L32, L35, P2: the floors name it, so it is finished; the next head is asked for at once then"""
    monkeypatch.setattr("agent.update.waiting_head.HOLD_S", hold_s)
    fail_commits(monkeypatch, times)
    tries = times + 1  # the round may finish it while it is being judged once more: then it is a conflict, once
    retried_s = sum(LEAST_S + 2**failed for failed in range(tries)) + AT_ONCE_S
    await until_head(one, changed(one), retried_s)
    await one.until_active(ROUTES, 2)
    await until_head(one, changed(one, "west"), retried_s)
    await one.until_active(ROUTES, 3)
    assert one.rejected("head") == ""


def fail_commits(monkeypatch, times):
    """Of what comes once floors are raised, this often."""
    raise_floors, commit = Store._raise_floors, Disk.commit
    left = [0]

    def raised(self, record):
        raise_floors(self, record)
        monkeypatch.setattr(Store, "_raise_floors", raise_floors)
        left[0] = times

    def fail(self, transaction):
        if left[0]:
            left[0] -= 1
            raise OSError(errno.EIO, "Input/output error")
        commit(self, transaction)

    monkeypatch.setattr(Store, "_raise_floors", raised)
    monkeypatch.setattr(Disk, "commit", fail)
