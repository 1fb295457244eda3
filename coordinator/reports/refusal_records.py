"""The refusals that stand, kept: what reports and publications change of them, and all of them for who asks.

    report(transaction, batch)          of the reports of members; part of their transaction
    of_nodes(transaction, node_ids)     by node and scope
    settle(transaction, outcomes)       what publications have come to
    standing(transaction)               each with how long what the node has is good

A node is believed of its own scopes alone, and of what it has only what was published for it under exactly that version
with exactly that content (rules S70): any other claim changes nothing here. Begin and end stand in the audit log, in
which a node that flaps fills ten lines an hour.

Reports and publications write rows of the same nodes at a time. Both write refusals first and heads after them, each in
the order of the key, so that the two never wait for each other.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.engine import Row

from coordinator.base.refusal import bound_text
from coordinator.database import schema
from coordinator.database.database import Transaction, is_in
from coordinator.database.documents import TRUST_BUNDLE, chunks
from coordinator.reports import report_check
from coordinator.reports.checkin import ReportedMark
from coordinator.reports.heartbeat_form import ReceivedHeartbeat
from coordinator.reports.standing_refusals import KeptRefusal, Said, follow
from snapshot.identifiers import HEAD

BEGUN, ENDED = "refusal.begin", "refusal.end"
MOST_NOTED, NOTED_IN_S = 10, 3_600
NOT_OURS = frozenset({HEAD, TRUST_BUNDLE})  # made anew each time, and signed by others
_ANY = select(schema.standing_refusals.c.node_id).limit(1)
Line = tuple[str, str]
"""Node id and scope."""


@dataclass(frozen=True)
class RefusalOutcome:
    """What a publication has made of a refusal; None: it is over."""

    node_id: str
    scope: str
    refused_hash: str  # the one that it was made from
    after: KeptRefusal | None


@dataclass(frozen=True)
class StandingRefusal:
    """`good_until`: when what the node has expires (Unix seconds); None where it has nothing, or that is not known."""

    node_id: str
    scope: str
    refusal: KeptRefusal
    good_until: int | None


def of_nodes(transaction: Transaction, node_ids: Sequence[str]) -> dict[str, dict[str, KeptRefusal]]:
    """The refusals that stand, by node and scope."""
    table = schema.standing_refusals
    found: dict[str, dict[str, KeptRefusal]] = defaultdict(dict)
    for chunk in chunks(node_ids):
        for row in transaction.rows(select(table).where(is_in(table.c.node_id, chunk))):
            found[row.node_id][row.scope] = _refusal(row)
    return found


def are_any(transaction: Transaction) -> bool:
    """Whether any refusal stands, of any node: mostly there is none, and to ask for hundreds by name costs as much as
    the other questions of a renewal.
    """
    return transaction.row(_ANY) is not None


def standing(transaction: Transaction, node_id: str | None = None) -> list[StandingRefusal]:
    """Of members that are not revoked, in the order of nodes and scopes; of one node, where one is named."""
    table, kept, nodes = schema.standing_refusals, schema.documents, schema.nodes
    line = schema.published
    is_running = (
        (line.c.node_id == table.c.node_id)
        & (line.c.scope == table.c.scope)
        & (line.c.authority_epoch == table.c.running_epoch)
        & (line.c.config_version == table.c.running_version)
    )
    joined = table.join(nodes, nodes.c.node_id == table.c.node_id).outerjoin(line, is_running)
    joined = joined.outerjoin(kept, kept.c.snapshot_id == line.c.snapshot_id)
    chosen = select(table, kept.c.expires_at).select_from(joined).where(nodes.c.revoked_at.is_(None))
    if node_id is not None:
        chosen = chosen.where(table.c.node_id == node_id)
    rows = transaction.rows(chosen.order_by(table.c.node_id, table.c.scope))
    return [StandingRefusal(row.node_id, row.scope, _refusal(row), row.expires_at) for row in rows]


def report(transaction: Transaction, batch: Sequence[ReceivedHeartbeat]) -> None:
    """One after the other, as they came: a node may be in a batch twice."""
    kept = of_nodes(transaction, sorted({report.node_id for report in batch}))
    concerned = [
        (report, scopes) for report in batch if (scopes := _scopes_to_look_at(report, kept.get(report.node_id, {})))
    ]
    if not concerned:
        return
    known = report_check.published_marks(transaction, set(_claims(concerned)))
    listings = report_check.listed_marks(transaction, {report.node_id for report, _ in concerned})
    steps, ask = list[_Change](), set[str]()
    for report, scopes in concerned:
        listed = listings.get(report.node_id, {})
        for scope in scopes:
            active = report.active.get(scope)
            if active is not None and known.get((report.node_id, scope, active)) != active:
                continue  # never published for it: node_api.py sounds the alarm
            before = kept[report.node_id].get(scope)
            after = follow(before, _statement(report, scope), listed.get(scope), transaction.now)
            if after != before:
                steps.append(_Change((report.node_id, scope), before, after))
                _keep(kept[report.node_id], scope, after)
                if _is_to_be_asked(after, listed.get(scope)):
                    ask.add(report.node_id)
    _write_all(transaction, steps)
    _ask_for_heads(transaction, sorted(ask))


def settle(transaction: Transaction, outcomes: Sequence[RefusalOutcome]) -> None:
    """A refusal of another content that was reported meanwhile stays as it is."""
    found = of_nodes(transaction, sorted({outcome.node_id for outcome in outcomes}))
    steps = []
    for outcome in outcomes:
        before = found[outcome.node_id].get(outcome.scope)
        if before is not None and before.refused.content_hash == outcome.refused_hash:
            steps.append(_Change((outcome.node_id, outcome.scope), before, outcome.after))
    _write_all(transaction, steps)


_FORGET = delete(schema.standing_refusals).where(schema.standing_refusals.c.node_id == bindparam("gone"))


def forget(transaction: Transaction, rows: Sequence[Mapping[str, object]]) -> None:
    """`rows`: each names one that is `gone`."""
    transaction.run_many(_FORGET, rows)


# ---- what a report says


def _scopes_to_look_at(each: ReceivedHeartbeat, kept: Mapping[str, KeptRefusal]) -> list[str]:
    """The scopes of which it may say something new: nearly always none."""
    if not each.refused and not kept:
        return []
    return sorted((each.refused.keys() | kept.keys()) - NOT_OURS)


def _claims(concerned: Sequence[tuple[ReceivedHeartbeat, Sequence[str]]]) -> Iterator[report_check.Claim]:
    for report, scopes in concerned:
        for scope in scopes:
            if scope in report.active:
                yield report.node_id, scope, report.active[scope]


def _statement(each: ReceivedHeartbeat, scope: str) -> Said:
    return Said(each.active.get(scope), each.refused.get(scope), _detail(each, scope))


def _detail(each: ReceivedHeartbeat, scope: str) -> str:
    """In words, from the last event of the journal that tells of it."""
    for _, text in reversed(each.journal):
        event = json.loads(text)  # our own writing
        if event.get("event") == "rejected" and event.get("scope") == scope:
            words = str(event.get("detail", ""))
            return bound_text(words.partition("; ")[2] or words)
    return ""


# ---- the table


class _Change(NamedTuple):
    line: Line
    before: KeptRefusal | None
    after: KeptRefusal | None


def _write_all(transaction: Transaction, steps: Sequence[_Change]) -> None:
    """In the order of the key; of one line in the order in which they came."""
    for line, before, after in sorted(steps, key=itemgetter(0)):
        _write(transaction, line, before, after)


def _write(transaction: Transaction, line: Line, before: KeptRefusal | None, after: KeptRefusal | None) -> None:
    table = schema.standing_refusals
    mine = (table.c.node_id == line[0]) & (table.c.scope == line[1])
    if after is None:
        transaction.run(delete(table).where(mine))
    elif before is None:
        transaction.run(insert(table).values(node_id=line[0], scope=line[1], **_columns(after)))
    else:
        transaction.run(update(table).where(mine).values(_columns(after)))
    if _content(before) != _content(after):
        _note(transaction, line, before, after)


def _content(refusal: KeptRefusal | None) -> str:
    return "" if refusal is None else refusal.refused.content_hash


def _note(transaction: Transaction, line: Line, before: KeptRefusal | None, after: KeptRefusal | None) -> None:
    """The end of one content's refusal, and the beginning of another's."""
    if before is not None:
        _audit(transaction, ENDED, line, _answer(before), None)
    if after is not None:
        _audit(transaction, BEGUN, line, None, _answer(after))


def _audit(transaction: Transaction, action: str, line: Line, before: object, after: object) -> None:
    table, subject = schema.audit, bound_text(" ".join(line))
    lately = (table.c.action == action) & (table.c.at > transaction.now - NOTED_IN_S) & (table.c.subject == subject)
    if transaction.number(select(func.count()).where(lately)) < MOST_NOTED:
        transaction.audit(action, subject, before, after)


def _answer(refusal: KeptRefusal) -> dict[str, object]:
    running = None if refusal.running is None else list(refusal.running.pair)
    about = {"version": list(refusal.refused.pair), "content_hash": refusal.refused.content_hash}
    return {**about, "reason": refusal.reason, "step": refusal.step, "detail": refusal.detail, "running": running}


def _is_to_be_asked(after: KeptRefusal | None, listed: ReportedMark | None) -> bool:
    """Once it has what was renewed for it, what is declared is to be offered again."""
    return after is not None and listed is not None and after.running == listed


def _ask_for_heads(transaction: Transaction, node_ids: Sequence[str]) -> None:
    """At the next look (publisher.py)."""
    heads = schema.heads
    mine = (heads.c.node_id == bindparam("node")) & (heads.c.refresh_after > int(transaction.now))
    at_once = update(heads).where(mine).values(refresh_after=int(transaction.now))
    transaction.run(at_once, [{"node": node_id} for node_id in node_ids])


def _keep(kept: dict[str, KeptRefusal], scope: str, after: KeptRefusal | None) -> None:
    if after is None:
        kept.pop(scope, None)
    else:
        kept[scope] = after


def _columns(refusal: KeptRefusal) -> dict[str, object]:
    refused, running = refusal.refused, refusal.running
    return {
        "refused_epoch": refused.authority_epoch,
        "refused_version": refused.config_version,
        "refused_hash": refused.content_hash,
        "since": refusal.since,
        "reason": refusal.reason,
        "step": refusal.step,
        "detail": refusal.detail,
        "running_epoch": running.authority_epoch if running else None,
        "running_version": running.config_version if running else None,
        "running_hash": running.content_hash if running else None,
        "renewed_at": refusal.renewed_at,
        "withheld": refusal.withheld,
    }


def _refusal(row: "Row[Any]") -> KeptRefusal:
    running = None
    if row.running_hash is not None:
        running = ReportedMark(row.running_epoch, row.running_version, row.running_hash)
    refused = ReportedMark(row.refused_epoch, row.refused_version, row.refused_hash)
    said = (row.since, row.reason, row.step, row.detail)
    return KeptRefusal(refused, *said, running, row.renewed_at, row.withheld)
