"""One update, one straight path: from what the head lists to what is active (ARCHITECTURE.md; rules S67).

    pending  = download(scope)      bytes into the pending slot
    verified = admit(pending)       the twelve steps, one clock reading
    active   = activate(verified)   floors raised, then one transaction for all scopes of the head
    notify, report                  others follow the generation: services.py, heartbeat.py

Level-triggered: each round compares what the accepted head lists with what is active, and brings what differs. What is
refused leaves the others alone, and rests (retry_schedule.py). Whatever fails in a round rests before the next begins:
what a round learns and records wakes the next one, so without that a failure would feed itself.

The rules of the room:

1. A round decides by `plan(holdings)` alone, a pure function of what is held. No list of things to do is kept between
   rounds: after a crash, a restart or a lost wake-up the next round sees the same difference and closes it.
2. Trust comes before content (the bundles that the head lists), what is listed no more goes before anything new comes,
   and `node_bootstrap` and `node_runtime` come before the others, which are judged by the roles that they give.
3. All that could be had becomes active in one transaction, so readers see one head's scopes together. What could not
   be had does not hold back the rest.
4. Before the swap the plan is asked once more: a newer head may have been accepted while a download ran.
5. No failure moves what is active. It rests under its own cause, and the others go on.

Example. A head lists `node_runtime` 5 and `route_policy` 8; 4 and 7 are active. The first source gives 5 and then
answers no more: it rests, and the second one gives an increment from 7 to 8. Both are activated together. Had nobody
had 8, 5 would have become active alone, and 8 would be asked for again soon, then less and less often, or at once when
the operator says so (`wake`).

Rejected:

- A queue of downloads with states of their own: it has to be persisted, resumed and reconciled with each new head, and
  every such state is a crash to test. The difference between listed and active is there anyway.
- One lock for heads and rounds: a download that takes an hour would keep the node from hearing of a revocation or of a
  higher epoch; so heads have `head_lock`, and a head of a higher epoch ends what is asked for by those before it.
- Activating each scope as it arrives: a service that reads two scopes would see combinations that nobody has declared.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import trio

from agent.base.byte_source import Chunks
from agent.services.judgements import Judgements
from agent.services.scope_reports import envelope_of
from agent.services.validators import Validators
from agent.sources.source import Kind, Source
from agent.sources.sources import Sources
from agent.state.held_state import Holdings
from agent.state.lost_floors import is_confirmed_from_outside
from agent.state.node import RunningNode
from agent.state.own_bounds import OwnRefusalError
from agent.state.plan import UpdatePlan, WantedScope, in_turns, plan, version_of
from agent.state.reaction import REACTION, Reaction
from agent.update.activating import Activator
from agent.update.admission import PREPARED, Admission, AskedDocument, Candidate
from agent.update.fetching import Fetching, FetchOutcome
from agent.update.importing import Importing, may_be_taken
from agent.update.intake import CandidateIntake
from agent.update.patience import LOOK_AGAIN_S
from agent.update.preparing import Preparation
from agent.update.retry_schedule import AGAIN_S, PutOffs, RetryKey, Why
from agent.update.roles import holder_after
from agent.update.trust import TrustChain
from agent.update.validation import Validation
from agent.update.waiting_head import WaitingHead
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.envelope import SNAPSHOT, Envelope
from snapshot.identifiers import HEAD
from snapshot.reasons import Rejected
from store.base.errors import StoreError
from wire.backoff import LEAST_S, BackOff
from wire.client import ClientError
from wire.local.node_status import AwaitedVersion
from wire.logs import log

STORE_RETRY_S = 30.0


@dataclass
class Update:
    """Of one node. `lock`: one resync at a time (rules K46). Heads have a lock of their own: a download that takes long
    must not keep the node from hearing that it is not alone.
    """

    node: RunningNode
    sources: Sources
    admission: Admission
    trust: TrustChain
    validators: Validators
    lock: trio.Lock = field(default_factory=trio.Lock)
    head_lock: trio.Lock = field(default_factory=trio.Lock)
    put_offs: PutOffs = field(default_factory=PutOffs)
    trust_lock: trio.Lock = field(default_factory=trio.Lock)
    passed_over: frozenset[str] = frozenset()  # listed scopes of unknown types
    _judged_by: object = None
    _asking: dict[trio.CancelScope, int] = field(default_factory=dict)  # each with the epoch of the head that it is of
    _rounds: set[trio.CancelScope] = field(default_factory=set)  # of rounds that ask others
    _resting: trio.CancelScope | None = None  # of `run`, between two rounds

    def __post_init__(self) -> None:
        self.fetching = Fetching(self.node, self.sources, self.admission, self.trust)
        uniform = self.put_offs.uniform
        self.validation = Validation(self.node, self.admission, self.validators, self.put_offs, Judgements(uniform))
        intake = CandidateIntake(self.node, self.fetching, self.admission, PutOffs(uniform))
        self.preparation = Preparation(self.node, intake, self.validation)
        self.activating = Activator(self.node, self.sources)
        self.waiting_head = WaitingHead(self.node, self.activating)
        self.trust.note_origin = self.activating.note_origin
        self.importing = Importing(
            self.node,
            self.admission,
            self.validation,
            self.activating,
            self.lock,
            self.head_lock,
            self.trust.walking,
            self.give_up_before,
            self.end_asking,
        )

    async def run(self) -> None:
        """Until cancelled: a round at each change of what the node knows, and when time makes one due."""
        back_off = BackOff(self.put_offs.uniform, STORE_RETRY_S)
        while True:
            seen = self.node.changed.value
            try:
                rest_s = await self.bring_up()
                back_off.note_success()
            except StoreError as error:
                log.warning("update put off", fault=error.fault, detail=error.detail)
                self.node.note_store_refusal(error)
                rest_s = back_off.note_failure()
                await trio.sleep(LEAST_S)
            await self._wait_for_change(seen, max(LEAST_S, rest_s))

    async def _wait_for_change(self, seen: int, most_s: float) -> None:
        with trio.move_on_after(most_s) as scope:
            self._resting = scope
            try:
                await self.node.changed.wait_above(seen)
            finally:
                self._resting = None

    def _end_rest(self) -> bool:
        """Whether a round begins at once."""
        if self._resting is None or self.lock.locked():
            return False
        self._resting.cancel()
        return True

    async def bring_up(self) -> float:
        """One round; the seconds after which the next is due without a change. StoreError."""
        try:
            return await self._bring_up()
        finally:
            self.waiting_head.let_go()

    async def _bring_up(self) -> float:
        async with self.lock:
            await self.sources.follow()
            await self.sources.forget_removed()
            await self.node.finish_activation()
            await self.activating.come_back()
            if self.node.facts().revoked:
                await self.activating.let_all_go()
                return AGAIN_S
            self._reconsider()
            due_in_s = await self._take_due()
            planned = await self._make_plan()
            self.passed_over = frozenset(planned.passed_over)
            due = [
                wanted_scope for wanted_scope in planned.wanted if not self.put_offs.holds(RetryKey.of(wanted_scope))
            ]
            epoch = self.node.holdings.held_head[0]
            for turn in in_turns(due, self.node.holdings):
                if self.node.holdings.held_head[0] == epoch:  # else a head has ended the turn before, and so this one
                    await self._bring(turn)
            self.waiting_head.let_go()
            await self._settle()
            await self.sources.keep()
            return min(due_in_s, self.put_offs.rest_s())

    def wake(self) -> None:
        """A hint that it is worth asking now, also for what was put off, as often as the floor lets (rules P14)."""
        self.put_offs.clear()
        self.preparation.wake()
        self.node.tell()

    def awaited_scopes(self) -> dict[str, AwaitedVersion]:
        """By scope: what the head lists and is not active yet, and when it is asked for again."""
        return {wanted.scope: self._awaited_version(wanted) for wanted in plan(self.node.holdings).wanted}

    def _awaited_version(self, wanted: WantedScope) -> AwaitedVersion:
        left_s = self.put_offs.left_s(RetryKey.of(wanted))
        return AwaitedVersion(
            authority_epoch=wanted.listed.authority_epoch,
            config_version=wanted.listed.config_version,
            snapshot_id=wanted.listed.snapshot_id,
            below_accepted=wanted.below,
            again_in_s=None if math.isinf(left_s) else int(left_s),
        )

    async def accept_head(self, data: bytes, source: Source) -> bool:
        """A head, by the same path; whether another one is active now. Rejected, NotListedError, StoreError,
        ClientError. It may be one that had failed at its commit before, and so is of no use as what has just come.

        The trust bundles that it needs come first; what it drops goes with it.
        """
        async with self.head_lock:
            before = self.node.holdings.held_head
            asked = AskedDocument(HEAD, str(source), HEAD)
            generation = self.node.holdings.kept.generation
            try:
                verdict = await self.admission.receive(Chunks(data), asked, self.node.holder())
            except Rejected as refused:
                if REACTION[refused.reason] is not Reaction.REFRESH_TRUST or not await self.trust.refresh(source):
                    raise
                generation = self.node.holdings.kept.generation
                verdict = await self.admission.receive(Chunks(data), asked, self.node.holder())
            if isinstance(verdict, Candidate):
                if source.kind is Kind.COORDINATOR:  # it has answered: what comes with the head is on probation by that
                    await self.sources.note_answer(source)
                await self._take_head(verdict, asked, generation)
            is_news = self.node.holdings.held_head != before
            if is_news:
                self.give_up_before()
                await self._make_plan(source)
            return is_news

    async def _take_head(self, candidate: Candidate, asked: AskedDocument, generation: int) -> None:
        """With what it lists, where that is there in a moment; else alone. StoreError; Rejected where it is judged
        again, because something else has become active since `generation`, by which it was judged.
        """
        async with self.waiting_head.wait(candidate, generation, self._end_rest) as is_active:
            if not is_active:
                await self._take_head_alone(candidate, asked, generation)

    async def _take_head_alone(self, candidate: Candidate, asked: AskedDocument, generation: int) -> None:
        await self.node.finish_activation()
        if self.node.holdings.kept.generation != generation:
            verdict = await self.admission.judge(candidate.slot, asked, self.node.holder())
            if not isinstance(verdict, Candidate):
                return
            candidate = verdict
        await self.activating.activate([candidate])

    # ---- a round

    def _reconsider(self) -> None:
        """What the verifier refused is asked for again once it is judged by other trust, roles or permissions."""
        holder, recoveries = self.node.holdings.holder, self.node.holdings.kept.recoveries
        bundle = holder.bundle.version if holder.bundle else 0
        judged_by = (bundle, holder.roles, holder.organization_ids, holder.revocations, tuple(recoveries))
        if judged_by != self._judged_by:
            self.put_offs.reconsider()
        self._judged_by = judged_by

    def give_up_before(self) -> None:
        """With a head of a higher epoch ends what is being asked for by the head before it: who held that one's keys
        may make it last as long as he likes, and what it brings is refused. Likewise what is listed as coming no more.
        """
        epoch = self.node.holdings.held_head[0]
        for scope, asked_in in self._asking.items():
            if asked_in < epoch:
                scope.cancel()
        self.preparation.give_up_others()

    def end_asking(self) -> None:
        """Of the round that asks others now: each may take a connection's time, or drip for ever, and a document that
        is at hand waits. What the round has already is taken; the rest is asked for again a moment later.
        """
        for scope in self._rounds:
            scope.cancel()

    @contextmanager
    def _while_nobody_waits(self) -> Iterator[trio.CancelScope]:
        with trio.CancelScope() as scope:
            self._rounds.add(scope)
            try:
                yield scope
            finally:
                self._rounds.discard(scope)

    @contextmanager
    def _within_epoch(self) -> Iterator[trio.CancelScope]:
        """What others are asked for, as long as it is of this epoch."""
        with trio.CancelScope() as scope:
            self._asking[scope] = self.node.holdings.held_head[0]
            try:
                yield scope
            finally:
                del self._asking[scope]

    async def _make_plan(self, source: Source | None = None) -> UpdatePlan:
        """The plan, once newer trust is in and what is listed no more is out (rules S3). `source`: the one that is
        asked for the trust; a head does not wait for others.
        """
        planned = plan(self.waiting_head.holdings())
        if planned.trust:
            with self._within_epoch(), self._while_nobody_waits():
                async with self.trust_lock:  # a round and a head may both want it
                    await self._refresh_trust(source)
            planned = plan(self.waiting_head.holdings())
        if planned.dropped:
            await self.activating.withdraw(planned.dropped)
        return planned

    async def _refresh_trust(self, source: Source | None) -> None:
        """From whoever has them: bundles are believed for their signatures (format.md 8)."""
        cause = listed_bundle(self.node.holdings)
        if cause is None or self.put_offs.holds(cause):
            return
        for candidate in (
            [source] if source else [source for source in self.sources.rested_sources() if source.kind is not Kind.PEER]
        ):
            try:
                if await self.trust.refresh(candidate, urgent=True):
                    return
            except ClientError as error:
                candidate.note_failure(error)
        if source is None:
            self.put_offs.put_off(cause, Why.SOURCES)

    async def _bring(self, wanted: Sequence[WantedScope]) -> None:
        """All that can be had, then one activation; the others are judged by what the first two give (format.md 9)."""
        holder = self.node.holder()
        candidates: list[Candidate] = []
        try:
            with self._within_epoch() as asked, self._while_nobody_waits() as round_scope:
                for wanted_scope in wanted:
                    with self._store_may_refuse([RetryKey.of(wanted_scope)]):
                        found = await self.fetching.obtain(wanted_scope, holder)
                    if isinstance(found, Candidate):
                        candidates.append(found)
                        holder = holder_after(found.verified, holder)
                    else:
                        self._rest(wanted_scope, found)
            if round_scope.cancelled_caught:
                for wanted_scope in wanted:
                    self.put_offs.wait(RetryKey.of(wanted_scope), LOOK_AGAIN_S)
        except StoreError:
            await self._take(candidates, wanted)  # what a wide head lists takes its turns
            raise
        if not asked.cancelled_caught:
            await self._take(candidates, wanted)

    def _rest(self, wanted: WantedScope, outcome: FetchOutcome) -> None:
        if outcome is FetchOutcome.SETTLED:
            self.put_offs.wait(RetryKey.of(wanted), AGAIN_S)
        elif outcome is FetchOutcome.COMING:
            self.put_offs.wait(RetryKey.of(wanted), LOOK_AGAIN_S)
        else:
            self.put_offs.put_off(RetryKey.of(wanted), _WHY[outcome])

    async def _take(self, candidates: Sequence[Candidate], asked_for: Sequence[WantedScope]) -> None:
        """Those that no validator keeps out and that are still listed, in one activation. StoreError. What an operator
        lets pass no more is judged anew.
        """
        accepted = await self.validation.accept(candidates)
        await self.waiting_head.let_decide()
        await self.node.finish_activation()  # which may be of a head that lists other versions
        wanted_now = {
            wanted_scope.scope: wanted_scope for wanted_scope in plan(self.waiting_head.holdings()).wanted
        }  # a newer head may have come meanwhile
        let_pass = {wanted_scope.scope: wanted_scope.listed.allowed for wanted_scope in asked_for}
        still = [
            download
            for download in accepted
            if _is_wanted(download, wanted_now)
            and wanted_now[download.scope].listed.allowed == let_pass[download.scope]
        ]
        if still:
            await self._activate(still)

    async def _activate(self, candidates: Sequence[Candidate]) -> None:
        with self._store_may_refuse([RetryKey.of_document(candidate.verified.envelope) for candidate in candidates]):
            await self.waiting_head.activate(candidates)

    @contextmanager
    def _store_may_refuse(self, causes: Sequence[RetryKey]) -> Iterator[None]:
        """What the store does not take rests by itself: the next that fits goes in."""
        try:
            yield
        except StoreError:
            for cause in causes:
                self.put_offs.put_off(cause, Why.STORE)
            raise

    async def _settle(self) -> None:
        """Everything is active that a fresh head from outside lists: lost floors are confirmed (threats D-24)."""
        holdings = self.node.holdings
        if not holdings.floor_lost or not is_confirmed_from_outside(holdings, self.node.start):
            return
        if self.node.gate_facts().head_is_fresh(self.node.now()) and not plan(holdings).wanted:
            await self.node.change(self.node.store.confirm_floors)

    # ---- what waits for its time (rules X26)

    async def _take_due(self) -> float:
        """Verified again, whole, at `valid_from`; the seconds until the next is due."""
        if not self.node.store.may_have_waiting:
            return float("inf")
        now, waiting = self.node.now(), await self.node.threads.read(self.node.store.waiting)
        for delay in waiting.values():
            envelope = envelope_of(delay)
            cause = (
                RetryKey.of_document(envelope)
                if envelope is not None
                else RetryKey(delay.scope, (0, 0), delay.envelope_hash)
            )
            if delay.until > now:
                self.put_offs.wait(cause, delay.until - now)
            elif not self.put_offs.has_failed(cause):
                await self._take_waiting(delay.scope, delay.envelope_hash, cause)
        return min((delay.until - now for delay in waiting.values() if delay.until > now), default=float("inf"))

    async def _take_waiting(self, scope: str, envelope_hash: str, cause: RetryKey) -> None:
        with self._store_may_refuse([cause]):
            slot = await self.node.threads.write(self.node.store.slot, scope, envelope_hash, self.node.holder().limits)
            if slot is None:
                return
            try:
                verdict = await self.admission.judge(slot, AskedDocument(SNAPSHOT, PREPARED, scope), self.node.holder())
            except (Rejected, OwnRefusalError):
                self.put_offs.put_off(cause, Why.VERIFIER)
                return
        if not isinstance(verdict, Candidate):
            return
        if not self._may_run(verdict.verified.envelope):
            log.info(
                "what waited for its time is listed no more", scope=scope, version=verdict.verified.envelope.version
            )
            await self.node.threads.write(slot.drop)
        elif accepted := await self.validation.accept([verdict]):
            await self._activate(accepted)

    def _may_run(self, envelope: Envelope) -> bool:
        """A newer head may have come while it waited (rules S86)."""
        node = self.node
        return may_be_taken(envelope, self.waiting_head.holdings(), node.gate_facts().head_is_fresh(node.now()))


_WHY = {
    FetchOutcome.LATER: Why.SOURCES,
    FetchOutcome.GIVEN_UP: Why.VERIFIER,
    FetchOutcome.KEPT_OUT: Why.VALIDATOR,
}


def listed_bundle(holdings: Holdings) -> RetryKey | None:
    listed = holdings.head.scopes.get(TRUST_BUNDLE) if holdings.head is not None else None
    return RetryKey(TRUST_BUNDLE, version_of(listed), listed.content_hash) if listed is not None else None


def _is_wanted(candidate: Candidate, wanted: Mapping[str, WantedScope]) -> bool:
    return candidate.scope in wanted and wanted[candidate.scope].is_met_by(candidate.verified.envelope)
