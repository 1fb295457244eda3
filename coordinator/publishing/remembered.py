"""What this process has read or published last of heads and documents, so that it need not be read and parsed again.

A node's next head is made from the head before it, and of eight documents that this lists one may change: to read all
of them again was a third of what the change cost.

Nothing here can be outdated, whichever coordinator publishes. A document never changes under its id. What a head lists,
and what was ever published for its node, changes with the head alone (heads.py writes all three, in one transaction,
and nothing else does), so both are remembered under the id of the head that was out, and are good for as long as the
database says that it still is. Whether a document is kept is asked each time.

A head that this process has made is remembered with what it was made from (`Standing`): as long as that is so still, a
scope whose content does not change is listed as it was, and nobody looks at its document; where none changes, the next
head lists the same. Most heads are such renewals. To find that out document by document was a fifth of what one costs,
and each of them had to be in memory for it.

Losing this costs work, never correctness: it is bounded, and empty after a start.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

from coordinator.database.documents import HeadEntry
from coordinator.declared.model import Subject
from coordinator.publishing.gates import ChangeMark
from coordinator.publishing.heads import Pair
from coordinator.publishing.signing_context import Issue, Signers
from snapshot.envelope import Envelope
from snapshot.identifiers import Scope

MOST_HEADS = 20_000
MOST_DOCUMENTS = 80_000
MANIFEST_BYTES = 4_096  # of longer ones there are few, and most nodes share them

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Standing(NamedTuple):
    """`scopes`: what the node may hold. `signers`: of all that is listed, perhaps of more. `due_at`: before the first
    of that is to be renewed. `said`: the digest of what the head says, as it has passed the review (review.py).
    """

    subject: Subject | None
    scopes: tuple[Scope, ...]
    marks: Mapping[str, ChangeMark]
    bundle: HeadEntry
    authority_epoch: int
    signers: frozenset[Signers]
    due_at: int
    said: bytes

    def stands(self, issue: Issue, subject: Subject | None) -> bool:
        """Whether a scope stays as it is listed, where its content does: it is not due, who signed it may still, and it
        is for a node of these roles and organizations.
        """
        is_as_signed = self.authority_epoch == issue.authority_epoch and self.subject == subject
        return is_as_signed and issue.now < self.due_at and all(map(issue.vouches_for, self.signers))

    def is_of(self, issue: Issue, scopes: tuple[Scope, ...]) -> bool:
        """Whether the next head lists the same scopes then, and all those whose content stays as they are."""
        return self.scopes == scopes and self.bundle == issue.bundle_entry


@lru_cache(maxsize=256)
def one_of_equal(signers: frozenset[Signers]) -> frozenset[Signers]:
    """Thousands of nodes have equal ones: kept once."""
    return signers


class KnownHead(NamedTuple):
    """`last`: the greatest version of each scope, ever; `last_listed`: without what was a candidate and no more.
    `names`: the ids of all documents that it lists and announces. `standing`: of one that was made here, and whose next
    one may say the same.
    """

    snapshot_id: str
    listing: Mapping[str, HeadEntry]
    candidates: Mapping[str, HeadEntry]
    last: Mapping[str, Pair]
    last_listed: Mapping[str, Pair]
    names: frozenset[str]
    standing: Standing | None = None


@dataclass(frozen=True)
class KnownDocument:
    entry: HeadEntry
    envelope: Envelope
    manifest: bytes


@dataclass
class Recent(Generic[Key, Value]):
    """Of so many the ones used last."""

    most: int
    _values: OrderedDict[Key, Value] = field(default_factory=OrderedDict)

    def get(self, key: Key) -> Value | None:
        found = self._values.get(key)
        if found is not None:
            self._values.move_to_end(key)
        return found

    def put(self, key: Key, value: Value) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self.most:
            self._values.popitem(last=False)


@dataclass
class PublishedMemory:
    """`heads` by node, `documents` by id."""

    heads: Recent[str, KnownHead] = field(default_factory=lambda: Recent(MOST_HEADS))
    documents: Recent[str, KnownDocument] = field(default_factory=lambda: Recent(MOST_DOCUMENTS))

    def head(self, node_id: str, snapshot_id: str | None) -> KnownHead | None:
        """The node's, if it is this one."""
        found = self.heads.get(node_id)
        return found if found is not None and found.snapshot_id == snapshot_id else None

    def keep_document(self, document: KnownDocument) -> None:
        if len(document.manifest) <= MANIFEST_BYTES:
            self.documents.put(document.entry.snapshot_id, document)
