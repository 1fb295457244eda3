"""Other nodes: the accepted `peer_directory` names their addresses and pins, and who fetches from whom, and agent.toml
its bootstrap peers, or the whole map (threats D-49; rules K2, K5..K7). In which order they are asked peer_sets.py
decides.

A peer without a pin is not connected to and not let in, nor is what is malformed or revoked; the policy says whether
peers are reconnected to without a fresh head (rules S55c). Of a peer that both name, the directory's entry holds: it is
signed, and younger than a file that somebody wrote once. An entry that does not say who fetches is as directories of
before have it: both do.
"""

import base64
import binascii
from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace

from agent.config.configuration import BootstrapPeer, ManualPeer
from agent.sources.peer_cache import PeerCache
from agent.sources.peer_sets import Flow, Peer, PeerSets, PeerSetSizes, is_near, sort_peers
from agent.state.held_state import BOOTSTRAP
from agent.state.node import RunningNode
from snapshot import canonical, degraded
from snapshot.degraded import GateFacts, Question
from store.base.documents import StoredDocument
from store.base.errors import StoreError
from wire.endpoint import BadEndpointError, Endpoint

SCOPE = "peer_directory"
OWN_ENTRY = "node"


@dataclass
class Peers:
    """What the directory says is read once for each of its versions; so is where this node stands itself."""

    node: RunningNode
    cache: PeerCache = field(init=False)
    _read: tuple[str, tuple[Peer, ...]] = ("", ())
    _site: tuple[str, str] = ("", "")
    _configured: tuple[Peer, ...] = field(init=False)
    _manual: tuple[Peer, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.cache = PeerCache(self.node.remembered.peers, self.node.now)
        self._configured = tuple(map(_bootstrap_peer, self.node.settings.peers.bootstrap))

        self._manual = tuple(sorted(map(_manual_peer, self.node.settings.manual_peers)))

    def usable(self) -> list[Peer]:
        """That may be asked now, by name."""
        reached = [peer for peer in self.known_peers() if peer.endpoint is not None and peer.flow.we_fetch]
        if not reached:
            return reached
        facts, now = self.node.gate_facts(), self.node.now()
        return [peer for peer in reached if self._may_be_asked(peer, facts, now)]

    def _may_be_asked(self, peer: Peer, facts: GateFacts, now: float) -> bool:
        """An operator has named those of a manual map, which no policy takes back; a revocation does."""
        if peer.is_manual:
            return peer.node_id not in self.node.holdings.revocations.node_ids
        return degraded.may(_question_about(peer), facts, now).allowed

    def sets(self) -> PeerSets:
        """Of these, in which order they are asked."""
        settings = self.node.settings
        sizes = PeerSetSizes(settings.peers.active, settings.peers.warm, settings.peers.cold)
        return sort_peers(self.usable(), self.cache.records, sizes, settings.node.node_id, self.own_site())

    def served_peers(self) -> list[Peer]:
        """That may fetch from us."""
        return [peer for peer in self.trusted_peers() if peer.flow.they_fetch]

    def trusted_peers(self) -> list[Peer]:
        """Whose connections may go on: known, and not revoked."""
        revoked = self.node.holdings.revocations.node_ids
        return [peer for peer in self.known_peers() if peer.node_id not in revoked]

    def known_peers(self) -> list[Peer]:
        """Those of the directory, and the bootstrap peers that it does not name."""
        named = {peer.node_id for peer in self._configured if peer.is_relay}
        listed = [replace(peer, is_relay=self._is_relay(peer, named)) for peer in self.listed_peers()]
        names = {peer.node_id for peer in listed}
        return sorted([*listed, *(peer for peer in self._configured if peer.node_id not in names)])

    def _is_relay(self, peer: Peer, named: Set[str]) -> bool:
        """As the directory has it where it stands at this node's site, or agent.toml names it."""
        return (peer.is_relay and is_near(peer, self.own_site())) or peer.node_id in named

    def listed_peers(self) -> tuple[Peer, ...]:
        """That the unexpired directory pins, but for this node itself; or those of the manual map, and no others."""
        if self.node.settings.manual is not None:
            return self._manual
        document = self.node.holdings.kept.active.get(SCOPE)
        if document is None or self.node.now() >= document.envelope.expires_at:
            return ()
        if self._read[0] != document.envelope_hash:
            try:
                found = sorted(_peers_in(document))
            except StoreError:
                return ()
            own = self.node.settings.node.node_id
            self._read = document.envelope_hash, tuple(peer for peer in found if peer.node_id != own)
        return self._read[1]

    def own_site(self) -> str:
        """As the `node_bootstrap` says it; "" where that is not known."""
        document = self.node.holdings.kept.active.get(BOOTSTRAP)
        if document is None:
            return ""
        if self._site[0] != document.envelope_hash:
            try:
                entry = canonical.loads(document.read(OWN_ENTRY)) if OWN_ENTRY in document.sections else None
            except StoreError:
                return ""
            self._site = document.envelope_hash, _site_in(entry)
        return self._site[1]

    def is_near(self, peer: Peer) -> bool:
        return is_near(peer, self.own_site())


def _question_about(peer: Peer) -> Question:
    """A bootstrap peer rests on no scope."""
    return Question("reconnect_peers", None if peer.is_bootstrap else SCOPE, peer.node_id)


def _bootstrap_peer(named: BootstrapPeer) -> Peer:
    endpoint = Endpoint.parse(named.url, configured=True)
    pins = frozenset({named.certificate})
    return Peer(named.node_id, endpoint, pins, is_bootstrap=True, flow=Flow.PULL, is_relay=named.relay)


def _manual_peer(named: ManualPeer) -> Peer:
    endpoint = Endpoint.parse(named.url, configured=True) if named.url is not None else None
    return Peer(
        named.node_id,
        endpoint,
        frozenset({named.certificate}),
        named.site or "",
        flow=Flow(named.type),
        automatic_refresh=named.automatic_refresh,
        is_manual=True,
    )


def _peers_in(document: StoredDocument) -> Iterator[Peer]:
    for section in document.sections:
        value = canonical.loads(document.read(section)) if section.split(".")[0] == "peers" else None
        for node_id, entry in value.items() if isinstance(value, dict) else ():
            peer = _peer(node_id, entry)
            if peer is not None:
                yield peer


def _peer(node_id: str, entry: object) -> Peer | None:
    """What is malformed authorises nothing (format.md 10)."""
    if not isinstance(entry, dict) or not isinstance(entry.get("certificates"), list):
        return None
    try:
        pins = frozenset(base64.b64decode(str(certificate), validate=True) for certificate in entry["certificates"])
        flow = Flow(entry.get("type", Flow.MUTUAL_PULL))
        endpoint = Endpoint.parse(str(entry.get("url"))) if entry.get("url") is not None or flow.we_fetch else None
    except (BadEndpointError, binascii.Error, ValueError):
        return None
    site, automatic = _site_in(entry), entry.get("automatic_refresh", True)
    if not pins or not isinstance(automatic, bool):
        return None
    return Peer(node_id, endpoint, pins, site, False, flow, automatic, is_relay=entry.get("relay") is True)


def _site_in(entry: object) -> str:
    site = entry.get("site_id") if isinstance(entry, dict) else None
    return site if isinstance(site, str) else ""
