"""What a head says is coming: fetched, verified, asked about, and reported as votes; nothing of it becomes active.

    look      one round: what is listed under `candidates` is brought, judged together, and what came of it published
    votes     what was made of each candidate that is listed now
    take      a candidate's document from another medium

Level-triggered like the update beside it: a round compares what the held head lists with what lies in slots and what
was judged by what, and does what is missing. Nothing of a verdict is kept over a restart: the documents lie in their
slots, and are judged there again, without a download.

The rules of the room:

1. Nothing is activated, no mark and no floor is raised, and no state of the node depends on what happens here.
2. A candidate has a slot of its own kind, beside what is received to be run and what waits for its time; it takes no
   room from those (store/base/pending.py).
3. All candidates that could be had are judged together, over what is active: a service that reads two scopes is shown
   both. Those of a change of which one could not be had are judged once it could: half a change proves nothing.
4. One judgement follows from one basis (`coming.basis_of`), and is made again when that is another one. A validator is
   asked again only where what it is shown is another (`judgements.py`).
5. What is refused, or cannot be had, rests under its own cause, apart from what is to be run: a vote must not make a
   release late, nor the other way round.

Example. A head lists `node_runtime` 6 and `route_policy` 9 as candidates of `c-41`; 5 and 8 are active. Both are
fetched as increments, verified, laid out together with what else is active, and the validator of `web` ends with 1: it
says that 9 names a port that is taken. The votes are `accepted` for `node_runtime`, and for `route_policy` `refused`,
step 12, `validator_refused`, with those words. 5 and 8 go on. An hour later the head lists 9 no more: its slot is free.

Blame. A refusal of candidates of several changes says little of each: the changes are asked about one by one, each
over what is active, and those that are refused alone are refused. Where each would do alone, and only all of them would
not, all are.

Rejected:

- Judging in the update's round: a slow validator or source would keep back what is to be run, for the sake of what is
  not.
- Keeping verdicts in the store: one that outlives the agent outlives a changed validator, limit or bundle, too.
- Racing candidates for a share of the update's slots: whoever can sign could keep out what takes his key away.
"""

from collections.abc import AsyncIterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import trio

from agent.services.validators import VALIDATOR_REFUSED, ValidatorRefusal
from agent.state.candidate_request import CandidateRefusal
from agent.state.coming import JudgedBy, Prospect, basis_of, prospects
from agent.state.node import RunningNode
from agent.state.plan import FIRST
from agent.update.admission import Candidate
from agent.update.intake import CandidateIntake, IntakeOutcome
from agent.update.retry_schedule import AGAIN_S
from agent.update.validation import STEP, Validation
from agent.update.verdicts import CandidateVerdict, candidate_state
from snapshot.envelope import Envelope
from snapshot.manifest import ScopeVersion
from store.base.errors import StoreError
from wire.backoff import LEAST_S, BackOff
from wire.local.local_answers import TakenDocument
from wire.local.node_status import CandidateState
from wire.logs import log
from wire.messages import Vote

STORE_RETRY_S = 30.0
MOST_ALONE = 16  # changes that are asked about one by one


@dataclass
class Preparation:
    """Of one node."""

    node: RunningNode
    intake: CandidateIntake
    validation: Validation
    verdicts: dict[str, CandidateVerdict] = field(default_factory=dict)  # by scope
    _basis: JudgedBy | None = None
    _handed_in: bool = False  # since the last round

    async def run(self) -> None:
        """Until cancelled: a round at each change of what the node knows, and when time makes one due."""
        back_off = BackOff(self.intake.put_offs.uniform, STORE_RETRY_S)
        while True:
            seen = self.node.changed.value
            try:
                rest_s = await self.look()
                back_off.note_success()
            except StoreError as error:
                log.warning("candidates put off", fault=error.fault, detail=error.detail)
                rest_s = back_off.note_failure()
                await trio.sleep(LEAST_S)
            with trio.move_on_after(max(LEAST_S, rest_s)):
                await self.node.changed.wait_above(seen)

    async def look(self) -> float:
        """One round; the seconds after which the next is due without a change. StoreError."""
        node = self.node
        coming = [] if node.facts().revoked else prospects(node.holdings)
        basis = basis_of(node.holdings)
        if basis == self._basis and not self._handed_in and not self._is_due():
            return self._rest_s()
        if self._basis is None or basis.trust != self._basis.trust:
            self.intake.put_offs.reconsider()
        self._handed_in = False
        await self.intake.drop_others(coming)
        refused = await self._judge(coming)
        self.validation.judgements.end_round()
        self._basis = basis
        self._publish(coming, refused)
        return self._rest_s()

    def wake(self) -> None:
        """A hint that it is worth asking now."""
        self.intake.put_offs.clear()

    def give_up_others(self) -> None:
        """Another head is held."""
        self.intake.give_up_others(self._candidates())

    def votes(self) -> tuple[Vote, ...]:
        """Of what is listed now, and was judged."""
        return tuple(verdict.to_vote() for _, verdict in self._standing())

    def report(self) -> dict[str, CandidateState]:
        """For the status: every candidate that is listed; one without a verdict is awaited."""
        standing = dict(self._standing())
        return {
            scope: candidate_state(listed, standing.get(scope)) for scope, listed in sorted(self._candidates().items())
        }

    async def take(self, chunks: AsyncIterable[bytes], said: Envelope, source: str) -> TakenDocument:
        """From another medium, to be judged as any other. Rejected, NotListedError, OwnRefusalError, StoreError."""
        taken = await self.intake.take(chunks, said, source)
        self._handed_in = True
        self.node.tell()
        return taken

    # ---- when

    def _candidates(self) -> Mapping[str, ScopeVersion]:
        head = self.node.holdings.head
        return head.candidates if head is not None else {}

    def _standing(self) -> Iterator[tuple[str, CandidateVerdict]]:
        listed = self._candidates()
        for scope, verdict in sorted(self.verdicts.items()):
            if listed.get(scope) == verdict.listed:
                yield scope, verdict

    def _is_due(self) -> bool:
        return self.intake.is_due or self.validation.judgements.rest_s() <= 0

    def _rest_s(self) -> float:
        return min(AGAIN_S, self.intake.put_offs.rest_s(), self.validation.judgements.rest_s())

    # ---- a round

    async def _judge(self, coming: Sequence[Prospect]) -> dict[str, CandidateRefusal | None]:
        """By scope, of those of which something can be said. What a service keeps out of the two that establish roles
        is not there for the others, which are judged anew without it.
        """
        kept_out: dict[str, CandidateRefusal] = {}
        while True:
            outcomes = await self.intake.obtain(coming, kept_out)
            found = {scope: outcome for scope, outcome in outcomes.items() if isinstance(outcome, CandidateRefusal)}
            whole = list(_of_whole_changes(coming, outcomes))
            verified = {
                prospect: outcome for prospect in whole if isinstance(outcome := outcomes[prospect.scope], Candidate)
            }
            objections = await self._objections(verified)
            first = {scope: objections[scope] for scope in FIRST if scope in objections}
            if not first:
                accepted = dict.fromkeys(prospect.scope for prospect in whole)
                return {**accepted, **found, **objections}
            kept_out |= first

    # ---- what services say

    async def _objections(self, verified: Mapping[Prospect, Candidate]) -> dict[str, CandidateRefusal]:
        """By scope; together, and then without what was refused, until nobody objects to what is left."""
        found: dict[str, CandidateRefusal] = {}
        left = dict(verified)
        while left:
            objection = await self.validation.objection(list(left.values()))
            if objection is None:
                break
            blamed = await self._blame(left, objection)
            found |= blamed
            left = {prospect: candidate for prospect, candidate in left.items() if prospect.scope not in blamed}
        return found

    async def _blame(
        self, left: Mapping[Prospect, Candidate], objection: ValidatorRefusal
    ) -> dict[str, CandidateRefusal]:
        """Of several changes those that are refused alone; all of them, where each would do alone."""
        changes = sorted({prospect.change for prospect in left if prospect.scope in objection.scopes})
        if not 1 < len(changes) <= MOST_ALONE:
            return _in_words(objection)
        found: dict[str, CandidateRefusal] = {}
        for change in changes:
            its = [candidate for prospect, candidate in left.items() if prospect.change == change]
            alone = await self.validation.objection(its)
            found |= _in_words(alone) if alone is not None else {}
        return found or _in_words(objection)

    # ---- what is said of it

    def _publish(self, coming: Sequence[Prospect], refused: Mapping[str, CandidateRefusal | None]) -> None:
        before, now = self.verdicts, self.node.now()
        judged = [prospect for prospect in coming if prospect.scope in refused]
        new = [
            CandidateVerdict(prospect.scope, prospect.wanted.listed, refused[prospect.scope], now)
            for prospect in judged
        ]
        self.verdicts = {verdict.scope: verdict.since(before.get(verdict.scope)) for verdict in new}
        fresh = [verdict for scope, verdict in self.verdicts.items() if verdict is not before.get(scope)]
        for verdict in fresh:
            self._say(verdict)
        if fresh:
            self.node.tell_news()

    def _say(self, verdict: CandidateVerdict) -> None:
        why, listed = verdict.refusal, verdict.listed
        facts = {"scope": verdict.scope, "version": listed.config_version, "change": listed.change}
        self.node.counters.add("candidates_judged")
        if why is None:
            log.info("candidate accepted", **facts)
        else:
            self.node.counters.add("candidates_refused")
            log.warning("candidate refused", **facts, step=why.step, reason=why.reason, detail=why.detail)


def _of_whole_changes(coming: Sequence[Prospect], outcomes: Mapping[str, IntakeOutcome]) -> Iterator[Prospect]:
    lacking = {prospect.change for prospect in coming if outcomes[prospect.scope] is None}
    return (prospect for prospect in coming if prospect.change not in lacking)


def _in_words(objection: ValidatorRefusal) -> dict[str, CandidateRefusal]:
    return {scope: CandidateRefusal(STEP, VALIDATOR_REFUSED, objection.detail) for scope in objection.scopes}
