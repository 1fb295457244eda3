"""A document from another medium, by the same path as every other (rules S60, S86; protocol.md 4)."""

from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from agent.state.coming import is_coming
from agent.state.held_state import Holdings
from agent.state.node import RunningNode
from agent.state.plan import WantedScope
from agent.update.activating import Activator
from agent.update.admission import VALIDATOR_REFUSED, Admission, AskedDocument, Candidate
from agent.update.pacing import Pacing
from agent.update.validation import Validation
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.envelope import INCREMENT, RECOVERY, SNAPSHOT, Envelope
from snapshot.identifiers import HEAD
from snapshot.verify import AlreadyApplied
from wire.local.local_answers import TakenDocument

PATIENCE_S = 5.0


@dataclass(frozen=True)
class Importing:
    """`lock`, `head_lock`, `trust_lock`: those of the update (update.py). Heads and trust bundles wait for no round and
    no other document: a source that holds a round for long would keep them out. Any other document waits `PATIENCE_S`
    for a round that asks others, and then ends what that asks (`end_asking`), as often as it begins to ask anew: it is
    at hand, and an operator waits.
    """

    node: RunningNode
    admission: Admission
    validation: Validation
    activating: Activator
    lock: trio.Lock = field(default_factory=trio.Lock)
    head_lock: trio.Lock = field(default_factory=trio.Lock)
    trust_lock: trio.Lock = field(default_factory=trio.Lock)
    head_taken: Callable[[], None] = lambda: None
    end_asking: Callable[[], None] = lambda: None
    pacing: Pacing = field(default_factory=Pacing)
    repair_pacing: Pacing = field(default_factory=Pacing)

    async def take(self, chunks: AsyncIterable[bytes], kind: str, source: str, scope: str = "") -> TakenDocument:
        """What became of it. Rejected, NotListedError, OwnRefusalError, StoreError. `scope`: what it says
        itself, unverified; by that it is chosen which way it goes.

        After one that failed the next waits for the floor: who hands in the same one in a loop costs one look a second.
        """
        lock = self._lock_for(kind, scope)
        async with (self.pacing if lock is self.lock else self.repair_pacing).turn() as turn, self._hold(lock):
            is_wanted = self.may_be_taken if kind in (SNAPSHOT, INCREMENT) else None
            found = await self._take(chunks, AskedDocument(kind, source, is_wanted=is_wanted))
            turn.succeeded = found.outcome != VALIDATOR_REFUSED
            return found

    @asynccontextmanager
    async def _hold(self, lock: trio.Lock) -> AsyncIterator[None]:
        is_held = False
        while not is_held:
            with trio.move_on_after(PATIENCE_S):
                await lock.acquire()
                is_held = True
            if not is_held:  # a round asks in several parts, of which each is ended by itself
                self.end_asking()
        try:
            yield
        finally:
            lock.release()

    def _lock_for(self, kind: str, scope: str) -> trio.Lock:
        if kind == HEAD:
            return self.head_lock
        return self.trust_lock if scope == TRUST_BUNDLE and kind == SNAPSHOT else self.lock

    async def _take(self, chunks: AsyncIterable[bytes], asked: AskedDocument) -> TakenDocument:
        verdict = await self.admission.receive(chunks, asked, self.node.holder())
        if isinstance(verdict, Candidate):
            envelope, outcome = verdict.verified.envelope, await self._accept(verdict)
        else:
            envelope = verdict.envelope
            outcome = "already_applied" if isinstance(verdict, AlreadyApplied) else "pending"
        return TakenDocument(outcome, envelope.scope, *envelope.version)

    def may_be_taken(self, envelope: Envelope) -> bool:
        return may_be_taken(envelope, self.node.holdings, self.node.gate_facts().head_is_fresh(self.node.now()))

    async def _accept(self, candidate: Candidate) -> str:
        if candidate.verified.kind == RECOVERY:
            await self.node.change(self.node.store.keep_recovery, candidate.verified, now=self.node.now())
            await self.node.threads.write(candidate.slot.drop)
            return "kept"
        if not await self.validation.accept([candidate]):
            return VALIDATOR_REFUSED
        await self.activating.activate([candidate])
        if candidate.scope == HEAD:
            self.head_taken()
        return "activated"


def may_be_taken(envelope: Envelope, holdings: Holdings, head_is_fresh: bool) -> bool:
    """With a fresh head only what it lists; without one newer documents of held scopes (rules S3, S86), and never what
    is listed as coming alone.
    """
    if is_coming(envelope, holdings):
        return False
    if envelope.scope == TRUST_BUNDLE or holdings.head is None:
        return True
    listed = holdings.head.scopes.get(envelope.scope)
    if head_is_fresh:
        return listed is not None and WantedScope(envelope.scope, listed).is_met_by(envelope)
    return listed is not None or envelope.scope in holdings.scopes
