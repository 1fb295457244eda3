"""What an apply would say of declared states, as if all that is declared had joined. Pure.

    rehearse(after, before, read)    -> Rehearsal: whether Expectations are met, and what the guard says

Without a state before, everything is a first publication, of which the guard says nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.configs.compiled_pairs import compiled_pairs
from coordinator.declared.change_impact import affected_scopes
from coordinator.declared.contents import ReadPart
from coordinator.declared.model import Model
from coordinator.expected import expectations
from coordinator.expected.expectations import Judgement
from coordinator.expected.plan_guard import GuardFinding, PlanGuard


@dataclass(frozen=True)
class Rehearsal:
    """`findings`: what the guard says, the worst first."""

    judged: Judgement
    findings: Sequence[GuardFinding] = ()


def rehearse(after: Model, before: Model | None, read: ReadPart) -> Rehearsal:
    """`read`: what the files of both hold."""
    if before is None:
        return Rehearsal(expectations.judge_all(after, after, read))
    guard, earlier = PlanGuard(len(before.members)), before
    for pair in compiled_pairs(lambda _: earlier, lambda _: after, affected_scopes(before, after), read):
        guard.look(*pair)
    return Rehearsal(expectations.judge_all(before, after, read), guard.findings)
