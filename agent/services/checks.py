"""Whether a service is well with the content that it was told of: what is asked while that is on probation.

    CommandCheck   a command of the operator's, as the agent's account in its sandbox; well is exit status 0
    HttpCheck      an address of this machine; well is an answer of 200 to 299
    UnitCheck      systemd: it is active, and was not started again by itself

Each has a deadline, and whatever it does, it gives an answer: one that does not end, that says gigabytes, or that
leaves children behind is one that says no (agent/base/commands.py). What a check says is bounded, and goes without what
looks like a secret into the journal, the status and the report.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

import trio

from agent.base.commands import run_command
from agent.config.check_address import CheckAddress
from agent.services.unit_states import UnitState
from snapshot.reasons import safe_text
from wire.client import LOCAL_HOST, Call, ClientError, Connected, HttpClient, UnixConnector
from wire.exchange import ClientFault

HTTP_OK = range(200, 300)
ANY_BYTES = 1 << 62  # of a body that nobody reads
LASTING_S = 5.0  # a unit that is active for so long was so before


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class CommandCheck:
    command: tuple[str, ...]
    timeout_s: float

    async def begin(self, *, resumed: bool) -> None:
        """It knows nothing of before."""

    async def ask(self, service: str) -> CheckAnswer:
        outcome = await run_command(self.command, timeout_s=self.timeout_s, variables={"HOLDFAST_SERVICE": service})
        return CheckAnswer(outcome.ok, str(outcome))


@dataclass(frozen=True)
class HttpCheck:
    """A new connection each time: whether it can be made is part of the answer. The body is not read."""

    address: CheckAddress
    timeout_s: float

    async def begin(self, *, resumed: bool) -> None:
        """It knows nothing of before."""

    async def ask(self, service: str) -> CheckAnswer:
        del service  # the address is its own
        client = HttpClient(_LocalConnector())
        try:
            with trio.move_on_after(self.timeout_s):
                async with client.stream(self.address, Call("GET", self.address.path, limit=ANY_BYTES)) as answer:
                    return CheckAnswer(answer.status in HTTP_OK, f"{self.address}: {answer.status}")
        except ClientError as error:
            return CheckAnswer(False, safe_text(f"{self.address}: {error.status or error}"))
        finally:
            await client.aclose()
        return CheckAnswer(False, f"{self.address}: no answer in {self.timeout_s:g} s")


@dataclass(frozen=True)
class _LocalConnector:
    async def connect(self, place: CheckAddress, seconds: float) -> Connected:
        if place.socket is not None:
            return await UnixConnector().connect(place.socket, seconds)
        with trio.move_on_after(seconds):
            try:
                return Connected(await trio.open_tcp_stream(place.host, place.port), LOCAL_HOST)
            except OSError as error:
                raise ClientError(ClientFault.CONNECT_FAILED, str(error)) from error
        raise ClientError(ClientFault.TIMED_OUT, "no connection in time")


@dataclass
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
