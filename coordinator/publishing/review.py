"""The agent's own verifier, run on everything that was signed, before it is given out (rules S69)."""

from coordinator.keys.signer import SignedDocument
from coordinator.publishing.signing_context import Unpublishable
from snapshot.container import ChunkParts
from snapshot.reasons import Rejected
from snapshot.verifier_state import VerifierState
from snapshot.verify import Verified, verify


def review(document: SignedDocument, holder: VerifierState, now: float) -> Verified:
    """`holder`: the node as it stands when it holds what was published last. Unpublishable with the node's reason."""
    kind = document.envelope.kind
    try:
        verdict = verify(ChunkParts(document.chunks(), holder.limits), holder, kind=kind, now=now)
    except Rejected as rejected:
        detail = f"{document.envelope.scope} of {holder.node_id}: step {rejected.step}, {rejected.detail}"
        raise Unpublishable(rejected.reason.value, detail) from rejected
    if not isinstance(verdict, Verified):
        name = type(verdict).__name__
        raise Unpublishable("no_effect", f"{document.envelope.scope} of {holder.node_id} would be {name}")
    return verdict
