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
from wire.operators.fleet_answers import FleetRefusal

NEVER = float("inf")


@dataclass(frozen=True)
class Figures:
    """`expires_at`: when the first of what runs in place of something refused expires; None: nothing does."""

    nodes: int
    scopes: int
    expires_at: int | None


def fleet_refusals(transaction: Transaction, node_id: str | None = None) -> list[FleetRefusal]:
    found = refusal_records.standing(transaction, node_id)
    return [_fleet_refusal(refusal) for refusal in sorted(found, key=_urgency)]


def figures(database: Database) -> Figures:
    with database.read() as transaction:
        return _figures(refusal_records.standing(transaction))


def _figures(found: Sequence[StandingRefusal]) -> Figures:
    ends = [refusal.good_until for refusal in found if refusal.good_until is not None]
    return Figures(len({refusal.node_id for refusal in found}), len(found), min(ends, default=None))


def _urgency(each: StandingRefusal) -> tuple[float, str, str]:
    """What is not renewed comes first."""
    end = NEVER if each.good_until is None else each.good_until
    return (end if each.refusal.withheld else NEVER), each.node_id, each.scope


def _fleet_refusal(each: StandingRefusal) -> FleetRefusal:
    refusal = each.refusal
    said = (refusal.since, refusal.reason, refusal.step, refusal.detail)
    runs = None if refusal.running is None else _version(refusal.running)
    content_hash = refusal.refused.content_hash
    head = (each.node_id, each.scope, _version(refusal.refused), content_hash)
    return FleetRefusal(*head, *said, runs, each.good_until, refusal.withheld)


def _version(mark: ReportedMark) -> str:
    return f"{mark.authority_epoch}.{mark.config_version}"
