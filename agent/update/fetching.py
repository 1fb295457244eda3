"""One scope at the version that the head lists, from whichever source has it: increments first (rules S27, S28, S64).

Each source is asked in turn; what a refusal calls for is in `reaction.py`. What a source gives is as good as its
signatures: nothing here trusts where a document came from.

Rules: an increment is asked for where a base is active, and whatever is wrong with it is answered by asking the same
source for the whole; a source that gives bad bytes is passed over for its back-off, and the next one asked; what was
signed so by the coordinator is not asked for elsewhere, since everybody has the same. What was judged as a candidate
lies here already: it is taken out of its slot, and nobody is asked.

Example. `route_policy` 7 is active, 8 is listed. The first peer has no increment (404): it is asked for the whole. Its
copy is truncated: the peer rests, and is named in `sources` of the status. The coordinator gives the increment;
applied to 7 it does not give the signed hash (`result_mismatch`): the scope is noted as a gap, and the whole is
fetched from there in the same turn.

Going below a mark is another path: a head that lists less than was accepted is followed only with a recovery at hand
that roots have signed for exactly this step (`_may_go_below`); else it is refused and recorded, and rests.

Rejected:

- Racing several sources: it multiplies the load on a storm's coordinator by the number of sources, for the sake of
  seconds that no rule asks for.
- A score of sources by speed: what matters is whether one answers, and its back-off says that already.
- Blaming a coordinator for a bad document as one blames a peer: its head is what keeps the node out of degraded mode,
  so it is asked for heads all the same (`_blame`).
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

import trio

from agent.base.byte_source import Chunks
from agent.sources.source import MISSING, Kind, Source, document_place, increment_place, recovery_place
from agent.sources.sources import Sources
from agent.state.node import RunningNode
from agent.state.origins import Giver
from agent.state.own_bounds import QUARANTINED, QUARANTINED_STEP, QUARANTINED_WORDS, OwnRefusalError, is_quarantined
from agent.state.plan import WantedScope, version_of
from agent.state.reaction import REACTION, Reaction
from agent.update.admission import PREPARED, Admission, AskedDocument, Candidate, Verdict
from agent.update.came_along import CameAlong
from agent.update.download import NotListedError, most_bytes
from agent.update.own_standing import ask_by_standing
from agent.update.patience import Patience
from agent.update.section_transfer import assemble, find_lacking
from agent.update.trust import TrustChain
from snapshot.envelope import INCREMENT, RECOVERY, SNAPSHOT, Envelope
from snapshot.identifiers import SHAREABLE, parse_scope
from snapshot.reasons import Reason, Rejected
from snapshot.verifier_state import VerifierState
from store.base.pending import Pending
from wire.client import ClientError, Streamed
from wire.logs import log

RECOVERY_BYTES = 256 << 10
NOT_FOUND = 404
MISSING_OR_OTHER_METHOD = (*MISSING, 405)  # of whoever has no such message: a mirror of files, or an agent from before

Fetch = Callable[[Source, WantedScope, VerifierState], Awaitable[Verdict]]


class NotBySectionsError(Exception):
    """The whole is worth more than the sections that are lacking."""


class FetchOutcome(Enum):
    """Why there is no candidate."""

    LATER = "later"  # no source has given it; some may, after their back-off
    GIVEN_UP = "given_up"  # what was signed is refused
    SETTLED = "settled"  # it is there already, or waits in its slot for its time
    COMING = "coming"  # a relay of the site fetches it
    KEPT_OUT = "kept_out"  # it is in this node's quarantine


async def _keep_nothing(_slot: Pending, _envelope: Envelope) -> None:
    """Of a node that is nobody's relay."""


@dataclass
class Fetching:
    """`keep_for_others`: given what has come and was verified, before it is activated."""

    node: RunningNode
    sources: Sources
    admission: Admission
    trust: TrustChain
    patience: Patience = field(init=False)
    came_along: CameAlong = field(default_factory=CameAlong)
    keep_for_others: Callable[[Pending, Envelope], Awaitable[None]] = _keep_nothing

    def __post_init__(self) -> None:
        peers = self.node.settings.peers
        # Two relays of one site would wait for each other.
        self.patience = Patience(0 if peers.relay else peers.relay_wait_s, trio.current_time)

    async def obtain(self, wanted: WantedScope, holder: VerifierState) -> Candidate | FetchOutcome:
        """A candidate, or why there is none. StoreError alone is raised."""
        if is_quarantined(wanted.scope, wanted.listed.content_hash, self.node.holdings):
            asked = AskedDocument(SNAPSHOT, "head", wanted.scope, listed=wanted.listed, candidate=wanted.candidate)
            await self.admission.record(asked, None, QUARANTINED_STEP, QUARANTINED, QUARANTINED_WORDS)
            return FetchOutcome.KEPT_OUT
        if wanted.below:
            if not await self._may_go_below(wanted):
                return FetchOutcome.GIVEN_UP
            holder = replace(holder, recoveries=self.node.holdings.kept.recoveries)
        elif wanted.candidate is None and (prepared := await self._take_prepared(wanted, holder)) is not None:
            return prepared
        if (along := await self._take_along(wanted, holder)) is not None:
            return along
        for source in self.sources.in_order_for(wanted.scope):
            found = await self._ask(source, wanted, holder)
            if isinstance(found, Candidate | FetchOutcome):
                return found
        return FetchOutcome.LATER

    async def _take_prepared(self, wanted: WantedScope, holder: VerifierState) -> Candidate | FetchOutcome | None:
        """What came as a candidate and is listed to be run now; it is verified again, whole. None: it is fetched."""
        if not self.node.store.may_have_candidates:
            return None
        held = await self.node.threads.read(self.node.store.candidate, wanted.scope)
        document = held.document if held is not None else None
        if held is None or document is None or not wanted.is_met_by(document):
            return None
        slot = await self.node.threads.write(self.node.store.slot, wanted.scope, held.envelope_hash, holder.limits)
        if slot is None:
            return None
        try:
            verdict = await self.admission.judge(
                slot, AskedDocument(document.kind, PREPARED, wanted.scope, listed=wanted.listed), holder
            )
        except OwnRefusalError:
            return FetchOutcome.GIVEN_UP
        except Rejected as refused:
            is_final = REACTION[refused.reason] in (Reaction.GIVE_UP, Reaction.ALARM)
            return FetchOutcome.GIVEN_UP if is_final else None
        return verdict if isinstance(verdict, Candidate) else FetchOutcome.SETTLED

    async def _take_along(self, wanted: WantedScope, holder: VerifierState) -> Candidate | FetchOutcome | None:
        """What came with the head, by the same path as what is fetched. None: it is fetched, also where this one is not
        taken; what a source then gives is what counts.
        """
        found = self.came_along.take(wanted.listed.snapshot_id)
        if found is None:
            return None
        whole = _document_of(found.giver, SNAPSHOT, wanted)
        try:
            verdict = await self.admission.receive(Chunks(found.container), whole, holder)
        except OwnRefusalError:
            return FetchOutcome.GIVEN_UP
        except (Rejected, NotListedError):
            return None
        self.node.counters.add("documents_came_along")
        if not isinstance(verdict, Candidate):
            return FetchOutcome.SETTLED
        await self.keep_for_others(verdict.slot, verdict.verified.envelope)
        return verdict

    async def _ask(self, source: Source, wanted: WantedScope, holder: VerifierState) -> Candidate | FetchOutcome | None:
        """None: the next source is asked. An increment that does not do is followed by the whole, at once; but from a
        source of a manual map that is not asked unattended only when an operator says so (rules K7, K38).
        """
        if wanted.base is not None:
            found = await self._try(source, wanted, holder)
            if found is not FetchOutcome.LATER:
                return found
        if self._may_come_by_sections(source, wanted):
            found = await self._try(source, replace(wanted, base=None), holder, by_sections=True)
            if found is not FetchOutcome.LATER:
                return found
        if not source.unattended and not self.sources.is_attended:
            if wanted.candidate is None:
                self.node.gaps.note_refresh_required(wanted.scope)
            return None
        found = await self._try(source, replace(wanted, base=None), holder)
        return None if found is FetchOutcome.LATER else found

    def _may_come_by_sections(self, source: Source, wanted: WantedScope) -> bool:
        """From a peer, where a sound base lies here: then it is no resync, and nobody has to attend to it."""
        holdings = self.node.holdings
        is_gap = wanted.scope in self.node.gaps.scopes or wanted.scope in holdings.kept.lost
        return source.kind is Kind.PEER and wanted.scope in holdings.kept.active and not is_gap

    async def _try(
        self, source: Source, wanted: WantedScope, holder: VerifierState, *, by_sections: bool = False
    ) -> Candidate | FetchOutcome | None:
        """LATER: not in this form. None: not from this source."""
        fetch = self._fetch_sections if by_sections else self._fetch
        try:
            verdict = await self._fetch_with_trust(source, wanted, holder, fetch)
        except NotBySectionsError:
            return FetchOutcome.LATER
        except ClientError as error:
            if self.patience.is_to_wait(source, wanted, error):
                return FetchOutcome.COMING
            if by_sections and error.status in MISSING_OR_OTHER_METHOD:
                return FetchOutcome.LATER
            if error.status == NOT_FOUND or (error.status in MISSING and source.kind is Kind.STORAGE):
                _note_lack(source, wanted)
                return FetchOutcome.LATER
            log.warning("document not fetched", scope=wanted.scope, source=str(source), error=str(error))
            source.note_failure(error)
            return None
        except NotListedError as error:
            if wanted.base is None:
                _blame(source, str(error))
                _note_of_coordinator(source, wanted)
            return FetchOutcome.LATER
        except OwnRefusalError:
            return FetchOutcome.GIVEN_UP
        except Rejected as refused:
            return self._after_refusal(source, wanted, refused)
        source.note_success()
        return verdict if isinstance(verdict, Candidate) else FetchOutcome.SETTLED

    def _after_refusal(self, source: Source, wanted: WantedScope, refused: Rejected) -> FetchOutcome | None:
        match REACTION[refused.reason]:
            case Reaction.FULL_RESYNC if wanted.base is not None:
                if wanted.candidate is None:
                    self.node.gaps.note(wanted.scope)
                    self.node.tell()
                return FetchOutcome.LATER
            case Reaction.REFRESH_TRUST if wanted.base is not None:
                return FetchOutcome.LATER  # others may have signed the whole
            case Reaction.NEXT_SOURCE:
                if wanted.base is not None:  # the whole may be good, and nobody else may be there
                    source.error = f"{refused.reason}: {refused.detail}"[:256]
                    return FetchOutcome.LATER
                _blame(source, f"{refused.reason}: {refused.detail}")
                _note_of_coordinator(source, wanted)
                return None
            case Reaction.ALARM:
                self.node.counters.add("alarms")
                log.error(
                    "a document that must not be",
                    scope=wanted.scope,
                    version=wanted.listed.config_version,
                    reason=refused.reason,
                    source=str(source),
                )
            case _:
                pass
        return FetchOutcome.GIVEN_UP

    async def _fetch_with_trust(
        self, source: Source, wanted: WantedScope, holder: VerifierState, fetch: Fetch
    ) -> Verdict:
        """Once more after the bundles were refreshed, where that may help (rules S44)."""
        try:
            return await fetch(source, wanted, holder)
        except Rejected as refused:
            refresh = REACTION[refused.reason] is Reaction.REFRESH_TRUST and source.kind is not Kind.PEER
            if not refresh or not await self.trust.refresh(source):
                raise
        fresh = self.node.holder()
        return await fetch(source, wanted, replace(holder, bundle=fresh.bundle, marks=fresh.marks, active=fresh.active))

    async def _fetch_sections(self, source: Source, wanted: WantedScope, holder: VerifierState) -> Verdict:
        look = partial(find_lacking, self.node, source, wanted.listed.snapshot_id, wanted.scope)
        found = await ask_by_standing(self.node, source, look)
        if found is None or (source.unattended and not found.is_worth_it):
            raise NotBySectionsError
        self.node.counters.add("documents_asked_for")
        asked = _document_of(source.giver, SNAPSHOT, wanted)
        async with aclosing(assemble(self.node, source, found)) as chunks:
            return await self.admission.receive(chunks, asked, holder)

    async def _fetch(self, source: Source, wanted: WantedScope, holder: VerifierState) -> Verdict:
        if wanted.base is not None:
            kind, place = INCREMENT, increment_place(wanted.scope, wanted.base, wanted.listed.snapshot_id)
        else:
            kind, place = SNAPSHOT, document_place(wanted.listed.snapshot_id)
        asked = _document_of(source.giver, kind, wanted)

        async def receive(answer: Streamed) -> Verdict:
            self.node.counters.add("documents_asked_for")
            verdict = await self.admission.receive(answer.chunks(), asked, holder)
            if isinstance(verdict, Candidate):
                await self.keep_for_others(verdict.slot, verdict.verified.envelope)
            return verdict

        ask = partial(source.ask, place, receive, limit=most_bytes(holder.limits))
        return await (ask_by_standing(self.node, source, ask) if source.kind is Kind.PEER else ask())

    # ---- back, by a recovery

    async def _may_go_below(self, wanted: WantedScope) -> bool:
        """Whether a recovery is at hand that may allow it; without one it is not followed (rules S86). Root keys have
        signed it, so it is as good from storage as from a coordinator; the first that is taken is enough.
        """
        for source in [source for source in self.sources.rested_sources() if source.kind is not Kind.PEER]:
            try:
                if await self._fetch_recovery(source, wanted):
                    break
            except ClientError as error:
                if error.status not in MISSING:
                    source.note_failure(error)
            except Rejected:
                continue
        if self.node.holdings.kept.recoveries:
            return True
        mark = self.node.holdings.kept.marks[wanted.scope]
        detail = f"the head lists {version_of(wanted.listed)}, {mark.version} was accepted, no recovery allows it"
        await self.admission.record(AskedDocument(SNAPSHOT, "head", wanted.scope), None, 9, Reason.ROLLBACK, detail)
        return False

    async def _fetch_recovery(self, source: Source, wanted: WantedScope) -> bool:
        """Whether there is one that is good."""
        asked = AskedDocument(RECOVERY, str(source), wanted.scope, lambda envelope: envelope.scope == wanted.scope)
        place = recovery_place(self.node.settings.node.node_id, wanted.scope)
        answer = await source.fetch(place, limit=RECOVERY_BYTES)
        verdict = await self.admission.receive(Chunks(answer.body), asked, self.node.holder())
        if isinstance(verdict, Candidate):
            await self.node.change(self.node.store.keep_recovery, verdict.verified, now=self.node.now())
            await self.node.threads.write(verdict.slot.drop)
        return isinstance(verdict, Candidate)


def _document_of(giver: Giver, kind: str, wanted: WantedScope) -> AskedDocument:
    return AskedDocument(kind, giver.name, wanted.scope, wanted.is_met_by, wanted.listed, wanted.candidate, giver)


def _note_of_coordinator(source: Source, wanted: WantedScope) -> None:
    if wanted.candidate is not None and source.kind is Kind.COORDINATOR:
        wanted.candidate.note_of_coordinator()


def _note_lack(source: Source, wanted: WantedScope) -> None:
    """Of a peer, and of a document that it may hold whole; a coordinator or a mirror may be about to have it."""
    if source.kind is Kind.PEER and wanted.base is None and parse_scope(wanted.scope)[0] in SHAREABLE:
        source.note_lack()


def _blame(source: Source, error: str) -> None:
    """A bad document blames whoever passed it on (threats D-48). A coordinator's other answers are needed all the same:
    its head keeps the node out of degraded mode.
    """
    if source.kind is not Kind.COORDINATOR:
        source.note_failure(error)
    source.error = error[:256]
