"""The listener for other nodes: mutual TLS 1.3, a pinned certificate at both ends (rules K34, K48, K49; threats D-31).

Who is let in is the map: the pins of those that may fetch from this node. It is followed: whoever is listed no more, is
revoked, or whose directory has ended, loses his connections, and the next handshake fails. Our own certificate, another
cluster's and one that could issue others are pinned for nobody. With nobody in the map nobody comes in, and the local
socket answers all the same.
"""

import random
from dataclasses import dataclass, field

import trio

from agent.enrolment.identity import IdentityFile
from agent.peers.peer_api import PeerApi
from agent.sources.peers import Peers
from agent.state.node import RunningNode
from wire.backoff import BackOff
from wire.certificate import KeyPair
from wire.limits import ListenerLimits
from wire.listening import patient_listener
from wire.logs import log
from wire.peer import PinState
from wire.peers.peer_messages import PeerStanding
from wire.pins import PinTable
from wire.server import Server
from wire.shedding import Gate
from wire.tls import PinnedTransport

SETTING = "[peers] listen"
FLOOR_S, BASE_S, CAP_S = 5.0, 5.0, 300.0
LOOK_EVERY_S = 15.0  # a directory ends by time alone
CAPACITY = 32
CONNECTIONS_EACH_NODE = 8
PEERS = ListenerLimits(
    connections=256,
    connections_each=64,
    handshakes=64,
    body_bytes=PeerStanding.MOST_BYTES,
    sending_bytes=64 << 20,
    backlog=64,
)


@dataclass
class PeerListener:
    """`run` once there is an identity. `listening`: peers that the map names are let in."""

    node: RunningNode
    identity: IdentityFile
    peers: Peers
    api: PeerApi
    back_off: BackOff = field(default_factory=lambda: BackOff(random.uniform, BASE_S, CAP_S))
    listening: trio.Event = field(default_factory=trio.Event)
    _table: PinTable = field(default_factory=PinTable)
    _transport: PinnedTransport | None = None
    _refused: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Until cancelled."""
        listen = self.node.settings.peers.listen
        if listen is None:
            return
        pair = await self.node.threads.read(self.identity.present)
        if pair is None:
            raise RuntimeError("a member has an identity")
        self._table = PinTable([pair.der])
        self._follow_map()
        self._transport = PinnedTransport(self._table, pair, PEERS, connections_each_node=CONNECTIONS_EACH_NODE)
        listener = await patient_listener(listen, self.back_off, FLOOR_S, setting=SETTING, what="peers")
        gate = Gate(CAPACITY, random.random)
        server = Server("peers", self.api.routes(), self._transport, PEERS, gate=gate)
        async with trio.open_nursery() as nursery:
            await nursery.start(server.serve, listener)
            log.info("peers are let in", listen=listen, known=len(self._table))
            self.listening.set()
            nursery.start_soon(self._keep_following)

    async def show(self) -> None:
        """After a renewal: the new certificate, from the next handshakes on."""
        pair: KeyPair | None = await self.node.threads.read(self.identity.present)
        if pair is not None and self._transport is not None:
            self._table.add_own(pair.der)
            self._transport.show(pair)

    async def _keep_following(self) -> None:
        while True:
            seen = self.node.changed.value
            self._follow_map()
            with trio.move_on_after(LOOK_EVERY_S):
                await self.node.changed.wait_above(seen)

    def _follow_map(self) -> None:
        wanted = [(der, peer.node_id, PinState.ACTIVE) for peer in self.peers.served_peers() for der in peer.pins]
        refused = self._table.bring_to(wanted)
        said = frozenset(str(error) for error in refused)
        for words in sorted(said - self._refused):
            log.warning("a certificate of the map is pinned for nobody", reason=words)
        self._refused = said
