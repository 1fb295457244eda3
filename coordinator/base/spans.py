"""What a node was like of late: its time slots, told as spans of time. Pure.

A slot keeps the last report that came within it, so a state that came and went between two reports, or within one slot,
is not in here; the node's journal has it (events.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wire.operators.fleet_answers import Span

SILENT = "silent"


@dataclass(frozen=True)
class Slot:
    """The last report of one time slot; `at`: when it came, Unix seconds."""

    at: float
    state: str
    mode: str
    head_grade: str


def spans(slots: Sequence[Slot], *, slot_s: float, quiet_s: float, known_from: float, now: float) -> list[Span]:
    """The newest first. `quiet_s`: without a report for so long, a node is silent; `known_from`: when it joined."""
    found: list[Span] = []
    for slot in sorted(slots, key=lambda each: each.at):
        begins = min(slot.at, max(found[-1].until if found else known_from, slot.at // slot_s * slot_s))
        if found and slot.at - found[-1].until > quiet_s:
            found.append(_silence(found[-1].until, begins))
        if found and _says(found[-1]) == _says(slot):
            begins = found.pop().since
        elif found:
            found[-1] = replace(found[-1], until=begins)
        found.append(Span(begins, slot.at, *_says(slot)))
    return _until(found, quiet_s, now)[::-1]


def _until(found: list[Span], quiet_s: float, now: float) -> list[Span]:
    """The last one lasts, or the node has fallen silent since."""
    if not found or now < found[-1].until:
        return found
    if now - found[-1].until > quiet_s:
        return [*found, _silence(found[-1].until, now)]
    return [*found[:-1], replace(found[-1], until=now)]


def _silence(since: float, until: float) -> Span:
    return Span(since, until, SILENT, "", "")


def _says(one: Slot | Span) -> tuple[str, str, str]:
    return one.state, one.mode, one.head_grade
