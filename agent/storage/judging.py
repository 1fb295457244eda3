"""Whether what a coordinator brings may lie here: what can be verified is, before it is kept and by who reads it again.

A head and a document are judged as their addressee would judge them, but for what only he knows (relaying.py): so they
are signed, whole, of this cluster and in their time. So is an increment, up to what it makes of a state that only its
node has. A recovery is judged whole. A trust bundle that is newer than this node's has to be signed by roots that this
node believes; older ones have been followed, their keys may be gone, and they are kept by their form alone.

Each has to be of this node's shard, and to bear the name that follows from what it says of itself.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from agent.relay.relaying import as_addressee
from agent.storage.shard import StorageShard
from snapshot import envelope as envelopes
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.container import ChunkParts, Opening
from snapshot.envelope import INCREMENT, RECOVERY, SNAPSHOT, Envelope
from snapshot.identifiers import HEAD
from snapshot.reasons import Reason, Rejected
from snapshot.verifier_state import VerifierState
from snapshot.verify import judge_opening, verify
from store.published_files import PIECE_BYTES
from store.relay import digest_of

KINDS = {"trust": SNAPSHOT, "documents": SNAPSHOT, "increments": INCREMENT, "recoveries": RECOVERY, "heads": HEAD}


def judge_file(path: str, file: Path, holder: VerifierState, shards: Sequence[StorageShard], now: float) -> Envelope:
    """Rejected. On a verifying thread."""
    folder = path.partition("/")[0]
    opening, kind = _opening(file, holder), KINDS[folder]
    said = envelopes.parse(opening.envelope, kind, holder.limits)
    _check_place(path, said, holder, shards)
    addressee = as_addressee(holder, said)
    if folder == "trust":
        known = holder.bundle.version if holder.bundle is not None else 0
        if said.config_version > known:
            judge_opening(opening, addressee, kind=kind, now=now)
    elif kind == INCREMENT:
        _judge_increment(file, addressee, now)
    else:
        verify(ChunkParts(_pieces(file), holder.limits), addressee, kind=kind, now=now)
    return said


def _judge_increment(file: Path, addressee: VerifierState, now: float) -> None:
    """To the step that asks for the base: before that its bytes are compared with what was signed, to the last one."""
    try:
        verify(ChunkParts(_pieces(file), addressee.limits), addressee, kind=INCREMENT, now=now)
    except Rejected as refused:
        if refused.reason not in (Reason.BASE_MISMATCH, Reason.NOT_YET_VALID):
            raise


def _check_place(path: str, said: Envelope, holder: VerifierState, shards: Sequence[StorageShard]) -> None:
    if said.cluster_id != holder.cluster_id:
        raise Rejected(2, Reason.WRONG_CLUSTER, expected=holder.cluster_id, found=said.cluster_id)
    if (said.scope == TRUST_BUNDLE) != path.startswith("trust/") or not _is_its_name(path, said):
        raise Rejected(3, Reason.WRONG_NODE, expected="the file that it is named after", found=path)
    if not any(shard.takes(said) for shard in shards):
        raise Rejected(10, Reason.UNRELATED_ORGANIZATION, expected="a document of this shard", found=said.scope)


def _is_its_name(path: str, said: Envelope) -> bool:
    """An increment is named by what it leads to, which it does not know."""
    folder, _, name = path.partition("/")
    names = {
        "trust": str(said.config_version),
        "documents": digest_of(said.snapshot_id),
        "recoveries": digest_of(f"{said.subject_node_id}\n{said.scope}"),
        "heads": digest_of(said.subject_node_id),
    }
    return folder not in names or name == f"{names[folder]}.hfs"


def _opening(file: Path, holder: VerifierState) -> Opening:
    return ChunkParts(_pieces(file), holder.limits).opening()


def _pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while piece := opened.read(PIECE_BYTES):
            yield piece
