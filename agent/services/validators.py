"""Asking services whether they could live with a candidate, before it becomes active (protocol.md 4).

A validator is a command of the operator's. It is run in a folder that holds the service's scopes as they would be,
laid out as under /run/holdfast/active, and accepts by exit status 0. Anything else, or its time limit, refuses the
whole activation with `validator_refused`; the active configuration stays.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.base.commands import CommandOutcome, run_command
from agent.base.threads import Threads
from agent.config.patterns import matches
from agent.files.generations import Permissions
from agent.files.projection import INDEX, ProjectedScope, index_bytes, write_file, write_scope
from snapshot.reasons import safe_text

VALIDATOR_REFUSED = "validator_refused"
NOT_STARTED = (126, 127)  # what shells, env(1) and others say of a command that they could not start
OURS_ALONE = Permissions(0o600, 0o700)


@dataclass(frozen=True)
class Validator:
    """Of one service: the scopes that it depends on, and the command that judges them."""

    service: str
    scopes: tuple[str, ...]
    command: tuple[str, ...]
    timeout_s: float


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
    """`folder`: where candidates are laid out; it is the agent's alone, and emptied at the start."""

    validators: Sequence[Validator]
    folder: Path
    threads: Threads

    def start(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(mode=0o700, parents=True)

    async def refusal(
        self, candidates: Iterable[ProjectedScope], active: Iterable[ProjectedScope], generation: int
    ) -> ValidatorRefusal | None:
        """Of the first validator that does not accept; None if all do that are concerned. Who reads the same content
        as before is not: a renewal must not end because a validator is out of order (rules S67).
        """
        before = {scope.scope: scope for scope in active}
        after = before | {candidate.scope: candidate for candidate in candidates}
        changed = {name for name, one in after.items() if _content(before.get(name)) != _content(one)}
        for validator in self.validators:
            its = frozenset(scope for scope in changed if matches(validator.scopes, scope))
            if its and not (outcome := await self._asked(validator, after, generation)).ok:
                words = safe_text(f"{validator.service}: {outcome}")
                return ValidatorRefusal(validator.service, words, its, _judged(outcome))
        return None

    async def _asked(
        self, validator: Validator, after: Mapping[str, ProjectedScope], generation: int
    ) -> CommandOutcome:
        concerned = [after[scope] for scope in sorted(after) if matches(validator.scopes, scope)]
        staged = await self.threads.read(self._stage, concerned, generation)
        try:
            variables = {
                "HOLDFAST_SERVICE": validator.service,
                "HOLDFAST_STAGED": str(staged),
                "HOLDFAST_GENERATION": str(generation),
            }
            return await run_command(
                validator.command, timeout_s=validator.timeout_s, folder=staged, variables=variables
            )
        finally:
            shutil.rmtree(staged, ignore_errors=True)

    def _stage(self, scopes: Sequence[ProjectedScope], generation: int) -> Path:
        staged = Path(tempfile.mkdtemp(dir=self.folder))
        with _removed_on_error(staged):
            folder = os.open(staged, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                for scope in scopes:
                    write_scope(folder, scope, OURS_ALONE)
                write_file(folder, INDEX, index_bytes(generation, scopes), OURS_ALONE)
            finally:
                os.close(folder)
        return staged


def _content(scope: ProjectedScope | None) -> str | None:
    return scope.content_hash if scope is not None else None


def _judged(outcome: CommandOutcome) -> bool:
    """An exit status of its own. One that was too slow, killed or never started may judge another time."""
    return outcome.exit_code is not None and outcome.exit_code > 0 and outcome.exit_code not in NOT_STARTED


@contextlib.contextmanager
def _removed_on_error(folder: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
