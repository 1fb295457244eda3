"""A validator with the rights that its program needs: a unit of root's, asked as units are asked to reload.

The agent's sandbox has neither port 80 nor anybody's private key, so `nginx -t` cannot be run in it. Root decides in a
drop-in of `holdfast-validate@UNIT.service` which command judges, as whom, for how long; enabling the path unit allows
the agent to ask.

    <candidates>/<id>      the candidate, in a new folder; root takes it from there before it is looked at
    <requests>/<unit>      the id, in place at once; root takes it away, and its being there is what starts the unit
    <answers>/<unit>       `<id> <result> <exit status>`, and what the command said; root's

An answer is for the id that stands in it, and an id for one candidate: what another was told is passed over. Agents of
several clusters that ask the same unit take turns, by a lock that ends with its process. What root does is in
packaging/bin/validate-unit.
"""

import fcntl
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from agent.base.commands import OUTPUT_BYTES, CommandOutcome, line_of
from agent.config.units import VALIDATE, is_unit, path_unit
from agent.services.unit_states import UnitState
from snapshot.frozen import frozen
from snapshot.reasons import safe_text

LOOK_EVERY_S = 0.1
SYSTEMDS_OWN = range(200, 246)  # exit statuses by which it says that it could not start the command


@frozen
class ValidatorUnit:
    """`label` is the cluster's: what lies there of other agents is left alone."""

    unit: str
    label: str
    requests: Path
    candidates: Path
    answers: Path
    timeout_s: float
    read_state: Callable[[str], Awaitable[UnitState]]

    def __post_init__(self) -> None:
        if not is_unit(self.unit):
            raise ValueError(f"{self.unit!r} is no name of a systemd unit")

    def start(self) -> None:
        for place in self.candidates.glob(f"{self.label}.*"):
            if self._is_ours(place.name):
                self._take_back(place)
                shutil.rmtree(place, ignore_errors=True)

    def new_place(self) -> Path:
        return self.candidates / f"{self.label}.{secrets.token_hex(16)}"

    async def judge(self, staged: Path, service: str, generation: int) -> CommandOutcome:
        path = path_unit(VALIDATE, self.unit)
        state = await self.read_state(path)
        if not state.active and not state.fault:
            return CommandOutcome(None, f"{path} is not enabled: systemctl enable --now {path}")
        with trio.move_on_after(self.timeout_s):
            try:
                async with self._turn():
                    return await self._ask(staged, service, generation)
            except OSError as error:
                return CommandOutcome(None, safe_text(f"{self.requests / self.unit}: {error.strerror}"))
        remedy = f"journalctl -u holdfast-validate@{self.unit}.service; systemctl status {path}"
        return CommandOutcome(None, f"no answer in {self.timeout_s:g} s: {remedy}")

    # ---- inside

    def _is_ours(self, name: str) -> bool:
        return name.rpartition(".")[0] == self.label

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """From the question to its answer there is no other."""
        self.requests.mkdir(mode=0o755, exist_ok=True)
        descriptor = os.open(self.requests / f".{self.unit}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            while not _is_locked(descriptor):  # noqa: ASYNC110 - another process has it
                await trio.sleep(LOOK_EVERY_S)
            yield
        finally:
            os.close(descriptor)

    async def _ask(self, staged: Path, service: str, generation: int) -> CommandOutcome:
        self._write_request(staged.name, service, generation)
        try:
            return await self._answer(staged.name)
        finally:
            self._take_back(staged)

    def _write_request(self, name: str, service: str, generation: int) -> None:
        """Whole at once: root reads it as soon as it is there."""
        new = self.requests / f".{name}"
        try:
            new.write_text(f"{name} {service} {generation}\n")
            new.replace(self.requests / self.unit)
        finally:
            new.unlink(missing_ok=True)

    def _take_back(self, staged: Path) -> None:
        """A request that nobody has taken; another's stays."""
        request = self.requests / self.unit
        try:
            if request.read_text("ascii", "replace").split(" ")[0] == staged.name:
                request.unlink()
        except OSError:
            return  # root has taken it

    async def _answer(self, name: str) -> CommandOutcome:
        while (outcome := self._read_answer(name)) is None:  # noqa: ASYNC110 - another process writes the file
            await trio.sleep(LOOK_EVERY_S)
        return outcome

    def _read_answer(self, name: str) -> CommandOutcome | None:
        try:
            with (self.answers / self.unit).open("rb") as file:
                first, said = file.readline(OUTPUT_BYTES), file.read(OUTPUT_BYTES)
        except OSError:
            return None
        words = first.decode("ascii", "replace").split()
        return _outcome(words[1:], line_of(said)) if words[:1] == [name] else None


def _is_locked(descriptor: int) -> bool:
    """By this process now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _outcome(words: list[str], said: str) -> CommandOutcome:
    """As if the command had been run here. `words`: systemd's $SERVICE_RESULT and $EXIT_STATUS."""
    result, status = (*words, "", "")[:2]
    code = int(status) if status.isascii() and status.isdigit() and len(status) < 4 else None
    if result == "success":
        return CommandOutcome(0, said)
    if result == "timeout":
        return CommandOutcome(None, said, timed_out=True)
    if result == "exit-code" and code is not None and code not in SYSTEMDS_OWN:
        return CommandOutcome(code, said)
    return CommandOutcome(None, safe_text(f"{result} {status}: {said}" if said else f"{result} {status}"))
