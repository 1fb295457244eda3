"""What a stolen config key can say in a head, each for itself: none of it is left after the documented repair."""

import pytest

from snapshot.bundle import REVOKED
from snapshot.identifiers import HEAD
from snapshot.manifest import Revocations
from tests.agent.bench import bench
from tests.fakes.cluster import DAY, NODE_ID, key
from tests.fakes.thief import MADE_ANEW, NEW, STOLEN, Thief, repair
from tests.journeys.lab import ROUTES, lab

WORDS = {
    "revocations to the end": lambda thief: {"revocations": thief.revoking()},
    "the next key": lambda thief: {"revocations": thief.revoking(key_ids=[key(NEW).key_id])},
    "the other key": lambda thief: {"revocations": thief.revoking(key_ids=[key(STOLEN[1]).key_id])},
    "the node": lambda thief: {"revocations": thief.revoking(node_ids=[NODE_ID])},
    "its role": lambda thief: {"revocations": thief.revoking(role_assignments=[f"{NODE_ID}/core_mesh"])},
    "for months": lambda thief: {"expires_at": int(thief.server.now()) + 80 * DAY},
}


async def asked(one) -> None:
    """Twice: bundles come in between."""
    for _ in range(2):
        await one.outside.refresh.ask(one.coordinator)
        await one.outside.update.bring_up()


def is_repaired(one) -> None:
    holdings = one.node.holdings
    assert (holdings.bundle.version, holdings.bundle.authority_epoch) == (3, 2)
    assert holdings.kept.marks[HEAD].version[0] == 2
    assert {holdings.kept.active[scope].version[0] for scope in MADE_ANEW} == {2}
    assert one.lab.state == "active"


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
@pytest.mark.parametrize("restarted", [False, True], ids=["", "after a restart"])
@pytest.mark.parametrize("stolen", [STOLEN, STOLEN[:1]], ids=["every key", "one of two"])
async def test_what_he_says_in_a_head_is_over_with_the_new_epoch(tmp_path, mock_clock, words, restarted, stolen):
    """rules A9, S44; threats T16: his heads' versions are run up to the end, and so are those of their revocations"""
    async with lab(tmp_path, mock_clock) as started:
        async with bench(started) as one:
            await one.settle()
            thief = Thief(one.server)
            thief.say(**words(thief))
            await asked(one)
            assert one.node.holdings.kept.marks[HEAD].config_version == thief.generation
            thief.leave()
            repair(one.server, stolen)
            if not restarted:
                await asked(one)
                is_repaired(one)
        if restarted:
            async with bench(started) as one:
                await asked(one)
                is_repaired(one)


async def test_what_a_bundle_has_revoked_no_epoch_brings_back(tmp_path, mock_clock):
    """rules A9: a head said it first, then the roots; the epoch that follows ends the head's word alone"""
    async with lab(tmp_path, mock_clock) as started, bench(started) as one:
        await one.settle()
        server, cluster = one.server, one.server.cluster
        server.say(cluster.head(revocations=Revocations(version=1, node_ids=frozenset({NODE_ID})), **server.times()))
        await asked(one)
        assert (one.lab.state, one.node.revocation.epoch) == ("revoked", 1)
        cluster.revocations = Revocations(node_ids=frozenset({NODE_ID}))
        server.publish(cluster.trust_bundle())
        server.say(cluster.head(revocations=Revocations(version=2), **server.times()))
        await asked(one)
        assert (one.lab.state, one.node.revocation.epoch) == ("revoked", 0)
        cluster.revocations, cluster.authority_epoch = Revocations(), 2
        cluster.trust("config-1", status=REVOKED)
        server.publish(cluster.trust_bundle())
        server.announce()
        await asked(one)
        assert one.node.holdings.bundle.authority_epoch == 2
        assert not one.node.holdings.is_revoked
        assert one.lab.state == "revoked"
        assert one.lab.version(ROUTES) is None
