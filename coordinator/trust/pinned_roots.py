"""Whom a coordinator without a seed believes: the root keys that an operator has named on its machine (rules H50).

    PinnedRootKeys   their ids, and how many of them must have signed (keys/pinned_root_keys.py)
    follow           the run of trust bundles from the first that those keys have signed to the newest: one chain

Who can write to the database, and answers in the network as well, can forge a history, its seed and a manifest. He
cannot sign a trust bundle; so the manifest's bundle must follow from the pinned root keys, and list the mesh key.

Each bundle is judged as of the time when it was made: who signed is asked here, and not whether it has ended, so that
a clock that is hours apart keeps nobody out.

Rejected: the root keys of whatever bundle is found first. Then the one who forges the rest forges these as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordinator.base.refusal import Code, Refused
from coordinator.database import documents
from coordinator.database.database import Transaction
from coordinator.database.documents import TRUST_BUNDLE, Document
from coordinator.keys.pinned_root_keys import PinnedRootKeys
from snapshot import bundle as bundles
from snapshot import envelope, manifest
from snapshot.bundle import ACTIVE, CONFIG, ROOT, KeyRecord, TrustBundle
from snapshot.container import ChunkParts
from snapshot.envelope import SNAPSHOT
from snapshot.reasons import Rejected
from snapshot.verifier_state import Mark, Roots, VerifierState
from snapshot.verify import Verified, verify

NAME = "name those that `holdfastctl trust show` ends with, on a coordinator that you trust; or init's own"
LOOK = "compare [trust] of coordinator.toml with `holdfastctl trust show` of a coordinator that you trust"


@dataclass(frozen=True)
class FollowedBundle:
    """The newest one, that the pinned root keys lead to."""

    bundle: TrustBundle
    content_hash: str

    def lists(self, mesh_key: str) -> bool:
        """As a config key that may sign."""
        record = self.bundle.keys.get(mesh_key)
        return record is not None and (record.purpose, record.status) == (CONFIG, ACTIVE)


def follow(transaction: Transaction, pins: PinnedRootKeys, cluster_id: str) -> FollowedBundle:
    """`untrusted_history` where no chain leads from them to the newest bundle of the database."""
    if not pins.key_ids:
        raise _distrust("no root keys are named here, so nobody could say whose cluster this is")
    holder: VerifierState | None = None
    found: FollowedBundle | None = None
    for document in _read_all(transaction):
        data = documents.container_of(document)
        try:
            if holder is None and (roots := _find_roots(data, pins)) is not None:
                holder = VerifierState(cluster_id, "coordinator", roots=roots)
            if holder is None:
                continue
            holder, found = _step(data, document, holder)
        except Rejected as rejected:
            detail = f"trust bundle {document.config_version} does not follow from the root keys that are named here"
            raise _distrust(f"{detail}: {rejected.reason.value}") from rejected
    if found is None:
        raise _distrust("no trust bundle of the database lists the root keys that are named here")
    return found


def find_strangers(transaction: Transaction, pins: PinnedRootKeys) -> list[str]:
    """Those that no trust bundle of the database has as a root key: slips, as a rule. Nothing is verified by it."""
    known: set[str] = set()
    for document in _read_all(transaction):
        keys = _read_keys(documents.container_of(document))
        known |= {key_id for key_id, key in keys.items() if key.purpose == ROOT}
    return [key_id for key_id in pins.key_ids if key_id not in known]


def _step(data: bytes, document: Document, holder: VerifierState) -> tuple[VerifierState, FollowedBundle]:
    verdict = verify(ChunkParts([data], holder.limits), holder, kind=SNAPSHOT, now=document.issued_at, superseded=True)
    if not isinstance(verdict, Verified) or verdict.bundle is None:
        raise _distrust(f"trust bundle {document.config_version} is none that could be followed")
    marks = {TRUST_BUNDLE: Mark(verdict.envelope.authority_epoch, document.config_version, verdict.content_hash)}
    return (
        VerifierState(holder.cluster_id, holder.node_id, bundle=verdict.bundle, marks=marks),
        FollowedBundle(verdict.bundle, verdict.content_hash),
    )


def _find_roots(data: bytes, pins: PinnedRootKeys) -> Roots | None:
    """Those of the named root keys that a bundle lists, where they are enough; nothing of it is verified yet."""
    roots = {key_id: key for key_id, key in _read_keys(data).items() if key.purpose == ROOT and key_id in pins.key_ids}
    return Roots(roots, pins.least) if len(roots) >= pins.least else None


def _read_keys(data: bytes) -> Mapping[str, KeyRecord]:
    parts = ChunkParts([data])
    opened = envelope.parse(parts.opening().envelope, SNAPSHOT)
    entries = manifest.parse_state(parts.manifest())
    sections = parts.sections([entry.size for entry in entries.values()])
    return bundles.from_bytes(opened, dict(zip(entries, sections, strict=True))).keys


def _read_all(transaction: Transaction) -> Sequence[Document]:
    found: list[Document] = []
    while more := documents.trust_bundles_in(transaction, found[-1].config_version if found else 0):
        found += more
    return found


def _distrust(detail: str) -> Refused:
    return Refused(Code.UNTRUSTED_HISTORY, detail, remedy=LOOK)
