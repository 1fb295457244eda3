"""Slots that a new head or trust bundle leaves without a purpose: gone in the transaction that makes it active.

A slot goes when the head does not list its scope, or lists it with a higher epoch; when the bundle announces a higher
epoch; and when too few of its signers are left that neither of the two has revoked. So what a stolen key has filled is
free again with the word that takes the key away (rules L39, S3, S44). A candidate goes when the head lists exactly
this document no more, neither to come nor to be run. What goes too much is fetched again: what a node
holds follows the head. Rejected: to drop every slot, since a large download would begin anew with each head.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from snapshot.bundle import CONFIG, REVOKED, TrustBundle
from snapshot.identifiers import HEAD
from snapshot.manifest import Head, ScopeVersion, parse_head
from store.base import pending
from store.base.environment import LmdbTransaction
from store.base.records import PendingRecord

if TYPE_CHECKING:
    from snapshot.verify import Verified


@dataclass(frozen=True)
class Word:
    """What the head and the bundle say that become active, as far as there is one."""

    head: Head | None
    bundle: TrustBundle | None

    def has_use_for(self, record: PendingRecord) -> bool:
        return record.repair or (self._lists(record) and self._vouches_for(record))

    def _lists(self, record: PendingRecord) -> bool:
        if record.candidate and self.head is not None:
            return any(
                _is_of(record, listing.get(record.scope)) for listing in (self.head.candidates, self.head.scopes)
            )
        listed: Mapping[str, ScopeVersion] | None = self.head.scopes if self.head else None
        if listed is not None and record.scope not in listed:
            return False
        least = listed[record.scope].authority_epoch if listed is not None else 0
        return _epoch(record) >= max(least, self.bundle.authority_epoch if self.bundle else 0)

    def _vouches_for(self, record: PendingRecord) -> bool:
        """A slot that has no opening yet is judged when it gets one."""
        revoked = self.head.revocations.key_ids if self.head else frozenset()
        left = [key_id for key_id, _ in record.signatures if key_id not in revoked and self._trusts(key_id)]
        needed = self.bundle.thresholds[CONFIG] if self.bundle else 1
        return not record.envelope or len(left) >= needed

    def _trusts(self, key_id: str) -> bool:
        found = self.bundle.keys.get(key_id) if self.bundle else None
        return self.bundle is None or (found is not None and found.status != REVOKED)


def leave(transaction: LmdbTransaction, verified: Sequence["Verified"]) -> None:
    """Discard what the documents that become active have no use for."""
    bundle = next((document.bundle for document in verified if document.bundle), None)
    head = next((document for document in verified if document.scope == HEAD), None)
    slots = list(pending.headers(transaction))
    if (head is None and bundle is None) or all(record.repair for _, record in slots):
        return
    word = Word(parse_head(head.manifest_bytes) if head else None, bundle)
    for slot, record in slots:
        if not word.has_use_for(record):
            pending.discard(transaction, record.scope, slot)


def _is_of(record: PendingRecord, listed: ScopeVersion | None) -> bool:
    """By what a snapshot and an increment to it have in common; one that has no opening yet, by its scope."""
    if listed is None or not record.envelope:
        return listed is not None
    held = pending.read_envelope(record.envelope)
    version = listed.authority_epoch, listed.config_version
    return held is not None and (held.version, held.state_hash) == (version, listed.content_hash)


def _epoch(record: PendingRecord) -> float:
    """Of an increment too: an epoch changes with a snapshot alone, so that it goes with the state that it changes."""
    if not record.envelope:
        return float("inf")
    held = pending.read_envelope(record.envelope)
    return held.authority_epoch if held is not None else 0
