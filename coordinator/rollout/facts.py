"""How far the nodes of a change are, as the database has it and one who watches it: what decide() is given.

    facts.read(transaction, record)    -> the change as progress.py knows it, and each of its nodes
    facts.read_words(transaction, id)  what takes long of that, ahead of it

Whoever is no member any more, or was revoked, is none of its nodes. Nor is who is draining: it has no part in votes and
rings, and is given the change once that is over (rules J30). A node is reachable that was heard of within three of its
own intervals. What reports say beside their columns is read once a minute: it is long, and changes seldom.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.engine import Row

from coordinator.base.settings import CoordinatorSettings
from coordinator.changes import records, votes
from coordinator.changes.groups import ChangeGroup
from coordinator.changes.order import is_behind
from coordinator.changes.progress import ChangeProgress, NodeProgress
from coordinator.changes.records import ChangeNode, ChangeRecord
from coordinator.changes.states import Outcome, Presence, Step, Verdict
from coordinator.database import catalog, schema
from coordinator.database.database import Transaction, is_in
from coordinator.database.documents import chunks
from coordinator.declared.model import selects
from coordinator.rollout.watch import AgeWatch

CAN_VOTE = "candidates"  # a feature of agents
HEARD_WITHIN = 3  # of a node's intervals
READ_AGAIN_S = 60.0


@dataclass(frozen=True)
class AgentWords:
    """What an agent says of itself. `validated`: scopes that a validator of its services sees; `proves`: it watches
    what it has activated, and says when that has proved itself.
    """

    read_at: float
    interval_s: float
    can_vote: bool
    validated: frozenset[str]
    proves: bool


class MemberLine(NamedTuple):
    """What the database has of a member. `published`: the generation of the head that is out; `last_seen`: None of one
    that has never been heard of; `is_well`: it is active, with a fresh head.
    """

    generation: int
    published: int
    candidates: str
    last_seen: float | None
    is_well: bool


@dataclass(frozen=True)
class RolloutFacts:
    """`elapsed` reads the clock that only runs."""

    settings: CoordinatorSettings
    watch: AgeWatch
    elapsed: Callable[[], float]
    told: dict[str, AgentWords] = field(default_factory=dict)

    def read(
        self,
        transaction: Transaction,
        record: ChangeRecord,
        nodes: Sequence[ChangeNode],
        before: Set[int],
        *,
        is_waiting: bool,
    ) -> tuple[ChangeProgress, list[NodeProgress]]:
        """`before`: the changes that go first where they meet it (order.py)."""
        rows = {node.node_id: node for node in nodes}
        self._read_told(transaction, sorted(rows))
        cohorts = _cohorts(transaction, record.groups, nodes)
        members = _members(transaction, sorted(rows))
        behind = _behind(transaction, nodes, before)
        nowhere = frozenset[int]()
        read = [
            self.progress_of(record, rows[node_id], member, cohorts.get(node_id, nowhere), is_behind=node_id in behind)
            for node_id, member in sorted(members.items())
        ]
        change = ChangeProgress(
            record.change_id,
            record.state,
            record.groups,
            is_immediate=bool(record.immediately),
            is_waiting=is_waiting,
            takes_back=record.reverts is not None,
        )
        return change, read

    def progress_of(
        self,
        record: ChangeRecord,
        node: ChangeNode,
        member: "MemberLine",
        cohorts: frozenset[int] = frozenset(),
        *,
        is_behind: bool = False,
    ) -> NodeProgress:
        told = self.told.get(node.node_id)
        coming = _read_coming(member.candidates if node.step is Step.OFFERED else "{}")
        is_told = member.published >= member.generation
        key = (record.change_id, node.node_id)
        is_known = self.watch.lasts((*key, node.step, node.ring, coming.contents), holds=is_told)
        return NodeProgress(
            node.node_id,
            group=node.group,
            step=node.step,
            ring=node.ring,
            outcome=Outcome(node.outcome),
            presence=self._presence(node.node_id, member, told),
            can_vote=told is not None and told.can_vote,
            verdict=votes.verdict_on(coming.candidates, node) if is_told else Verdict.NONE,
            told_s=is_known,
            active_s=self.watch.age((*key, "active"), node.active_at),
            proves=told is not None and told.proves,
            is_telling=member.is_well and told is not None and not told.validated.isdisjoint(node.scopes),
            cohorts=cohorts,
            is_behind=is_behind,
            words=node.detail,
        )

    def _presence(self, node_id: str, member: "MemberLine", told: "AgentWords | None") -> Presence:
        age = self.watch.age(("seen", node_id), member.last_seen)
        within = HEARD_WITHIN * (told.interval_s if told else self.settings.heartbeat_interval_s)
        if age is not None and age <= within:
            return Presence.REACHABLE
        return Presence.OFFLINE if self.watch.listening_s >= within else Presence.UNKNOWN

    def read_words(self, transaction: Transaction, change_id: int) -> None:
        """What agents of its nodes say of themselves: of 10,000 it is read for half a second, and not while all who
        write wait for whoever reads.
        """
        self._read_told(transaction, records.node_ids_of(transaction, change_id))

    def _read_told(self, transaction: Transaction, node_ids: Sequence[str]) -> None:
        now = self.elapsed()
        old = [id_ for id_ in node_ids if id_ not in self.told or now - self.told[id_].read_at >= READ_AGAIN_S]
        table = schema.node_status
        for chunk in chunks(old):
            for row in transaction.rows(select(table.c.node_id, table.c.body).where(is_in(table.c.node_id, chunk))):
                self.told[row.node_id] = _parse(row.body, now, self.settings.heartbeat_interval_s)

    def forget(self, node_ids: "set[str]") -> None:
        """All but these."""
        for node_id in self.told.keys() - node_ids:
            del self.told[node_id]


@dataclass(frozen=True)
class _Coming:
    """What a head lists as coming; its contents, in their order."""

    candidates: Mapping[str, Mapping[str, Any]]
    contents: tuple[str, ...]


@lru_cache(maxsize=records.TEXTS_REMEMBERED)
def _read_coming(text: str) -> _Coming:
    candidates = json.loads(text)  # our own writing
    return _Coming(candidates, tuple(sorted(entry["content_hash"] for entry in candidates.values())))


def _parse(body: str, now: float, interval_s: float) -> AgentWords:
    said: Mapping[str, Any] = json.loads(body)  # only what `heartbeat_form.parse` took is kept
    scopes: Mapping[str, Mapping[str, Any]] = said["scopes"]
    return AgentWords(
        now,
        float(said.get("interval_s") or interval_s),
        CAN_VOTE in (said.get("features") or ()),
        frozenset(scope for scope, report in scopes.items() if report.get("has_validator")),
        any(report.get("good") is not None for report in scopes.values()),
    )


def _members(transaction: Transaction, node_ids: Sequence[str]) -> dict[str, MemberLine]:
    nodes, heads, status, asked = schema.nodes, schema.heads, schema.node_status, schema.head_requests
    joined = nodes.outerjoin(heads, nodes.c.node_id == heads.c.node_id)
    joined = joined.outerjoin(status, nodes.c.node_id == status.c.node_id)
    joined = joined.outerjoin(asked, nodes.c.node_id == asked.c.node_id)
    columns = select(
        nodes.c.node_id,
        nodes.c.generation,
        heads.c.generation.label("published"),
        heads.c.candidates,
        status.c.last_seen,
        status.c.state,
        status.c.head_grade,
        asked.c.last_seen.label("asked"),
    ).select_from(joined)
    living = columns.where(nodes.c.revoked_at.is_(None), nodes.c.draining_since.is_(None))
    return {
        row.node_id: _read_line(row)
        for chunk in chunks(node_ids)
        for row in transaction.rows(living.where(is_in(nodes.c.node_id, chunk)))
    }


def _read_line(row: "Row[Any]") -> MemberLine:
    seen = [at for at in (row.last_seen, row.asked) if at is not None]
    is_well = (row.state, row.head_grade) == ("active", "fresh")
    return MemberLine(row.generation, row.published or 0, row.candidates or "{}", max(seen, default=None), is_well)


def _behind(transaction: Transaction, nodes: Sequence[ChangeNode], before: Set[int]) -> set[str]:
    """Nearly always there is one change alone, and then nothing is read."""
    if not before:
        return set()
    left = [node for node in nodes if node.step is not Step.RELEASED]
    holding = records.holding(transaction, [node.node_id for node in left])
    return {node.node_id for node in left if is_behind(node, holding[node.node_id], before)}


def _cohorts(
    transaction: Transaction, groups: Sequence[ChangeGroup], nodes: Sequence[ChangeNode]
) -> Mapping[str, frozenset[int]]:
    """By node, the rings whose `of` selects it."""
    if all(ring.of.is_empty for group in groups for ring in group.rollout.rings):
        return {}
    subjects = catalog.load(transaction).subjects

    def rings_of(node: ChangeNode) -> Iterator[int]:
        subject = subjects.get(node.node_id)
        for number, ring in enumerate(groups[node.group].rollout.rings, 1):
            if subject is not None and not ring.of.is_empty and selects(ring.of, subject):
                yield number

    return {node.node_id: frozenset(rings_of(node)) for node in nodes}
