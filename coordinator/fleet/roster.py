"""The members as an operator looks at them: what the catalog holds, what each reported last, and how that stands.

page    many, in short, in byte order of their ids, by pages
show    one, with its scopes, its clock and what it was like of late

What a node says of itself is shown and believed nothing (rules S70).
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import select

from coordinator.base import spans
from coordinator.base.refusal import Code, Refused, bound_text
from coordinator.base.settings import CoordinatorSettings
from coordinator.base.spans import Slot
from coordinator.database import catalog, documents, schema
from coordinator.database.database import Database, Transaction
from coordinator.fleet import fleet, lateness, member_report, provenance
from coordinator.fleet.fleet import FleetMember
from coordinator.fleet.held_scopes import held_scopes
from coordinator.fleet.member_report import MemberReport
from coordinator.fleet.selection import Selection
from coordinator.reports.checkin import Pair
from wire.certificate import BadCertificateError, Certificate
from wire.operators.fleet_answers import (
    DocumentAudience,
    Listed,
    ListedScope,
    MemberDetail,
    MemberPage,
    NodeEntry,
    Span,
)

MOST = 1_000  # in one answer
_CHUNK = 500  # looked at in one statement
_SLOTS_OF_SILENCE = 2


def page(
    database: Database,
    which: Selection,
    *,
    now: float,
    settings: CoordinatorSettings,
    after: str = "",
    most: int = MOST,
) -> MemberPage:
    """`next`: the node to page on after."""
    with database.read() as transaction:
        ids = sorted(row[0] for row in transaction.rows(select(schema.nodes.c.node_id)))
        found: list[Listed] = []
        for start in range(bisect_right(ids, after), len(ids), _CHUNK):
            found += _list(transaction, ids[start : start + _CHUNK], which, now, settings)
            if len(found) > most:
                return MemberPage(found[most - 1].node_id, tuple(found[:most]))
    return MemberPage(None, tuple(found))


def show(database: Database, node_id: str, *, now: float, settings: CoordinatorSettings) -> MemberDetail:
    """`not_found` for a stranger."""
    with database.read() as transaction:
        found = list(_list(transaction, [node_id], Selection(), now, settings))
        if not found:
            raise Refused(Code.NOT_FOUND, f"{node_id} is no member")
        (member,) = fleet.members(transaction, [node_id])
        status = transaction.row(select(schema.node_status).where(schema.node_status.c.node_id == node_id))
        said = json.loads(status.body) if status is not None else {}
        interval_s = said.get("interval_s") or settings.heartbeat_interval_s
        audiences = _audiences(transaction, node_id)
        history = _history(transaction, found[0], interval_s, now, settings)
        behind_s = _behind_s(transaction, member, said.get("scopes") or {}, now)
        held_back = {**held_scopes(transaction, [node_id]).get(node_id, {}), **member.held_back}
    head = f"{status.head_epoch}.{status.head_generation}" if status is not None and status.head_epoch else None
    boot_id = status.boot_id if status is not None else None
    details = _report_details(said, member, audiences, behind_s)
    return MemberDetail(**vars(found[0]), boot_id=boot_id, head=head, history=history, held_back=held_back, **details)


def _audiences(transaction: Transaction, node_id: str) -> dict[str, DocumentAudience]:
    """By scope, of the documents that its head lists."""
    listed = documents.listings(transaction, [node_id]).get(node_id, {})
    read = documents.envelopes(transaction, {entry.snapshot_id for entry in listed.values()})
    kept = ((scope, read.get(entry.snapshot_id)) for scope, entry in listed.items())
    return {
        scope: DocumentAudience(found.subject_node_id, found.roles, found.organization_ids)
        for scope, found in kept
        if found is not None
    }


def _list(
    transaction: Transaction, ids: Sequence[str], which: Selection, now: float, settings: CoordinatorSettings
) -> Iterator[Listed]:
    entries = {entry.node_id: entry for entry in catalog.entries(transaction, ids)}
    reports = {report.node_id: report for report in member_report.read_reports(transaction, ids)}
    members = {member.node_id: member for member in fleet.members(transaction, ids)}
    taken = [node_id for node_id in sorted(entries) if _takes(which, members[node_id], reports, now, settings)]
    ends = _ends(transaction, taken)
    for node_id in taken:
        report, member = reports.get(node_id), members[node_id]
        late = None if member.revoked else fleet.straggler_of(member, report, now, settings)
        yield Listed(
            **vars(entries[node_id]),
            labels=member.labels,
            certificate_expires_at=ends.get(node_id),
            state=fleet.state_of(member, report, now, settings),
            why=late.reason if late else "",
            mode=report.mode if report else None,
            head_grade=report.head_grade if report else None,
            agent_version=report.agent_version if report else None,
            reported_at=report.reported_at if report else None,
            came_from={giver.words: count for giver, count in report.came_from.items()} if report else {},
            versions_behind=late.versions_behind if late else 0,
        )


def _takes(
    which: Selection,
    member: FleetMember,
    reports: Mapping[str, MemberReport],
    now: float,
    settings: CoordinatorSettings,
) -> bool:
    state = fleet.state_of(member, reports.get(member.node_id), now, settings)
    return which.takes(member.site_id, member.labels, state)


def _ends(transaction: Transaction, ids: Sequence[str]) -> dict[str, int]:
    """Of the certificate that lasts longest: during a renewal there are two."""
    table, found = schema.nodes, {}
    columns = select(table.c.node_id, table.c.certificate, table.c.next_certificate)
    for row in transaction.rows(columns.where(table.c.node_id.in_(ids))):
        ends = [_end(bytes(der)) for der in (row.certificate, row.next_certificate) if der is not None]
        if any(ends):
            found[row.node_id] = max(ends)
    return found


def _end(der: bytes) -> int:
    """0 for what is no certificate: an entry is shown whatever stands in it."""
    try:
        return int(Certificate.read(der).not_after)
    except BadCertificateError:
        return 0


def _report_details(
    said: Mapping[str, Any],
    member: FleetMember,
    audiences: Mapping[str, DocumentAudience],
    behind_s: Mapping[str, float],
) -> dict[str, Any]:
    """Only what is in form: what an earlier version kept may be in another."""
    clock, scopes = said.get("clock") or {}, said.get("scopes") or {}
    synchronised, offset_s = clock.get("synchronised"), clock.get("offset_floor_s")
    names = sorted(scopes.keys() | member.published.keys())
    return {
        "degraded_since": said.get("degraded_since"),
        "interval_s": said.get("interval_s"),
        "roots_confirmed": said.get("roots_confirmed"),
        "features": said.get("features"),
        "clock_synchronised": synchronised if isinstance(synchronised, bool) else None,
        "clock_offset_s": offset_s if isinstance(offset_s, (int, float)) else None,
        "relay": provenance.relay_of(said),
        "scopes": tuple(
            _scope(name, scopes.get(name) or {}, member.published.get(name), audiences.get(name), behind_s.get(name))
            for name in names
        ),
    }


def _behind_s(
    transaction: Transaction, member: FleetMember, scopes: Mapping[str, Mapping[str, Any]], now: float
) -> dict[str, float]:
    """By scope that is behind; of a node that has never reported, all."""
    held = {
        (member.node_id, scope): active
        for scope, pair in member.published.items()
        if (active := _active_pair(scopes.get(scope) or {})) < pair
    }
    return {scope: max(0.0, now - at) for (_, scope), at in lateness.behind_since(transaction, held).items()}


def _active_pair(said: Mapping[str, Any]) -> Pair:
    active = said.get("active")
    return (active["authority_epoch"], active["config_version"]) if active else lateness.NOTHING


def _scope(
    name: str,
    said: Mapping[str, Any],
    published: Pair | None,
    made_for: DocumentAudience | None,
    behind_s: float | None,
) -> ListedScope:
    active, refused = said.get("active") or {}, said.get("last_rejected") or {}
    version, reason, end = refused.get("config_version"), refused.get("reason"), active.get("expires_at")
    return ListedScope(
        scope=name,
        published=None if published is None else "{}.{}".format(*published),
        active=f"{active['authority_epoch']}.{active['config_version']}" if active else None,
        expires_at=bound_text(end, 64) if isinstance(end, str) else None,
        refused=version if isinstance(version, int) else None,
        reason=bound_text(reason, 64) if isinstance(reason, str) else "",
        made_for=made_for,
        origin=provenance.origin_of(said),
        versions_behind=0 if published is None else lateness.versions_behind(published, _active_pair(said)),
        behind_s=behind_s,
    )


def _history(
    transaction: Transaction, entry: NodeEntry, interval_s: float, now: float, settings: CoordinatorSettings
) -> tuple[Span, ...]:
    """What lies outside the ring is of an earlier round."""
    table, slot_s = schema.heartbeat_history, settings.heartbeat_history_slot_s
    since = now - settings.heartbeat_history_slots * slot_s
    rows = transaction.rows(select(table).where(table.c.node_id == entry.node_id, table.c.at > since))
    slots = [Slot(row.at, row.state, row.mode, row.head_grade) for row in rows]
    quiet_s = max(_SLOTS_OF_SILENCE * slot_s, fleet.SILENT_AFTER * interval_s)
    return tuple(spans.spans(slots, slot_s=slot_s, quiet_s=quiet_s, known_from=entry.first_seen, now=now))
