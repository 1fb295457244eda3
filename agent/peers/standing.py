"""What peers have shown of themselves: their heads, by which they are given what those list (entitlement.py).

A head that is shown is judged as its node would judge it, at the last second of its time where that is over: what it
lists has been this node's to hold, and no newer one is known here. It changes nothing on this node, and configures
nothing: it says what the asker may be given, until a newer one is shown or comes by relay.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agent.peers.entitlement import MapMember
from agent.relay.relaying import Relay, as_addressee
from agent.sources.peer_sets import Peer
from agent.state.held_state import RUNTIME
from agent.state.node import RunningNode
from agent.state.plan import WantedScope
from agent.state.root_pinning import peek_envelope
from snapshot.container import ChunkParts
from snapshot.envelope import INCREMENT, SNAPSHOT, Envelope
from snapshot.identifiers import HEAD
from snapshot.manifest import Head
from snapshot.reasons import Reason, Rejected
from snapshot.verifier_state import VerifierState
from snapshot.verify import Verified, judge_opening, verify
from store.relay import digest_of
from wire.peers.peer_messages import PeerStanding


@dataclass(frozen=True)
class ShownStanding:
    pair: tuple[int, int]
    head: Head
    organizations: frozenset[str] = frozenset()


@dataclass
class Standings:
    """`shown`: by node id; who is in the map no more is forgotten."""

    node: RunningNode
    relay: Relay
    shown: dict[str, ShownStanding] = field(default_factory=dict)

    def judge(self, node_id: str, said: PeerStanding) -> ShownStanding:
        """Of exactly this node. Rejected. On a verifying thread."""
        holder, now = self.node.holder(), self.node.now()
        peeked = _peek(said.head, holder, HEAD, node_id)
        verdict = verify(
            ChunkParts([said.head], holder.limits),
            as_addressee(holder, peeked),
            kind=HEAD,
            now=min(now, peeked.expires_at - 1),
        )
        if not isinstance(verdict, Verified) or verdict.head is None:
            raise _refusal(HEAD, "something else")
        organizations = frozenset[str]()
        if said.runtime is not None:
            organizations = _organizations(said.runtime, verdict.head, holder, node_id, now)
        return ShownStanding(verdict.envelope.version, verdict.head, organizations)

    def keep(self, node_id: str, shown: ShownStanding) -> None:
        """The newest counts: who shows an older one has been told of a newer one, and is shown as that says."""
        before = self.shown.get(node_id)
        if before is None or before.pair <= shown.pair:
            self.shown[node_id] = shown

    def members(self, peers: Sequence[Peer]) -> list[MapMember]:
        """Those of the map, with the newest head that is known of each. On a reading thread."""
        ids = {peer.node_id for peer in peers}
        for gone in self.shown.keys() - ids:
            self.shown.pop(gone, None)
        return [self._member(peer) for peer in peers]

    def _member(self, peer: Peer) -> MapMember:
        shown, digest = self.shown.get(peer.node_id), digest_of(peer.node_id)
        found = MapMember(peer.node_id, digest, peer.site_id)
        if shown is not None:
            found = replace(found, head=shown.head, organizations=shown.organizations)
        kept = self.relay.store.head_of(digest)
        if kept is not None and (shown is None or kept.envelope.version > shown.pair):
            found = replace(found, head=self.relay.head_for(peer.node_id) or found.head)
        return found


def _organizations(data: bytes, head: Head, holder: VerifierState, node_id: str, now: float) -> frozenset[str]:
    """Of the `node_runtime` that the head lists: its envelope names them, signed; its sections are nobody's matter."""
    peeked, listed = _peek(data, holder, RUNTIME, node_id), head.scopes.get(RUNTIME)
    opening = ChunkParts([data], holder.limits).opening()
    judged = judge_opening(opening, as_addressee(holder, peeked), kind=peeked.kind, now=min(now, peeked.expires_at - 1))
    if listed is None or not WantedScope(RUNTIME, listed).is_met_by(judged):
        raise _refusal(RUNTIME, "one that the head does not list")
    return frozenset(judged.organization_ids)


def _peek(data: bytes, holder: VerifierState, scope: str, node_id: str) -> Envelope:
    found = peek_envelope(data, holder.limits)
    kinds = (HEAD,) if scope == HEAD else (SNAPSHOT, INCREMENT)
    if found is None or found.kind not in kinds or found.scope != scope or found.subject_node_id != node_id:
        raise _refusal(scope, "something else")
    return found


def _refusal(scope: str, found: str) -> Rejected:
    return Rejected(3, Reason.WRONG_NODE, expected=f"the {scope} of the node that asks", found=found)
