"""Whether a service is well with the content that it was told of: what is asked while that is on probation.

    CommandCheck   a command of the operator's, as the agent's account in its sandbox; well is exit status 0
    HttpCheck      an address of this machine; well is an answer of 200 to 299
    UnitCheck      systemd: it is active, and was not started again by itself

Each has a deadline, and whatever it does, it gives an answer: one that does not end in time, however much it says or
starts meanwhile, is one that says no, and what it leaves behind is ended (agent/base/commands.py). What a check says is
bounded, and goes without what looks like a secret into the journal, the status and the report.
"""

import importlib
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Protocol

from agent.base.commands import run_command
from agent.base.threads import Threads
from agent.config.check_address import CheckAddress
from agent.services.unit_states import UnitState
from snapshot.frozen import frozen, mutable
from snapshot.reasons import safe_text

HTTP_OK = range(200, 300)
LASTING_S = 5.0  # a unit that is active for so long was so before


@frozen
class CheckAnswer:
    ok: bool
    detail: str = ""


WELL = CheckAnswer(True)


class ServiceCheck(Protocol):
    async def begin(self, *, resumed: bool) -> None:
        """Called once new content is on probation, before the service has been told. `resumed`: it was so already when
        the agent started, so that how it is now is no measure.
        """

    async def ask(self, service: str) -> CheckAnswer:
        """Within a time limit of its own; raises nothing for what the service does."""


@frozen
class CommandCheck:
    command: tuple[str, ...]
    timeout_s: float

    async def begin(self, *, resumed: bool) -> None:
        """It knows nothing of before."""

    async def ask(self, service: str) -> CheckAnswer:
        outcome = await run_command(self.command, timeout_s=self.timeout_s, variables={"HOLDFAST_SERVICE": service})
        return CheckAnswer(outcome.ok, str(outcome))


@frozen
class HttpCheck:
    """A new connection each time: whether it can be made is part of the answer. The body is not read."""

    address: CheckAddress
    timeout_s: float
    threads: Threads

    async def begin(self, *, resumed: bool) -> None:
        """It knows nothing of before."""

    async def ask(self, service: str) -> CheckAnswer:
        del service  # the address is its own
        # The HTTP client loads for a tenth of a second, which neither the agent's first answer nor its loop waits for.
        await self.threads.read(importlib.import_module, "agent.services.http_answers")
        from agent.services import http_answers  # noqa: PLC0415 - loaded above

        status, fault = await http_answers.ask(self.address, self.timeout_s)
        return CheckAnswer(status in HTTP_OK, safe_text(f"{self.address}: {fault or status}"))


@mutable
class UnitCheck:
    """What is not known is no failure. A unit that did not run before shows nothing, until it was seen to run.

    `last_state`: as somebody saw it up to a minute ago, which tells what a service that watches by itself was before it
    saw the content. A `restart` by which a service is told is none that systemd makes by itself.
    """

    unit: str
    read_state: Callable[[str], Awaitable[UnitState]]
    last_state: Callable[[str], UnitState | None]
    _before: UnitState | None = field(default=None, init=False)

    async def begin(self, *, resumed: bool) -> None:
        now = await self.read_state(self.unit)
        lasts = now.active and now.for_s >= LASTING_S
        self._before = now if lasts else None if resumed else self.last_state(self.unit)

    async def ask(self, service: str) -> CheckAnswer:
        del service  # the unit is its own
        now = await self.read_state(self.unit)
        if now.fault:
            return WELL
        before, self._before = self._before, now
        if before is not None and now.restarts > before.restarts:
            return CheckAnswer(False, f"{self.unit} was restarted by systemd {now.restarts - before.restarts} times")
        if now.active or (before is not None and not before.active):
            return WELL
        if before is None and not now.failed:
            return WELL
        return CheckAnswer(False, f"{self.unit} has failed" if now.failed else f"{self.unit} is not active any more")
