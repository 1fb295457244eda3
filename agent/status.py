"""Wakes the status when time changes it, and writes down every change of state (rules A13, X25).

Timers only wake: what is allowed is decided where it is asked (standing.py, degraded.py).
"""

from dataclasses import asdict, dataclass

import structlog
import trio

from agent import standing
from agent.moment import Stopwatch
from agent.node import Node
from agent.standing import Standing
from agent.start import OUTAGE_ROW
from store.errors import StoreError
from store.tables import Name
from wire.systemd import Notifier

LOOK_EVERY_S = 15.0  # the wall clock may have jumped
STATE_CHANGED = "state_changed"

log = structlog.get_logger(__name__)


@dataclass
class Status:
    node: Node
    notifier: Notifier
    _shown: Standing | None = None
    _outage: Stopwatch | None = None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            seen = self.node.changed.value
            try:
                await self.look()
            except StoreError as error:
                log.warning("state not written down", fault=error.fault, detail=error.detail)
            with trio.move_on_after(self._rest_s()):
                await self.node.changed.wait_above(seen)

    async def look(self) -> None:
        """Once: what has changed since the last look is written down and told. StoreError."""
        present = self.node.standing()
        if present != self._shown:
            await self._changed(present)
        await self._keep_outage()

    async def _changed(self, present: Standing) -> None:
        before, self._shown = self._shown, present
        words = f"{before.state if before else 'started'} -> {present.state}"
        detail = f"{words}: {present.cause}" if present.cause else words
        log.info("state", state=present.state, cause=present.cause, before=before.state if before else None)
        self.notifier.status(f"{present.state} {present.cause}".strip())
        await self.node.threads.write(self.node.store.journal.record, STATE_CHANGED, self.node.now(), "", detail)
        self.node.tell_news()

    async def _keep_outage(self) -> None:
        """How long the head has been gone outlives the process (rules J38)."""
        running = self.node.outage.running
        if running != self._outage:
            health = self.node.store.table(Name.HEALTH)
            if running is None:
                await self.node.threads.write(health.delete, OUTAGE_ROW)
            else:
                await self.node.threads.write(health.put, OUTAGE_ROW, asdict(running))
            self._outage = running

    def _rest_s(self) -> float:
        moment = self.node.moment()
        until = standing.changes_at(self.node.facts(moment), moment.now)
        return LOOK_EVERY_S if until is None else min(LOOK_EVERY_S, max(0.01, until - moment.now))
