"""The record of each change, and how far each node is with it.

    begin(transaction, ...)               the next change, with a row for each node that it holds back
    get, list_changes, open_changes       changes; `plan_of`: what one changes, resource by resource
    nodes_of, holding                     how far its nodes are; what holds these nodes back, or is on its way to them
    save(transaction, record)             compare and swap: `conflict` where somebody else was faster
    move(transaction, record, ...)        some of its nodes go to another step, and get a new head for it
    note(transaction, change_id, ...)     a line of its timeline

The declared state changes at once, as ever; what is held back is what each node is given of it (publishing/gates.py).
A node without a row is kept from nothing. A row is `held` (not offered yet), `offered` (a candidate of its head), or
`released` (listed under `scopes`). A change that another one superseded keeps its rows of the nodes that the other one
touches, until that has released them: they go on with what they had before both.

Two coordinators, or one that was killed in between, never decide twice: whoever decides saves the record first, in the
same transaction, against the revision that it has decided from. What nodes say is written beside changes, so `votes`,
`outcome`, `detail` and `active_at` of a row are the reports' alone, and `step`, `ring` and `released_at` those of who
moves it: neither writes over the other.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from sqlalchemy import ColumnElement, bindparam, delete, func, insert, literal, select, update
from sqlalchemy.engine import Row

from coordinator.base.byte_order import ByteOrder
from coordinator.base.refusal import Code, Refused, bound_text
from coordinator.changes.groups import ChangeGroup, parse_group
from coordinator.changes.states import FAILED, SETTLED, ChangeState, GroupPhase, Step
from coordinator.database import cluster_state, schema
from coordinator.database.database import Transaction, is_in, is_named
from coordinator.database.documents import chunks
from snapshot import canonical

MOST_EVENTS = 2_000  # of one change; what comes after them is counted
MORE = "more"
MOST_LISTED = 1_000
TEXTS_REMEMBERED = 4_096  # of rows: while a change is under way the same ones are read again and again
_NAME = re.compile(r"c-([1-9][0-9]{0,15})", re.ASCII)


@dataclass(frozen=True)
class ChangeRequest:
    """What is asked for beside the plan. `now_reason`: why rings and bake are skipped; `allow`: the hash of the plan
    that may pass the guard; `reverts`: the change that is taken back; `is_automatic`: no person asks, so nobody else
    has to agree.
    """

    message: str = ""
    now_reason: str = ""
    allow: str = ""
    reverts: int | None = None
    is_automatic: bool = False


@dataclass(frozen=True)
class ChangedResource:
    """One resource of a plan: its specification before and after, as JSON; None where it is not."""

    kind: str
    id: str
    verb: str
    before: object
    after: object

    @property
    def key(self) -> tuple[str, str]:
        return (self.kind, self.id)


@dataclass(frozen=True)
class CandidateVote:
    """What a node said of one scope, of exactly the content that its head listed."""

    content_hash: str
    verdict: str
    step: int | None = None
    reason: str = ""
    detail: str = ""
    at: float = 0.0


@dataclass(frozen=True)
class ChangeRecord:
    """`why`: why it stands or goes back, for people. `immediately`: why it skips rings and bake, or nothing.

    `follows`: the changes that were open when it began and that it comes after, since both touch the same resource or
    the same scope of a node, or since it would not hold together without them. `waits_for`: the last of them that is
    still open.
    """

    change_id: int
    at: float
    actor: str
    message: str
    state: ChangeState
    plan_hash: str
    based_on: str
    groups: tuple[ChangeGroup, ...]
    immediately: str = ""
    allowed: bool = False
    why: str = ""
    reverts: int | None = None
    waits_for: int | None = None
    follows: tuple[int, ...] = ()
    superseded_by: int | None = None
    settled_at: float | None = None
    revision: int = 1

    @property
    def name(self) -> str:
        return change_name(self.change_id)

    @property
    def has_begun(self) -> bool:
        """A node was asked about it, or given it."""
        return any(group.ring or group.phase is not GroupPhase.PENDING for group in self.groups)


@dataclass(frozen=True)
class ChangeNode:
    """`group`: the place of its group in the change. `ring`: the one with which it was released."""

    change_id: int
    node_id: str
    scopes: tuple[str, ...]
    group: int = 0
    step: Step = Step.HELD
    ring: int | None = None
    released_at: float | None = None
    votes: Mapping[str, CandidateVote] = field(default_factory=dict)
    outcome: str = ""
    detail: str = ""
    active_at: float | None = None


@dataclass(frozen=True)
class ChangeEvent:
    """A line of the timeline. After the last one there may be one that says how many more there were."""

    position: int
    at: float
    what: str
    node_id: str = ""
    detail: str = ""


def change_name(change_id: int) -> str:
    return f"c-{change_id}"


def parse_name(name: str) -> int:
    """`bad_request` for what is no name of a change."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise Refused(Code.BAD_REQUEST, f"{bound_text(name, 64)} is no change", remedy="changes are c-1, c-2 and so on")
    return int(found[1])


# ---- changes


def next_id(transaction: Transaction) -> int:
    """Of this transaction: changes are made one at a time, and the newest is never trimmed."""
    return transaction.number(select(func.max(schema.changes.c.change_id))) + 1


def begin(transaction: Transaction, record: ChangeRecord, plan: str, nodes: Sequence[ChangeNode]) -> None:
    """Written as it is, with the plan, as JSON, and the rows of its nodes."""
    values = {"change_id": record.change_id, "at": record.at, "actor": bound_text(record.actor)}
    made_of = {"plan_hash": record.plan_hash, "plan": plan}
    row = {**values, **made_of, "based_on": record.based_on, **_columns(record), "revision": record.revision}
    transaction.run(insert(schema.changes).values(**row))
    add_nodes(transaction, nodes)


def get(transaction: Transaction, change_id: int) -> ChangeRecord:
    """`not_found` for one that never was, or is kept no more."""
    row = transaction.row(_CHOSEN.where(schema.changes.c.change_id == change_id))
    if row is None:
        remedy = "`holdfastctl changes list` shows them"
        raise Refused(Code.NOT_FOUND, f"there is no change {change_name(change_id)}", remedy=remedy)
    return _record(row)


def list_changes(
    transaction: Transaction, states: Collection[ChangeState] = (), *, most: int = 100
) -> list[ChangeRecord]:
    """The newest first; all states where none is named."""
    table = schema.changes
    chosen = _CHOSEN.where(table.c.state.in_(sorted(states))) if states else _CHOSEN
    newest = chosen.order_by(table.c.change_id.desc()).limit(min(most, MOST_LISTED))
    return [_record(row) for row in transaction.rows(newest)]


def open_changes(transaction: Transaction) -> list[ChangeRecord]:
    """Those that are not settled, the oldest first."""
    return [_record(row) for row in transaction.rows(_OPEN_CHANGES)]


def reverts_of(transaction: Transaction, change_id: int) -> list[ChangeRecord]:
    """The changes that take it back, the newest first."""
    table = schema.changes
    chosen = _CHOSEN.where(table.c.reverts == change_id).order_by(table.c.change_id.desc())
    return [_record(row) for row in transaction.rows(chosen)]


def count_ends(transaction: Transaction) -> dict[str, int]:
    """By state, those that are over: by the index over their ends alone."""
    table = schema.changes
    counted = select(table.c.state, func.count().label("times")).where(table.c.settled_at.is_not(None))
    return {row.state: row.times for row in transaction.rows(counted.group_by(table.c.state))}


def standing_changes(transaction: Transaction) -> list[ChangeRecord]:
    """Those that are not settled, and those that another one superseded and that keep nodes back still."""
    return [_record(row) for row in transaction.rows(_STANDING_CHANGES)]


def undoable_changes(transaction: Transaction, since: float) -> list[int]:
    """Those that stand, and those that are settled since this time, in Unix seconds; the oldest first."""
    table = schema.changes
    chosen = select(table.c.change_id).where(_IS_STANDING | (table.c.settled_at >= since))
    return [row.change_id for row in transaction.rows(chosen.order_by(table.c.change_id))]


def plan_of(transaction: Transaction, change_id: int) -> tuple[ChangedResource, ...]:
    table = schema.changes
    row = transaction.row(select(table.c.plan).where(table.c.change_id == change_id))
    value = [] if row is None else json.loads(row.plan)  # our own writing, of as many resources as there are
    return tuple(ChangedResource(**change) for change in value)


def save(transaction: Transaction, record: ChangeRecord) -> ChangeRecord:
    """What was decided from `record.revision`, as it stands after it. `conflict`: somebody else has decided since."""
    table = schema.changes
    mine = (table.c.change_id == record.change_id) & (table.c.revision == record.revision)
    values = {**_columns(record), "revision": record.revision + 1}
    if not transaction.run(update(table).where(mine).values(**values)):
        raise Refused(Code.CONFLICT, f"{record.name} has gone on meanwhile", remedy="look again")
    return replace(record, revision=record.revision + 1)


# ---- its nodes


def add_nodes(transaction: Transaction, nodes: Sequence[ChangeNode], *, keep: bool = False) -> None:
    """With `keep` a row that is there stays as it is."""
    rows = [_node_columns(node) for node in nodes]
    if keep:
        transaction.put(schema.change_nodes, rows, keep=True)
    else:
        transaction.run(insert(schema.change_nodes), rows)


def nodes_of(transaction: Transaction, change_id: int) -> list[ChangeNode]:
    """In the order of their ids."""
    return [_node(row) for row in transaction.rows(_NODES_OF, {"change": change_id})]


def node_ids_of(transaction: Transaction, change_id: int) -> list[str]:
    """In their order."""
    table = schema.change_nodes
    chosen = select(table.c.node_id).where(table.c.change_id == change_id).order_by(table.c.node_id)
    return [row.node_id for row in transaction.rows(chosen)]


def holding(transaction: Transaction, node_ids: Sequence[str]) -> dict[str, list[ChangeNode]]:
    """By node, its rows of changes that are not settled or hold nodes still, the oldest change first. What nodes have
    said is left out.
    """
    found: dict[str, list[ChangeNode]] = defaultdict(list)
    for chunk in chunks(node_ids):
        for row in transaction.rows(_HOLDING, {"named": chunk}):
            found[row.node_id].append(_node(row))
    return found


def open_rows(transaction: Transaction, node_ids: Sequence[str]) -> dict[str, list[ChangeNode]]:
    """By node, the rows of changes that are not settled, the oldest change first."""
    found: dict[str, list[ChangeNode]] = defaultdict(list)
    for chunk in chunks(node_ids):
        for row in transaction.rows(_OPEN_ROWS, {"named": chunk}):
            found[row.node_id].append(_node(row))
    return dict(found)


def move(
    transaction: Transaction, record: ChangeRecord, node_ids: Collection[str], step: Step, *, ring: int | None = None
) -> None:
    """Nodes of a change go to a step. What is released is released of all that this change has superseded, too."""
    table, values = schema.change_nodes, {"step": step.value, "ring": ring}
    released_at = transaction.now if step is Step.RELEASED else None
    superseded = superseded_changes(transaction, record.change_id) if step is Step.RELEASED else []
    for chunk in chunks(sorted(node_ids)):
        here = is_in(table.c.node_id, chunk)
        mine = here & (table.c.change_id == record.change_id)
        _lock(transaction, here & table.c.change_id.in_([record.change_id, *superseded]))
        transaction.run(update(table).where(mine).values(**values, released_at=released_at))
        if superseded:
            transaction.run(delete(table).where(here, table.c.change_id.in_(superseded)))
    cluster_state.raise_generations(transaction, node_ids)


def supersede(
    transaction: Transaction, earlier: ChangeRecord, later: int, keeps: Set[str], state: ChangeState
) -> ChangeRecord:
    """Another change stands in its place. The nodes that this one `keeps` go on with what they had before both; of the
    others the earlier one lets go, since nothing of it is left that they are to be told.
    """
    table, settled_at = schema.change_nodes, transaction.now if state in SETTLED else None
    saved = replace(earlier, state=state, superseded_by=later, waits_for=None, settled_at=settled_at)
    saved = save(transaction, saved)
    rows = [node for node in nodes_of(transaction, earlier.change_id) if node.step is not Step.RELEASED]
    let_go = sorted(node.node_id for node in rows if node.node_id not in keeps)
    withdrawn = sorted(node.node_id for node in rows if node.step is Step.OFFERED)
    mine = table.c.change_id == earlier.change_id
    both = table.c.change_id.in_([earlier.change_id, *superseded_changes(transaction, earlier.change_id)])
    for chunk in chunks(sorted({*let_go, *withdrawn})):
        _lock(transaction, both & table.c.node_id.in_(chunk))
    for chunk in chunks(let_go):
        transaction.run(delete(table).where(both, table.c.node_id.in_(chunk)))
    for chunk in chunks(withdrawn):
        transaction.run(update(table).where(mine, table.c.node_id.in_(chunk)).values(step=Step.HELD.value))
    cluster_state.raise_generations(transaction, withdrawn)
    return saved


def mark(transaction: Transaction, change_id: int, outcomes: Mapping[str, str]) -> None:
    """What was not reported, and is concluded: that nothing came. A report may still say otherwise."""
    table = schema.change_nodes
    this = update(table).where(table.c.change_id == change_id, table.c.node_id == bindparam("node"))
    rows = [{"node": node_id, "came": outcome} for node_id, outcome in sorted(outcomes.items())]
    transaction.run(this.values(outcome=bindparam("came")), rows)


def leave_aside(transaction: Transaction, change_id: int, node_ids: Collection[str]) -> None:
    """Nodes that have it, and are counted in no ring any more."""
    table = schema.change_nodes
    for chunk in chunks(sorted(node_ids)):
        mine = (table.c.change_id == change_id) & table.c.node_id.in_(chunk)
        _lock(transaction, mine)
        transaction.run(update(table).where(mine).values(ring=None))


def forget_votes_of_failed(transaction: Transaction, change_id: int) -> None:
    """Who has failed without having it is asked once more: what counts then is what it says then."""
    table = schema.change_nodes
    mine = (table.c.change_id == change_id) & (table.c.step != Step.RELEASED.value)
    failed = table.c.outcome.in_(sorted(FAILED))
    _lock(transaction, mine & failed)
    transaction.run(update(table).where(mine, failed).values(votes="{}"))


def let_go(transaction: Transaction, record: ChangeRecord, node_ids: Collection[str]) -> None:
    """It is over. `node_ids`: those that it has held back until now, and that are to get a new head. What it has
    superseded holds nobody any more, either.
    """
    table = schema.change_nodes
    over = table.c.change_id.in_([record.change_id, *superseded_changes(transaction, record.change_id)])
    _lock(transaction, over)
    transaction.run(delete(table).where(over))
    cluster_state.raise_generations(transaction, node_ids)


def superseded_changes(transaction: Transaction, change_id: int) -> list[int]:
    """The changes that it stands in the place of, and those that they stood in the place of."""
    table, found = schema.changes, list[int]()
    waiting = [change_id]
    while waiting:
        chosen = select(table.c.change_id).where(table.c.superseded_by.in_(waiting))
        waiting = [row.change_id for row in transaction.rows(chosen)]
        found += waiting
    return found


# ---- the timeline


def note(transaction: Transaction, change_id: int, what: str, node_id: str = "", detail: str = "") -> None:
    """Beyond MOST_EVENTS they are counted, in the last line."""
    note_all(transaction, change_id, [(what, node_id, detail)])


def note_all(transaction: Transaction, change_id: int, moments: Sequence[tuple[str, str, str]]) -> None:
    """Several lines: (what, node, detail)."""
    table = schema.change_events
    last = transaction.number(select(func.max(table.c.position)).where(table.c.change_id == change_id))
    room = max(0, MOST_EVENTS - last)
    common = {"change_id": change_id, "at": transaction.now}
    rows = [
        {**common, "position": position, "what": what, "node_id": node_id, "detail": bound_text(detail)}
        for position, (what, node_id, detail) in enumerate(moments[:room], last + 1)
    ]
    transaction.run(insert(table), rows)
    if more := len(moments) - len(rows):
        _count_events(transaction, change_id, more)


def events_of(transaction: Transaction, change_id: int) -> list[ChangeEvent]:
    table = schema.change_events
    chosen = select(table).where(table.c.change_id == change_id).order_by(table.c.position)
    return [ChangeEvent(row.position, row.at, row.what, row.node_id, row.detail) for row in transaction.rows(chosen)]


def _count_events(transaction: Transaction, change_id: int, more: int) -> None:
    table = schema.change_events
    mine = (table.c.change_id == change_id) & (table.c.position == MOST_EVENTS + 1)
    row = transaction.row(select(table.c.detail).where(mine))
    if row is None:
        last = {"change_id": change_id, "position": MOST_EVENTS + 1, "at": transaction.now, "what": MORE}
        transaction.run(insert(table).values(**last, node_id="", detail=str(more)))
    else:
        transaction.run(update(table).where(mine).values(at=transaction.now, detail=str(int(row.detail) + more)))


def noted_nodes(transaction: Transaction, change_id: int, what: Collection[str]) -> set[tuple[int, str, str]]:
    """Lines of nodes that its timeline has: (change, node, what)."""
    table = schema.change_events
    chosen = select(table.c.node_id, table.c.what).where(table.c.change_id == change_id, table.c.what.in_(sorted(what)))
    return {(change_id, row.node_id, row.what) for row in transaction.rows(chosen)}


# ---- rows

_changes, _nodes, _holders = schema.changes, schema.change_nodes, schema.change_nodes.alias("holders")
_CHOSEN = select(*(column for column in _changes.c if column.name != "plan"))

# Made once, since each look and each publishing asks them: making a statement costs as much as running it.
_IS_STANDING = _changes.c.settled_at.is_(None) | _changes.c.change_id.in_(
    select(_holders.c.change_id).where(_holders.c.step != Step.RELEASED.value)
)
_STANDING_CHANGES = _CHOSEN.where(_IS_STANDING).order_by(_changes.c.change_id)
_OPEN_CHANGES = _CHOSEN.where(_changes.c.settled_at.is_(None)).order_by(_changes.c.change_id)
_NODES_OF = select(_nodes).where(_nodes.c.change_id == bindparam("change")).order_by(_nodes.c.node_id)
_WITH_CHANGES = _nodes.join(_changes, _nodes.c.change_id == _changes.c.change_id)
_OPEN_ROWS = (
    select(_nodes)
    .select_from(_WITH_CHANGES)
    .where(_changes.c.settled_at.is_(None), is_named(_nodes.c.node_id))
    .order_by(_nodes.c.change_id)
)
_HOLDING = (
    select(*(literal("{}").label("votes") if column.name == "votes" else column for column in _nodes.c))
    .select_from(_WITH_CHANGES)
    .where(_IS_STANDING, is_named(_nodes.c.node_id))
    .order_by(_nodes.c.change_id)
)


def _text(value: object) -> str:
    return canonical.dumps(value).decode()


def _columns(record: ChangeRecord) -> dict[str, object]:
    """What may be another after a decision."""
    return {
        "message": bound_text(record.message, 1_024),
        "state": record.state.value,
        "groups": _text([group.to_value() for group in record.groups]),
        "immediately": bound_text(record.immediately),
        "allowed": record.allowed,
        "why": bound_text(record.why, 1_024),
        "reverts": record.reverts,
        "waits_for": record.waits_for,
        "follows": _text(list(record.follows)),
        "superseded_by": record.superseded_by,
        "settled_at": record.settled_at,
    }


def _record(row: "Row[Any]") -> ChangeRecord:
    names = [name for name in ChangeRecord.__dataclass_fields__ if name not in ("state", "groups", "follows")]
    groups = json.loads(row.groups)
    return ChangeRecord(
        **{name: getattr(row, name) for name in names},
        state=ChangeState(row.state),
        follows=tuple(json.loads(row.follows)),
        groups=tuple(map(parse_group, groups)),
    )


def _node_columns(node: ChangeNode) -> dict[str, object]:
    votes = _text({scope: asdict(vote) for scope, vote in node.votes.items()}) if node.votes else "{}"
    return {**vars(node), "scopes": _names_text(node.scopes), "votes": votes, "step": node.step.value}


@lru_cache(maxsize=1_024)
def _names_text(scopes: tuple[str, ...]) -> str:
    """Most nodes of a change wait for the same."""
    return _text(sorted(scopes))


def _node(row: "Row[Any]") -> ChangeNode:
    """The columns come in the order of the table's."""
    change_id, node_id, group, scopes, step, ring, released_at, votes, outcome, detail, active_at = tuple(row)
    told, read = _read_scopes(scopes), _read_votes(votes)
    return ChangeNode(
        *(change_id, node_id, told, group, Step(step), ring, released_at, read, outcome, detail, active_at)
    )


@lru_cache(maxsize=TEXTS_REMEMBERED)
def _read_scopes(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


@lru_cache(maxsize=TEXTS_REMEMBERED)
def _read_votes(text: str) -> Mapping[str, CandidateVote]:
    return MappingProxyType({scope: CandidateVote(**vote) for scope, vote in json.loads(text).items()})


def forget_node(transaction: Transaction, node_id: str) -> None:
    """Its membership has ended: no change waits for it."""
    table = schema.change_nodes
    _lock(transaction, table.c.node_id == node_id)
    transaction.run(delete(table).where(table.c.node_id == node_id))


def _lock(transaction: Transaction, chosen: ColumnElement[bool]) -> None:
    """Rows that are written next, in the order in which votes write them (votes.py), so that neither waits for the
    other: a server takes the rows of a statement as it finds them. SQLite has one writer at a time.
    """
    if transaction.connection.dialect.name != "sqlite":
        table = schema.change_nodes
        key = (table.c.node_id, table.c.change_id)
        in_order = (ByteOrder(table.c.node_id), table.c.change_id)
        transaction.rows(select(*key).where(chosen).order_by(*in_order).with_for_update())
