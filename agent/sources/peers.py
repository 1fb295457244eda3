"""Other nodes as sources: the accepted `peer_directory` names their addresses and pins (threats D-49).

A peer without a pin is not connected to, nor is what is malformed or revoked; the policy says whether peers are
reconnected to without a fresh head (rules S55c).
"""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass, field

from agent.state.node import RunningNode
from snapshot import canonical, degraded
from snapshot.degraded import Question
from store.base.documents import StoredDocument
from store.base.errors import StoreError
from wire.endpoint import BadEndpointError, Endpoint

SCOPE = "peer_directory"


@dataclass(frozen=True, order=True)
class Peer:
    """`pins`: its certificates, DER; two while it renews one."""

    node_id: str
    endpoint: Endpoint = field(compare=False)
    pins: frozenset[bytes] = field(compare=False)


@dataclass
class Peers:
    """What the directory says is read once for each of its versions."""

    node: RunningNode
    _read: tuple[str, tuple[Peer, ...]] = ("", ())

    def usable(self) -> list[Peer]:
        """That may be asked now, by name."""
        facts, now = self.node.gate_facts(), self.node.now()
        return [
            peer
            for peer in self.listed_peers()
            if degraded.may(Question("reconnect_peers", SCOPE, peer.node_id), facts, now).allowed
        ]

    def trusted_peers(self) -> list[Peer]:
        """Whose connections may go on: listed, and not revoked."""
        revoked = self.node.holdings.revocations.node_ids
        return [peer for peer in self.listed_peers() if peer.node_id not in revoked]

    def listed_peers(self) -> tuple[Peer, ...]:
        """That the unexpired directory pins, but for this node itself."""
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
        endpoint = Endpoint.parse(str(entry.get("url")))
    except (BadEndpointError, binascii.Error, ValueError):
        return None
    return Peer(node_id, endpoint, pins) if pins else None
