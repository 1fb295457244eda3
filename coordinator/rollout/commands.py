"""What a person asks of a change, or the coordinator by itself: to halt, to go on, to take it back.

    halt(database, change_id, ...)      nobody is given it any more; who has it keeps it
    resume(database, change_id, ...)    what has failed so far is left aside, and it goes on with the others
    revert(database, change_id, ...)    a new change that puts back what it has changed

A revert is a change like any other: it is voted on, goes in rings, or at once where a reason is given. It puts back
whole resources, and what its change has superseded goes with it: that never went through, so it is no way back. Where a
later change has touched one of them, or could not stand without it, it does nothing and says which: to undo half of two
changes is what nobody has asked for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from coordinator.base.refusal import Code, Refused
from coordinator.changes import order, progress, records
from coordinator.changes.progress import ChangeProgress, NodeProgress
from coordinator.changes.records import ChangedResource, ChangeNode, ChangeRecord, ChangeRequest, change_name
from coordinator.changes.states import ChangeState, Outcome
from coordinator.changes.undoing import read_before, undo
from coordinator.database import catalog, uploads
from coordinator.database.catalog import StateName
from coordinator.database.database import Database, Transaction
from coordinator.declared.change_impact import affected_scopes
from coordinator.declared.kinds import Config, Resource
from coordinator.declared.model import Key, Model
from coordinator.declared.plans import ResourceChange
from coordinator.declared.references import faults_of
from coordinator.publishing import declarations, proposals
from coordinator.publishing.declarations import ApplyPlan, OutdatedProposal
from coordinator.publishing.proposals import Proposal
from coordinator.rollout import approvals, steps
from snapshot import canonical

ATTEMPTS = 3  # to put back, while others apply
UNDER_WAY = frozenset({ChangeState.PROPOSED, ChangeState.PREPARING, ChangeState.ROLLING})


def halt(database: Database, change_id: int, reason: str, *, actor: str, now: float) -> ChangeRecord:
    """`conflict` for one that is not under way."""
    with database.change(actor=actor, now=now) as transaction:
        record = records.get(transaction, change_id)
        if record.state not in UNDER_WAY:
            raise Refused(Code.CONFLICT, f"{record.name} is {record.state}, and is not under way", remedy=_look(record))
        nodes = records.nodes_of(transaction, change_id)
        after = steps.stop(transaction, record, nodes, ChangeState.HALTED, f"by {actor}: {reason}" if reason else actor)
        transaction.audit("change.halt", record.name, record.state.value, {"reason": reason})
        return after


def resume(database: Database, change_id: int, reason: str, *, actor: str, now: float) -> ChangeRecord:
    """`conflict` for one that was not halted. Of one that waits for a halted one it says which, and what leads on:
    that is what a person has to decide about, and what waits has not begun.
    """
    with database.change(actor=actor, now=now) as transaction:
        record = records.get(transaction, change_id)
        if record.state is not ChangeState.HALTED:
            raise _refuse_to_resume(transaction, record)
        nodes = records.nodes_of(transaction, change_id)
        stands = ChangeProgress(change_id, record.state, record.groups)
        resumed = progress.resume(stands, [_as_progress(node) for node in nodes])
        records.leave_aside(transaction, change_id, resumed.aside)
        records.forget_votes_of_failed(transaction, change_id)
        after = replace(record, state=_state_again(transaction, record), groups=resumed.groups, why="")
        saved = records.save(transaction, after)
        records.note(transaction, change_id, "resumed", detail=f"by {actor}: {reason}" if reason else f"by {actor}")
        transaction.audit("change.resume", record.name, record.why, {"state": saved.state.value, "reason": reason})
        return saved


def revert(
    database: Database,
    change_id: int,
    *,
    actor: str,
    now: float,
    message: str = "",
    now_reason: str = "",
    is_automatic: bool = False,
) -> ApplyPlan:
    """What was carried out, as an apply; its change is the one that reverts. `conflict`: nothing was done."""
    for _ in range(ATTEMPTS):
        with database.read() as transaction:
            proposal = _put_back(transaction, records.get(transaction, change_id))
        weighed = proposals.weigh(database, proposal, reverts=change_id)
        why = message or f"takes back {change_name(change_id)}"
        ask = ChangeRequest(why, now_reason, reverts=change_id, is_automatic=is_automatic)
        try:
            return declarations.carry_out(database, weighed, actor=actor, now=now, ask=ask)
        except OutdatedProposal:
            continue
    raise Refused(Code.CONCURRENT_UPDATE, "the state goes on changing meanwhile", remedy="revert again")


def _refuse_to_resume(transaction: Transaction, record: ChangeRecord) -> Refused:
    ahead = _changes_ahead(transaction, record)
    halted = next((change for change in ahead if change.state is ChangeState.HALTED), None)
    if record.state not in UNDER_WAY or not ahead:
        return Refused(Code.CONFLICT, f"{record.name} is {record.state}, and was not halted", remedy=_look(record))
    if halted is None:
        detail = f"{record.name} was not halted: it waits for {ahead[-1].name}, which is {ahead[-1].state}"
        return Refused(Code.CONFLICT, detail, remedy=f"wait for that: holdfastctl changes wait {ahead[-1].name}")
    detail = f"{record.name} waits for {halted.name}, which is halted: {halted.why}"
    either = f"holdfastctl changes resume {halted.name}, or holdfastctl changes revert {halted.name}"
    remedy = f"let {record.name} go on by deciding that: {either}; or apply something else, which supersedes both"
    return Refused(Code.CONFLICT, detail, remedy=remedy)


def _changes_ahead(transaction: Transaction, record: ChangeRecord) -> list[ChangeRecord]:
    """Those that are open and that it waits for, also through others; what goes first, first."""
    left = {change.change_id: change for change in records.open_changes(transaction)}
    ordered, wanted = order.in_order(left.values()), set(record.follows)
    for change_id in reversed(ordered):
        if change_id in wanted:
            wanted.update(left[change_id].follows)
    return [left[change_id] for change_id in ordered if change_id in wanted]


def _look(record: ChangeRecord) -> str:
    return f"see holdfastctl changes show {record.name}"


def _state_again(transaction: Transaction, record: ChangeRecord) -> ChangeState:
    """What nobody has approved, a halt has not approved either."""
    if any(group.ring for group in record.groups):
        return ChangeState.ROLLING
    is_asked = approvals.count(transaction, record.change_id) < approvals.needed_count(record)
    return ChangeState.PREPARING if record.has_begun or not is_asked else ChangeState.PROPOSED


def _as_progress(node: ChangeNode) -> NodeProgress:
    return NodeProgress(node.node_id, node.group, node.step, node.ring, Outcome(node.outcome))


# ---- what is put back


def _put_back(transaction: Transaction, record: ChangeRecord) -> Proposal:
    """The proposal that makes each of its resources what it was."""
    if record.state is ChangeState.REVERTED:
        raise Refused(Code.CONFLICT, f"{record.name} was taken back already", remedy=_look(record))
    under_way = reverting(transaction, record.change_id)
    if under_way is not None and under_way.settled_at is None:
        detail = f"{under_way.name} takes {record.name} back already, and is {under_way.state}"
        raise Refused(Code.CONFLICT, detail, remedy=_look(under_way))
    before = after = catalog.load(transaction)
    keys: set[Key] = set()
    for undone in _list_replaced(transaction, record):
        plan = records.plan_of(transaction, undone.change_id)
        _check_untouched(transaction, undone, plan, after)
        after = undo(after, read_before(plan))
        keys |= {change.key for change in plan}
    _check_together(record, after)
    _check_contents(transaction, record, before, after)
    return _proposal(before, after, keys, catalog.state_name(transaction))


def _list_replaced(transaction: Transaction, record: ChangeRecord) -> list[ChangeRecord]:
    """It, and those in whose place it came, the newest first: they never went through, and are no way back. What was
    taken back is as it was.
    """
    found = {record.change_id: record}
    for earlier in records.list_changes(transaction, [ChangeState.SUPERSEDED], most=records.MOST_LISTED):
        if earlier.superseded_by in found:
            found[earlier.change_id] = earlier
    return list(found.values())


def reverting(transaction: Transaction, change_id: int) -> ChangeRecord | None:
    """The last change that takes it back."""
    return next(iter(records.reverts_of(transaction, change_id)), None)


def _check_untouched(
    transaction: Transaction, record: ChangeRecord, plan: "tuple[ChangedResource, ...]", model: Model
) -> None:
    for change in plan:
        made = change.after
        found = model.resources.get(change.key)
        if (None if found is None else canonical.dumps(found.spec())) == (
            None if made is None else canonical.dumps(made)
        ):
            continue
        later = _later_change(transaction, record.change_id, change.key)
        by = f"{later.name} has changed it since" if later is not None else "it is another one since"
        remedy = f"revert {later.name} first" if later is not None else "apply what it should be"
        detail = f"{record.name} changed {' '.join(change.key)}, and {by}"
        raise Refused(Code.CONFLICT, detail, remedy=remedy)


def _later_change(transaction: Transaction, change_id: int, key: Key) -> ChangeRecord | None:
    """The newest that touches the same resource."""
    later = (record for record in records.list_changes(transaction) if record.change_id > change_id)
    return next(
        (
            record
            for record in later
            if any(change.key == key for change in records.plan_of(transaction, record.change_id))
        ),
        None,
    )


def _check_together(record: ChangeRecord, after: Model) -> None:
    resource, fault = next(iter(faults_of(after)), (None, None))
    if resource is None or fault is None:
        return
    detail = f"without {record.name}, {' '.join(resource.key)}: {fault.message}"
    raise Refused(Code.CONFLICT, detail, remedy="what was built on it goes first: revert that, or apply without it")


def _check_contents(transaction: Transaction, record: ChangeRecord, before: Model, after: Model) -> None:
    """What files held is kept for a while (retention.py)."""
    named = {part for config in after.of(Config) if before.resources.get(config.key) != config for part in config.parts}
    if gone := named - uploads.existing_parts(transaction, named):
        detail = f"{len(gone)} parts of files that {record.name} has replaced are not kept any more"
        raise Refused(Code.CONFLICT, detail, remedy="apply the files as they were: they are uploaded again")


def _proposal(before: Model, after: Model, keys: "set[Key]", state: StateName) -> Proposal:
    made = tuple(_changes(before.resources, after.resources, keys))
    bodies = {change.key: canonical.dumps(change.specs[1]).decode() for change in made if change.after is not None}
    return Proposal({}, False, before, after, made, bodies, affected_scopes(before, after), state)


def _changes(
    before: Mapping[Key, Resource], after: Mapping[Key, Resource], keys: "set[Key]"
) -> Iterator[ResourceChange]:
    for key in sorted(keys):
        if before.get(key) != after.get(key):
            yield ResourceChange(before.get(key), after.get(key))
