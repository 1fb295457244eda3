"""Members that nobody has seen for a whole window are removed, with a tombstone (rules K23, X22, X29, P19; seed 002).

    plan        who is due, who will be within a week, and what stands in the way
    trim        the coordinator's own: at most a tenth of the fleet in a window, and nobody where more are due
    trim_these  an operator's word: those that were shown, as far as they are due still

A node that was put away keeps a key by which it would be given everything again, and nobody watches it. So whoever has
not been seen for `trim_window_s` leaves, as by `nodes remove`. Seen is a head request as well as a report, so a node
that only asks stays (P19). Counted is from the last of three: when it was seen, when it joined, and since when some
coordinator has been ready for nodes without a gap (database/readiness.py): a coordinator that was away, and a database
that was restored, have seen nobody, and trim nobody.

A silence of many is more likely one cable than so many nodes that were put away. So where more than a tenth are due, of
those that were members in this window, nobody goes by itself, not even the first tenth: which of them would it be? An
operator looks, and says so. That is also why the tenth is of a window, and not of an hour: else the whole fleet would
go in a day.

Rejected:

- No trimming unless somebody asks: then nobody asks, and the catalog fills with keys. `trim_members = false` says so.
- A mark first and the removal later: the week in which `fleet`, `due` and the log name the node is that time.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import func, or_, select

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import DAY, CoordinatorSettings
from coordinator.database import cluster_state, readiness, schema
from coordinator.database.database import Database, Transaction
from coordinator.membership import moving, revocation
from snapshot.identifiers import format_time
from wire.operators.fleet_answers import TrimPlan, UnseenMember

WARN_S = 7 * DAY
SHARE = 10  # of the fleet, in one window, without an operator
ACTION = "trim.member"
ACTOR = "coordinator"
LET_IT = "holdfastctl nodes trim --all-due"


@dataclass(frozen=True)
class QuietMember:
    """`last_sign`: the last that is known of it, at the least its join. Unix seconds."""

    node_id: str
    first_seen: float
    last_seen: float | None

    @property
    def last_sign(self) -> float:
        return max(self.first_seen, self.last_seen or 0.0)


def decide(
    quiet: Sequence[QuietMember],
    members: int,
    trimmed: int,
    *,
    ready_since: float | None,
    now: float,
    settings: CoordinatorSettings,
    move: str = "",
) -> TrimPlan:
    """Pure. `quiet`: at least all that are due within a week; `members`: of all that there are now; `trimmed`: of those
    that were there in this window, without an operator. `move`: why nobody may go at all, or nothing (moving.py).
    """
    window_s = settings.trim_window_s
    begin = now if ready_since is None else ready_since
    ends = sorted((max(member.last_sign, begin) + window_s, member.node_id, member) for member in quiet)
    unseen = [(end, UnseenMember(node_id, member.last_seen, end)) for end, node_id, member in ends]
    due = tuple(member for end, member in unseen if end <= now)
    soon = tuple(member for end, member in unseen if now < end <= now + WARN_S)
    allowance = max(0, max(1, (members + trimmed) // SHARE) - trimmed)
    return TrimPlan(
        window_s=window_s,
        ready_since=ready_since,
        due=due,
        soon=soon,
        allowance=allowance,
        held_back=move or _hindrance(len(due), allowance, settings),
    )


def _hindrance(due: int, allowance: int, settings: CoordinatorSettings) -> str:
    if not settings.trim_members:
        return "trim_members is false: nobody is removed by itself"
    if due > allowance:
        return f"{due} are due, and {allowance} may go without an operator: {LET_IT}"
    return ""


def plan(database: Database, *, now: float, settings: CoordinatorSettings) -> TrimPlan:
    with database.read() as transaction:
        return plan_in(transaction, now, settings)


def plan_in(transaction: Transaction, now: float, settings: CoordinatorSettings) -> TrimPlan:
    nodes, audit = schema.nodes, schema.audit
    members = transaction.number(select(func.count()).select_from(nodes).where(nodes.c.revoked_at.is_(None)))
    by_itself = (audit.c.action == ACTION) & (audit.c.actor == ACTOR) & (audit.c.at > now - settings.trim_window_s)
    return decide(
        list(_quiet_since(transaction, now + WARN_S - settings.trim_window_s)),
        members,
        transaction.number(select(func.count()).select_from(audit).where(by_itself)),
        ready_since=readiness.since(transaction, now),
        now=now,
        settings=settings,
        move=moving.hindrance(transaction),
    )


def trim(database: Database, *, now: float, settings: CoordinatorSettings) -> tuple[str, ...]:
    """Whom the coordinator itself has removed."""
    planned = plan(database, now=now, settings=settings)
    if not planned.due or planned.held_back:
        return ()
    with database.change(actor=ACTOR, now=now) as transaction:
        cluster_state.sound(transaction)
        planned = plan_in(transaction, now, settings)
        return _take_out(transaction, () if planned.held_back else planned.due)


def trim_these(
    database: Database, node_ids: Collection[str], *, actor: str, now: float, settings: CoordinatorSettings
) -> tuple[str, ...]:
    """Of those that were shown to an operator, who is due still."""
    with database.change(actor=actor, now=now) as transaction:
        cluster_state.sound(transaction)
        if fault := moving.hindrance(transaction):
            raise Refused(Code.CONTRADICTION, fault, remedy="nodes remove takes single ones out")
        due = [member for member in plan_in(transaction, now, settings).due if member.node_id in node_ids]
        if not due:
            raise Refused(Code.CONTRADICTION, "none of them is due", remedy="holdfastctl nodes trim --dry-run")
        return _take_out(transaction, due)


def _take_out(transaction: Transaction, due: Sequence[UnseenMember]) -> tuple[str, ...]:
    gone = tuple(member.node_id for member in due)
    acts = [(ACTION, member.node_id, {"last_seen": member.last_seen}, {"reason": _words(member)}) for member in due]
    transaction.audit_all(acts or [("trim.members", "fleet", None, None)], "done" if acts else "nothing")
    if due:
        revocation.take_out(transaction, {member.node_id: _words(member) for member in due})
    return gone


def _words(member: UnseenMember) -> str:
    return "never seen" if member.last_seen is None else f"not seen since {format_time(int(member.last_seen))}"


def _quiet_since(transaction: Transaction, limit: float) -> Iterator[QuietMember]:
    """Members that are not revoked, and of whom nothing was heard since then; a coordinator's own name is none."""
    nodes, reports, asked, own = schema.nodes, schema.node_status, schema.head_requests, schema.coordinators
    joined = nodes.outerjoin(reports, nodes.c.node_id == reports.c.node_id)
    joined = joined.outerjoin(asked, nodes.c.node_id == asked.c.node_id)
    times = reports.c.last_seen.label("reported"), asked.c.last_seen.label("asked")
    columns = nodes.c.node_id, nodes.c.first_seen, *times
    signs = nodes.c.first_seen, reports.c.last_seen, asked.c.last_seen
    is_quiet = [or_(column.is_(None), column <= limit) for column in signs]
    is_ours = select(own.c.coordinator_id).where(own.c.coordinator_id == nodes.c.node_id).exists()
    chosen = select(*columns).select_from(joined).where(nodes.c.revoked_at.is_(None), ~is_ours, *is_quiet)
    for row in transaction.rows(chosen):
        seen = [at for at in (row.reported, row.asked) if at is not None]
        yield QuietMember(row.node_id, row.first_seen, max(seen, default=None))
