"""The refusals that stand, as an operator reads them: who has refused what since when, and what runs until when.

told(transaction, node_id=None)   each of them, the one that expires first first
figures(database)                 how many nodes, and when the first of them runs out
"""

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.database.database import Database, Transaction
from coordinator.reports import refusal_records
from coordinator.reports.checkin import ReportedMark
from coordinator.reports.refusal_records import StandingRefusal
from snapshot.identifiers import format_time

NEVER = float("inf")


@dataclass(frozen=True)
class FleetRefusal:
    """`refused` and `runs` are "epoch.version"; `since` and `good_until` Unix seconds. `runs` is None where nothing is
    active, `good_until` where that is not known; `withheld` is why what runs is not renewed, or nothing.
    """

    node_id: str
    scope: str
    refused: str
    content_hash: str
    since: float
    reason: str
    step: int
    detail: str
    runs: str | None
    good_until: int | None
    withheld: str

    @property
    def words(self) -> str:
        """In one sentence."""
        why = f"{self.reason} at step {self.step}" + (f": {self.detail}" if self.detail else "")
        return f"has refused {self.refused} since {format_time(int(self.since))} ({why}), {self._runs}"

    @property
    def _runs(self) -> str:
        if self.runs is None:
            return "and runs nothing of it"
        until = format_time(self.good_until) if self.good_until is not None else "an unknown time"
        if self.withheld:
            return f"runs {self.runs}, good until {until} and NOT renewed: {self.withheld}"
        return f"runs {self.runs}, renewed until {until}"


@dataclass(frozen=True)
class Figures:
    """`expires_at`: when the first of what runs in place of something refused expires; None: nothing does."""

    nodes: int
    scopes: int
    expires_at: int | None


def told(transaction: Transaction, node_id: str | None = None) -> list[FleetRefusal]:
    found = refusal_records.standing(transaction, node_id)
    return [_told(each) for each in sorted(found, key=_urgency)]


def figures(database: Database) -> Figures:
    with database.read() as transaction:
        return _figures(refusal_records.standing(transaction))


def _figures(found: Sequence[StandingRefusal]) -> Figures:
    ends = [each.good_until for each in found if each.good_until is not None]
    return Figures(len({each.node_id for each in found}), len(found), min(ends, default=None))


def _urgency(each: StandingRefusal) -> tuple[float, str, str]:
    """What is not renewed comes first."""
    end = NEVER if each.good_until is None else each.good_until
    return (end if each.refusal.withheld else NEVER), each.node_id, each.scope


def _told(each: StandingRefusal) -> FleetRefusal:
    refusal = each.refusal
    said = (refusal.since, refusal.reason, refusal.step, refusal.detail)
    runs = None if refusal.running is None else _version(refusal.running)
    content_hash = refusal.refused.content_hash
    head = (each.node_id, each.scope, _version(refusal.refused), content_hash)
    return FleetRefusal(*head, *said, runs, each.good_until, refusal.withheld)


def _version(mark: ReportedMark) -> str:
    return f"{mark.authority_epoch}.{mark.config_version}"
