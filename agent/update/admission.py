"""From bytes to a verdict: the twelve steps over a document in its slot, and what is kept of a refusal.

    receive   chunks -> slot -> verdict
    judge     slot -> verdict, also of one that waited for its time, or was judged as a candidate before

A refusal is recorded, counted and reported; active, marks and trust are as before (rules S53, S54; threats D-44). Of a
candidate, which nobody was to run, it goes into the vote alone (`preparing.py`).

The clock is read once before the first byte, by which the opening is judged, and once for the verdict, so all twelve
steps judge at one moment; the slot of a document is durable before the verdict is given back, so that what is activated
later is what was judged. A head's becomes so with the slot of what it lists, or as it is activated. `is_wanted` and
`listed` hold a good document against what was asked for: a valid snapshot of another version is `not_listed`, and
blames who sent it.

What is small is judged in the visit of a thread that takes its last byte: to turn to another costs as much again. Of a
larger snapshot that fits into a transaction the slot is written and synced while it is judged from memory: a disk takes
milliseconds for that. An increment is not, since it keeps the results of its patches in the slot as it is judged.

Example. A mirror sends `route_policy` 8 with one byte of a section turned. Step 6 finds `content_mismatch`: the slot
is dropped, a rejection with step, reason and source is recorded and reported, and the caller asks the next source. The
record also says whether a signature vouches for version and id in it: up to step 5 (`LAST_CLAIM`) anybody may have
written them.

Rejected:

- Verifying while nothing is written, then writing: a document is up to hundreds of MiB, so it would be held in memory,
  or read from the network twice. It goes into the slot as it comes, and each part is judged as early as its step can.
- Keeping what was refused to look at it later: who may send bytes could fill the disk. Evidence is bounded, and kept
  of conflicts alone (`store/base/rejections.py`).
"""

from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass, field

import trio

from agent.services.service_limits import ServiceLimits
from agent.state.candidate_request import CandidateRefusal, CandidateRequest
from agent.state.node import RunningNode
from agent.state.origins import Giver, Givers
from agent.state.own_bounds import TOO_MANY_WAIT, OwnRefusalError, may_not_wait, refuse_quarantined
from agent.state.plan import WantedScope
from agent.update.download import Arrival, NotListedError, download
from snapshot.blast_radius import HeldSections
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.container import Opening
from snapshot.envelope import INCREMENT, SNAPSHOT, Envelope
from snapshot.identifiers import HEAD, format_time
from snapshot.manifest import ScopeVersion
from snapshot.reasons import Reason, Rejected, safe_text
from snapshot.verifier_state import VerifierState
from snapshot.verify import AlreadyApplied, NotYetValid, Verified, verify
from snapshot.verify import Verdict as VerifierVerdict
from store.base.errors import StoreError, StoreFault
from store.base.pending import Pending, PendingParts
from store.base.records import Rejection
from wire.logs import log

PREPARED = "pending"  # it comes out of its slot
NOT_LISTED, VALIDATOR_REFUSED = "not_listed", "validator_refused"
NOT_YET_VALID_STEP = 7
SMALL_BYTES = 64 << 10  # no more than a turn of the writing thread is there for
LAST_CLAIM = 5  # up to this step nobody vouches for what a document says of itself


@dataclass(frozen=True)
class Candidate:
    """A verified document, durable in its slot, and who gave it."""

    verified: Verified
    slot: Pending
    giver: Giver

    @property
    def source(self) -> str:
        return self.giver.name

    @property
    def scope(self) -> str:
        return self.verified.scope


Verdict = Candidate | AlreadyApplied | NotYetValid
_Outcome = VerifierVerdict | Rejected | OwnRefusalError


@dataclass(frozen=True)
class AskedDocument:
    """What was asked for, and of whom. `scope` is empty where it is not known before the document says so. `giver`: of
    a source; else it is known by the name.
    """

    kind: str
    source: str
    scope: str = ""
    is_wanted: Callable[[Envelope], bool] | None = None
    listed: ScopeVersion | None = None  # what the head says of it
    candidate: CandidateRequest | None = None  # to be judged alone
    giver: Giver | None = None


@dataclass(frozen=True)
class Admission:
    """`givers`: who gave what was judged last."""

    node: RunningNode
    givers: Givers = field(default_factory=Givers)

    async def receive(self, chunks: AsyncIterable[bytes], asked: AskedDocument, holder: VerifierState) -> Verdict:
        """Rejected, NotListedError, OwnRefusalError (all recorded), StoreError, and what reading the chunks raises."""
        await self.node.finish_activation()
        room = asked.candidate.room if asked.candidate is not None else None
        arrival = Arrival(self.node.store, holder, asked.kind, self.node.now(), asked.is_wanted, room)

        def go_on(slot: Pending) -> tuple[float, _Outcome] | PendingParts:
            """The verdict on a small one; of another one what is to be judged while its slot is written."""
            is_small = arrival.size <= SMALL_BYTES
            if asked.kind != HEAD and (is_small or self._has_limits(asked, slot.scope)):
                slot.flush()
            parts, now = slot.parts(), self.node.now()
            return (now, self._try_to_verify(slot, parts, holder, asked, now)) if is_small else parts

        try:
            slot, judged = await download(self.node.threads, arrival, chunks, go_on)
        except Rejected as verdict:
            await self.record(asked, arrival.envelope, verdict.step, verdict.reason, verdict.detail)
            raise
        except NotListedError as error:
            await self.record(asked, error.envelope, 9, NOT_LISTED, str(error))
            raise
        except OwnRefusalError as error:
            await self.record(asked, error.envelope, error.step, error.reason, error.detail)
            raise
        finally:
            if arrival.has_finished_another:  # that failed at its commit since this one began
                with trio.CancelScope(shield=True):
                    await self.node.reload()
        now, outcome = judged if isinstance(judged, tuple) else await self._judge_and_write(slot, judged, holder, asked)
        return await self._settle(slot, asked, arrival.envelope, now, outcome)

    async def _judge_and_write(
        self, slot: Pending, parts: PendingParts, holder: VerifierState, asked: AskedDocument
    ) -> tuple[float, _Outcome]:
        """Side by side, unless it is written already. StoreError, whatever the verdict: then nothing of it is kept."""
        now, refused = self.node.now(), list[StoreError]()

        async def judge() -> _Outcome:
            return await self.node.threads.verify(self._try_to_verify, slot, parts, holder, asked, now)

        if asked.kind == HEAD or not slot.is_waiting_for_next:
            return now, await judge()

        async def write() -> None:
            try:
                await self.node.threads.write(slot.flush)
            except StoreError as error:
                refused.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            outcome = await judge()
        if refused:
            await self.node.threads.write(slot.drop)
            raise refused[0]
        return now, outcome

    async def judge(
        self, slot: Pending, asked: AskedDocument, holder: VerifierState, envelope: Envelope | None = None
    ) -> Verdict:
        """One clock reading for the whole run."""
        now = self.node.now()
        outcome = await self.node.threads.verify(self._try_to_verify, slot, None, holder, asked, now)
        return await self._settle(slot, asked, envelope, now, outcome)

    async def _settle(
        self, slot: Pending, asked: AskedDocument, envelope: Envelope | None, now: float, verdict: _Outcome
    ) -> Verdict:
        """What is not taken leaves its slot, unless it waits for its time; a candidate that a service cannot take
        stays, too: what it is compared with may be another soon.
        """
        if isinstance(verdict, OwnRefusalError):
            if asked.candidate is None:
                await self.node.threads.write(slot.drop)
            await self.record(asked, verdict.envelope, verdict.step, verdict.reason, verdict.detail)
            raise verdict
        if isinstance(verdict, Rejected):
            await self._keep_evidence(slot, verdict, now)
            await self.node.threads.write(slot.drop)
            await self.record(asked, envelope, verdict.step, verdict.reason, verdict.detail)
            raise verdict
        giver = self._giver_of(verdict.envelope.snapshot_id, asked)
        if isinstance(verdict, Verified):
            return Candidate(verdict, slot, giver)
        if isinstance(verdict, NotYetValid):
            await self._put_by(slot, asked, verdict.envelope)
        else:
            await self.node.threads.write(slot.drop)
        return verdict

    def _giver_of(self, snapshot_id: str, asked: AskedDocument) -> Giver:
        """Of what comes out of its slot: who gave it then."""
        known = self.givers.find(snapshot_id) if asked.source == PREPARED else None
        giver = known or asked.giver or Giver.by_name(asked.source)
        self.givers.note(snapshot_id, giver)
        return giver

    def _try_to_verify(
        self, slot: Pending, parts: PendingParts | None, holder: VerifierState, asked: AskedDocument, now: float
    ) -> _Outcome:
        try:
            return self._verify(slot, parts or slot.parts(), holder, asked, now)
        except (Rejected, OwnRefusalError) as refused:
            return refused

    def _verify(
        self, slot: Pending, parts: PendingParts, holder: VerifierState, asked: AskedDocument, now: float
    ) -> VerifierVerdict:
        """The verifier's verdict, and this node's own on what has passed it: Rejected, OwnRefusalError."""
        keep = slot.keep if asked.kind == INCREMENT else None  # the results of patches; all else lies in the slot
        verdict = verify(parts, holder, kind=asked.kind, now=now, keep=keep)
        if isinstance(verdict, Verified):
            if keep is not None:
                slot.flush()  # so that whoever looks at the candidate finds its sections
            refuse_quarantined(verdict.envelope, verdict.content_hash, self.node.holdings)
            self._refuse_beyond_limits(verdict, asked)
        return verdict

    def _refuse_beyond_limits(self, verified: Verified, asked: AskedDocument) -> None:
        """What a service of this node can take; a renewal of what it has is nothing new to it."""
        node, scope = self.node, verified.scope
        active = node.holdings.kept.active.get(scope)
        is_same = active is not None and active.content_hash == verified.content_hash
        if is_same or not self._has_limits(asked, scope):
            return
        limits = ServiceLimits(node.settings.services)
        before = HeldSections(active.sections, active.read) if active is not None else None
        after = HeldSections(verified.state, lambda name: node.store.get(f"sha256:{verified.state[name].sha256}"))
        # A change that is taken back comes as old content under a new version.
        was_good = node.store.is_good(scope, verified.content_hash)
        is_allowed = was_good or self._is_allowed(verified.envelope, asked)
        limits.refuse(verified.envelope, before, after, is_allowed=is_allowed)

    def _has_limits(self, asked: AskedDocument, scope: str) -> bool:
        """Whether a service of this node has some, by which the sections of such a document are read from the store."""
        is_content = asked.kind in (SNAPSHOT, INCREMENT) and scope != TRUST_BUNDLE
        return is_content and ServiceLimits(self.node.settings.services).concerns(scope)

    def _is_allowed(self, envelope: Envelope, asked: AskedDocument) -> bool:
        """By an operator, as the head says of exactly this document."""
        head = self.node.holdings.head
        listing = {} if head is None else head.scopes if asked.candidate is None else head.candidates
        listed = asked.listed or listing.get(envelope.scope)  # of a head that is not active yet (waiting_head.py)
        return (
            listed is not None
            and listed.allowed is not None
            and WantedScope(envelope.scope, listed).is_met_by(envelope)
        )

    async def _put_by(self, slot: Pending, asked: AskedDocument, envelope: Envelope) -> None:
        """Until its time has come; a candidate stays where it is."""
        if asked.candidate is None:
            await self._wait(slot, asked, envelope)
            return
        asked.candidate.valid_from = envelope.valid_from
        detail = f"valid from {format_time(envelope.valid_from)} on"
        await self.record(asked, envelope, NOT_YET_VALID_STEP, Reason.NOT_YET_VALID, detail)

    async def _wait(self, slot: Pending, asked: AskedDocument, envelope: Envelope) -> None:
        """Until its time has come, or OwnRefusalError where too much waits already."""
        try:
            await self.node.threads.write(slot.wait, envelope.valid_from)
        except StoreError as error:
            await self.node.threads.write(slot.drop)
            if error.fault is not StoreFault.TOO_LARGE:
                raise
            refusal = may_not_wait(envelope, TOO_MANY_WAIT, error.detail)
            await self.record(asked, envelope, refusal.step, refusal.reason, refusal.detail)
            raise refusal from error

    async def record(
        self, asked: AskedDocument, envelope: Envelope | None, step: int, reason: str, detail: str
    ) -> None:
        """One bounded record; who reports is woken. What a document that cannot be read was to be, the head says."""
        if asked.candidate is not None:
            asked.candidate.note(CandidateRefusal(step, reason, safe_text(detail)))
            return
        claimed = envelope or asked.listed
        content_hash = envelope.state_hash if envelope else asked.listed.content_hash if asked.listed else ""
        scope = asked.scope or (envelope.scope if envelope else "")
        rejection = Rejection(
            at=self.node.now(),
            scope=scope,
            reason=reason,
            step=step,
            authenticated=step > LAST_CLAIM,
            detail=detail,
            snapshot_id=claimed.snapshot_id if claimed else "",
            config_version=claimed.config_version if claimed else 0,
            source=asked.source,
            content_hash=content_hash,
        )
        self.node.counters.add("documents_rejected")
        log.warning(
            "document refused",
            scope=scope,
            version=rejection.config_version or None,
            reason=reason,
            step=step,
            detail=detail,
            source=asked.source,
        )
        await self.node.threads.write(self.node.store.rejections.record, rejection)
        self.node.tell_news()

    async def _keep_evidence(self, slot: Pending, refused: Rejected, now: float) -> None:
        """Two documents of one version: both are kept (rules X16)."""
        if refused.reason is Reason.VERSION_CONFLICT and slot.scope != HEAD:
            opening = Opening(slot.record.envelope, slot.record.signatures)
            manifest = await self.node.threads.read(slot.parts().manifest)
            await self.node.threads.write(self.node.store.rejections.keep_evidence, slot.scope, opening, manifest, now)
