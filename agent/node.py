"""What the agent's tasks share: settings, clocks, store, and what is known beside it. One object, no tasks of its own.

    change(operation, ...)   change the store on its thread; afterwards `holdings` are those of the new generation
    standing(), facts()      judged anew at each use, since expiry is decided at the moment of use
    changed                  wakes whoever follows what the node knows

What is learnt while running and is in no document (a check-in, a fence by the coordinator) is in `Learnt`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import structlog

from agent import degraded, standing
from agent.changes import Generation
from agent.clock import Clock
from agent.configuration import Settings
from agent.endpoint_sets import EndpointSets
from agent.holdings import BOOTSTRAP, Holdings, HoldingsReader
from agent.join_failure import JoinFailure
from agent.moment import Moment, Outage, Regression, guard
from agent.origins import Origin
from agent.standing import Facts, Standing
from agent.telemetry import Counters
from agent.threads import Threads
from agent.view import REQUIRED
from snapshot.holder import Holder
from snapshot.identifiers import HEAD, SCOPE_TYPES, parse_scope
from store.errors import StoreError, StoreFault
from store.store import Store

Result = TypeVar("Result")

log = structlog.get_logger(__name__)


@dataclass
class Learnt:
    """`fenced_at`: the head's (epoch, generation) when the coordinator said that we are revoked; kept (status.py)."""

    member: bool = False
    joining: bool = False
    join_failure: JoinFailure | None = None  # of the last attempt
    other_cluster: bool = False
    checked_in: bool = False
    head_was_fresh: bool = False
    fenced_at: tuple[int, int] | None = None
    gaps: frozenset[str] = frozenset()
    refresh_required: frozenset[str] = frozenset()  # scopes that an operator must have fetched (rules K38)
    behind: dict[str, tuple[int, int]] = field(default_factory=dict)  # see above_held
    passed_over: frozenset[str] = frozenset()  # listed scopes of unknown types
    origins: Mapping[str, Origin] = field(default_factory=dict)  # by scope
    endpoints: EndpointSets = field(default_factory=EndpointSets)  # of coordinators, as node_bootstraps list them
    store_fault: str = ""
    revoked: bool = False  # kept: left only by enrolment anew (rules A9)


class Node:
    """Made once the store is open; `reader` knows whose it is."""

    def __init__(
        self, settings: Settings, clock: Clock, threads: Threads, store: Store, reader: HoldingsReader
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
        self.outage = Outage()
        self._regression = Regression()
        self._clock = clock

    # ---- time

    def moment(self) -> Moment:
        return guard(self._clock.read(), self.store.time_floor)

    def now(self) -> float:
        """Unix seconds by the guarded clock."""
        return self.moment().now

    # ---- judged at each use

    def facts(self, moment: Moment | None = None) -> Facts:
        moment = moment or self.moment()
        holdings, learnt = self.holdings, self.learnt
        failure = learnt.join_failure
        gate = self._gate(moment)
        learnt.head_was_fresh |= gate.head_is_fresh(moment.now)
        return Facts(
            member=learnt.member,
            joining=learnt.joining,
            refusal=failure.code if failure is not None and failure.refused else "",
            other_cluster=learnt.other_cluster,
            bootstrap_accepted=BOOTSTRAP in holdings.kept.marks,
            head_accepted=HEAD in holdings.kept.marks,
            revoked=learnt.revoked or holdings.revoked,
            revoked_by_coordinator=learnt.fenced_at is not None,
            clock_regressed=self._regression.is_met(moment),
            listed=listed_scopes(holdings),
            lost=holdings.kept.lost,
            on_previous=frozenset(name for name, one in holdings.view.scopes.items() if one.record.on_previous),
            gaps=learnt.gaps,
            behind=frozenset(learnt.behind),
            gate=replace(gate, confirmed=learnt.head_was_fresh),
        )

    def standing(self) -> Standing:
        moment = self.moment()
        return standing.assess(self.facts(moment), moment.now)

    def gate_facts(self) -> degraded.Facts:
        """What the gate of degraded mode goes by, now."""
        moment = self.moment()
        return standing.gate_facts(self.facts(moment), moment.now)

    def listed(self) -> frozenset[str] | None:
        """None without a head."""
        return None if self.holdings.head is None else listed_scopes(self.holdings)

    def holder(self) -> Holder:
        """The verifier's view of this node, now."""
        return replace(self.holdings.holder, clock_synchronised=self.moment().counts_as_synchronised)

    def _gate(self, moment: Moment) -> degraded.Facts:
        holdings, expires_at = self.holdings, self.holdings.head_expires_at
        expired_for_s = 0.0
        if HEAD in holdings.kept.marks:
            expired_for_s = self.outage.expired_for_s(holdings.head_hash, expires_at, moment)
        return degraded.Facts(
            head_expires_at=expires_at,
            head_expired_for_s=expired_for_s,
            scopes=holdings.scopes,
            policy=holdings.policy,
            revocations=holdings.revocations,
            authority_epoch=holdings.bundle.authority_epoch if holdings.bundle else 0,
            node_id=self.settings.node.node_id,
            roles=holdings.roles,
        )

    # ---- changing what is held

    async def change(self, operation: Callable[..., Result], *arguments: Any, **named: Any) -> Result:  # noqa: ANN401 - handed on
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
            self.store_refused(error)
            raise
        self.learnt.store_fault = ""
        self._hold(holdings)
        return result

    def store_refused(self, error: StoreError) -> None:
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
        self.learnt.behind = above_held(self.learnt.behind, holdings)
        if self.learnt.fenced_at is not None and holdings.head_version > self.learnt.fenced_at:
            self.learnt.fenced_at = None
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

    async def checked_in(self) -> None:
        """The coordinator has answered: the floor is right, and how far it has come is kept (rules A17, A18)."""
        moment = self.moment()
        self._regression.confirmed(moment)
        if not self.learnt.checked_in:
            self.learnt.checked_in = True
            self.tell()
        await self.threads.write(self.store.save_time_floor, moment.boot)

    def fence(self) -> None:
        """The coordinator says that we are revoked: unsigned, so it fences and ends nothing (rules A9, J40)."""
        if self.learnt.fenced_at is None:
            self.learnt.fenced_at = self.holdings.head_version
            log.warning("the coordinator says that this node is revoked")
            self.tell()


def above_held(recorded: Mapping[str, tuple[int, int]], holdings: Holdings) -> dict[str, tuple[int, int]]:
    """What of it the node is to hold and does not; a scope that the head does not list is none (rules A7, K41, S3)."""
    wanted = listed_scopes(holdings) | frozenset(REQUIRED)
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
