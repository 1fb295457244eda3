"""Which other nodes are sources, and when one is not any more."""

import base64
import time

import pytest

from agent.sources.peers import SCOPE, Peers
from agent.sources.source import Kind
from snapshot.manifest import Revocations
from tests.agent.bench import bench
from tests.fakes.cluster import HOUR
from tests.journeys.lab import POLICY
from wire.certificate import make_identity
from wire.client import ClientError

B, C = (make_identity(name, time.time()).der for name in ("node-b", "node-c"))


def entry(name, *ders):
    return {"url": f"https://{name}.example:7443", "certificates": [base64.b64encode(der).decode() for der in ders]}


@pytest.fixture
async def made(one, mock_clock):
    async with bench(one) as found:
        await found.settle()
        yield found


async def hold(made, sections, **members):
    await made.take(made.server.snapshot(sections, SCOPE, **members))


async def test_who_has_an_address_and_a_pin(made, mock_clock):
    """threats D-49, D-31; rules X28: in all parts of the directory; two pins while one is renewed"""
    bad = {
        "node-d": entry("node-d"),
        "node-e": {"url": "https://127.0.0.1:7443", "certificates": entry("x", B)["certificates"]},
        "node-f": {"url": "http://node-f.example:7443", "certificates": entry("x", B)["certificates"]},
        "node-g": {"url": "https://node-g.example:7443", "certificates": ["%%%"]},
        "node-h": {"url": "https://node-h.example:7443", "certificates": "no list"},
        "node-i": [],
    }
    own = {"node-a": entry("node-a", B)}
    await hold(
        made, {"peers": {"node-b": entry("node-b", B, C), **bad, **own}, "peers.more": {"node-c": entry("c", C)}}
    )
    found = Peers(made.node).listed_peers()
    assert [(peer.node_id, peer.endpoint.host) for peer in found] == [
        ("node-b", "node-b.example"),
        ("node-c", "c.example"),
    ]
    assert found[0].pins == {B, C}


async def test_revoked_expired_or_not_allowed_is_nobody(made, mock_clock):
    """rules S61, S55c, S16"""
    until = int(made.node.now()) + 3 * HOUR
    await hold(
        made, {"peers": {"node-b": entry("b", B), "node-c": entry("c", C)}}, expires_at=until, refresh_after=until
    )
    peers = Peers(made.node)
    assert [peer.node_id for peer in peers.usable()] == ["node-b", "node-c"]
    gone = Revocations(version=1, node_ids=frozenset({"node-c"}))
    times = made.server.times() | {"expires_at": until - HOUR, "refresh_after": until - HOUR}
    await made.take(made.server.cluster.head(revocations=gone, **times))
    assert [peer.node_id for peer in peers.usable()] == ["node-b"]
    made.lab.clock.base += 2 * HOUR  # the head has expired, and the policy does not allow it
    assert peers.usable() == []
    policy = POLICY | {"allow": ["reconnect_peers"], "max_duration_s": 86_400}
    await made.take(made.server.snapshot({"policy": policy}, "degraded_mode_policy"))
    assert [peer.node_id for peer in peers.usable()] == ["node-b"]
    made.lab.clock.base += HOUR
    assert peers.listed_peers() == ()


async def test_a_pin_that_was_taken_away_is_forgotten_with_its_connections(made, mock_clock):
    """threats D-49, D-31; rules K34"""
    sources = made.outside.sources
    await hold(made, {"peers": {"node-b": entry("b", B)}})
    (before,) = [source for source in sources.all() if source.kind is Kind.PEER]
    await hold(made, {"peers": {"node-b": entry("b", C)}})
    (after,) = [source for source in sources.all() if source.kind is Kind.PEER]
    assert after.client is not before.client
    rows = [row for row in sources.report() if row.kind == "peer"]
    assert len(rows) == 1
    await made.outside.update.bring_up()  # the head lists no directory
    assert [row for row in sources.report() if row.kind == "peer"] == []
    assert len(sources._lines) == 1, "the coordinator's"


async def test_a_pin_that_is_taken_away_ends_what_an_older_certificate_of_ours_began(made, mock_clock):
    """threats D-49: a transfer goes on over a renewal, and no longer than its pin"""
    sources = made.outside.sources
    await hold(made, {"peers": {"node-b": entry("b", B)}})
    (before,) = [source for source in sources.all() if source.kind is Kind.PEER]
    await sources.renew(sources.identity)
    await sources.forget_removed()
    connector = before.client._connector
    connector._refuse_when_cut_off(before.endpoint)
    await hold(made, {"peers": {"node-b": entry("b", C)}})
    with pytest.raises(ClientError, match="is asked no more"):
        connector._refuse_when_cut_off(before.endpoint)
