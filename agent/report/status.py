"""Wakes the status when time changes it, and writes down every change of state (rules A13, X25).

Timers only wake: what is allowed is decided where it is asked (node_state.py, degraded.py).
"""

from collections.abc import Mapping
from dataclasses import asdict, field

import trio

from agent.state import node_state
from agent.state.health_rows import OUTAGE_ROW
from agent.state.node import RunningNode
from agent.state.node_state import NodeState, StateCause
from snapshot.frozen import mutable
from store.base.errors import StoreError
from store.base.tables import Name
from wire.backoff import LEAST_S
from wire.logs import log
from wire.systemd import SystemdNotifier

LOOK_EVERY_S = 15.0  # the wall clock may have jumped
STATE_CHANGED = "state_changed"
# What nobody but an operator can end: systemctl status and the journal say how.
REMEDIES: Mapping[str, str] = {
    StateCause.NOT_ENROLLED: "a member of no cluster yet: get a token (holdfastctl tokens) and run holdfast join"
}


@mutable
class StatusKeeper:
    node: RunningNode
    notifier: SystemdNotifier
    _shown: NodeState | None = None
    _kept: dict[str, object] = field(default_factory=dict)  # by row of the table

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            seen = self.node.changed.value
            try:
                await self.look()
            except StoreError as error:
                log.warning("state not written down", fault=error.fault, detail=error.detail)
                await trio.sleep(LEAST_S)
            with trio.move_on_after(self._rest_s()):
                await self.node.changed.wait_above(seen)

    async def look(self) -> None:
        """Once: what has changed since the last look is written down and told. StoreError."""
        present = self.node.standing()
        if present != self._shown:
            await self._note_change(present)
        await self._keep()

    async def _note_change(self, present: NodeState) -> None:
        before, self._shown = self._shown, present
        words = f"{before.state if before else 'started'} -> {present.state}"
        detail = f"{words}: {present.cause}" if present.cause else words
        facts = {"state": present.state, "cause": present.cause, "before": before.state if before else None}
        remedy = REMEDIES.get(present.cause, "")
        if remedy:
            log.warning("state", **facts, remedy=remedy)
        else:
            log.info("state", **facts)
        self.notifier.status(f"{present.state} {present.cause}".strip() + (f": {remedy}" if remedy else ""))
        await self.node.threads.write(self.node.store.journal.record, STATE_CHANGED, self.node.now(), "", detail)
        self.node.tell_news()

    async def _keep(self) -> None:
        """What outlives the process: how long the head has been gone (rules J38)."""
        health = self.node.store.table(Name.HEALTH)
        for row, value in self._rows().items():
            if row not in self._kept:
                self._kept[row] = await self.node.threads.read(health.get, row)
            if value == self._kept[row]:
                continue
            if value is None:
                await self.node.threads.write(health.delete, row)
            else:
                await self.node.threads.write(health.put, row, value)
            self._kept[row] = value

    def _rows(self) -> Mapping[str, object]:
        outage = self.node.outage.running
        return {OUTAGE_ROW: asdict(outage) if outage else None}

    def _rest_s(self) -> float:
        moment = self.node.moment()
        until = node_state.changes_at(self.node.facts(moment), moment.now)
        return LOOK_EVERY_S if until is None else min(LOOK_EVERY_S, max(0.01, until - moment.now))
