"""Changes as an operator looks at them: what they change, how far each is, who said no and why, what became of it.

    summaries   many, in short, the newest first; `open_summaries` those that are not over
    news        one, with what there is to watch; `mark` stands for all of it and is cheap to ask for
    detail      one in whole, with its timeline
    diff        what it changes, as its plan was shown

While a change is open it is counted from the rows of its nodes; once it is settled, from what was kept of them. Who is
offline is judged here by when it was last seen, for people; what a rollout waits for, the rollout judges by itself.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import JSON, cast, func, select

from coordinator.base.refusal import Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.changes import records
from coordinator.changes.ends import outcome_of, refusals_of, steps_of
from coordinator.changes.groups import ChangeGroup, NodeRefusal
from coordinator.changes.records import ChangedResource, ChangeNode, ChangeRecord, change_name
from coordinator.changes.states import SETTLED, ChangeState, Outcome
from coordinator.database import schema
from coordinator.database.database import Database, Transaction
from coordinator.declared import kinds
from coordinator.declared.plans import ResourceChange, differences
from coordinator.fleet.fleet import quantiles
from coordinator.publishing import declarations, published_state
from coordinator.rollout import approvals
from wire.operators.change_answers import (
    ChangeCounts,
    ChangeCourse,
    ChangeDetail,
    ChangeDiff,
    ChangeList,
    ChangeMoment,
    ChangeNews,
    ChangeRefusal,
    ChangeSummary,
)
from wire.operators.operator_answers import DifferentValue, PlannedChange

MOST_NAMED = 50
TOOK = ("p50", "p99")
OFFLINE_AFTER = 3  # of its intervals
LEAST_OFFLINE_S = 120.0  # heads that are asked for are written down once a minute


def summaries(
    database: Database, states: Collection[ChangeState], *, most: int, now: float, settings: CoordinatorSettings
) -> ChangeList:
    with database.read() as transaction:
        found = records.list_changes(transaction, states, most=most)
        return ChangeList(tuple(summary(transaction, record, now, settings) for record in found))


def open_summaries(database: Database, *, now: float, settings: CoordinatorSettings) -> tuple[ChangeSummary, ...]:
    """Of those that are not over, the newest first."""
    with database.read() as transaction:
        found = records.open_changes(transaction)
        return tuple(summary(transaction, record, now, settings) for record in reversed(found))


def summary(transaction: Transaction, record: ChangeRecord, now: float, settings: CoordinatorSettings) -> ChangeSummary:
    return _summary(transaction, record, _nodes(transaction, record, now, settings))


def news(database: Database, change_id: int, *, now: float, settings: CoordinatorSettings) -> ChangeNews:
    with database.read() as transaction:
        return _news(transaction, records.get(transaction, change_id), now, settings)


def detail(database: Database, change_id: int, *, now: float, settings: CoordinatorSettings) -> ChangeDetail:
    with database.read() as transaction:
        record = records.get(transaction, change_id)
        events = records.events_of(transaction, change_id)
        return ChangeDetail(
            **vars(_news(transaction, record, now, settings)),
            timeline=tuple(ChangeMoment(event.at, event.what, event.node_id, event.detail) for event in events),
            approved_by=tuple(approvals.list_approvals(transaction, change_id)),
        )


def mark(database: Database, change_id: int) -> str:
    """Another one whenever a decision was made, or a node has said something that it had not. `not_found`, too."""
    with database.read() as transaction:
        return _mark(transaction, records.get(transaction, change_id))


def diff(database: Database, change_id: int) -> ChangeDiff:
    with database.read() as transaction:
        record = records.get(transaction, change_id)
        read = _lenient(published_state.reader(transaction))
        made = [_resource_change(changed) for changed in records.plan_of(transaction, change_id)]
        lines = tuple(line for change in made for line in declarations.change_lines(change, read))
    return ChangeDiff(record.name, record.plan_hash, tuple(map(planned_change, made)), lines)


def planned_change(change: ResourceChange) -> PlannedChange:
    kind, id_ = change.key
    found = tuple(DifferentValue(*difference) for difference in differences(*change.specs))
    return PlannedChange(verb=change.verb, kind=kind, id=id_, differences=found)


def _lenient(read: Callable[[str], bytes]) -> Callable[[str], bytes]:
    """What files held is not kept for ever: they are told by their hashes then."""

    def read_kept(sha256: str) -> bytes:
        try:
            return read(sha256)
        except Refused:
            raise KeyError(sha256) from None

    return read_kept


def _resource_change(changed: ChangedResource) -> ResourceChange:
    before, after = (
        None if spec is None else kinds.restore(changed.kind, changed.id, spec)
        for spec in (changed.before, changed.after)
    )
    return ResourceChange(before, after)


# ---- how far it is


def _news(transaction: Transaction, record: ChangeRecord, now: float, settings: CoordinatorSettings) -> ChangeNews:
    nodes = _nodes(transaction, record, now, settings)
    refusals, total = _refusals(record, nodes.rows)
    return ChangeNews(
        **vars(_summary(transaction, record, nodes)),
        mark=_mark(transaction, record),
        refusals=tuple(ChangeRefusal(**vars(refusal)) for refusal in refusals[:MOST_NAMED]),
        refusals_total=total,
        offline=tuple(sorted(nodes.offline)[:MOST_NAMED]),
        took=_took(record, () if _is_closed(record, nodes.rows) else nodes.rows),
    )


def _refusals(record: ChangeRecord, nodes: Sequence[ChangeNode]) -> tuple[list[NodeRefusal], int]:
    """The first of them, and how many there are."""
    if _is_closed(record, nodes):
        kept = [refusal for group in record.groups for refusal in group.refusals]
        return kept, sum(group.refusals_total for group in record.groups)
    found = [refusal for node in nodes for refusal in refusals_of(node)]
    return found, len(found)


def _is_closed(record: ChangeRecord, nodes: Sequence[ChangeNode]) -> bool:
    """Whether its rows are gone, or go with another change."""
    return not nodes or (record.superseded_by is not None and any(group.counts for group in record.groups))


def _summary(transaction: Transaction, record: ChangeRecord, nodes: "_Nodes") -> ChangeSummary:
    wanted = approvals.needed_count(record)
    return ChangeSummary(
        change=record.name,
        at=record.at,
        actor=record.actor,
        message=record.message,
        state=str(record.state),
        why=record.why,
        plan_hash=record.plan_hash,
        resources=_resource_count(transaction, record.change_id),
        counts=_kept_counts(record) if _is_closed(record, nodes.rows) else counts(nodes.rows, nodes.offline),
        courses=tuple(map(_course, record.groups)),
        immediately=record.immediately,
        allowed=record.allowed,
        reverts=_name(record.reverts),
        waits_for=_name(record.waits_for),
        superseded_by=_name(record.superseded_by),
        settled_at=record.settled_at,
        approvals=approvals.count(transaction, record.change_id) if wanted else 0,
        approvals_needed=wanted,
        revision=record.revision,
    )


def _name(change_id: int | None) -> str | None:
    return None if change_id is None else change_name(change_id)


def _resource_count(transaction: Transaction, change_id: int) -> int:
    """Without reading the plan, which may be long."""
    table = schema.changes
    is_sqlite = transaction.connection.dialect.name == "sqlite"
    length = func.json_array_length(table.c.plan if is_sqlite else cast(table.c.plan, JSON))
    return transaction.number(select(length).where(table.c.change_id == change_id))


def _course(group: ChangeGroup) -> ChangeCourse:
    rollout = group.rollout
    return ChangeCourse(
        policy=group.policy,
        phase=str(group.phase),
        ring=group.ring,
        rings=len(rollout.rings),
        since=group.since,
        prepare=rollout.prepare,
        bake_s=rollout.bake_s,
        success_percent=rollout.success_percent,
        on_failure=rollout.on_failure,
        approvals=rollout.approvals,
    )


# ---- its nodes


@dataclass(frozen=True)
class _Nodes:
    """`offline`: those that are neither done with it nor heard of."""

    rows: Sequence[ChangeNode]
    offline: frozenset[str]


def _nodes(transaction: Transaction, record: ChangeRecord, now: float, settings: CoordinatorSettings) -> _Nodes:
    """Who is seen matters only while somebody is waited for."""
    rows = records.nodes_of(transaction, record.change_id)
    left = [] if record.state in SETTLED else [node.node_id for node in rows if node.active_at is None]
    if not left:
        return _Nodes(rows, frozenset())
    since = now - max(OFFLINE_AFTER * settings.heartbeat_interval_s, LEAST_OFFLINE_S)
    return _Nodes(rows, frozenset(left) - _seen_nodes(transaction, since))


def _seen_nodes(transaction: Transaction, since: float) -> set[str]:
    """Nodes that have reported, or asked for a head. Who waits for a change asks again and again."""
    tables = (schema.node_status, schema.head_requests)
    chosen = (select(table.c.node_id).where(table.c.last_seen >= since) for table in tables)
    return {row.node_id for statement in chosen for row in transaction.rows(statement)}


def counts(nodes: Sequence[ChangeNode], offline: Collection[str] = ()) -> ChangeCounts:
    """Each node in as many of them as are true of it."""
    outcomes = Counter(map(outcome_of, nodes))
    return ChangeCounts(
        touched=len(nodes),
        offline=len(offline),
        **steps_of(nodes),
        **_counts_of(outcomes),
    )


def _kept_counts(record: ChangeRecord) -> ChangeCounts:
    """Of a change that is over. Whom it was done without, and nothing was heard of, was offline."""
    outcomes = Counter[Outcome]()
    for group in record.groups:
        outcomes.update({Outcome(name): count for name, count in group.counts.items()})
    found = _counts_of(outcomes)
    offline = outcomes[Outcome.NONE] if record.state is ChangeState.DONE else 0
    steps = Counter[str]()
    for group in record.groups:
        steps.update(group.steps)
    return ChangeCounts(touched=outcomes.total(), offline=offline, **steps, **found)


def _counts_of(outcomes: Mapping[Outcome, int]) -> dict[str, int]:
    return {
        "refused": outcomes.get(Outcome.REFUSED, 0),
        "silent": outcomes.get(Outcome.SILENT, 0),
        "active": outcomes.get(Outcome.ACTIVE, 0) + outcomes.get(Outcome.GOOD, 0),
        "good": outcomes.get(Outcome.GOOD, 0),
        "reverted": outcomes.get(Outcome.REVERTED, 0),
    }


def _took(record: ChangeRecord, nodes: Sequence[ChangeNode]) -> Mapping[str, float]:
    """Seconds from the apply until nodes ran it; of several policies what took longer."""
    found = quantiles([node.active_at - record.at for node in nodes if node.active_at is not None])
    kept = [group.took for group in record.groups if group.took]
    found = found or {name: max(group_took.get(name, 0.0) for group_took in kept) for name in TOOK if kept}
    return {name: found[name] for name in TOOK if name in found}


def _mark(transaction: Transaction, record: ChangeRecord) -> str:
    """Counted by the database: who waits asks for it twice a second."""
    table = schema.change_nodes
    told = func.sum(func.length(table.c.votes)).label("told")
    chosen = select(table.c.step, table.c.outcome, func.count().label("nodes"), told)
    mine = chosen.where(table.c.change_id == record.change_id).group_by(table.c.step, table.c.outcome)
    rows = sorted((row.step, row.outcome, row.nodes, row.told) for row in transaction.rows(mine))
    return f"{record.revision}-{hashlib.sha256(repr(rows).encode()).hexdigest()[:16]}"
