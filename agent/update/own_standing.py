"""What this node shows a peer before it asks for documents: its head, by which the peer knows what it may have.

A peer is told of nobody's roles and organizations; the head is signed, and lists what this node holds (protocol.md 6).
It is shown once for each head and peer. Who has no such message is a mirror of files or an agent from before: it is
asked all the same, and gives what it gives.
"""

from agent.sources.source import Source
from agent.state.node import RunningNode
from snapshot import container
from snapshot.identifiers import HEAD
from store.base.documents import StoredDocument
from wire.client import Call, ClientError
from wire.endpoint import path
from wire.peers.peer_messages import PeerStanding

MISSING = (404, 405)
ANSWER_BYTES = 64 << 10


async def show_standing(node: RunningNode, peer: Source) -> None:
    """Where it has not seen the present one. ClientError."""
    pair, head = node.holdings.held_head, node.holdings.kept.active.get(HEAD)
    if head is None or peer.shown_head == pair:
        return
    body = PeerStanding(_container_of(head)).to_bytes()
    try:
        await peer.client.fetch(peer.endpoint, Call("POST", path("v1", "standing"), body=body, limit=ANSWER_BYTES))
    except ClientError as error:
        if error.status not in MISSING:
            raise
    peer.shown_head = pair


def _container_of(head: StoredDocument) -> bytes:
    return b"".join(container.encode(head.envelope_bytes, head.signatures, head.manifest_bytes, ()))
