"""What a head lists, and what that follows from: where all of it is so still, the next head lists the same. Pure.

    Standing            of the head that was published here last for a node
    is_so_still(...)    whether nothing that it was made from has become another

Most heads are renewals: of what they list nothing has changed, and nothing is due. To find that out document by
document was a fifth of what such a head costs, and each of them had to be in memory for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from coordinator.database.documents import HeadEntry
from coordinator.declared.model import Subject
from coordinator.publishing.gates import ChangeMark
from coordinator.publishing.signing_context import Issue, Signers
from snapshot.identifiers import Scope


@dataclass(frozen=True)
class Standing:
    """`scopes`: what the node may hold. `signers`: of all that is listed. `due_at`: when the first of that is to be
    renewed. `said`: the digest of what the head says, as it has passed the review (review.py).
    """

    subject: Subject | None
    scopes: tuple[Scope, ...]
    marks: Mapping[str, ChangeMark]
    bundle: HeadEntry
    authority_epoch: int
    signers: frozenset[Signers]
    due_at: int
    said: bytes

    def is_so_still(
        self, issue: Issue, subject: Subject | None, scopes: Mapping[Scope, bool], marks: Mapping[str, ChangeMark]
    ) -> bool:
        """`scopes`: True for those that have to be compiled again."""
        is_as_declared = (self.subject, self.scopes, self.marks) == (subject, tuple(scopes), marks)
        is_as_signed = (self.bundle, self.authority_epoch) == (issue.bundle_entry, issue.authority_epoch)
        is_due = issue.now >= self.due_at or True in scopes.values()
        return is_as_declared and is_as_signed and not is_due and all(map(issue.vouches_for, self.signers))


@lru_cache(maxsize=256)
def one_of_equal(signers: frozenset[Signers]) -> frozenset[Signers]:
    """Thousands of nodes have equal ones: kept once."""
    return signers
