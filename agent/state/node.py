"""What the agent's tasks share: settings, clocks, store, and what is known beside it. One object, no tasks of its own.

    change(operation, ...)   change the store on its thread; afterwards `holdings` are those of the new generation
    standing(), facts()      judged anew at each use, since expiry is decided at the moment of use
    changed                  wakes whoever follows what the node knows

What is learnt while running and is in no document (a check-in, an unproven claim) is in `Learnt`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ParamSpec, TypeVar

import structlog

from agent.base.clock import Clock
from agent.base.generation import Generation
from agent.base.guarded_clock import GuardedTime, OutageClock, Regression, guard
from agent.base.telemetry import Counters
from agent.base.threads import Threads
from agent.config.configuration import AgentSettings
from agent.state import node_state as standing
from agent.state.endpoint_sets import EndpointSets
from agent.state.held_state import BOOTSTRAP, Holdings, HoldingsReader
from agent.state.join_failure import JoinFailure
from agent.state.lost_floors import AtStart
from agent.state.node_state import NodeFacts, NodeState
from agent.state.origins import Origin
from agent.state.root_pinning import are_confirmed
from agent.state.sights import SeenRunning
from snapshot import degraded
from snapshot.ending import Thing
from snapshot.identifiers import HEAD, SCOPE_TYPES, parse_scope
from snapshot.verifier_state import VerifierState
from store.base.errors import StoreError, StoreFault
from store.store import Store

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

log = structlog.get_logger(__name__)


@dataclass
class Learnt:
    """`claimed_revoked`: the coordinator that says, unsigned, that we are revoked, until one takes us for a member."""

    member: bool = False
    joining: bool = False
    join_failure: JoinFailure | None = None  # of the last attempt
    other_cluster: bool = False
    checked_in: bool = False
    head_was_fresh: bool = False
    claimed_revoked: str = ""
    gaps: frozenset[str] = frozenset()
    refresh_required: frozenset[str] = frozenset()  # scopes that an operator must have fetched (rules K38)
    behind: dict[str, tuple[int, int]] = field(default_factory=dict)  # see above_held
    passed_over: frozenset[str] = frozenset()  # listed scopes of unknown types
    origins: Mapping[str, Origin] = field(default_factory=dict)  # by scope
    endpoints: EndpointSets = field(default_factory=EndpointSets)  # of coordinators, as node_bootstraps list them
    sights: dict[str, SeenRunning] = field(default_factory=dict)  # services that were seen running
    store_fault: str = ""
    certificates: tuple[Thing, ...] = ()  # until when they are good (certificate_ends.py)
    revoked: bool = False  # kept: left only by enrolment anew, or as `Activating.come_back` says (rules A9)
    revoked_in_epoch: int = 0  # of the head that says so, where the trust bundle does not


class RunningNode:
    """Made once the store is open; `reader` knows whose it is."""

    def __init__(
        self, settings: AgentSettings, clock: Clock, threads: Threads, store: Store, reader: HoldingsReader
    ) -> None:
        self.settings = settings
        self.threads = threads
        self.store = store
        self.reader = reader
        self.holdings: Holdings = reader.read()
        self.learnt = Learnt()
        self.counters = Counters()
        self.changed = Generation(0)
        self.news = Generation(0)  # an activation or a rejection, which the next heartbeat should not wait for
        self.outage = OutageClock()
        self._regression = Regression()
        self._clock = clock
        self.start = AtStart(self.now(), self.holdings.head_hash)

    # ---- time

    def moment(self) -> GuardedTime:
        return guard(self._clock.read(), self.store.time_floor)

    def now(self) -> float:
        """Unix seconds by the guarded clock."""
        return self.moment().now

    # ---- judged at each use

    def facts(self, moment: GuardedTime | None = None) -> NodeFacts:
        moment = moment or self.moment()
        holdings, learnt = self.holdings, self.learnt
        failure = learnt.join_failure
        gate = self._gate(moment)
        learnt.head_was_fresh |= gate.head_is_fresh(moment.now)
        return NodeFacts(
            member=learnt.member,
            joining=learnt.joining,
            refusal=failure.code if failure is not None and failure.refused else "",
            other_cluster=learnt.other_cluster,
            bootstrap_accepted=BOOTSTRAP in holdings.kept.marks,
            head_accepted=HEAD in holdings.kept.marks,
            revoked=learnt.revoked or holdings.is_revoked,
            clock_regressed=self._regression.is_met(moment),
            listed=listed_scopes(holdings),
            lost=holdings.kept.lost,
            on_previous=frozenset(name for name, scope in holdings.view.scopes.items() if scope.record.on_previous),
            gaps=learnt.gaps,
            behind=frozenset(learnt.behind),
            gate=replace(gate, confirmed=learnt.head_was_fresh),
        )

    def standing(self) -> NodeState:
        moment = self.moment()
        return standing.assess(self.facts(moment), moment.now)

    def gate_facts(self) -> degraded.GateFacts:
        """What the gate of degraded mode goes by, now."""
        moment = self.moment()
        return standing.gate_facts(self.facts(moment), moment.now)

    def listed_scopes(self) -> frozenset[str] | None:
        """None without a head."""
        return None if self.holdings.head is None else listed_scopes(self.holdings)

    def holder(self) -> VerifierState:
        """The verifier's view of this node, now."""
        return replace(self.holdings.holder, clock_synchronised=self.moment().may_be_synchronised)

    def has_confirmed_roots(self) -> bool:
        """Whether somebody has said whose they are, before the join or since; true where none are pinned."""
        enrolled = self.reader.enrolled
        return enrolled is None or are_confirmed(enrolled, self.settings.trust)

    def _gate(self, moment: GuardedTime) -> degraded.GateFacts:
        holdings, expires_at = self.holdings, self.holdings.head_expires_at
        expired_for_s = 0.0
        if HEAD in holdings.kept.marks:
            expired_for_s = self.outage.outage_s(holdings.head_hash, expires_at, moment)
        return degraded.GateFacts(
            head_expires_at=expires_at,
            head_expired_for_s=expired_for_s,
            scopes=holdings.scopes,
            policy=holdings.policy,
            revocations=holdings.revocations,
            authority_epoch=holdings.bundle.authority_epoch if holdings.bundle else 0,
            node_id=self.settings.node.node_id,
            roles=holdings.roles,
            roots_confirmed=self.has_confirmed_roots(),
        )

    # ---- changing what is held

    async def change(
        self, operation: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
    ) -> Result:
        """Change the store; when this returns, `holdings` are those after the change, and who waits has been woken.

        StoreError as the operation raises it.
        """

        def work() -> tuple[Result, Holdings]:
            result = operation(*arguments, **named)
            return result, self._read()

        try:
            result, holdings = await self.threads.write(work)
        except StoreError as error:
            self.counters.add("store_refusals")
            self.note_store_refusal(error)
            raise
        self.learnt.store_fault = ""
        self._hold(holdings)
        return result

    def note_store_refusal(self, error: StoreError) -> None:
        """Shown and reported until a change is taken again (rules L35)."""
        if error.fault != self.learnt.store_fault:
            self.learnt.store_fault = error.fault
            self.news.tell(self.news.value + 1)

    async def reload(self) -> None:
        """After a change that was not made by `change`."""
        self._hold(await self.threads.write(self._read))

    def tell(self) -> None:
        """Something has changed that the states depend on."""
        self.changed.tell(self.changed.value + 1)

    def tell_news(self) -> None:
        self.news.tell(self.news.value + 1)
        self.tell()

    def _hold(self, holdings: Holdings) -> None:
        activated = holdings.kept.generation != self.holdings.kept.generation
        self.holdings = holdings
        self.learnt.behind = newer_versions(self.learnt.behind, holdings)
        if activated:
            self.tell_news()
        else:
            self.tell()

    def _read(self) -> Holdings:
        """Damage that is met while reading is taken out at once, and what is left is read (rules L34)."""
        try:
            return self.reader.read()
        except StoreError as error:
            if error.fault is not StoreFault.STORE_CORRUPT:
                raise
            log.warning("damage met while reading", detail=error.detail)
            while not self.store.scrub.step(self.now()).done:
                pass
            return self.reader.read()

    # ---- what is learnt

    async def note_check_in(self) -> None:
        """The coordinator has answered: the floor is right, and how far it has come is kept (rules A17, A18)."""
        moment = self.moment()
        self._regression.confirm(moment)
        self.learnt.claimed_revoked = ""
        if not self.learnt.checked_in:
            self.learnt.checked_in = True
            self.tell()
        await self.threads.write(self.store.save_time_floor, moment.boot)

    def note_revocation_claim(self, source: str) -> bool:
        """A coordinator says that we are revoked; whether that is new. Nothing stops for it: whoever has a listener's
        key could say so, and every node would stop at once. What is true stands in the next head or trust bundle,
        signed, and those are asked for all the time (rules A9). Rejected: to fence on it until a newer head comes.
        """
        is_new = not self.learnt.claimed_revoked
        self.learnt.claimed_revoked = source
        self.counters.add("revocation_claims")
        if is_new:
            log.warning("a coordinator says that this node is revoked, unsigned: nothing stops for it", source=source)
            self.tell()
        return is_new


def newer_versions(recorded: Mapping[str, tuple[int, int]], holdings: Holdings) -> dict[str, tuple[int, int]]:
    """What of it the node is to hold and does not; a scope that the head does not list is none (rules A7, K41, S3)."""
    wanted = listed_scopes(holdings) | frozenset(degraded.REQUIRED)
    marks = holdings.kept.marks
    return {
        scope: version
        for scope, version in recorded.items()
        if scope in wanted and (scope not in marks or marks[scope].version < version)
    }


def listed_scopes(holdings: Holdings) -> frozenset[str]:
    """The scopes of the accepted head whose types are known (format.md 5)."""
    if holdings.head is None:
        return frozenset()
    return frozenset(name for name in holdings.head.scopes if parse_scope(name)[0] in (*SCOPE_TYPES, HEAD))
