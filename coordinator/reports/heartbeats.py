"""What nodes report, merged with what is on record and written in batches (protocol 3; rules K30).

    record(database, batch)        one transaction for a whole batch; the answers, which may go out once it returns
    forget(transaction, node_id)   its membership ended, or another store reports under its id

A report is never configuration (rules S70); what a node can read decides which of its configuration it is given
(features.py), so a node that can read more, or less, is to get a new head. Kept are the last state of each node, one
past state a time slot, and each journal event once by (node, incarnation, sequence), in whatever order and however
often it comes (rules J42).
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy import bindparam, delete, func, select, update

from coordinator.base.byte_order import ByteOrder
from coordinator.changes import records, votes
from coordinator.changes.votes import RefusedVersion, SaidOfChanges, TakenBack, VoteCount
from coordinator.database import cluster_state, journals, schema
from coordinator.database.database import Database, Transaction, is_in
from coordinator.database.documents import chunks
from coordinator.reports import features, refusal_records
from coordinator.reports.checkin import Comparison, ReportedMark, compare_all
from coordinator.reports.heartbeat_form import ReceivedHeartbeat
from coordinator.reports.report_check import Claim, doubtful, listed_marks
from coordinator.reports.report_merge import Known, NodeRecord, RecordedAnswer, RecordedMarks, merge

ACTION = "features"
FOLLOWED, FOLLOWED_IN_S = 4, 3_600
MARKS_REMEMBERED = 8_192  # characters, of some 70 scopes: a longer text is read each time


@dataclass(frozen=True)
class History:
    """How past states are kept: a ring of time slots (rules, Numbers; settings)."""

    slots: int = 48
    slot_s: int = 300


def record(
    database: Database,
    batch: Sequence[ReceivedHeartbeat],
    *,
    now: float,
    history: History | None = None,
    count: Callable[[VoteCount], None] | None = None,
) -> list[RecordedAnswer]:
    """Write a batch in one transaction; the answers in its order. Nothing is acknowledged before the commit.

    `count`: is told what came of it for changes (changes/votes.py), once it is written.
    """
    if not batch:
        return []
    with database.record(now=now) as transaction:
        members = _records(transaction, sorted({report.node_id for report in batch}))
        published = _Published.read(transaction, batch, {node_id: kept for node_id, (kept, _) in members.items()})
        rows: dict[str, dict[str, object]] = {}
        answers = []
        for report in batch:
            kept, generation = members.get(report.node_id, (None, 0))
            merged, compared = merge(kept, report, published.of(report))
            answers.append(RecordedAnswer(generation, merged.acknowledged_event, merged.recorded, compared))
            if report.node_id in members:  # removed meanwhile: nothing of it is kept
                members[report.node_id] = (merged, generation)
                rows[report.node_id] = _status_row(report, merged, now, behind=answers[-1].is_behind)
        transaction.put(schema.node_status, [rows[node_id] for node_id in sorted(rows)])
        transaction.put(schema.heartbeat_history, _history_rows(rows, now, history or History()))
        taken = [report for report in batch if report.node_id in rows]
        transaction.put(schema.events, _event_rows(taken, now), keep=True)
        journals.trim_events(transaction, {report.node_id for report in taken if report.journal})
        refusal_records.report(transaction, taken)
        counted = _follow_changes(transaction, taken)
    if count is not None:
        count(counted)
    _follow_features(database, {report.node_id: (members[report.node_id][0], report.features) for report in taken}, now)
    return answers


# Of nodes that join; made once: making a statement costs as much as running it.
_FORGET = tuple(
    delete(table).where(table.c.node_id == bindparam("gone"))
    for table in (schema.node_status, schema.heartbeat_history)
)


def forget(transaction: Transaction, node_ids: Collection[str]) -> None:
    """Whoever comes next under these ids has reported nothing yet (rules K37). What is in the journal stays."""
    rows = [{"gone": node_id} for node_id in sorted(node_ids)]
    for statement in _FORGET:
        transaction.run_many(statement, rows)
    refusal_records.forget(transaction, rows)


def _follow_changes(transaction: Transaction, batch: Sequence[ReceivedHeartbeat]) -> VoteCount:
    """Of nearly all nothing is looked at."""
    rows = records.open_rows(transaction, sorted({report.node_id for report in batch}))
    said = [_words_on_changes(report) for report in batch if report.node_id in rows or report.votes]
    return votes.take(transaction, rows, said)


def _words_on_changes(each: ReceivedHeartbeat) -> SaidOfChanges:
    refused = {
        scope: RefusedVersion(last.config_version, f"{last.reason} at step {last.step}")
        for scope, last in each.refused.items()
    }
    active = {scope: mark.content_hash for scope, mark in each.active.items()}
    taken_back = {
        scope: TakenBack(said.content_hash, f"{said.check}: {said.detail}" if said.detail else said.check)
        for scope, said in each.reverted.items()
    }
    return SaidOfChanges(each.node_id, each.votes, active, refused, each.good, taken_back)


def _follow_features(
    database: Database, reported: Mapping[str, tuple[NodeRecord | None, frozenset[str]]], now: float
) -> None:
    """A new head for whoever reads more, or less, than it was known to: after an upgrade, and hardly ever else.

    A change of its own, since what publishes must not overwrite the generation that is raised here. What a crash leaves
    undone, the next report does: the record has what was reported before. Each time all that was held back is signed
    anew, so one that says now this, now that is followed FOLLOWED times an hour.
    """
    known = {node_id: kept.features if kept else None for node_id, (kept, _) in reported.items()}
    changed = {
        node_id: (features.text(known[node_id]), features.text(report))
        for node_id, (_, report) in sorted(reported.items())
        if known[node_id] != report and features.missing(known[node_id]) != features.missing(report)
    }
    if changed:
        with database.read() as transaction:
            lately = _count_changes(transaction, changed, now)
        changed = {node_id: told for node_id, told in changed.items() if lately.get(node_id, 0) < FOLLOWED}
    if not changed:
        return
    table = schema.node_status
    mine = update(table).where(table.c.node_id == bindparam("node")).values(features=bindparam("read"))
    with database.change(actor="coordinator", now=now, after_move=True) as transaction:
        cluster_state.raise_generations(transaction, changed)
        transaction.run(mine, [{"node": node_id, "read": after} for node_id, (_, after) in changed.items()])
        transaction.audit_all([(ACTION, node_id, before, after) for node_id, (before, after) in changed.items()])


def _count_changes(transaction: Transaction, node_ids: Collection[str], now: float) -> dict[str, int]:
    """In the last hour, as the audit log has it."""
    table = schema.audit
    lately = (table.c.action == ACTION) & (table.c.at > now - FOLLOWED_IN_S)
    times = select(table.c.subject, func.count().label("times")).where(lately).group_by(table.c.subject)
    return {
        row.subject: row.times
        for chunk in chunks(sorted(node_ids))
        for row in transaction.rows(times.where(table.c.subject.in_(chunk)))
    }


@dataclass(frozen=True)
class _Published:
    """What was published, as far as a batch asks for it: nothing is read for a report that is as the record has it."""

    doubts: Mapping[Claim, Comparison]
    announced: Mapping[str, Mapping[str, ReportedMark]]

    @classmethod
    def read(
        cls, transaction: Transaction, batch: Sequence[ReceivedHeartbeat], records: Mapping[str, NodeRecord | None]
    ) -> "_Published":
        claims: set[Claim] = set()
        behind: set[str] = set()
        for report in batch:
            kept = records.get(report.node_id) or NodeRecord()
            for scope, found in compare_all(kept.recorded, report.active).items() if report.node_id in records else ():
                if found is Comparison.NODE_AHEAD:
                    claims.add((report.node_id, scope, report.active[scope]))
                elif found is Comparison.NODE_BEHIND:
                    behind.add(report.node_id)
        return cls(doubtful(transaction, claims), listed_marks(transaction, behind))

    def of(self, each: ReceivedHeartbeat) -> Known:
        if not self.doubts and not self.announced:
            return _NOTHING
        found = ((scope, self.doubts.get((each.node_id, scope, mark))) for scope, mark in each.active.items())
        doubts = {scope: doubt for scope, doubt in found if doubt is not None}
        return Known(doubts, self.announced.get(each.node_id))


_NOTHING = Known()


def _records(transaction: Transaction, node_ids: Sequence[str]) -> dict[str, tuple[NodeRecord | None, int]]:
    """What is on record of each member, and the generation that it should have; a stranger is not among them.

    The rows are locked in order, so that another replica's batch waits instead of lowering a mark.
    """
    nodes, status = schema.nodes, schema.node_status
    columns = select(
        status.c.node_id, status.c.incarnation, status.c.recorded, status.c.acknowledged_event, status.c.features
    )
    locked = columns.where(is_in(status.c.node_id, node_ids)).order_by(ByteOrder(status.c.node_id)).with_for_update()
    kept = {
        row.node_id: NodeRecord(
            row.incarnation, _marks(row.recorded), row.acknowledged_event, features.parse(row.features)
        )
        for row in transaction.rows(locked)
    }
    entries = transaction.rows(select(nodes.c.node_id, nodes.c.generation).where(is_in(nodes.c.node_id, node_ids)))
    return {row.node_id: (kept.get(row.node_id), row.generation) for row in entries}


def _status_row(each: ReceivedHeartbeat, merged: NodeRecord, now: float, *, behind: bool) -> dict[str, object]:
    return {
        "node_id": each.node_id,
        "last_seen": now,
        "state": each.state,
        "mode": each.mode,
        "incarnation": each.incarnation,
        "boot_id": each.boot_id,
        "agent_version": each.agent_version,
        "head_epoch": each.head.authority_epoch,
        "head_generation": each.head.config_version,
        "head_grade": each.head_grade,
        "behind": behind,
        "recorded": merged.recorded.text,
        "acknowledged_event": merged.acknowledged_event,
        "body": each.body,
        "features": features.text(merged.features),  # as before, until its head is to follow
    }


def _history_rows(rows: Mapping[str, Mapping[str, object]], now: float, history: History) -> list[dict[str, object]]:
    slot = int(now // history.slot_s) % history.slots
    return [
        {
            "slot": slot,
            "at": now,
            "node_id": node_id,
            "state": row["state"],
            "mode": row["mode"],
            "head_generation": row["head_generation"],
            "head_grade": row["head_grade"],
        }
        for node_id, row in sorted(rows.items())
    ]


def _event_rows(batch: Sequence[ReceivedHeartbeat], now: float) -> list[dict[str, object]]:
    """In the order of the key, so that two replicas never wait for each other."""
    events = sorted((report.node_id, report.incarnation, *event) for report in batch for event in report.journal)
    names = ("node_id", "incarnation", "sequence", "body")
    rows = (dict(zip(names, (*event, journals.event_text(body)), strict=True)) for *event, body in events)
    return [{**row, "received_at": now} for row in rows]


def _marks(text: str) -> RecordedMarks:
    """What is long is not remembered: of nodes with a thousand scopes, and each change, it would be gigabytes."""
    return _marks_of(text) if len(text) <= MARKS_REMEMBERED else _read_marks(text)


@lru_cache(maxsize=records.TEXTS_REMEMBERED)
def _marks_of(text: str) -> RecordedMarks:
    """The same from one report of a node to the next, until it has something new."""
    return _read_marks(text)


def _read_marks(text: str) -> RecordedMarks:
    return RecordedMarks({scope: ReportedMark(*mark) for scope, mark in json.loads(text).items()})  # our own writing
