"""The fleet in numbers, for metrics: how many nodes are how, how far behind, and what of the heads ends first.

    figures(database, now, settings)    from one consistent read
    Lately                              the same, as it was not long ago: a scrape costs nothing

What every report says is read for it, seconds of work for ten thousand nodes: so it is done beside the event loop, only
while somebody scrapes, and at most a twentieth of the time. Labels are the words of the protocol; of agents' versions,
which nodes choose, the most frequent are named.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import trio
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.base.threads import in_planner
from coordinator.database import schema
from coordinator.database.database import Database, Transaction
from coordinator.database.database_fault import line_of
from coordinator.fleet import fleet
from coordinator.fleet.fleet import FleetMember
from coordinator.fleet.member_report import MemberReport, read_reports
from coordinator.runtime.context import Coordinator
from wire.logs import log

KEPT_S = 15.0
SHARE = 20  # so many times as long as it took, nothing is read
FIRST_S = 5.0  # a scrape has ten seconds, as it is usually set
MOST_WORDS = 20
OTHERS = "other"
_CHUNK = 500  # members looked at in one statement


@dataclass(frozen=True)
class FleetFigures:
    """Members that are not revoked, but for `states`. Heads' times are Unix seconds; None where none is out."""

    kinds: Mapping[str, int]
    states: Mapping[str, int]
    modes: Mapping[str, int]
    grades: Mapping[str, int]
    agents: Mapping[str, int]
    stragglers: Mapping[str, int]  # by why: unseen, silent, node_behind, late
    behind: Mapping[str, int]  # scope type -> nodes that do not have active what is published
    lag_versions: Mapping[str, float]
    versions: Mapping[str, int]  # by whom they came, as nodes say it -> versions that are active
    relays: int  # nodes that are the relay of their site
    baseline_shortfall: int
    joins_refused: Mapping[str, int]  # by code, ever
    roots_unconfirmed: int  # nodes that trust root keys on first use
    draining: int
    oldest_head_refresh_after: int | None
    first_head_expires_at: int | None


@dataclass
class _Counted:
    kinds: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    grades: Counter[str] = field(default_factory=Counter)
    agents: Counter[str] = field(default_factory=Counter)
    stragglers: Counter[str] = field(default_factory=Counter)
    behind: Counter[str] = field(default_factory=Counter)
    lags: list[int] = field(default_factory=list)
    versions: Counter[str] = field(default_factory=Counter)
    relays: int = 0
    roots_unconfirmed: int = 0
    draining: int = 0

    def add(self, member: FleetMember, report: MemberReport | None, now: float, settings: CoordinatorSettings) -> None:
        self.states[fleet.state_of(member, report, now, settings)] += 1
        if member.revoked:
            return
        self.kinds[member.kind] += 1
        self.draining += member.draining
        late = fleet.straggler_of(member, report, now, settings)
        if late is not None:
            self.stragglers[late.reason.partition(":")[0]] += 1
        if report is not None:
            self._add_report(member, report)

    def _add_report(self, member: FleetMember, report: MemberReport) -> None:
        self.modes[report.mode] += 1
        self.grades[report.head_grade] += 1
        self.agents[report.agent_version] += 1
        self.roots_unconfirmed += not report.roots_confirmed
        late = (scope for scope, pair in member.published.items() if report.active.get(scope, (0, 0)) < pair)
        self.behind.update({scope.partition("/")[0] for scope in late})
        self.lags += fleet.lags([member], {member.node_id: report})
        for giver, count in report.came_from.items():
            self.versions[giver.way] += count
        self.relays += report.relay is not None and report.relay.is_relay


def figures(database: Database, *, now: float, settings: CoordinatorSettings) -> FleetFigures:
    """The fleet counted for metrics, a chunk of members at a time."""
    counted = _Counted()
    with database.read() as transaction:
        ids = sorted(row[0] for row in transaction.rows(select(schema.nodes.c.node_id)))
        for start in range(0, len(ids), _CHUNK):
            _count(transaction, ids[start : start + _CHUNK], counted, now, settings)
        refresh_after, expires_at = _heads(transaction)
        refused = fleet.join_rejections(transaction, 0.0)
    return FleetFigures(
        kinds=counted.kinds,
        states=counted.states,
        modes=counted.modes,
        grades=counted.grades,
        agents=_most_frequent(counted.agents),
        stragglers=counted.stragglers,
        behind=counted.behind,
        lag_versions=fleet.quantiles(counted.lags),
        versions=counted.versions,
        relays=counted.relays,
        baseline_shortfall=max(0, settings.baseline_data_members - counted.kinds["data"]),
        joins_refused=_most_frequent(refused),
        roots_unconfirmed=counted.roots_unconfirmed,
        draining=counted.draining,
        oldest_head_refresh_after=refresh_after,
        first_head_expires_at=expires_at,
    )


def _count(
    transaction: Transaction, ids: Sequence[str], counted: _Counted, now: float, settings: CoordinatorSettings
) -> None:
    heard = {report.node_id: report for report in read_reports(transaction, ids)}
    for member in fleet.members(transaction, ids):
        counted.add(member, heard.get(member.node_id), now, settings)


def _heads(transaction: Transaction) -> tuple[int | None, int | None]:
    """When the one that is longest overdue was to be renewed, and when the first expires; of members."""
    heads, nodes = schema.heads, schema.nodes
    joined = heads.join(nodes, heads.c.node_id == nodes.c.node_id)
    refreshed, expires = (
        func.min(heads.c.refresh_after).label("refreshed"),
        func.min(heads.c.expires_at).label("expires"),
    )
    row = transaction.row(select(refreshed, expires).select_from(joined).where(nodes.c.revoked_at.is_(None)))
    return (None, None) if row is None else (row.refreshed, row.expires)


def _most_frequent(counted: Mapping[str, int]) -> dict[str, int]:
    """The most frequent, and all others together."""
    ordered = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
    others = sum(times for _, times in ordered[MOST_WORDS:])
    return dict(ordered[:MOST_WORDS]) | ({OTHERS: others} if others else {})


@dataclass
class Lately:
    """`run` reads, `look` asks for it. What was read last stands while the database does not answer."""

    coordinator: Coordinator
    _kept: FleetFigures | None = None
    _wanted: trio.Event = field(default_factory=trio.Event)
    _known: trio.Event = field(default_factory=trio.Event)

    async def look(self) -> FleetFigures | None:
        """None where nothing is known yet: the first scrape waits for it, and not for long."""
        self._wanted.set()
        with trio.move_on_after(FIRST_S):
            await self._known.wait()
        return self._kept

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            begun = trio.current_time()
            await self._read()
            await trio.sleep(max(KEPT_S, SHARE * (trio.current_time() - begun)))

    async def _read(self) -> None:
        at = self.coordinator
        try:
            self._kept = await in_planner(figures, at.database, now=at.now(), settings=at.settings)
            self._known.set()
        except (SQLAlchemyError, Refused) as error:
            detail = line_of(error) if isinstance(error, SQLAlchemyError) else str(error)
            log.warning("the fleet was not counted", reason=detail)
