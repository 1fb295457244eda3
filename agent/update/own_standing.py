"""What this node shows a peer before it asks for documents: its head, by which the peer knows what it may have.

A peer is told of nobody's roles and organizations; the head is signed, and lists what this node holds (protocol.md 6).
Of a head that waits for what it lists (`waiting_head.py`) it is that one: by the one before, the peer would give none
of that. It is shown once for each head and peer, and again where the peer has nothing for us: it keeps in memory what
it was shown, and may have started anew since. Who has no such message is a mirror of files or an agent from before: it
is asked all the same, and gives what it gives.

A relay shows its `node_runtime` too, without sections: its envelope names the organizations that it serves, within
which it is given what its neighbours are to have. Of one that is active by an increment it is that increment's; one
that the head does not list any more is left out, since a peer would refuse the whole for it.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from agent.sources.source import Source
from agent.state.held_state import RUNTIME
from agent.state.node import RunningNode
from agent.state.plan import WantedScope
from snapshot import container
from snapshot.identifiers import HEAD
from snapshot.verify import Verified
from store.base.documents import StoredDocument
from wire.client import Call, ClientError
from wire.endpoint import path
from wire.peers.peer_messages import RUNTIME_BYTES, PeerStanding

NOT_FOUND = 404
MISSING = (404, 405)
ANSWER_BYTES = 64 << 10
AGAIN_S = 60.0  # since it was shown

T = TypeVar("T")


async def show_standing(node: RunningNode, peer: Source) -> None:
    """Where it has not seen the present one. ClientError."""
    pair, head = _own_head(node)
    if head is None or peer.shown_head == pair:
        return
    shown = _shown_runtime(node)
    body = await node.threads.read(_standing_of, head, shown)  # a large head takes longer than the event loop may
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


def _own_head(node: RunningNode) -> tuple[tuple[int, int], StoredDocument | Verified | None]:
    waiting = node.waiting_head
    if waiting is not None:
        return waiting.envelope.version, waiting
    return node.holdings.held_head, node.holdings.kept.active.get(HEAD)


def _shown_runtime(node: RunningNode) -> StoredDocument | None:
    runtime, waiting = node.holdings.kept.active.get(RUNTIME), node.waiting_head
    head = node.holdings.head if waiting is None else waiting.head
    listed = head.scopes.get(RUNTIME) if head is not None else None
    if not node.settings.peers.relay or runtime is None or listed is None:
        return None
    return runtime if WantedScope(RUNTIME, listed).is_met_by(runtime.envelope) else None


def _standing_of(head: StoredDocument | Verified, runtime: StoredDocument | None) -> bytes:
    shown = _opening_of(runtime) if runtime is not None else None
    fits = shown is not None and len(shown) <= RUNTIME_BYTES
    return PeerStanding(_opening_of(head), shown if fits else None).to_bytes()


def _opening_of(document: StoredDocument | Verified) -> bytes:
    """The container without sections."""
    return b"".join(container.encode(document.envelope_bytes, document.signatures, document.manifest_bytes, ()))
