"""Whether what a coordinator brings may lie here: what can be verified is, before it is kept and by who reads it again.

A head and a document are judged as their addressee would judge them, but for what only he knows (relaying.py): so they
are signed, whole, of this cluster and in their time. So is an increment, up to what it makes of a state that only its
node has. A recovery is judged whole. A trust bundle that is newer than this node's has to be signed by roots that this
node believes; one that it has followed has to be the one that it followed, byte for byte but for who signed it. Those
from before its time are kept by their form alone: the keys that signed them may be gone.

Each has to be of this node's shard, and to bear the name that follows from what it says of itself; an increment, from
the document that it leads to, which has to lie here before it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
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
from snapshot.verify import judge_opening, signed_sizes, verify
from store.published_files import PIECE_BYTES
from store.relay import digest_of

KINDS = {"trust": SNAPSHOT, "documents": SNAPSHOT, "increments": INCREMENT, "recoveries": RECOVERY, "heads": HEAD}
FollowedBundle = Callable[[int], bytes | None]
"""The trust bundle of a version as this node has followed it, or nothing."""
Targets = Callable[[Envelope], Iterable[Envelope]]
"""Of the documents that lie here, those that an increment leads to."""


def document_path(snapshot_id: str) -> str:
    return f"documents/{digest_of(snapshot_id)}.hfs"


def increment_path(target_id: str, base: int) -> str:
    named_by = f"{target_id}\n{base}"
    return f"increments/{digest_of(named_by)}.hfs"


def judge_place(path: str, opening: bytes, holder: VerifierState, shards: Sequence[StorageShard]) -> Envelope:
    """By the first bytes, before all of it has come. Rejected."""
    return _judge_place(path, ChunkParts([opening], holder.limits).opening(), holder, shards)


def judge_file(
    path: str,
    file: Path,
    holder: VerifierState,
    shards: Sequence[StorageShard],
    now: float,
    followed: FollowedBundle,
    targets: Targets,
) -> Envelope:
    """Rejected. On a verifying thread."""
    folder = path.partition("/")[0]
    opening, kind = _opening(file, holder), KINDS[folder]
    said = _judge_place(path, opening, holder, shards)
    addressee = as_addressee(holder, said)
    if folder == "trust":
        known = holder.bundle.version if holder.bundle is not None else 0
        before = followed(said.config_version)
        if said.config_version > known:
            judge_opening(opening, addressee, kind=kind, now=now)
        elif before is not None and _signed_parts(_pieces(file), holder) != _signed_parts([before], holder):
            expected = "the bundle that this node has followed"
            raise Rejected(
                8, Reason.VERSION_CONFLICT, expected=expected, found=f"another one of version {said.config_version}"
            )
    elif kind == INCREMENT:
        _check_target(path, said, targets)
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


def _judge_place(path: str, opening: Opening, holder: VerifierState, shards: Sequence[StorageShard]) -> Envelope:
    said = envelopes.parse(opening.envelope, KINDS[path.partition("/")[0]], holder.limits)
    _check_place(path, said, holder, shards)
    return said


def _signed_parts(pieces: Iterable[bytes], holder: VerifierState) -> list[bytes]:
    """Of a trust bundle: what its signatures are over, and what that names by its hash."""
    parts = ChunkParts(pieces, holder.limits)
    envelope, manifest = parts.opening().envelope, parts.manifest()
    sizes = signed_sizes(envelopes.parse(envelope, SNAPSHOT, holder.limits), manifest, holder)
    return [envelope, manifest, *parts.sections(sizes)]


def _check_place(path: str, said: Envelope, holder: VerifierState, shards: Sequence[StorageShard]) -> None:
    if said.cluster_id != holder.cluster_id:
        raise Rejected(2, Reason.WRONG_CLUSTER, expected=holder.cluster_id, found=said.cluster_id)
    if (said.scope == TRUST_BUNDLE) != path.startswith("trust/") or not _is_its_name(path, said):
        raise Rejected(3, Reason.WRONG_NODE, expected="the file that it is named after", found=path)
    if not any(shard.takes(said) for shard in shards):
        raise Rejected(10, Reason.UNRELATED_ORGANIZATION, expected="a document of this shard", found=said.scope)


def _is_its_name(path: str, said: Envelope) -> bool:
    """An increment is named by what it leads to, which it does not know (`_check_target`)."""
    folder, _, name = path.partition("/")
    names = {
        "trust": str(said.config_version),
        "documents": digest_of(said.snapshot_id),
        "recoveries": digest_of(f"{said.subject_node_id}\n{said.scope}"),
        "heads": digest_of(said.subject_node_id),
    }
    return folder not in names or name == f"{names[folder]}.hfs"


def _check_target(path: str, said: Envelope, targets: Targets) -> None:
    """Else one that is good could lie here under any number of names, until there is no room for anything else."""
    names = {increment_path(target.snapshot_id, said.base_config_version or 0) for target in targets(said)}
    if path not in names:
        expected = "an increment that leads to a document here, and is named after it"
        raise Rejected(3, Reason.WRONG_NODE, expected=expected, found=path)


def _opening(file: Path, holder: VerifierState) -> Opening:
    return ChunkParts(_pieces(file), holder.limits).opening()


def _pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while piece := opened.read(PIECE_BYTES):
            yield piece
