"""A change begins: its record, the rows of the nodes that it holds back, and what becomes of those before it.

    begin(transaction, after, draft)    -> StartedChange

In the transaction of the apply, after which nothing of it can be lost: the declared state, who is held back from it,
and who asked for it are one fact. Where nobody is held back it is done at once. It waits for approvals where the policy
of any of its nodes asks for them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from coordinator.changes import records
from coordinator.changes.ends import close_groups
from coordinator.changes.groups import ChangeGroup
from coordinator.changes.records import ChangeNode, ChangeRecord, ChangeRequest, change_name
from coordinator.changes.rollout_policy import rollout_of, rollouts
from coordinator.changes.states import ChangeState
from coordinator.database.database import Transaction
from coordinator.declared.kinds import ON_FAILURE_HALT
from coordinator.declared.model import Model

BEGUN = "change.begin"


@dataclass(frozen=True)
class ChangeDraft:
    """What is asked for, the plan as JSON, and what follows from it. `held`: by node, the scopes that it waits for."""

    ask: ChangeRequest
    plan: str
    plan_hash: str
    based_on: str
    held: Mapping[str, Sequence[str]]
    supersedes: Sequence[int] = ()
    follows: Sequence[int] = ()


@dataclass(frozen=True)
class StartedChange:
    """What has begun, for people and for who goes on with it."""

    record: ChangeRecord
    held: Mapping[str, Sequence[str]] = field(default_factory=dict)
    superseded: tuple[ChangeRecord, ...] = ()
    draining: tuple[str, ...] = ()  # of those that are held: no vote and no ring is theirs (rules J30)

    def lines(self) -> Iterator[str]:
        name = self.record.name
        if not self.held:
            yield f"{name}: no node is held back, since none is told anything else than before"
        else:
            yield f"{name}: {_nodes(len(self.held))} held back until it is their turn"
        if self.draining:
            of = "all of them are" if len(self.draining) == len(self.held) else _nodes(len(self.draining))
            yield f"{name}: {of} draining: not asked, and given it once it is over"
        for change in self.superseded:
            said = "takes back" if change.change_id == self.record.reverts else "supersedes"
            yield f"{name} {said} {change.name}{f': {change.message}' if change.message else ''}"
        if self.record.waits_for is not None:
            yield f"{name} waits until {change_name(self.record.waits_for)} is over: both are about the same"


def _nodes(count: int) -> str:
    return "1 node is" if count == 1 else f"{count} nodes are"


def begin(transaction: Transaction, after: Model, draft: ChangeDraft) -> StartedChange:
    """`after`: the declared state as it is now."""
    change_id, ask = records.next_id(transaction), draft.ask
    groups, group_of = _groups(after, draft, transaction.now)
    record = ChangeRecord(
        change_id=change_id,
        at=transaction.now,
        actor=transaction.actor,
        message=ask.message,
        state=_first_state(draft, groups),
        plan_hash=draft.plan_hash,
        based_on=draft.based_on,
        groups=groups,
        immediately=ask.now_reason,
        allowed=bool(ask.allow) and ask.allow == draft.plan_hash,
        reverts=ask.reverts,
        waits_for=max(draft.follows, default=None) if draft.held else None,
        follows=tuple(draft.follows),
        settled_at=None if draft.held else transaction.now,
    )
    nodes = [
        ChangeNode(change_id, node_id, tuple(scopes), group_of[node_id])
        for node_id, scopes in sorted(draft.held.items())
    ]
    records.begin(transaction, record, draft.plan, nodes)
    superseded = tuple(_supersede(transaction, earlier, record, draft) for earlier in sorted(draft.supersedes))
    _lead(transaction, record, superseded)
    draining = tuple(node_id for node_id in sorted(draft.held) if after.subjects[node_id].member.is_draining)
    aside = f", {len(draining)} of them draining" if draining else ""
    records.note(transaction, change_id, record.state.value, detail=f"{len(nodes)} nodes held back{aside}")
    transaction.audit(BEGUN, record.name, None, _for_audit(record, draft))
    return StartedChange(record, draft.held, superseded, draining)


def _groups(after: Model, draft: ChangeDraft, now: float) -> tuple[tuple[ChangeGroup, ...], dict[str, int]]:
    """The nodes by the policy that is theirs; and by node, the place of its group."""
    subjects = (after.subjects[node_id] for node_id in sorted(draft.held))
    by_policy = sorted(rollouts(after, subjects).items())
    made = []
    for policy, node_ids in by_policy:
        rollout = rollout_of(after, policy, len(node_ids))
        rollout = rollout.at_once if draft.ask.now_reason else rollout
        rollout = replace(rollout, approvals=0) if draft.ask.is_automatic else rollout
        if draft.ask.reverts is not None:  # else a failure would send it to and fro for ever
            rollout = replace(rollout, on_failure=ON_FAILURE_HALT)
        made.append(ChangeGroup(policy, rollout, since=now))
    places = {node_id: place for place, (_, node_ids) in enumerate(by_policy) for node_id in node_ids}
    return tuple(made), places


def _first_state(draft: ChangeDraft, groups: Sequence[ChangeGroup]) -> ChangeState:
    if not draft.held:
        return ChangeState.DONE
    is_asked = any(group.rollout.approvals for group in groups)
    return ChangeState.PROPOSED if is_asked else ChangeState.PREPARING


def _supersede(transaction: Transaction, earlier: int, record: ChangeRecord, draft: ChangeDraft) -> ChangeRecord:
    """One that is taken back is over once that is done. What its rows say is kept: they go, node by node."""
    before = records.get(transaction, earlier)
    before = replace(before, groups=close_groups(before, records.nodes_of(transaction, earlier)))
    is_reverted = earlier == record.reverts
    ends = ChangeState.REVERTED if is_reverted else ChangeState.SUPERSEDED
    state = ChangeState.REVERTING if is_reverted and draft.held else ends
    after = records.supersede(transaction, before, record.change_id, draft.held.keys(), state)
    records.note(transaction, earlier, state.value, detail=f"by {record.name}")
    return after


def _lead(transaction: Transaction, record: ChangeRecord, superseded: Sequence[ChangeRecord]) -> None:
    """Whoever followed what it stands in the place of, and goes on, follows it."""
    over = {earlier.change_id for earlier in superseded if earlier.state is ChangeState.SUPERSEDED}
    for later in records.open_changes(transaction):
        if later.change_id != record.change_id and not over.isdisjoint(later.follows):
            records.save(transaction, replace(later, follows=(*later.follows, record.change_id)))


def _for_audit(record: ChangeRecord, draft: ChangeDraft) -> dict[str, object]:
    said = {"message": record.message, "plan_hash": record.plan_hash, "nodes": len(draft.held)}
    about = {"supersedes": [change_name(earlier) for earlier in draft.supersedes], "immediately": record.immediately}
    return {**said, **about, "allowed": record.allowed}
