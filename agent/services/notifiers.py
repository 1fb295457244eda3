"""How a service is told that its configuration has changed (protocol.md 4).

    RequestedVerb   a file for the units holdfast-<verb>@.path, since the agent may not reach other units itself
    Command         a command of the operator's, with a time limit
    Watching        nothing is done: the service watches the API or the files

Each `tell` is safe to repeat: a service is told what is active now, never what has happened.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import trio

from agent.base.commands import run_command
from agent.config.units import Verb, is_unit, path_unit
from snapshot.frozen import frozen
from snapshot.reasons import safe_text

LOOK_EVERY_S = 0.1
NOT_RUNNING = "not_running"


@frozen
class Told:
    """What a service answered; `detail` is bounded, for people.

    A unit that did not run was not told: not ok, and its detail begins with `not_running`. It reads what is active when
    it starts, and is told again until it has answered, since nobody says here that it has started.
    """

    ok: bool
    detail: str = ""


class Notifier(Protocol):
    async def tell(self, service: str, generation: int) -> Told:
        """Within a time limit of its own; raises nothing for what the service does."""


@frozen
class NotifierWatch:
    async def tell(self, service: str, generation: int) -> Told:
        return Told(True, "it watches")


@frozen
class Command:
    command: tuple[str, ...]
    timeout_s: float

    async def tell(self, service: str, generation: int) -> Told:
        variables = {"HOLDFAST_SERVICE": service, "HOLDFAST_GENERATION": str(generation)}
        outcome = await run_command(self.command, timeout_s=self.timeout_s, variables=variables)
        return Told(outcome.ok, str(outcome))


@frozen
class RequestedVerb:
    """`<requests>/<unit>` is written, and `<answers>/<unit>` says what came of it: `<result> <exit status>`, or
    `not_running`.

    Root's units do the work, for the units that the operator enabled: `systemctl enable holdfast-reload@UNIT.path`.
    The folders are those of `reload`; the other verbs have folders of their own beside them, so that who allowed a
    reload has allowed no restart. The contract is in docs/local-api.md, "Telling a service".
    """

    verb: Verb
    unit: str
    requests: Path
    answers: Path
    timeout_s: float
    signal: str = "HUP"

    def __post_init__(self) -> None:
        if not is_unit(self.unit):
            raise ValueError(f"{self.unit!r} is no name of a systemd unit")

    @property
    def request(self) -> Path:
        reload = self.verb is Verb.RELOAD
        return (self.requests if reload else self.requests.with_name(str(self.verb))) / self.unit

    @property
    def answer(self) -> Path:
        reload = self.verb is Verb.RELOAD
        return (self.answers if reload else self.answers.with_name(f"holdfast-{self.verb}")) / self.unit

    async def tell(self, service: str, generation: int) -> Told:
        before = _stamp(self.answer)
        try:
            self._ask(generation)
        except OSError as error:
            return Told(False, safe_text(f"{self.request}: {error.strerror}"))
        with trio.move_on_after(self.timeout_s):
            await _wait_for_change(lambda: _stamp(self.answer), before)
            return self._answer()
        remedy = f"systemctl enable --now {path_unit(self.verb, self.unit)}"
        return Told(False, f"no answer in {self.timeout_s:g} s; allow it with: {remedy}")

    def _ask(self, generation: int) -> None:
        self.request.parent.mkdir(mode=0o755, exist_ok=True)
        word = self.signal if self.verb is Verb.SIGNAL else f"{self.verb} {generation}"
        self.request.write_text(word + "\n")

    def _answer(self) -> Told:
        try:
            words = self.answer.read_text("ascii", "replace")[:256].split()
        except OSError as error:
            return Told(False, safe_text(f"{self.answer}: {error.strerror}"))
        if words[:1] == [NOT_RUNNING]:
            return Told(False, f"{NOT_RUNNING}: {self.unit} reads what is active when it starts")
        return Told(words[:1] == ["success"], safe_text(" ".join(words)))


def _stamp(path: Path) -> tuple[int, int] | None:
    """Differs after each write to a file that has something in it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns) if found.st_size else None


async def _wait_for_change(look: Callable[[], object], before: object) -> None:
    while look() in (None, before):  # noqa: ASYNC110 - another process writes the file
        await trio.sleep(LOOK_EVERY_S)
