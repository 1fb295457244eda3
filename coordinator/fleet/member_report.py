"""What each member has reported last, as far as an operator is told of many of them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from coordinator.database import schema
from coordinator.database.database import Transaction
from coordinator.fleet.provenance import GivenBy, came_from, relay_of
from coordinator.reports.checkin import Pair
from wire.messages import STORE_FAULTS, RelayCondition

MOST_REASON = 64

Scopes = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class MemberReport:
    """The last report of one member; `asked_at`: its last request for its head."""

    node_id: str
    reported_at: float
    state: str
    mode: str
    head_grade: str
    behind: bool
    active: Mapping[str, Pair]  # scope -> what it applied
    asked_at: float = 0.0
    refused: Mapping[str, tuple[int, str]] = field(default_factory=dict)  # scope -> version that it refused last, why
    store_fault: str = ""
    agent_version: str = ""
    interval_s: int | None = None  # how often it means to report; None: it does not say
    roots_confirmed: bool = True  # false: it trusts root keys of a first use that nobody has compared
    came_from: Mapping[GivenBy, int] = field(default_factory=dict)  # how many of what is active
    relay: RelayCondition | None = None

    @property
    def last_seen_at(self) -> float:
        return max(self.reported_at, self.asked_at)


def read_reports(transaction: Transaction, node_ids: Sequence[str] | None = None) -> Iterator[MemberReport]:
    """Of all, or of some."""
    status, asked = schema.node_status, schema.head_requests
    joined = status.outerjoin(asked, status.c.node_id == asked.c.node_id)
    chosen = select(status, asked.c.last_seen.label("asked")).select_from(joined)
    for row in transaction.rows(chosen if node_ids is None else chosen.where(status.c.node_id.in_(node_ids))):
        report = (row.node_id, row.last_seen, row.state, row.mode, row.head_grade, row.behind)
        said = json.loads(row.body)  # only what `heartbeat_form.parse` took is kept
        scopes, fault = said["scopes"], _store_fault(said["counters"])
        active, refused = _last_active(scopes), _last_refusals(scopes)
        told = (row.agent_version, said.get("interval_s"), said.get("roots_confirmed", True))
        given = came_from(scopes), relay_of(said)
        yield MemberReport(*report, active, row.asked or 0.0, refused, fault, *told, *given)


def _last_active(scopes: Scopes) -> dict[str, Pair]:
    actives = {scope: report["active"] for scope, report in scopes.items() if report["active"] is not None}
    return {scope: (mark["authority_epoch"], mark["config_version"]) for scope, mark in actives.items()}


def _last_refusals(scopes: Scopes) -> dict[str, tuple[int, str]]:
    """Bounded, and passed over where it is not in form: an earlier version kept it in any."""
    found = {scope: report["last_rejected"] or {} for scope, report in scopes.items()}
    return {
        scope: (version, reason[:MOST_REASON])
        for scope, feature in found.items()
        if isinstance(version := feature.get("config_version"), int)
        and isinstance(reason := feature.get("reason"), str)
        and reason.isprintable()
    }


def _store_fault(counters: Mapping[str, Any]) -> str:
    return next((fault for fault in STORE_FAULTS if counters.get(fault)), "")
