"""Which services run here, as the node itself knows it: what the gate goes by in an outage (rules S55a; threats A17).

    a [[service]] with a `unit`   systemd says whether it is active, and for how long: it ran when the head expired if
                                  it is active since before that, or was seen active while the head was fresh
    any other                     it was seen while the head was fresh: the gate was asked for it and said yes, or the
                                  command that tells it answered well

What was seen is kept in the store (sights.py), so that neither a restart nor a reboot forgets it: what ran under an
assignment that still holds may go on (rules S55a). After a reboot nothing of that runs by itself: a unit must be active
again, and of any other service it is the asking that shows it. What is not known is no. To believe what a caller says
(`running_since`) was rejected: who is told to lie for a service, or forgets that it never started, would start it in an
outage. To ask and be answered under a fresh head proves little more, but it is no more than could be started then.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, field, replace

import trio

from agent.services.unit_states import UnitState
from agent.state.node import RunningNode
from agent.state.sights import MOST, PREFIX, SeenRunning, next_sight
from snapshot.degraded import COMBINED, GateAnswer, GateFacts, Mode, Question, may
from snapshot.frozen import mutable
from snapshot.identifiers import is_id
from store.base.errors import StoreError
from store.base.tables import Name
from wire.logs import log

LOOK_EVERY_S = 60.0
BELIEVED_S = 2.0  # an answer of systemd's
PASSED_OVER_S = 10.0  # after it did not answer
SHOWING = frozenset({"continue_services", "start_service", "open_session"})

ReadState = Callable[[str], Awaitable[UnitState]]


@mutable
class Running:
    """`units`: by the name of a service, which is also its id in the assignment. `sights`: services that were seen."""

    node: RunningNode
    units: Mapping[str, str]
    read_state: ReadState
    sights: dict[str, SeenRunning] = field(init=False)
    _states: dict[str, tuple[float, UnitState]] = field(default_factory=dict)  # when it is to be asked again
    _written: dict[str, SeenRunning] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.sights = dict(self.node.remembered.sights)
        self._written.update(self.sights)
        self._asking = trio.Lock()
        self._news = trio.Event()

    async def known_running(self, question: Question, facts: GateFacts) -> frozenset[str]:
        """The services that ran when the head expired, as far as this question is about them."""
        now = self.node.now()
        ended = now if facts.head_expires_at is None else min(now, facts.head_expires_at)
        names = {name for name, sight in self.sights.items() if not sight.is_old(ended)}
        unit = self.units.get(question.resource or "")
        if question.resource is not None and unit is not None:
            state = await self._state(unit)
            lasts = facts.head_is_fresh(now) or state.for_s > facts.head_expired_for_s
            names -= set() if state.active else {question.resource}
            names |= {question.resource} if state.active and lasts else set()
        return frozenset(names)

    def last_state(self, unit: str) -> UnitState | None:
        """As systemd said it last, however long ago; None if it was never asked, or did not say."""
        found = self._states.get(unit)
        return found[1] if found is not None and not found[1].fault else None

    def note_answer(self, question: Question, answer: GateAnswer, now: float) -> None:
        """The gate has said so. A service with a unit is not shown by asking."""
        name = question.resource
        if name is None or not is_id(name) or name in self.units or question.action not in SHOWING:
            return
        if answer.allowed and answer.mode is Mode.NORMAL:
            self._see(name, now, COMBINED if question.scope == COMBINED else None)

    def note_command(self, name: str) -> None:
        """The command that tells it answered well."""
        if name not in self.units:
            self._told.add(name)
            self._news.set()

    async def run(self) -> None:
        """Until cancelled: looks at the units while the head is fresh, and writes down what was seen."""
        while True:
            self._news = trio.Event()
            try:
                await self.look()
            except StoreError as error:
                log.warning("running services not written down", fault=error.fault, detail=error.detail)
                await trio.sleep(PASSED_OVER_S)
            with trio.move_on_after(LOOK_EVERY_S):
                await self._news.wait()

    async def look(self) -> None:
        """Once. StoreError."""
        active = {name: await self._state(unit) for name, unit in self.units.items()}
        told = frozenset(self._told)  # who is told meanwhile is for the next look
        assigned, now = await self._assigned_services(told), self.node.now()
        if assigned is not None:
            for name in sorted(assigned & told):
                self._see(name, now, None)
            for name, state in active.items():
                if state.active and name in assigned:
                    self._see(name, now, None)
                elif not state.fault:
                    self.sights.pop(name, None)
            for name, sight in list(self.sights.items()):
                if sight.is_old(now) or name not in assigned:
                    del self.sights[name]
        self._told -= told
        await self._write()

    # ---- inside

    def _see(self, name: str, now: float, scope: str | None) -> None:
        before = self.sights.get(name)
        if before is None and len(self.sights) >= MOST:
            self.node.counters.add("services_not_noted")
            return
        self.sights[name] = next_sight(before, now, scope)
        if self.sights[name].is_worth_writing(self._written.get(name)):
            self._news.set()

    async def _assigned_services(self, told: frozenset[str]) -> frozenset[str] | None:
        """Of all that is asked about here, what the fresh head assigns to this node; None without one."""
        facts, now = self.node.gate_facts(), self.node.now()
        if not facts.head_is_fresh(now) or facts.cause is not None:
            return None
        asked: dict[str, str | None] = dict.fromkeys([*self.units, *told])
        asked |= {name: sight.scope for name, sight in self.sights.items()}
        return await self.node.threads.read(_allowed_services, asked, facts, now)  # a large scope is read for it

    async def _write(self) -> None:
        table, threads = self.node.store.table(Name.WATERMARKS), self.node.threads
        for name in self._written.keys() - self.sights.keys():
            await threads.write(table.delete, PREFIX + name)
            del self._written[name]
        new = {name: sight for name, sight in self.sights.items() if sight.is_worth_writing(self._written.get(name))}
        if new:
            await threads.write(table.put_many, {PREFIX + name: asdict(sight) for name, sight in new.items()})
            self._written.update(new)

    async def _state(self, unit: str) -> UnitState:
        """As systemd said it a moment ago, or says it now; one question at a time."""
        async with self._asking:
            until, state = self._states.get(unit, (float("-inf"), UnitState(False)))
            if trio.current_time() < until:
                return state
            state = await self.read_state(unit)
            if state.fault:
                self.node.counters.add("units_not_known")
                log.warning("unit not known", unit=unit, fault=state.fault)
            self._states[unit] = trio.current_time() + (PASSED_OVER_S if state.fault else BELIEVED_S), state
            return state


def _allowed_services(asked: Mapping[str, str | None], facts: GateFacts, now: float) -> frozenset[str]:
    facts = replace(facts, running=frozenset(asked))
    questions = {name: Question("continue_services", scope, name) for name, scope in asked.items()}
    return frozenset(name for name, question in questions.items() if may(question, facts, now).allowed)
