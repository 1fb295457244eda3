"""Asking services whether they could live with a candidate, before it becomes active (protocol.md 4).

A validator is a command of the operator's. It is run in a folder that holds the service's scopes as they would be,
laid out as under /run/holdfast/active, and accepts by exit status 0. Anything else, or its time limit, refuses the
whole activation with `validator_refused`; the active configuration stays.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.commands import run_command
from agent.generations import Permissions
from agent.patterns import matches
from agent.projection import INDEX, ProjectedScope, index_bytes, write_file, write_scope
from agent.threads import Threads
from snapshot.reasons import safe_text

VALIDATOR_REFUSED = "validator_refused"
OURS_ALONE = Permissions(0o600, 0o700)


@dataclass(frozen=True)
class Validator:
    """Of one service: the scopes that it depends on, and the command that judges them."""

    service: str
    scopes: tuple[str, ...]
    command: tuple[str, ...]
    timeout_s: float


@dataclass(frozen=True)
class Refusal:
    """`detail` is bounded and holds what the command said first."""

    service: str
    detail: str
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
    ) -> Refusal | None:
        """Of the first validator that does not accept; None if all do that are concerned."""
        changed = {candidate.scope: candidate for candidate in candidates}
        after = {scope.scope: scope for scope in active} | changed
        for validator in self.validators:
            if any(matches(validator.scopes, scope) for scope in changed):
                refused = await self._asked(validator, after, generation)
                if refused is not None:
                    return refused
        return None

    async def _asked(
        self, validator: Validator, after: Mapping[str, ProjectedScope], generation: int
    ) -> Refusal | None:
        concerned = [after[scope] for scope in sorted(after) if matches(validator.scopes, scope)]
        staged = await self.threads.read(self._stage, concerned, generation)
        try:
            variables = {
                "HOLDFAST_SERVICE": validator.service,
                "HOLDFAST_STAGED": str(staged),
                "HOLDFAST_GENERATION": str(generation),
            }
            outcome = await run_command(
                validator.command, timeout_s=validator.timeout_s, folder=staged, variables=variables
            )
        finally:
            shutil.rmtree(staged, ignore_errors=True)
        if outcome.ok:
            return None
        return Refusal(validator.service, safe_text(f"{validator.service}: {outcome}"))

    def _stage(self, scopes: Sequence[ProjectedScope], generation: int) -> Path:
        staged = Path(tempfile.mkdtemp(dir=self.folder))
        with _removed_on_error(staged):
            for scope in scopes:
                write_scope(staged, scope, OURS_ALONE)
            write_file(staged / INDEX, index_bytes(generation, scopes), OURS_ALONE)
        return staged


@contextlib.contextmanager
def _removed_on_error(folder: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
