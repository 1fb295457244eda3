"""What nodes report: read strictly, merged with what is on record, written in batches (protocol 3; rules K30, K53).

    parse(body)                    the bytes of a request -> Heartbeat, or `bad_request`
    merge(previous, heartbeat)     pure: the node's record, and the answer
    record(database, batch)        one transaction for a whole batch; the answers, which may go out once it returns
    forget(transaction, node_id)   its membership ended, or another store reports under its id

A report is never configuration (rules S70). Kept are the last state of each node, one past state a time slot, and each
journal event once by (node, incarnation, sequence), in whatever order and however often it comes (rules J42).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from sqlalchemy import Table, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from coordinator import requests, schema
from coordinator.checkin import Comparison, Mark, compare, compare_all
from coordinator.database import Database, Transaction
from coordinator.documents import TRUST_BUNDLE
from coordinator.refusal import Code, Refused
from coordinator.reported import Claim, announced, doubtful
from coordinator.requests import Member, is_one_of, is_text
from snapshot import canonical
from snapshot.identifiers import is_hash, is_id, is_integer, parse_scope, parse_time
from wire.messages import EVENTS_MAX, GRADES, MODES, SCOPES_MAX, STATES

NO_MARK = Mark(0, 0)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_object_or_null(value: object) -> bool:
    return value is None or isinstance(value, dict)


def _is_time(value: object) -> bool:
    try:
        parse_time(value)
    except ValueError:
        return False
    return True


_COUNT = Member(lambda value: is_integer(value, least=0))
_WORD = Member(is_text(64))
_MEMBERS = {
    "node_id": Member(is_id),
    "cluster_id": Member(is_id),
    "incarnation": Member(is_id),
    "boot_id": _WORD,
    "agent_version": _WORD,
    "sent_at": Member(_is_time),
    "uptime_s": Member(lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0),
    "state": Member(is_one_of(STATES)),
    "mode": Member(is_one_of(MODES)),
    "degraded_since": Member(lambda value: value is None or _is_time(value)),
    "clock": Member(_is_object),
    "head": Member(_is_object_or_null),
    "scopes": Member(lambda value: isinstance(value, dict) and len(value) <= SCOPES_MAX),
    "trust_bundle_version": _COUNT,
    "counters": Member(_is_object),
    "journal": Member(lambda value: isinstance(value, list) and len(value) <= EVENTS_MAX),
}
_HEAD = {
    "generation": _COUNT,
    "authority_epoch": _COUNT,
    "age_s": Member(lambda value: value is None or isinstance(value, (int, float))),
    "grade": Member(is_one_of(GRADES)),
}
_ACTIVE = {"authority_epoch": Member(is_integer), "config_version": Member(is_integer), "content_hash": Member(is_hash)}
_SCOPE = frozenset({"active", "previous", "pending", "last_rejected", "notified"})


@dataclass(frozen=True)
class Heartbeat:
    """One report of one node, in form. `body` is the JSON text of it, as it came."""

    node_id: str
    cluster_id: str
    incarnation: str
    boot_id: str
    agent_version: str
    state: str
    mode: str
    head: Mark
    head_grade: str
    active: Mapping[str, Mark]
    journal: tuple[tuple[int, str], ...]  # (sequence, the event as JSON)
    body: str


@dataclass(frozen=True)
class Record:
    """What is kept of a node: the highest mark that it reported of what was published for it, by scope, at most
    SCOPES_MAX; and what was acknowledged.
    """

    incarnation: str = ""
    recorded: Mapping[str, Mark] = field(default_factory=dict)
    acknowledged_event: int = 0


@dataclass(frozen=True)
class Known:
    """What the coordinator knows of one node beside its record. `doubts`: reported versions that were never published
    for it. `announced`: what its head lists, read for a node that is behind; None where no head is out.
    """

    doubts: Mapping[str, Comparison] = field(default_factory=dict)
    announced: Mapping[str, Mark] | None = None

    def verdict(self, scope: str, found: Comparison, reported: Mark | None) -> Comparison:
        """`found`: how the report differs from the record. EQUAL: the report is right, and the record is to follow."""
        if found is Comparison.NODE_AHEAD:
            return self.doubts.get(scope, Comparison.EQUAL)
        if found is not Comparison.NODE_BEHIND or self.announced is None or scope == TRUST_BUNDLE:
            return found  # no recovery leads below a bundle, and it may be out before the head that lists it
        listed = self.announced.get(scope)
        if listed is None or compare(listed, reported) is Comparison.EQUAL:
            return Comparison.EQUAL
        return found


@dataclass(frozen=True)
class Answer:
    """The answer to a heartbeat; `comparisons`: the scopes that are behind, ahead, or in conflict (rules K37, K41)."""

    generation: int
    acknowledged_event: int
    recorded: Mapping[str, Mark]
    comparisons: Mapping[str, Comparison]

    def body(self) -> dict[str, object]:
        """As protocol 3 has it."""
        recorded = {
            scope: {"authority_epoch": mark.authority_epoch, "config_version": mark.config_version}
            for scope, mark in sorted(self.recorded.items())
        }
        answer = {"generation": self.generation, "acknowledged_event": self.acknowledged_event}
        return {**answer, "recorded": recorded, "directives": []}

    @property
    def is_behind(self) -> bool:
        """The node was restored from an old disk: it is to recover."""
        return Comparison.NODE_BEHIND in self.comparisons.values()


@dataclass(frozen=True)
class History:
    """How past states are kept: a ring of time slots (rules, Numbers; settings)."""

    slots: int = 48
    slot_s: int = 300


def parse(body: bytes, *, most: int = 64 << 10) -> Heartbeat:
    """`bad_request` for what is not exactly a heartbeat, holds control characters, or is too large (rules K53, P23)."""
    value = requests.parse(body, most)
    requests.closed(value, _MEMBERS)
    if b"\\" in body or b"\x7f" in body or not body.isascii():
        _refuse_control_characters(value)  # elsewhere JSON itself leaves no room for one
    head, grade = _head(value["head"])
    return Heartbeat(
        node_id=str(value["node_id"]),
        cluster_id=str(value["cluster_id"]),
        incarnation=str(value["incarnation"]),
        boot_id=str(value["boot_id"]),
        agent_version=str(value["agent_version"]),
        state=str(value["state"]),
        mode=str(value["mode"]),
        head=head,
        head_grade=grade,
        active=_active(value["scopes"]),
        journal=_journal(value["journal"]),
        body=body.decode(),
    )


def merge(
    previous: Record | None, heartbeat: Heartbeat, known: Known | None = None
) -> tuple[Record, Mapping[str, Comparison]]:
    """The new record, and how the report stands against the old one and against what was published. Pure.

    A mark goes up to what was published for this node, and down only to what its head announces after a recovery, or
    where its head lists the scope no more (rules S3, S87).
    """
    record, known = previous or Record(), known or Known()
    marks = dict(record.recorded)
    noted: dict[str, Comparison] = {}
    for scope, found in compare_all(record.recorded, heartbeat.active).items():
        verdict = known.verdict(scope, found, heartbeat.active.get(scope))
        if verdict is not Comparison.EQUAL:
            noted[scope] = verdict
        elif scope in heartbeat.active:
            marks[scope] = heartbeat.active[scope]
        else:
            del marks[scope]
    if len(marks) > SCOPES_MAX:  # no honest node comes there: what it does not name any more is forgotten
        marks = {scope: mark for scope, mark in marks.items() if scope in heartbeat.active}
    is_same = record.incarnation == heartbeat.incarnation
    acknowledged = [record.acknowledged_event] if is_same else [0]
    acknowledged += [sequence for sequence, _ in heartbeat.journal]
    return Record(heartbeat.incarnation, marks, max(acknowledged)), noted


def record(
    database: Database, batch: Sequence[Heartbeat], *, now: float, history: History | None = None
) -> list[Answer]:
    """Write a batch in one transaction; the answers in its order. Nothing is acknowledged before the commit."""
    if not batch:
        return []
    with database.record() as transaction:
        members = _records(transaction, sorted({each.node_id for each in batch}))
        published = _Published.read(transaction, batch, {node_id: kept for node_id, (kept, _) in members.items()})
        rows: dict[str, dict[str, object]] = {}
        answers = []
        for each in batch:
            kept, generation = members.get(each.node_id, (None, 0))
            merged, compared = merge(kept, each, published.of(each))
            answers.append(Answer(generation, merged.acknowledged_event, merged.recorded, compared))
            if each.node_id in members:  # removed meanwhile: nothing of it is kept
                members[each.node_id] = (merged, generation)
                rows[each.node_id] = _status_row(each, merged, now, behind=answers[-1].is_behind)
        _write(transaction, schema.node_status, [rows[node_id] for node_id in sorted(rows)])
        _write(transaction, schema.heartbeat_history, _history_rows(rows, now, history or History()))
        _write(
            transaction, schema.events, _event_rows([each for each in batch if each.node_id in rows], now), keep=True
        )
    return answers


def forget(transaction: Transaction, node_id: str) -> None:
    """Whoever comes next under this id has reported nothing yet (rules K37). What is in the journal stays."""
    for table in (schema.node_status, schema.heartbeat_history):
        transaction.run(delete(table).where(table.c.node_id == node_id))


@dataclass(frozen=True)
class _Published:
    """What was published, as far as a batch asks for it: nothing is read for a report that is as the record has it."""

    doubts: Mapping[Claim, Comparison]
    announced: Mapping[str, Mapping[str, Mark]]

    @classmethod
    def read(
        cls, transaction: Transaction, batch: Sequence[Heartbeat], records: Mapping[str, Record | None]
    ) -> "_Published":
        claims: set[Claim] = set()
        behind: set[str] = set()
        for each in batch:
            kept = records.get(each.node_id) or Record()
            for scope, found in compare_all(kept.recorded, each.active).items() if each.node_id in records else ():
                if found is Comparison.NODE_AHEAD:
                    claims.add((each.node_id, scope, each.active[scope]))
                elif found is Comparison.NODE_BEHIND:
                    behind.add(each.node_id)
        return cls(doubtful(transaction, claims), announced(transaction, behind))

    def of(self, each: Heartbeat) -> Known:
        found = ((scope, self.doubts.get((each.node_id, scope, mark))) for scope, mark in each.active.items())
        doubts = {scope: doubt for scope, doubt in found if doubt is not None} if self.doubts else {}
        return Known(doubts, self.announced.get(each.node_id))


def _records(transaction: Transaction, node_ids: Sequence[str]) -> dict[str, tuple[Record | None, int]]:
    """What is on record of each member, and the generation that it should have; a stranger is not among them.

    The rows are locked in order, so that another replica's batch waits instead of lowering a mark.
    """
    nodes, status = schema.nodes, schema.node_status
    columns = select(status.c.node_id, status.c.incarnation, status.c.recorded, status.c.acknowledged_event)
    locked = columns.where(status.c.node_id.in_(node_ids)).order_by(status.c.node_id).with_for_update()
    kept = {
        row.node_id: Record(row.incarnation, _marks(row.recorded), row.acknowledged_event)
        for row in transaction.rows(locked)
    }
    entries = transaction.rows(select(nodes.c.node_id, nodes.c.generation).where(nodes.c.node_id.in_(node_ids)))
    return {row.node_id: (kept.get(row.node_id), row.generation) for row in entries}


def _status_row(each: Heartbeat, merged: Record, now: float, *, behind: bool) -> dict[str, object]:
    marks = {
        scope: [mark.authority_epoch, mark.config_version, mark.content_hash] for scope, mark in merged.recorded.items()
    }
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
        "recorded": canonical.dumps(marks).decode(),
        "acknowledged_event": merged.acknowledged_event,
        "body": each.body,
    }


def _history_rows(rows: Mapping[str, Mapping[str, object]], now: float, history: History) -> list[dict[str, object]]:
    slot = int(now // history.slot_s) % history.slots
    names = ("node_id", "state", "mode", "head_generation", "head_grade")
    return [{"slot": slot, "at": now, **{name: rows[node_id][name] for name in names}} for node_id in sorted(rows)]


def _event_rows(batch: Sequence[Heartbeat], now: float) -> list[dict[str, object]]:
    """In the order of the key, so that two replicas never wait for each other."""
    events = sorted((each.node_id, each.incarnation, *event) for each in batch for event in each.journal)
    names = ("node_id", "incarnation", "sequence", "body")
    return [{**dict(zip(names, event, strict=True)), "received_at": now} for event in events]


def _write(transaction: Transaction, table: Table, rows: Sequence[Mapping[str, object]], *, keep: bool = False) -> None:
    """Insert, or replace the row of the same key; with `keep` what is there stays."""
    key = [column.name for column in table.primary_key]
    dialect = sqlite if transaction.connection.dialect.name == "sqlite" else postgresql
    statement = dialect.insert(table)
    if keep:
        transaction.run(statement.on_conflict_do_nothing(index_elements=key), rows)
        return
    new = {column.name: statement.excluded[column.name] for column in table.columns if column.name not in key}
    transaction.run(statement.on_conflict_do_update(index_elements=key, set_=new), rows)


def _marks(text: str) -> dict[str, Mark]:
    return {scope: Mark(*mark) for scope, mark in json.loads(text).items()}  # our own writing


def _head(value: object) -> tuple[Mark, str]:
    if not isinstance(value, dict):
        return NO_MARK, "none"
    requests.closed(value, _HEAD)
    return Mark(int(value["authority_epoch"]), int(value["generation"])), str(value["grade"])


def _active(scopes: object) -> dict[str, Mark]:
    """The active version of each scope (rules S30)."""
    active = {}
    for scope, value in scopes.items() if isinstance(scopes, dict) else ():
        _check_scope(scope, value)
        mark = value["active"]
        if mark is not None:
            requests.closed({name: mark.get(name) for name in _ACTIVE}, _ACTIVE)
            active[scope] = Mark(mark["authority_epoch"], mark["config_version"], mark["content_hash"])
    return active


def _check_scope(scope: str, value: object) -> None:
    if not _is_scope(scope):
        raise Refused(Code.BAD_REQUEST, "a scope is out of form")
    if not isinstance(value, dict) or value.keys() != _SCOPE:
        raise Refused(Code.BAD_REQUEST, f"scope {scope} has not exactly the members of a report")
    if not all(map(_is_object_or_null, value.values())):
        raise Refused(Code.BAD_REQUEST, f"scope {scope} is out of form")


@lru_cache(maxsize=1_024)
def _is_scope(text: str) -> bool:
    try:
        parse_scope(text)
    except ValueError:
        return False
    return True


def _journal(events: object) -> tuple[tuple[int, str], ...]:
    journal = []
    for event in events if isinstance(events, list) else ():
        if not isinstance(event, dict) or not is_integer(event.get("sequence")):
            raise Refused(Code.BAD_REQUEST, "a journal event has no sequence number")
        journal.append((event["sequence"], _canonical(event)))
    return tuple(journal)


def _canonical(event: object) -> str:
    try:
        return canonical.dumps(event).decode()
    except ValueError as error:
        raise Refused(Code.BAD_REQUEST, "an event holds a number that JSON between us does not carry") from error


def _refuse_control_characters(value: object) -> None:
    """The node cleans its texts (rules K53); what arrives here with NUL or a control character is no report of ours."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            pending += [*each, *each.values()]
        elif isinstance(each, list):
            pending += each
        elif isinstance(each, str) and not each.isprintable() and not _is_clean(each):
            raise Refused(Code.BAD_REQUEST, "a text holds control characters")


def _is_clean(text: str) -> bool:
    """Not printable, yet without a control character or a lone surrogate: a line separator, say."""
    return all(ord(each) >= 32 and not 0x7F <= ord(each) < 0xA0 and not 0xD800 <= ord(each) < 0xE000 for each in text)
