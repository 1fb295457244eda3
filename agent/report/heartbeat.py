"""What the node tells the coordinator, and what it learns from the answer (protocol.md 3; rules S30, K41, K44).

Level-triggered: each report says what is active now; events are sent until they are acknowledged. A report is never a
configuration write, and a failing one changes nothing here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import trio

from agent.base.guarded_clock import GuardedTime
from agent.services.scope_reports import scope_reports
from agent.services.service_limits import ServiceLimits
from agent.services.services import Notified
from agent.sources.source import Source
from agent.sources.sources import Sources
from agent.state import node_state
from agent.state.node import RunningNode
from agent.state.origins import Origin
from agent.state.view import View, Views
from snapshot import degraded
from snapshot.extension import FEATURES
from store.base.errors import StoreError
from store.base.journal import Event as KeptEvent
from wire.backoff import BackOff, spread
from wire.client import Call, ClientError, ClientFault
from wire.endpoint import path
from wire.logs import log
from wire.messages import (
    SCOPES_MAX,
    BadMessageError,
    ClockReport,
    HeadReport,
    Heartbeat,
    HeartbeatAnswer,
    HeartbeatEvent,
    RelayCondition,
    ScopeLimits,
    ScopeReport,
    StorageReport,
    Vote,
)
from wire.request import JSON
from wire.version import VERSION

JITTER = 0.2  # rules, Numbers
SOON_S = 1.0  # after an activation or a rejection; several at once are one report
MOST_EVENTS = 1000
REVOKED, ACCEPTED = "revoked", "accepted"


@dataclass
class Reporting:
    """`told` is what services were told last; `votes` what is made of each candidate that was judged; `validates`
    whether a service's validator sees a scope; `storage` what is kept of all that is published; `origins` where
    what is active came from; `relay` what is kept for neighbours.
    """

    node: RunningNode
    sources: Sources
    views: Views
    told: Callable[[], Mapping[str, Notified]]
    uniform: Callable[[float, float], float]
    votes: Callable[[], Sequence[Vote]] = tuple
    validates: Callable[[str], bool] = lambda _: False
    storage: Callable[[], StorageReport | None] = lambda: None
    origins: Callable[[], Mapping[str, Origin]] = dict
    relay: Callable[[], RelayCondition | None] = lambda: None
    started: float = field(default_factory=trio.current_time)
    _delivered: frozenset[Vote] = frozenset()  # of those that stand
    _has_more: bool = False

    async def run(self) -> None:
        """Until cancelled. News make the next report sooner, but for one that nobody took: that rests first."""
        back_off = BackOff(self.uniform)
        while True:
            seen = self.node.news.value
            if await self.report():
                back_off.note_success()
                least_s = SOON_S
            else:
                least_s = back_off.note_failure()
            interval_s = self.node.settings.intervals.heartbeat_interval_s
            rest_s = least_s if self._has_more else spread(interval_s, JITTER, self.uniform)
            with trio.move_on_after(rest_s):
                await self.node.news.wait_above(seen)
                await trio.sleep(least_s)

    async def report(self) -> bool:
        """To the first coordinator that takes it; whether one did. Raises nothing for what the other side does."""
        rested = [coordinator for coordinator in self.sources.coordinators() if coordinator.is_rested]
        if not rested:
            return False
        try:
            report = await self.compose()
        except StoreError as error:
            log.warning("no report", fault=error.fault, detail=error.detail)
            return False
        body = report.to_bytes()
        for source in rested:
            if await self._send(source, body):
                self._note_delivered(report)
                return True
        return False

    def _note_delivered(self, report: Heartbeat) -> None:
        """What had no room in this report comes first in the next, and that comes soon."""
        standing = set(self.votes())
        self._delivered = frozenset(standing & (self._delivered | set(report.votes or ())))
        self._has_more = bool(standing - self._delivered)

    async def _send(self, source: Source, body: bytes) -> bool:
        call = Call("POST", path("v1", "heartbeat"), headers=[JSON], body=body)
        try:
            answer = await source.client.fetch(source.endpoint, call)
            await self._learn(HeartbeatAnswer.parse(answer.body))
            await self.sources.note_answer(source)
        except (ClientError, BadMessageError, StoreError) as error:
            self.node.counters.add("heartbeats_failed")
            if isinstance(error, ClientError) and error.code == REVOKED:
                self._ask_whether_revoked(source)
            log.info("heartbeat not taken", source=str(source), error=str(error))
            return False
        self.node.counters.add("heartbeats")
        return True

    def _ask_whether_revoked(self, source: Source) -> None:
        """A hint to ask for the head that would say so; once for each time that the claim begins."""
        if self.node.note_revocation_claim(str(source)):
            self.sources.wake()

    async def _learn(self, answer: HeartbeatAnswer) -> None:
        """What was recorded and is above what we hold: this disk was restored from an old backup (rules K41, P18)."""
        node = self.node
        recorded = {scope: (mark.authority_epoch, mark.config_version) for scope, mark in answer.recorded.items()}
        if node.check_in.note_recorded(recorded, node.holdings):
            if node.check_in.behind:
                said = "the coordinator has recorded more than is held: this disk was restored from an old backup"
                log.error(said, scopes=node.check_in.behind)
                self.sources.wake()
            node.tell()
        await node.threads.write(node.store.journal.acknowledge, answer.acknowledged_event)
        await node.note_check_in()

    # ---- the report

    async def compose(self) -> Heartbeat:
        """All of it as it is now, with as many events as fit. StoreError."""
        moment = self.node.moment()
        view, scopes, events = await self.node.threads.read(self._read, moment)
        report = self._heartbeat(moment, view, scopes)
        head = self.node.holdings.head
        if head is not None and head.candidates:
            report = report.with_votes(sorted(self.votes(), key=self._urgency))
        return report.with_journal(map(_event, events))

    def _urgency(self, vote: Vote) -> tuple[bool, bool]:
        """What nobody has heard of yet comes first, and of that a no."""
        return vote in self._delivered, vote.verdict == ACCEPTED

    def _read(self, moment: GuardedTime) -> tuple[View, dict[str, ScopeReport], list[KeptEvent]]:
        view = self.views.all()
        listed, told = self.node.listed_scopes(), self.told()
        reports = scope_reports(self.views, view, listed, told, moment.now, self.validates)
        reports = {scope: self._with_origin(scope, report) for scope, report in reports.items()}
        return view, reports, self.node.store.journal.events(most=MOST_EVENTS)

    def _with_origin(self, scope: str, report: ScopeReport) -> ScopeReport:
        """Of exactly what is active: a store that was put back may hold another one."""
        origin, active = self.origins().get(scope), report.active
        if origin is None or active is None or origin.snapshot_id != active.snapshot_id:
            return report
        return replace(report, origin=origin.to_message())

    def _heartbeat(self, moment: GuardedTime, view: View, scopes: Mapping[str, ScopeReport]) -> Heartbeat:
        node, now = self.node, moment.now
        facts = node.facts(moment)
        gate = node_state.gate_facts(facts, now)
        bundle = node.holdings.bundle
        return Heartbeat(
            node_id=node.settings.node.node_id,
            cluster_id=node.settings.node.cluster_id,
            incarnation=node.store.incarnation,
            boot_id=moment.boot.boot_id,
            agent_version=VERSION,
            sent_at=int(now),
            uptime_s=int(trio.current_time() - self.started),
            state=str(node_state.assess(facts, now).state),
            mode=str(degraded.mode(gate, now)),
            degraded_since=node_state.degradation_start(facts, now),
            clock=ClockReport(moment.synchronised, int(-moment.behind_s)),
            head=_head(view, now),
            scopes=scopes,
            trust_bundle_version=bundle.version if bundle else 0,
            counters=node.counters.all() | self._standing_faults(),
            journal=(),
            interval_s=node.settings.intervals.heartbeat_interval_s,
            roots_confirmed=node.has_confirmed_roots(),
            features=FEATURES,
            limits=self._limits(),
            storage=self.storage(),
            relay=self.relay(),
        )

    def _limits(self) -> Mapping[str, ScopeLimits] | None:
        """Of what is active, listed or coming; None where no service sets any."""
        holdings = self.node.holdings
        coming = holdings.head.candidates if holdings.head is not None else {}
        scopes = {*holdings.scopes, *holdings.listed_scopes, *coming}
        return ServiceLimits(self.node.settings.services).narrowest(sorted(scopes)[:SCOPES_MAX]) or None

    def _standing_faults(self) -> dict[str, int]:
        """What is amiss now, and what it is: no count of the past (rules P20)."""
        mismatches = sum(source.fault is ClientFault.PEER_PIN_MISMATCH for source in self.sources.all())
        found = {str(self.node.store_fault): 1, ClientFault.PEER_PIN_MISMATCH.value: mismatches}
        return {name: number for name, number in found.items() if name and number}


def _head(view: View, now: float) -> HeadReport | None:
    if view.head is None:
        return None
    envelope = view.head.document.envelope
    grade = "fresh" if view.head_is_fresh(now) else "expired"
    return HeadReport(envelope.config_version, envelope.authority_epoch, view.head.age_s(now), grade)


def _event(kept: KeptEvent) -> HeartbeatEvent:
    """The store has bounded and escaped the text when it was written (rules K53)."""
    return HeartbeatEvent(kept.sequence, max(0, int(kept.at)), kept.event, kept.scope, kept.detail)
