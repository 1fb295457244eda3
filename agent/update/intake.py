"""Candidates into their slots and through the verifier, one after the other: what came of each (format.md 7, 9).

    obtain   out of its slot, or from a source; judged by what those before it give
    take     from another medium

What is known of a candidate is kept with all that it follows from: its listing, the reader's trust, the mark and the
active version of its scope. While those stay, nothing is read again; where they changed, the document is judged again
in its slot. It is fetched again only where it is not good there any more: an increment whose base has gone.

What could not be had, or was refused, rests (`retry_schedule.py`), and what was said of it stands until it is tried
again. Bad bytes are no word on a candidate, whoever sent them, unless a coordinator did: what it signed and lists it
must have. A fetch is given up when a newer head lists the candidate no more.
"""

from collections.abc import AsyncIterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

import trio

from agent.state.candidate_request import CandidateRefusal, CandidateRequest
from agent.state.coming import Prospect, active_version, is_coming, trust_of
from agent.state.node import RunningNode
from agent.state.own_bounds import OwnRefusalError
from agent.state.plan import WantedScope, plan
from agent.update.admission import PREPARED, Admission, AskedDocument, Candidate
from agent.update.fetching import Fetching, FetchOutcome
from agent.update.pacing import Pacing
from agent.update.patience import LOOK_AGAIN_S
from agent.update.retry_schedule import PutOffs, RetryKey, Why
from agent.update.roles import holder_after
from snapshot.envelope import Envelope
from snapshot.manifest import ScopeVersion
from snapshot.reasons import Rejected
from snapshot.verifier_state import VerifierState
from snapshot.verify import AlreadyApplied
from store.base.errors import StoreError
from store.base.pending import HeldCandidate
from wire.local.local_answers import TakenDocument
from wire.logs import log


@dataclass(frozen=True)
class NothingToBring:
    """It is what runs already, or was accepted before."""


IntakeOutcome = Candidate | CandidateRefusal | NothingToBring | None
"""Of one candidate, before services are asked; None: it could not be had yet."""


@dataclass(frozen=True)
class _Known:
    """What came of a candidate, and all that it follows from."""

    by: tuple[object, ...]
    outcome: IntakeOutcome

    def refusal_of(self, listed: ScopeVersion) -> CandidateRefusal | None:
        return self.outcome if self.by[0] == listed and isinstance(self.outcome, CandidateRefusal) else None


@dataclass
class CandidateIntake:
    """`put_offs` are its own: what is to be run rests, or does not, by others."""

    node: RunningNode
    fetching: Fetching
    admission: Admission
    put_offs: PutOffs
    pacing: Pacing = field(default_factory=Pacing)
    _slots: trio.Lock = field(default_factory=trio.Lock)  # one writes into candidates' slots at a time
    _known: dict[str, _Known] = field(default_factory=dict)
    _asking: dict[trio.CancelScope, Prospect] = field(default_factory=dict)
    _resting: set[RetryKey] = field(default_factory=set)
    _room: int = 0

    @property
    def is_due(self) -> bool:
        """Whether something is to be tried again that the last round left resting."""
        return any(not self.put_offs.holds(cause) for cause in self._resting)

    async def drop_others(self, coming: Sequence[Prospect]) -> None:
        """Slots of what is not to be judged; what is listed to be run keeps its own until it runs. And what is left of
        one that failed, before others need its room: a disk that is still full takes this as badly as it took that.
        """
        store = self.node.store
        found = await self.node.threads.read(store.candidates) if store.may_have_candidates else None
        held = found.by_scope if found is not None else {}
        if found is not None and found.unfinished and not self._slots.locked():
            with suppress(StoreError):
                await self.node.threads.write(store.drop_candidates, found.unfinished)
        judged = {scope.scope for scope in coming if scope.refusal is None}
        to_run = {wanted.scope: wanted for wanted in plan(self.node.holdings).wanted}
        gone = [scope for scope, candidate in held.items() if scope not in judged and not _is_for(candidate, to_run)]
        if gone:
            await self.node.threads.write(self.node.store.drop_candidates, gone)
        self._known = {scope: known for scope, known in self._known.items() if scope in judged}

    def give_up_others(self, listed: Mapping[str, ScopeVersion]) -> None:
        """What is listed no more is asked for no longer: who has it may make it last."""
        for scope, asked in self._asking.items():
            if listed.get(asked.scope) != asked.wanted.listed:
                scope.cancel()

    async def obtain(
        self, coming: Sequence[Prospect], kept_out: Mapping[str, CandidateRefusal]
    ) -> dict[str, IntakeOutcome]:
        """Each judged by what those before it give (format.md 9)."""
        if not coming:
            self._resting = set()
            return {}
        held = await self.node.threads.read(self.node.store.candidates)
        due = {cause for cause in self._resting if not self.put_offs.holds(cause)}
        self._room, self._resting = max(0, held.room), set()
        holder, outcomes = self.node.holder(), dict[str, IntakeOutcome]()
        for prospect in coming:
            outcome: IntakeOutcome = (
                NothingToBring() if prospect.is_active else prospect.refusal or kept_out.get(prospect.scope)
            )
            if outcome is None:
                is_due = RetryKey.of(prospect.wanted) in due
                outcome = await self._obtain_one(prospect, held.by_scope.get(prospect.scope), holder, is_due=is_due)
            if isinstance(outcome, Candidate):
                holder = holder_after(outcome.verified, holder)
            outcomes[prospect.scope] = outcome
        return outcomes

    async def _obtain_one(
        self, prospect: Prospect, held: HeldCandidate | None, holder: VerifierState, *, is_due: bool
    ) -> IntakeOutcome:
        """What is known and follows from the same is not looked at again, until it is due."""
        cause, holdings = RetryKey.of(prospect.wanted), self.node.holdings
        mark, active = holdings.kept.marks.get(prospect.scope), active_version(prospect.scope, holdings)
        by = (prospect.wanted.listed, trust_of(holder), mark, active)
        known = self._known.get(prospect.scope)
        has_gone = held is None and known is not None and isinstance(known.outcome, Candidate)
        if known is None or known.by != by or known.outcome is None or is_due or has_gone:
            async with self._slots:
                known = _Known(by, await self._bring(prospect, held, holder, known))
            self._known[prospect.scope] = known
        if self.put_offs.holds(cause):
            self._resting.add(cause)
        return known.outcome

    async def _bring(
        self, prospect: Prospect, held: HeldCandidate | None, holder: VerifierState, known: _Known | None
    ) -> IntakeOutcome:
        """Out of its slot, or from a source; while it rests, what was said of it before stands."""
        document = held.document if held is not None else None
        if held is not None and document is not None and prospect.wanted.is_met_by(document):
            outcome = await self._judge_slot(prospect, held, document, holder)
            if outcome is not None:
                return outcome
        if not self.put_offs.holds(RetryKey.of(prospect.wanted)):
            return await self._fetch(prospect, holder)
        return known.refusal_of(prospect.wanted.listed) if known is not None else None

    async def _judge_slot(
        self, prospect: Prospect, held: HeldCandidate, document: Envelope, holder: VerifierState
    ) -> IntakeOutcome:
        """None where it is no good any more: an increment whose base has gone, or a slot that was given away."""
        request = CandidateRequest(0)
        asked = AskedDocument(document.kind, PREPARED, prospect.scope, None, prospect.wanted.listed, request)
        try:
            slot = await self.node.threads.write(
                self.node.store.slot, prospect.scope, held.envelope_hash, holder.limits
            )
            found = await self.admission.judge(slot, asked, holder) if slot is not None else FetchOutcome.LATER
        except OwnRefusalError:
            return request.last
        except (Rejected, StoreError) as error:
            log.info("a candidate is fetched again", scope=prospect.scope, error=str(error))
            return None
        if isinstance(found, Candidate):
            return found
        return None if found is FetchOutcome.LATER else self._after_settling(prospect, request)

    async def _fetch(self, prospect: Prospect, holder: VerifierState) -> IntakeOutcome:
        cause, request = RetryKey.of(prospect.wanted), CandidateRequest(self._room)
        wanted = replace(prospect.wanted, candidate=request)
        try:
            with self._giving_up(prospect) as asked:
                found = await self.fetching.obtain(wanted, holder)
        except StoreError as error:
            self.put_offs.put_off(cause, Why.STORE)
            return CandidateRefusal(None, str(error.fault), error.detail[:256])
        if asked.cancelled_caught:
            return None
        match found:
            case Candidate():
                self._room = max(0, self._room - found.slot.record.size)
                return found
            case FetchOutcome.SETTLED:
                return self._after_settling(prospect, request)
            case FetchOutcome.COMING:
                self.put_offs.wait(cause, LOOK_AGAIN_S)
                return None
            case FetchOutcome.GIVEN_UP | FetchOutcome.KEPT_OUT:
                self.put_offs.put_off(cause, Why.VERIFIER)
                return request.last
            case _:
                self.put_offs.put_off(cause, Why.SOURCES)
                return request.by_coordinator

    def _after_settling(self, prospect: Prospect, request: CandidateRequest) -> IntakeOutcome:
        """Accepted before, or its time has not come: it lies in its slot until then, and is judged again."""
        if request.last is None:
            return NothingToBring()
        if request.valid_from is not None:
            self.put_offs.wait(RetryKey.of(prospect.wanted), request.valid_from - self.node.now())
        return request.last

    @contextmanager
    def _giving_up(self, prospect: Prospect) -> Iterator[trio.CancelScope]:
        with trio.CancelScope() as scope:
            self._asking[scope] = prospect
            try:
                yield scope
            finally:
                del self._asking[scope]

    async def take(self, chunks: AsyncIterable[bytes], said: Envelope, source: str) -> TakenDocument:
        """From another medium, to be judged as any other. Rejected, NotListedError, OwnRefusalError, StoreError."""
        async with self.pacing.turn() as turn, self._slots:
            room = (await self.node.threads.read(self.node.store.candidates)).room
            asked = AskedDocument(
                said.kind,
                source,
                said.scope,
                lambda envelope: is_coming(envelope, self.node.holdings),
                candidate=CandidateRequest(max(0, room)),
            )
            verdict = await self.admission.receive(chunks, asked, self.node.holder())
            turn.succeeded = True
        self._known.pop(said.scope, None)
        outcome = "already_applied" if isinstance(verdict, AlreadyApplied) else "candidate"
        return TakenDocument(outcome, said.scope, *said.version)


def _is_for(held: HeldCandidate, to_run: Mapping[str, WantedScope]) -> bool:
    document = held.document
    return document is not None and held.scope in to_run and to_run[held.scope].is_met_by(document)
