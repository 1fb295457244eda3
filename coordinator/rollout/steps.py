"""What was decided for a change, carried out: in one transaction of its own, or not at all.

    carry_out(transaction, record, nodes, decided)    rows, heads, timeline and audit log follow what was decided
    stop(transaction, record, ...)                    nothing is offered any more; halt_all: of every one
    settle(transaction, record, nodes, state)         it is over: nobody is kept from anything by it

The record comes first, by compare and swap: whoever has decided from an older one is refused, and has changed nothing.
Nodes that go to another step are to get a new head; the publisher finds them by that.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from coordinator.base.refusal import Refused
from coordinator.changes import records
from coordinator.changes.ends import close_groups
from coordinator.changes.groups import ChangeGroup
from coordinator.changes.progress import Move, NextMoves
from coordinator.changes.records import ChangeNode, ChangeRecord
from coordinator.changes.states import FAILED, ChangeState, GroupPhase, Outcome, Step
from coordinator.database.database import Transaction

NAMED = 8  # nodes in a line of the timeline
_RAN = (Outcome.ACTIVE, Outcome.GOOD)
_AHEAD = (GroupPhase.READY, GroupPhase.PENDING, GroupPhase.PASSED)


def carry_out(
    transaction: Transaction, record: ChangeRecord, nodes: Sequence[ChangeNode], decided: NextMoves
) -> ChangeRecord:
    """`conflict` where somebody else has gone on with it."""
    groups = list(record.groups)
    for move in decided.moves:
        groups[move.group] = _group_after(groups[move.group], move, transaction.now)
    state = decided.state if decided.state is ChangeState.ROLLING else record.state
    after = records.save(transaction, replace(record, groups=tuple(groups), state=state, waits_for=None))
    for move in decided.moves:
        _make(transaction, after, record.groups[move.group], move)
    if decided.state is ChangeState.DONE:
        if record.reverts is not None:
            end_revert(transaction, records.get(transaction, record.reverts), ChangeState.REVERTED, record.name)
        after = settle(transaction, after, _with_marks(nodes, decided.moves), ChangeState.DONE)
    elif decided.state in (ChangeState.HALTED, ChangeState.REVERTING):
        after = stop(transaction, after, nodes, decided.state, decided.why)
    transaction.audit(
        f"change.{after.state}", record.name, _words_of_state(record), {**_words_of_state(after), "why": after.why}
    )
    return after


def stop(
    transaction: Transaction, record: ChangeRecord, nodes: Iterable[ChangeNode], state: ChangeState, why: str
) -> ChangeRecord:
    """Who has it keeps it; who was to get it goes on with what there is."""
    after = records.save(transaction, replace(record, state=state, why=why))
    offered = [node.node_id for node in nodes if node.step is Step.OFFERED]
    records.move(transaction, after, offered, Step.HELD)
    records.note(transaction, record.change_id, state.value, detail=why)
    return after


def halt_all(transaction: Transaction, why: str) -> None:
    """All that are under way, for a reason that is none of theirs."""
    for record in records.open_changes(transaction):
        if record.state in (ChangeState.PREPARING, ChangeState.ROLLING):
            stop(transaction, record, records.nodes_of(transaction, record.change_id), ChangeState.HALTED, why)
            transaction.audit("change.halted", record.name, record.state.value, {"why": why})


def settle(
    transaction: Transaction, record: ChangeRecord, nodes: Sequence[ChangeNode], state: ChangeState
) -> ChangeRecord:
    """What its rows said is kept as numbers. Who was left aside or away gets what is declared, as after any apply."""
    groups = close_groups(record, nodes)
    after = records.save(
        transaction, replace(record, state=state, groups=groups, waits_for=None, settled_at=transaction.now)
    )
    left = [node for node in nodes if node.step is not Step.RELEASED]
    records.let_go(transaction, after, [node.node_id for node in left])
    away = [node.node_id for node in left if node.outcome not in FAILED]
    if away and state is ChangeState.DONE:
        records.note(transaction, record.change_id, "left_out", detail=_names(away))
    records.note(
        transaction, record.change_id, state.value, detail=_in_numbers(after) if state is ChangeState.DONE else ""
    )
    return after


def end_revert(transaction: Transaction, record: ChangeRecord, state: ChangeState, by: str) -> None:
    """The change that takes it back is over. What was settled before has no rows, and keeps its numbers."""
    if record.settled_at is None:
        settle(transaction, record, records.nodes_of(transaction, record.change_id), state)
    else:
        records.save(transaction, replace(record, state=state))
        records.note(transaction, record.change_id, state.value, detail=f"by {by}")
    transaction.audit(f"change.{state}", record.name, record.state.value, {"by": by})


def give_up_revert(transaction: Transaction, record: ChangeRecord, refused: Refused) -> None:
    """It cannot be taken back: a person has to look."""
    nodes = records.nodes_of(transaction, record.change_id)
    why = f"{record.why}; not taken back: {refused.detail}"
    stop(transaction, record, nodes, ChangeState.HALTED, why)
    transaction.audit("change.halted", record.name, record.state.value, {"why": why})


def _group_after(group: ChangeGroup, move: Move, now: float) -> ChangeGroup:
    is_same = (group.phase, group.ring) == (move.phase, move.ring)
    return replace(group, phase=move.phase, ring=move.ring, since=group.since if is_same else now)


def _make(transaction: Transaction, record: ChangeRecord, before: ChangeGroup, move: Move) -> None:
    records.move(transaction, record, move.offer, Step.OFFERED)
    records.move(transaction, record, move.release, Step.RELEASED, ring=move.ring)
    outcomes = {node_id: outcome.value for node_id, outcome in move.outcomes.items()}
    records.mark(transaction, record.change_id, outcomes)
    records.note_all(transaction, record.change_id, list(_moments(before, move)))


def _moments(before: ChangeGroup, move: Move) -> Iterator[tuple[str, str, str]]:
    """(what, node, detail)"""
    yield from (
        (Outcome.SILENT.value, node_id, "") for node_id, outcome in move.outcomes.items() if outcome is Outcome.SILENT
    )
    if move.offer:
        yield "asked", "", _names(move.offer)
    if before.phase is GroupPhase.VOTING and move.phase is GroupPhase.READY:
        yield "accepted", "", f"{len(move.outcomes)} of those that were asked are left aside" if move.outcomes else ""
    if before.phase is GroupPhase.BAKING and move.phase in _AHEAD:
        yield "passed", "", f"ring {before.ring}"
    if move.release:
        yield "given", "", f"ring {move.ring}: {_names(move.release)}"


def _names(node_ids: Collection[str]) -> str:
    named = sorted(node_ids)[:NAMED]
    more = f" and {len(node_ids) - NAMED} more" if len(node_ids) > NAMED else ""
    return f"{len(node_ids)} nodes: {', '.join(named)}{more}" if len(node_ids) > 1 else named[0]


def _with_marks(nodes: Iterable[ChangeNode], moves: Iterable[Move]) -> list[ChangeNode]:
    """As the rows are now."""
    marks = {node_id: outcome.value for move in moves for node_id, outcome in move.outcomes.items()}
    return [replace(node, outcome=marks.get(node.node_id, node.outcome)) for node in nodes]


def _in_numbers(record: ChangeRecord) -> str:
    counts = Counter[str]()
    for group in record.groups:
        counts.update(group.counts)
    run = sum(counts[outcome] for outcome in _RAN)
    return f"{run} of {sum(counts.values())} nodes run it"


def _words_of_state(record: ChangeRecord) -> dict[str, object]:
    rings = [{"policy": group.policy, "phase": group.phase.value, "ring": group.ring} for group in record.groups]
    return {"state": record.state.value, "groups": rings}
