"""What this node shows a peer before it asks for documents: its head, by which the peer knows what it may have.

A peer is told of nobody's roles and organizations; the head is signed, and lists what this node holds (protocol.md 6).
It is shown once for each head and peer, and again where the peer has nothing for us: it keeps in memory what it was
shown, and may have started anew since. Who has no such message is a mirror of files or an agent from before: it is
asked all the same, and gives what it gives.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from agent.sources.source import Source
from agent.state.node import RunningNode
from snapshot import container
from snapshot.identifiers import HEAD
from store.base.documents import StoredDocument
from wire.client import Call, ClientError
from wire.endpoint import path
from wire.peers.peer_messages import PeerStanding

NOT_FOUND = 404
MISSING = (404, 405)
ANSWER_BYTES = 64 << 10
AGAIN_S = 60.0  # since it was shown

T = TypeVar("T")


async def show_standing(node: RunningNode, peer: Source) -> None:
    """Where it has not seen the present one. ClientError."""
    pair, head = node.holdings.held_head, node.holdings.kept.active.get(HEAD)
    if head is None or peer.shown_head == pair:
        return
    body = await node.threads.read(_standing_of, head)  # a large head takes longer than the event loop may
    try:
        await peer.client.fetch(peer.endpoint, Call("POST", path("v1", "standing"), body=body, limit=ANSWER_BYTES))
    except ClientError as error:
        if error.status not in MISSING:
            raise
    peer.shown_head, peer.shown_at = pair, trio.current_time()


async def ask_by_standing(node: RunningNode, peer: Source, ask: Callable[[], Awaitable[T]]) -> T:
    """What `ask` gives, of a peer that has seen our head; once more where it may have forgotten it. ClientError."""
    await show_standing(node, peer)
    try:
        return await ask()
    except ClientError as error:
        if error.status != NOT_FOUND or trio.current_time() - peer.shown_at < AGAIN_S:
            raise
    peer.shown_head = (0, 0)
    await show_standing(node, peer)
    return await ask()


def _standing_of(head: StoredDocument) -> bytes:
    data = b"".join(container.encode(head.envelope_bytes, head.signatures, head.manifest_bytes, ()))
    return PeerStanding(data).to_bytes()
