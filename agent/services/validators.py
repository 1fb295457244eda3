"""Asking services whether they could live with a candidate, before it becomes active (protocol.md 4).

A validator is a command of the operator's, or a unit (validator_units.py). It is given a folder that holds the
service's scopes as they would be, laid out as under /run/holdfast/active, and accepts by exit status 0. Anything else,
or its time limit, refuses the whole activation with `validator_refused`; the active configuration stays. The same
command is asked about what a head says is coming, long before that; what it has said then is not asked again.

One validator runs once at a time, whoever asks: an activation beside a vote waits for the run that has begun.
"""

import os
import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Protocol

import trio

from agent.base.commands import CommandOutcome, run_command
from agent.base.threads import Threads
from agent.config.patterns import matches
from agent.files.generations import Permissions
from agent.files.layout import ProjectedScope
from agent.files.projection import INDEX, index_bytes
from agent.files.scope_files import write_file, write_scope
from agent.services.judgements import KnownAnswers, SeenState, ValidatorAnswer
from snapshot.frozen import frozen
from snapshot.reasons import safe_text

VALIDATOR_REFUSED = "validator_refused"
NOT_STARTED = (126, 127)  # what shells, env(1) and others say of a command that they could not start
OURS_ALONE = Permissions(0o600, 0o700)


class Judge(Protocol):
    """Who judges candidates, each laid out in a place of its own."""

    def start(self) -> None:
        """Takes away what was laid out before: nobody waits for that any more."""

    def new_place(self) -> Path:
        """That nobody else has had."""

    async def judge(self, staged: Path, service: str, generation: int) -> CommandOutcome:
        """Within a time limit of its own; raises nothing for what the other does."""


@frozen
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


@frozen
class Validator:
    """Of one service: the scopes that it depends on, and who judges them."""

    service: str
    scopes: tuple[str, ...]
    judge: Judge
    turn: trio.Lock = field(default_factory=trio.Lock, compare=False)

    def concerns(self, scope: str) -> bool:
        return matches(self.scopes, scope)

    def view_of(self, after: Mapping[str, ProjectedScope]) -> SeenState:
        """What it is given to see of a state."""
        its = [scope for name, scope in after.items() if self.concerns(name)]
        revoked: frozenset[str] = frozenset().union(*(scope.revoked for scope in its))
        return SeenState(self.service, frozenset((scope.scope, scope.content_hash) for scope in its), revoked)


@frozen
class ValidatorRefusal:
    """`detail` is bounded and holds what the command said first. `scopes`: the changed ones that it was asked about.
    `judged`: it ran to its end, and that is its answer.
    """

    service: str
    detail: str
    scopes: frozenset[str]
    judged: bool = True
    reason: str = VALIDATOR_REFUSED


@frozen
class Validators:
    validators: Sequence[Validator]
    threads: Threads

    def start(self) -> None:
        for validator in self.validators:
            validator.judge.start()

    def sees(self, scope: str) -> bool:
        return any(validator.concerns(scope) for validator in self.validators)

    async def refusal(
        self,
        candidates: Iterable[ProjectedScope],
        active: Iterable[ProjectedScope],
        generation: int,
        known: KnownAnswers,
    ) -> ValidatorRefusal | None:
        """Of the first validator that does not accept; None if all do that are concerned. Who reads the same content
        as before is not: a renewal must not end because a validator is out of order (rules S67). Who is `known` to have
        answered is not asked again, and what is answered is noted there.
        """
        before = {scope.scope: scope for scope in active}
        after = before | {candidate.scope: candidate for candidate in candidates}
        changed = {name for name, document in after.items() if _content(before.get(name)) != _content(document)}
        for validator in self.validators:
            its = frozenset(filter(validator.concerns, changed))
            if not its:
                continue
            answer = await self._answer(validator, after, generation, known)
            if answer.refusal:
                return ValidatorRefusal(validator.service, answer.refusal, its, answer.judged)
        return None

    async def _answer(
        self, validator: Validator, after: Mapping[str, ProjectedScope], generation: int, known: KnownAnswers
    ) -> ValidatorAnswer:
        seen = validator.view_of(after)
        async with validator.turn:
            answer = known.find(seen)
            if answer is None:
                outcome = await self._ask(validator, after, generation)
                words = "" if outcome.ok else safe_text(f"{validator.service}: {outcome}")
                answer = ValidatorAnswer(words, outcome.ok or _is_judgement(outcome))
                known.note(seen, answer)
        return answer

    async def _ask(self, validator: Validator, after: Mapping[str, ProjectedScope], generation: int) -> CommandOutcome:
        concerned = [after[scope] for scope in sorted(after) if validator.concerns(scope)]
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
