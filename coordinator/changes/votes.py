"""What nodes say of changes, written down with their reports: votes, what they run of it, what they took back.

    take(transaction, rows, reports)    of one batch, in its transaction; what was counted

A vote counts for the node that reported it alone, and only of exactly what its head lists as coming: that document, and
that content (rules S70). One that says again what is known changes nothing. Any other, made up, late or for somebody
else, changes nothing either: it is counted, and one that names a document that was never made for the node is named.

What a node runs is believed when its head says so already: until then what it has may be equal by chance to what is
listed. What it refused, or took back, stays so; who was silent and is heard of is silent no more.

A fleet reports thousands of times a second, and changes are rare: a batch of which no node is part of an open change
costs one look into an index.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from sqlalchemy import bindparam, select, tuple_, update
from sqlalchemy.engine import Row

from coordinator.base.refusal import bound_text
from coordinator.changes.records import CandidateVote, ChangeNode
from coordinator.changes.states import FAILED, Outcome, Step, Verdict
from coordinator.database import schema
from coordinator.database.database import Transaction, is_in
from coordinator.database.documents import chunks
from snapshot import canonical

IGNORED = "ignored"


class ReportedVote(Protocol):
    """As a heartbeat says it (wire.messages.Vote)."""

    @property
    def scope(self) -> str: ...
    @property
    def snapshot_id(self) -> str: ...
    @property
    def content_hash(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def step(self) -> int | None: ...
    @property
    def reason(self) -> str: ...
    @property
    def detail(self) -> str: ...


class TakenBack(NamedTuple):
    """What a node went back from by itself, and by which check."""

    content_hash: str
    words: str


class RefusedVersion(NamedTuple):
    config_version: int
    words: str


@dataclass(frozen=True)
class SaidOfChanges:
    """What one report says that matters here; by scope."""

    node_id: str
    votes: Sequence[ReportedVote]
    active: Mapping[str, str]  # the content
    refused: Mapping[str, RefusedVersion]
    good: Mapping[str, str]  # the content that has passed its checks
    taken_back: Mapping[str, TakenBack]


@dataclass(frozen=True)
class VoteCount:
    """What came of a batch. `reasons`: of the refusals among the verdicts, as nodes say them; `taken_back`: nodes that
    went back by themselves; `foreign`: nodes with a vote on a document that was never made for them.
    """

    verdicts: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    taken_back: int = 0
    foreign: tuple[str, ...] = ()
    has_news: bool = False  # something that a decision may rest on


@dataclass(frozen=True)
class ListedHead:
    """What the head of a node says. `is_told`: it says all that it is to say."""

    candidates: Mapping[str, Mapping[str, Any]]
    scopes: Mapping[str, Mapping[str, Any]]
    is_told: bool


_NOTHING = ListedHead({}, {}, is_told=False)


def take(
    transaction: Transaction, rows: Mapping[str, Sequence[ChangeNode]], reports: Sequence[SaidOfChanges]
) -> VoteCount:
    """One after the other, as they came: a node may be in a batch twice. `rows`: of changes that are open, by node."""
    if not reports:
        return VoteCount()
    stand = {node_id: list(of_node) for node_id, of_node in rows.items()}
    listed = _read_listings(transaction, sorted(stand))
    counted, taken_back = Counter[tuple[str, str]](), 0
    ignored, changed = list[tuple[str, str]](), dict[tuple[str, int], ChangeNode]()
    for report in reports:
        head = listed.get(report.node_id, _NOTHING)
        ignored += [(report.node_id, vote.snapshot_id) for vote in report.votes if not _is_asked_for(head, vote)]
        for place, row in enumerate(stand.get(report.node_id, ())):
            after = follow(row, report, head, transaction.now)
            if after != row:
                counted.update(_new_votes(row, after))
                taken_back += after.outcome == Outcome.REVERTED != row.outcome
                stand[report.node_id][place] = changed[row.node_id, row.change_id] = after
    _write(transaction, [changed[key] for key in sorted(changed)])
    verdicts = Counter({IGNORED: len(ignored)} if ignored else {})
    reasons = Counter[str]()
    for (verdict, reason), times in counted.items():
        verdicts[verdict] += times
        if verdict == Verdict.REFUSED:
            reasons[reason] += times
    return VoteCount(verdicts, reasons, taken_back, tuple(_foreign(transaction, ignored)), bool(changed))


def _new_votes(before: ChangeNode, after: ChangeNode) -> Iterator[tuple[str, str]]:
    """(verdict, reason)"""
    for scope, vote in after.votes.items():
        if before.votes.get(scope) != vote:
            yield vote.verdict, vote.reason


def follow(row: ChangeNode, report: SaidOfChanges, head: ListedHead, now: float) -> ChangeNode:
    """The row after a report."""
    match row.step:
        case Step.OFFERED:
            return _follow_votes(row, report, head, now)
        case Step.RELEASED:
            return _follow_outcome(row, report, head, now)
        case Step.HELD:
            return row


def verdict_on(candidates: Mapping[str, Mapping[str, Any]], row: ChangeNode) -> Verdict:
    """Of all that its head lists of this change, by what was said of exactly that content. What is withdrawn is listed
    nowhere, and there is nothing to be said of it.
    """
    if not candidates:  # as of most nodes of a change, most of the time
        return Verdict.ACCEPTED
    mine = {scope: entry for scope, entry in candidates.items() if scope in row.scopes}
    said = [
        Verdict(vote.verdict)
        for scope, entry in mine.items()
        if (vote := row.votes.get(scope)) is not None and vote.content_hash == entry["content_hash"]
    ]
    if Verdict.REFUSED in said:
        return Verdict.REFUSED
    return Verdict.ACCEPTED if len(said) == len(mine) else Verdict.NONE


def words_of(vote: CandidateVote) -> str:
    return ": ".join(part for part in (vote.reason, vote.detail) if part)


def _follow_votes(row: ChangeNode, report: SaidOfChanges, head: ListedHead, now: float) -> ChangeNode:
    votes = dict(row.votes)
    for vote in report.votes:
        if vote.scope in row.scopes and _is_asked_for(head, vote):
            before = votes.get(vote.scope)
            said = CandidateVote(
                vote.content_hash, vote.verdict, vote.step, bound_text(vote.reason, 64), bound_text(vote.detail), now
            )
            if before is None or replace(before, at=now) != said:
                votes[vote.scope] = said
    if votes == row.votes:
        return row
    after = replace(row, votes=votes)
    verdict = verdict_on(head.candidates, after) if head.is_told else Verdict.NONE
    if verdict is Verdict.ACCEPTED:
        return replace(after, outcome=Outcome.NONE.value, detail="")
    refusals = [
        f"{scope}: {words_of(vote)}" for scope, vote in sorted(votes.items()) if vote.verdict == Verdict.REFUSED
    ]
    return replace(after, detail=bound_text("; ".join(refusals)))


def _is_asked_for(head: ListedHead, vote: ReportedVote) -> bool:
    entry = head.candidates.get(vote.scope)
    return entry is not None and (entry["snapshot_id"], entry["content_hash"]) == (vote.snapshot_id, vote.content_hash)


def _follow_outcome(row: ChangeNode, report: SaidOfChanges, head: ListedHead, now: float) -> ChangeNode:
    if row.outcome in FAILED - {Outcome.SILENT}:
        return row
    failure = next(_failures(row, report, head), None)
    if failure is not None:
        return replace(row, outcome=failure[0].value, detail=bound_text(failure[1]))
    if not head.is_told or not _runs_it(row, report, head):
        return row
    outcome = Outcome.GOOD if _is_good(row, report, head) or row.outcome == Outcome.GOOD else Outcome.ACTIVE
    return replace(row, outcome=outcome.value, detail="", active_at=row.active_at or now)


def _failures(row: ChangeNode, report: SaidOfChanges, head: ListedHead) -> Iterator[tuple[Outcome, str]]:
    """Of the content that was given to it, by whatever number."""
    for scope in row.scopes:
        entry, taken_back = head.scopes.get(scope), report.taken_back.get(scope)
        known = {entry["content_hash"]} if entry is not None and head.is_told else set()
        known |= {row.votes[scope].content_hash} if scope in row.votes else set()
        if taken_back is not None and taken_back.content_hash in known:
            yield Outcome.REVERTED, f"{scope}: {taken_back.words}"
        refused = report.refused.get(scope)
        if entry is not None and head.is_told and refused is not None and _is_of(refused, entry):
            yield Outcome.REFUSED, f"{scope}: {refused.words}"


def _is_of(refused: RefusedVersion, entry: Mapping[str, Any]) -> bool:
    return refused.config_version == int(entry["config_version"])


def _runs_it(row: ChangeNode, report: SaidOfChanges, head: ListedHead) -> bool:
    """What is withdrawn, it has no more."""
    return all(
        report.active.get(scope) == (head.scopes[scope]["content_hash"] if scope in head.scopes else None)
        for scope in row.scopes
    )


def _is_good(row: ChangeNode, report: SaidOfChanges, head: ListedHead) -> bool:
    listed = [scope for scope in row.scopes if scope in head.scopes]
    return bool(listed) and all(report.good.get(scope) == head.scopes[scope]["content_hash"] for scope in listed)


# ---- rows


def _read_listings(transaction: Transaction, node_ids: Sequence[str]) -> dict[str, ListedHead]:
    nodes, heads = schema.nodes, schema.heads
    joined = nodes.join(heads, nodes.c.node_id == heads.c.node_id)
    columns = select(
        nodes.c.node_id, nodes.c.generation, heads.c.generation.label("out"), heads.c.candidates, heads.c.listing
    )
    return {
        row.node_id: _read_listing(row)
        for chunk in chunks(node_ids)
        for row in transaction.rows(columns.select_from(joined).where(is_in(nodes.c.node_id, chunk)))
    }


def _read_listing(row: "Row[Any]") -> ListedHead:
    return ListedHead(json.loads(row.candidates), json.loads(row.listing), row.out >= row.generation)  # our own writing


def _write(transaction: Transaction, rows: Sequence[ChangeNode]) -> None:
    """By node and change, so that nobody who writes such rows waits for another one who does (records.py)."""
    table = schema.change_nodes
    this = update(table).where(table.c.change_id == bindparam("change"), table.c.node_id == bindparam("node"))
    values = this.values(
        votes=bindparam("said"), outcome=bindparam("came"), detail=bindparam("words"), active_at=bindparam("since")
    )
    transaction.run(
        values,
        [
            {
                "change": row.change_id,
                "node": row.node_id,
                "said": canonical.dumps({scope: asdict(vote) for scope, vote in row.votes.items()}).decode(),
                "came": row.outcome,
                "words": row.detail,
                "since": row.active_at,
            }
            for row in rows
        ],
    )


def _foreign(transaction: Transaction, votes: Collection[tuple[str, str]]) -> list[str]:
    """Nodes that vote on what was never made for them; what was, and is over, is merely late."""
    table = schema.published
    lines = tuple_(table.c.node_id, table.c.snapshot_id)
    known = {
        (row.node_id, row.snapshot_id)
        for chunk in chunks(sorted(set(votes)))
        for row in transaction.rows(select(table.c.node_id, table.c.snapshot_id).where(lines.in_(chunk)))
    }
    return sorted({node_id for node_id, snapshot_id in votes if (node_id, snapshot_id) not in known})
