"""The state of the fleet: counts, spread, lag and names, never one boolean (rules J28, K30; seed 002). Pure.

assess(members, published, reports, now, ...)   -> Fleet
observe(database, now)                          the same, from one consistent read
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import JSON, cast, func, select, type_coerce

from coordinator.base.settings import CoordinatorSettings
from coordinator.database import catalog, documents, schema
from coordinator.database.database import Database, Transaction
from coordinator.declared import views
from coordinator.declared.model import Model
from coordinator.declared.references import DEFAULT_SITE
from coordinator.fleet.lateness import NOTHING, LateScope, behind_since, lags_of
from coordinator.fleet.member_report import MemberReport, read_reports
from coordinator.fleet.provenance import NodeProvenance, overview
from coordinator.fleet.selection import Selection
from coordinator.reports import features, refusals
from coordinator.reports.checkin import Pair
from wire.operators.fleet_answers import Fleet, Straggler

UNSEEN = "unseen"
SILENT = "silent"  # no report for three of its intervals
SILENT_AFTER = 3  # of its intervals
REVOKED = "revoked"  # by us, whatever it says of itself
MOST_NAMED = 50


@dataclass(frozen=True)
class FleetMember:
    """What the catalog says of one member."""

    node_id: str
    kind: str
    revoked: bool = False
    draining: bool = False
    site_id: str = DEFAULT_SITE
    labels: Mapping[str, str] = field(default_factory=dict)  # as declared
    published: Mapping[str, Pair] = field(default_factory=dict)  # scope -> what its head announces
    held_back: Mapping[str, str] = field(default_factory=dict)  # scope -> why it is not given what it may hold


def assess(
    members: Sequence[FleetMember],
    reports: Mapping[str, MemberReport],
    rejected_joins: Mapping[str, int],
    *,
    now: float,
    settings: CoordinatorSettings,
    named: slice = slice(MOST_NAMED),
) -> Fleet:
    """Revoked members are counted as such and belong to nothing else. `named`: those of the stragglers."""
    living = [member for member in members if not member.revoked]
    data = sum(member.kind == "data" for member in living)
    found = [
        straggler for straggler in (straggler_of(m, reports.get(m.node_id), now, settings) for m in living) if straggler
    ]
    found.sort(key=_longest_unseen)
    states = Counter(state_of(m, reports.get(m.node_id), now, settings) for m in members)
    heard = [reports[member.node_id] for member in living if member.node_id in reports]
    unconfirmed = sorted(report.node_id for report in heard if not report.roots_confirmed)
    waiting = sorted(member.node_id for member in living if member.held_back)
    draining = sorted(member.node_id for member in living if member.draining)
    ways, relays = overview([_provenance(m, reports[m.node_id]) for m in living if m.node_id in reports])
    return Fleet(
        at=now,
        members=len(living),
        data_members=data,
        baseline_shortfall=shortfall(living, settings),
        states=dict(sorted(states.items())),
        grades=dict(sorted(Counter(report.head_grade for report in heard).items())),
        versions=_versions(heard),
        lag_versions=quantiles(lags(living, reports)),
        seconds_since_seen=quantiles([now - report.last_seen_at for report in heard]),
        stragglers=tuple(found[named]),
        stragglers_total=len(found),
        rejected_joins=dict(sorted(rejected_joins.items())),
        roots_unconfirmed=tuple(unconfirmed[:MOST_NAMED]),
        roots_unconfirmed_total=len(unconfirmed),
        held_back=tuple(waiting[:MOST_NAMED]),
        held_back_total=len(waiting),
        draining=tuple(draining[:MOST_NAMED]),
        draining_total=len(draining),
        came_from=ways,
        relays=relays[:MOST_NAMED],
        relays_total=len(relays),
    )


def _provenance(member: FleetMember, report: MemberReport) -> NodeProvenance:
    return NodeProvenance(member.node_id, member.site_id, report.came_from, report.relay)


def shortfall(members: Iterable[FleetMember], settings: CoordinatorSettings) -> int:
    """Data members that are missing in the cluster (rules J28), whatever part of it is looked at."""
    data = sum(member.kind == "data" and not member.revoked for member in members)
    return max(0, settings.baseline_data_members - data)


def quantiles(values: Iterable[float]) -> dict[str, float]:
    """p50, p90, p99 and max by the nearest rank; empty without values."""
    ordered = sorted(values)
    if not ordered:
        return {}
    ranks = {"p50": 50, "p90": 90, "p99": 99, "max": 100}
    return {name: ordered[max(0, -(-len(ordered) * percent // 100) - 1)] for name, percent in ranks.items()}


def observe(
    database: Database,
    *,
    now: float,
    settings: CoordinatorSettings,
    since: float = 0.0,
    which: Selection | None = None,
    named: slice = slice(MOST_NAMED),
) -> Fleet:
    """`since`: rejected joins from then on; `which`: the members that are looked at."""
    with database.read() as transaction:
        heard = {report.node_id: report for report in read_reports(transaction)}
        whole = members(transaction)
        chosen = [
            member
            for member in whole
            if which is None
            or which.takes(member.site_id, member.labels, state_of(member, heard.get(member.node_id), now, settings))
        ]
        found = assess(chosen, heard, join_rejections(transaction, since), now=now, settings=settings, named=named)
        ids = {member.node_id for member in chosen}
        standing = [refusal for refusal in refusals.fleet_refusals(transaction) if refusal.node_id in ids]
        missing = shortfall(whole, settings)
        named_first = tuple(standing[:MOST_NAMED])
        dated = _with_times(transaction, found, chosen, heard)
        return replace(
            found,
            baseline_shortfall=missing,
            refusals=named_first,
            refusals_total=len(standing),
            stragglers=dated,
        )


def _with_times(
    transaction: Transaction,
    found: Fleet,
    members: Iterable[FleetMember],
    heard: Mapping[str, MemberReport],
) -> tuple[Straggler, ...]:
    """How long each of those that are named is behind."""
    by_id = {member.node_id: member for member in members}
    held: dict[LateScope, Pair] = {}
    for node_id in (straggler.node_id for straggler in found.stragglers if straggler.node_id in heard):
        report = heard[node_id]
        for scope in late_scopes(by_id[node_id], report):
            held[node_id, scope] = report.active.get(scope, NOTHING)
    since: dict[str, float] = {}
    for (node_id, _), at in behind_since(transaction, held).items():
        since[node_id] = min(at, since.get(node_id, at))
    return tuple(
        replace(straggler, behind_s=max(0.0, found.at - since[straggler.node_id]))
        if straggler.node_id in since
        else straggler
        for straggler in found.stragglers
    )


def _longest_unseen(each: Straggler) -> tuple[float, str]:
    since = float("inf") if each.seconds_since_seen is None else each.seconds_since_seen
    return -since, each.node_id


def state_of(member: FleetMember, report: MemberReport | None, now: float, settings: CoordinatorSettings) -> str:
    if member.revoked:
        return REVOKED
    if report is None:
        return UNSEEN
    return SILENT if _is_silent(report, now, settings) else report.state


def _is_silent(report: MemberReport, now: float, settings: CoordinatorSettings) -> bool:
    """By the node's own interval, which its agent.toml sets."""
    return now - report.reported_at > SILENT_AFTER * (report.interval_s or settings.heartbeat_interval_s)


def straggler_of(
    member: FleetMember, report: MemberReport | None, now: float, settings: CoordinatorSettings
) -> Straggler | None:
    if report is None:
        return Straggler(member.node_id, UNSEEN, None)
    since = now - report.last_seen_at
    late = late_scopes(member, report)
    behind = max(lags_of(member.published, report.active).values(), default=0)
    if _is_silent(report, now, settings):
        return Straggler(member.node_id, SILENT, since, behind)
    if report.behind:
        return Straggler(member.node_id, "node_behind", since, behind)
    return Straggler(member.node_id, f"late: {_why(late, member, report)}", since, behind) if late else None


def late_scopes(member: FleetMember, report: MemberReport) -> list[str]:
    return sorted(scope for scope, pair in member.published.items() if report.active.get(scope, NOTHING) < pair)


def _why(late: Sequence[str], member: FleetMember, report: MemberReport) -> str:
    """The first scope whose published version the node has refused, with its reason; else the first, and whether the
    node's disk is to blame.
    """
    for scope in late:
        version, reason = report.refused.get(scope, (0, ""))
        if version == member.published[scope][1]:
            return f"{scope}, {reason}"
    return f"{late[0]}, {report.store_fault}" if report.store_fault else late[0]


def lags(members: Iterable[FleetMember], reports: Mapping[str, MemberReport]) -> list[int]:
    """How many versions each scope of each reporting node is behind; another epoch counts as all of them."""
    found: list[int] = []
    for member in members:
        report = reports.get(member.node_id)
        found += lags_of(member.published, report.active).values() if report else ()
    return found


def _versions(reports: Iterable[MemberReport]) -> dict[str, dict[str, int]]:
    spread: dict[str, Counter[str]] = {}
    for report in reports:
        for scope, (epoch, version) in report.active.items():
            spread.setdefault(scope, Counter())[f"{epoch}.{version}"] += 1
    return {scope: dict(sorted(spread[scope].items())) for scope in sorted(spread)}


def members(transaction: Transaction, node_ids: Sequence[str] | None = None) -> list[FleetMember]:
    """All, or some."""
    nodes, status, model = schema.nodes, schema.node_status, catalog.load(transaction)
    joined = nodes.outerjoin(status, nodes.c.node_id == status.c.node_id)
    columns = select(
        nodes.c.node_id, nodes.c.kind, nodes.c.site_id, nodes.c.revoked_at, nodes.c.draining_since, status.c.features
    )
    columns = columns.select_from(joined)
    announced = {
        node_id: {scope: entry.pair for scope, entry in listed.items()}
        for node_id, listed in documents.listings(transaction, node_ids).items()
    }
    return [
        FleetMember(
            node_id=row.node_id,
            kind=row.kind,
            revoked=row.revoked_at is not None,
            draining=row.draining_since is not None,
            site_id=row.site_id,
            labels=model.declaration(row.node_id).labels,
            published=announced.get(row.node_id, {}),
            held_back=_waiting_scopes(model, row.node_id, features.parse(row.features)),
        )
        for row in transaction.rows(columns if node_ids is None else columns.where(nodes.c.node_id.in_(node_ids)))
    ]


def _waiting_scopes(model: Model, node_id: str, reads: frozenset[str] | None) -> dict[str, str]:
    """Of nearly all nodes nothing, and then their scopes need not be found."""
    subject = model.subjects.get(node_id)
    if subject is None or not features.missing(reads):
        return {}
    found = features.unreadable_scopes(views.scopes(model, subject), reads)
    return {scope.name: feature.words for scope, feature in found.items()}


def join_rejections(transaction: Transaction, since: float) -> dict[str, int]:
    table = schema.audit
    refused = (table.c.action == "join") & (table.c.outcome != "done") & (table.c.at >= since)
    is_sqlite = transaction.connection.dialect.name == "sqlite"
    after = type_coerce(table.c.after, JSON) if is_sqlite else cast(table.c.after, JSON)
    times = func.sum(func.coalesce(after["count"].as_integer(), 1))  # a sum of strangers, or one (refused_joins.py)
    counted = select(table.c.outcome, times.label("times")).where(refused).group_by(table.c.outcome)
    return {row.outcome: row.times for row in transaction.rows(counted)}
