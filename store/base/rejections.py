"""What was refused: a ring of the last 32, the last of each held scope, and the evidence of equivocation.

Refused bytes are not kept, but for the evidence (threats D-44; rules S54, X16).
"""

import struct
from collections.abc import Iterator
from dataclasses import replace

from snapshot.container import Opening
from snapshot.reasons import safe_text
from store.base import journal, meta
from store.base.documents import scope_record
from store.base.environment import Environment, LmdbTransaction, WriteRoom
from store.base.journal import Happened
from store.base.records import DocumentRecord, Evidence, Rejection, pack, scope_key, unpack

RING = 32
EVIDENCE_RING = 8
_SLOT = struct.Struct(">I")
_TABLE = "updates"
RING_PREFIX = b"rejection/"
LAST_PREFIX = b"rejected/"
EVIDENCE_PREFIX = b"evidence/"


class Rejections:
    """The refusals of an open store."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def record(self, rejection: Rejection) -> None:
        with self._environment.write() as transaction:
            record(transaction, rejection)

    def ring(self) -> list[Rejection]:
        """The last 32, oldest first."""
        with self._environment.read() as transaction:
            return ring(transaction)

    def last(self, scope: str) -> Rejection | None:
        with self._environment.read() as transaction:
            return last(transaction, scope)

    def keep_evidence(self, scope: str, refused: Opening, manifest: bytes, at: float) -> None:
        """Another document of the accepted version: both are kept, the last 8 times (rules X16)."""
        with self._environment.write(WriteRoom.SCOPES) as transaction:
            present = scope_record(transaction, scope)
            accepted = transaction.get("snapshots", present.accepted) if present and present.accepted else None
            held = unpack(DocumentRecord, accepted) if accepted else None
            keep_evidence(
                transaction,
                Evidence(
                    at,
                    scope,
                    held.envelope if held else b"",
                    held.signatures if held else (),
                    refused.envelope,
                    refused.signatures,
                    manifest,
                ),
            )

    def evidence(self) -> list[Evidence]:
        with self._environment.read() as transaction:
            return list(evidence(transaction))


def record(transaction: LmdbTransaction, rejection: Rejection) -> None:
    """Keep one refusal. The scope's own records are not touched: active, mark and trust stay byte for byte."""
    bounded = _since(transaction, rejection)
    count = meta.read(transaction).rejections
    transaction.put(_TABLE, RING_PREFIX + _SLOT.pack(count % RING), pack(bounded))
    if transaction.get("scopes", scope_key(bounded.scope)) is not None:
        transaction.put(_TABLE, LAST_PREFIX + scope_key(bounded.scope), pack(bounded))
    meta.change(transaction, rejections=count + 1)
    text = f"step {bounded.step}: {bounded.reason}; {bounded.detail}"
    journal.append(transaction, Happened.REJECTED, bounded.at, bounded.scope, text)


def _since(transaction: LmdbTransaction, rejection: Rejection) -> Rejection:
    """With what is active, and the time at which the same content was refused first in its place."""
    present = scope_record(transaction, rejection.scope)
    running = present.content_hash if present is not None and present.active is not None else ""
    made = replace(rejection, detail=safe_text(rejection.detail), source=safe_text(rejection.source))
    made = replace(made, running=running, since=rejection.at)
    before = last(transaction, rejection.scope)
    is_same = before is not None and bool(made.content_hash) and _contents(before) == _contents(made)
    return replace(made, since=before.since) if before is not None and is_same else made


def _contents(rejection: Rejection) -> tuple[str, str]:
    return rejection.content_hash, rejection.running


def ring(transaction: LmdbTransaction) -> list[Rejection]:
    """The last refusals, oldest first."""
    count = meta.read(transaction).rejections
    found = (transaction.get(_TABLE, RING_PREFIX + _SLOT.pack(n % RING)) for n in range(max(0, count - RING), count))
    return [unpack(Rejection, data) for data in found if data is not None]


def last(transaction: LmdbTransaction, scope: str) -> Rejection | None:
    """The last refusal in a scope, from its own record, else from the ring."""
    data = transaction.get(_TABLE, LAST_PREFIX + scope_key(scope))
    if data is not None:
        return unpack(Rejection, data)
    return next((entry for entry in reversed(ring(transaction)) if entry.scope == scope), None)


def keep_evidence(transaction: LmdbTransaction, evidence: Evidence) -> None:
    count = meta.read(transaction).evidence
    transaction.put(_TABLE, EVIDENCE_PREFIX + _SLOT.pack(count % EVIDENCE_RING), pack(evidence))
    meta.change(transaction, evidence=count + 1)
    journal.append(transaction, Happened.VERSION_CONFLICT, evidence.at, evidence.scope)


def evidence(transaction: LmdbTransaction) -> Iterator[Evidence]:
    for _, data in transaction.items(_TABLE, EVIDENCE_PREFIX):
        yield unpack(Evidence, data)
