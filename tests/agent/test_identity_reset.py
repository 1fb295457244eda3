"""An identity that its operator ends: the node is outside, forgets nothing that protects it, and joins anew."""

import pytest

from agent.enrolment import identity_reset
from agent.enrolment.identity import FILE
from snapshot.manifest import Revocations
from store.base.disk import Disk
from store.base.errors import StoreError
from store.base.layout import Root
from store.store import Store
from tests.fakes.cluster import CLUSTER_ID, NODE_ID
from tests.journeys.lab import ROUTES, put_token
from tests.store.dying import FailingDisk
from wire.certificate import fingerprint


def reset(one, disk=None):
    """As the command does it, the agent being stopped; what the identity was."""
    disk = disk or Disk()
    with (
        Root.open(one.settings.node.state_directory) as root,
        Store.open(root, CLUSTER_ID, now=one.clock.true) as store,
    ):
        former = identity_reset.look(store)
        identity_reset.reset(store, disk, former, now=one.clock.true)
        return former


def files_of(one):
    home = one.settings.node.state_directory / "clusters" / CLUSTER_ID
    return {path.name for path in (home / "identity").iterdir()} | {path.name for path in (home / "tmp").iterdir()}


async def test_the_node_is_outside_and_asks_nobody_until_there_is_a_token(one, mock_clock):
    """rules L13, A2, K29"""
    async with one.agent():
        await one.settled()
        (pin,) = one.server.pins.of_node(NODE_ID)
    (one.folder / "join.token").unlink()
    former = reset(one)
    assert (former.node_id, former.fingerprint, former.revoked) == (NODE_ID, fingerprint(pin.der), False)
    assert former.scopes == ("degraded_mode_policy", "node_bootstrap", ROUTES)
    assert files_of(one) == {"enrolment.rec"}
    one.server.requests.clear()
    async with one.agent():
        await one.until(lambda: not (one.folder / "run" / "active" / ROUTES).exists())
        assert (one.state, one.cause) == ("unenrolled", "not_enrolled")
        assert set(one.node.holdings.scopes) == {"trust_bundle"}
        assert (await one.may("continue_services"))["reason"] == "not_enrolled"
        assert one.server.requests == []
        put_token(one.folder / "join.token")
        await one.settled()
        assert len(one.server.pins.of_node(NODE_ID)) == 2, "it has come with another key"


async def test_what_protects_the_node_is_not_lowered(one, mock_clock):
    """rules L13, L16, L32; threats D-19: no second first use, and nothing older than what was accepted"""
    async with one.agent():
        await one.settled()
        one.server.snapshot({"routes": {}}, ROUTES)
        one.server.announce()
        await one.until_active(ROUTES, 2)
        before, enrolled = one.node.store.floors, one.node.store.enrolment
        marks = one.node.holdings.kept.marks
    reset(one)
    one.server.publish(one.cluster.trust_bundle(**one.server.times()))
    async with one.agent():
        assert one.node.store.enrolment == enrolled
        assert one.node.store.floors.covers(before)
        assert one.node.holdings.kept.marks == marks
        await one.until_active(ROUTES, 2)
        assert one.mark(ROUTES) == marks[ROUTES].version
        assert one.node.holdings.bundle.version == 2
        assert one.rejected("trust_bundle") == "", "the grant has all bundles; those that are held are passed over"
        events = [event.event for event in one.node.store.journal.events(after=0)]
        assert identity_reset.EVENT in events


async def test_a_revoked_node_that_was_readmitted_is_active_again(one, mock_clock):
    """rules A9, L13: only by this; before it a head that names nobody changes nothing"""
    async with one.agent():
        await one.settled()
        one.server.announce(revocations=Revocations(version=1, node_ids=frozenset({NODE_ID})))
        await one.until(lambda: one.state == "revoked" and one.version(ROUTES) is None)
    one.server.announce(revocations=Revocations(version=2))
    assert reset(one).revoked
    async with one.agent():
        await one.settled()
        assert one.version(ROUTES) == 1


@pytest.mark.parametrize("step", range(1, 6))
async def test_a_failing_disk_leaves_what_the_same_command_ends(one, mock_clock, step):
    """rules L13, J47: what was not done yet is done by the next call, and no half of a key is left"""
    async with one.agent():
        await one.settled()
    disk = FailingDisk()
    disk.fail(step, OSError("broken"))
    with pytest.raises(OSError, match="broken"):
        reset(one, disk)
    assert len(disk.seen) == step
    reset(one)
    assert files_of(one) == {"enrolment.rec"}
    async with one.agent():
        await one.settled()


async def test_a_damaged_enrolment_is_not_taken_as_leave_to_forget(one, mock_clock):
    """rules L16"""
    async with one.agent():
        await one.settled()
        record = one.node.store.paths.identity / "enrolment.rec"
    record.chmod(0o600)
    record.write_bytes(b"rubbish")
    with pytest.raises(StoreError, match="store_corrupt"):
        reset(one)
    assert FILE in files_of(one)
