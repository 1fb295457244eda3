"""Which scopes of a node changes keep back from it, in words, for `explain`, `diff` and `nodes show`.

    held_scopes(transaction, node_ids)    by node and scope: `by c-41, which is preparing`

A change in whose place another stands keeps nobody back by itself: who waits, waits for the other one.
"""

from collections.abc import Iterator, Sequence

from coordinator.changes import records
from coordinator.changes.records import ChangeNode, ChangeRecord, change_name
from coordinator.changes.states import FAILED, ChangeState, Outcome, Step
from coordinator.database.database import Transaction

HeldScopes = dict[str, dict[str, str]]


def held_scopes(transaction: Transaction, node_ids: Sequence[str]) -> HeldScopes:
    """Where nothing is under way it costs one look into an index."""
    standing = {record.change_id: record for record in records.standing_changes(transaction)}
    if not standing:
        return {}
    found: HeldScopes = {}
    for node_id, rows in records.holding(transaction, node_ids).items():
        by_scope = {scope: words for row in rows for scope, words in _words_by_scope(standing, row)}
        if by_scope:
            found[node_id] = dict(sorted(by_scope.items()))
    return found


def _words_by_scope(standing: dict[int, ChangeRecord], row: ChangeNode) -> Iterator[tuple[str, str]]:
    if row.step is Step.RELEASED:
        return
    record = standing[row.change_id]
    while record.superseded_by in standing:
        record = standing[record.superseded_by]
    for scope in row.scopes:
        yield scope, f"by {record.name}, which {_words_of(record, row)}"


def _words_of(record: ChangeRecord, row: ChangeNode) -> str:
    if record.waits_for is not None:
        return f"waits for {change_name(record.waits_for)}"
    match record.state:
        case ChangeState.PROPOSED:
            return "waits for approval"
        case ChangeState.ROLLING:
            return _words_of_ring(record, row)
        case ChangeState.HALTED:
            return f"is halted: {record.why}" if record.why else "is halted"
        case ChangeState.REVERTING:
            return "is being taken back"
        case state:
            return f"is {state}"


def _words_of_ring(record: ChangeRecord, row: ChangeNode) -> str:
    """Who has failed is given nothing before it is done, and so is who is away in the last ring."""
    group = record.groups[row.group]
    if row.change_id == record.change_id and row.outcome in {outcome.value for outcome in FAILED}:
        return f"this node {_SAID[Outcome(row.outcome)]}; it gets it when the change is done"
    rings = len(group.rollout.rings)
    return f"waits for ring {group.ring + 1} of {rings}" if group.ring < rings else "has yet to be done"


_SAID = {
    Outcome.REFUSED: "has refused",
    Outcome.REVERTED: "has gone back from",
    Outcome.SILENT: "has not answered",
}
