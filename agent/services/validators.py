"""Asking services whether they could live with a candidate, before it becomes active (protocol.md 4).

A validator is a command of the operator's, or a unit (validator_units.py). It is given a folder that holds the
service's scopes as they would be, laid out as under /run/holdfast/active, and accepts by exit status 0. Anything else,
or its time limit, refuses the whole activation with `validator_refused`; the active configuration stays.
"""

import os
import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import trio

from agent.base.commands import CommandOutcome, run_command
from agent.base.threads import Threads
from agent.config.patterns import matches
from agent.files.generations import Permissions
from agent.files.layout import ProjectedScope
from agent.files.projection import INDEX, index_bytes, write_file, write_scope
from snapshot.reasons import safe_text

VALIDATOR_REFUSED = "validator_refused"
NOT_STARTED = (126, 127)  # what shells, env(1) and others say of a command that they could not start
OURS_ALONE = Permissions(0o600, 0o700)

Accepted = tuple[str, frozenset[tuple[str, str | None]]]  # by which service's validator, and what it saw


class Judge(Protocol):
    """Who judges candidates, each laid out in a place of its own."""

    def start(self) -> None:
        """Takes away what was laid out before: nobody waits for that any more."""

    def new_place(self) -> Path:
        """That nobody else has had."""

    async def judge(self, staged: Path, service: str, generation: int) -> CommandOutcome:
        """Within a time limit of its own; raises nothing for what the other does."""


@dataclass(frozen=True)
class ValidatorCommand:
    """Run as the agent's account, in its sandbox. `folder` is the agent's alone."""

    command: tuple[str, ...]
    timeout_s: float
    folder: Path

    def start(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(mode=0o700, parents=True)

    def new_place(self) -> Path:
        return self.folder / secrets.token_hex(16)

    async def judge(self, staged: Path, service: str, generation: int) -> CommandOutcome:
        variables = {
            "HOLDFAST_SERVICE": service,
            "HOLDFAST_STAGED": str(staged),
            "HOLDFAST_GENERATION": str(generation),
        }
        return await run_command(self.command, timeout_s=self.timeout_s, folder=staged, variables=variables)


@dataclass(frozen=True)
class Validator:
    """Of one service: the scopes that it depends on, and who judges them."""

    service: str
    scopes: tuple[str, ...]
    judge: Judge


@dataclass(frozen=True)
class ValidatorRefusal:
    """`detail` is bounded and holds what the command said first. `scopes`: the changed ones that it was asked about.
    `judged`: it ran to its end, and that is its answer.
    """

    service: str
    detail: str
    scopes: frozenset[str]
    judged: bool = True
    reason: str = VALIDATOR_REFUSED


@dataclass(frozen=True)
class Validators:
    validators: Sequence[Validator]
    threads: Threads

    def start(self) -> None:
        for validator in self.validators:
            validator.judge.start()

    async def refusal(
        self,
        candidates: Iterable[ProjectedScope],
        active: Iterable[ProjectedScope],
        generation: int,
        accepted: set[Accepted] | None = None,
    ) -> ValidatorRefusal | None:
        """Of the first validator that does not accept; None if all do that are concerned. Who reads the same content
        as before is not: a renewal must not end because a validator is out of order (rules S67). What is in `accepted`
        is not asked again, and what is accepted is added.
        """
        accepted = set() if accepted is None else accepted
        before = {scope.scope: scope for scope in active}
        after = before | {candidate.scope: candidate for candidate in candidates}
        changed = {name for name, document in after.items() if _content(before.get(name)) != _content(document)}
        for validator in self.validators:
            its = frozenset(scope for scope in changed if matches(validator.scopes, scope))
            seen = frozenset((name, _content(after[name])) for name in after if matches(validator.scopes, name))
            judged = (validator.service, seen)
            if not its or judged in accepted:
                continue
            outcome = await self._ask(validator, after, generation)
            if not outcome.ok:
                words = safe_text(f"{validator.service}: {outcome}")
                return ValidatorRefusal(validator.service, words, its, _is_judgement(outcome))
            accepted.add(judged)
        return None

    async def _ask(self, validator: Validator, after: Mapping[str, ProjectedScope], generation: int) -> CommandOutcome:
        concerned = [after[scope] for scope in sorted(after) if matches(validator.scopes, scope)]
        staged = validator.judge.new_place()
        try:
            await self.threads.read(_stage, staged, concerned, generation)
            return await validator.judge.judge(staged, validator.service, generation)
        except OSError as error:
            return CommandOutcome(None, safe_text(f"{staged}: {error.strerror}"))
        finally:
            with trio.CancelScope(shield=True):
                await self.threads.read(_take_away, staged)


def _stage(place: Path, scopes: Sequence[ProjectedScope], generation: int) -> None:
    place.mkdir(mode=0o700)
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for scope in scopes:
            write_scope(folder, scope, OURS_ALONE)
        write_file(folder, INDEX, (index_bytes(generation, scopes),), OURS_ALONE, OURS_ALONE.file_mode)
    finally:
        os.close(folder)


def _take_away(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)


def _content(scope: ProjectedScope | None) -> str | None:
    return scope.content_hash if scope is not None else None


def _is_judgement(outcome: CommandOutcome) -> bool:
    """An exit status of its own. One that was too slow, killed or never started may judge another time."""
    return outcome.exit_code is not None and outcome.exit_code > 0 and outcome.exit_code not in NOT_STARTED
