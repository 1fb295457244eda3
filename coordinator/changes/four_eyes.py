"""Who may approve, and who may do with fewer approvals than there are to be.

    role_of(transaction, actor)                   what who asks may do, now
    check_policies(transaction, before, after)    `permission_denied` where a plan takes approvals away
    problems(transaction, declared, made)         policies that ask for more approvals than people can give

Approvals would be worth nothing if who needs them could declare them away, or a node's labels so that another policy is
its own, and apply the rest alone. So a plan after which some node needs fewer approvals than before is an admin's.
Rejected: to hold back such a plan itself until it is approved. It touches no scope of any node, so there would be
nothing to hold back.

A policy that nobody can satisfy would let no change begin again, and be noticed with the first one that is urgent. So
it is refused when it is declared, by who could approve then. Who goes later makes changes wait, and an alert tells of
that: operators are removed because a key is stolen, and nothing may stand in the way of it.
"""

from collections.abc import Iterable, Iterator, Mapping

from sqlalchemy import select

from coordinator.base.refusal import Code, Refused
from coordinator.changes.rollout_policy import rollout_of, rollouts
from coordinator.database import schema
from coordinator.database.database import Transaction
from coordinator.declared.fields import FieldFault
from coordinator.declared.kinds import RolloutPolicy
from coordinator.declared.model import Key, Model
from coordinator.declared.plans import ResourceChange
from coordinator.declared.resources import Declared, DeclaredProblem
from wire.operators.operator_roles import OperatorRole

BY_TLS, BY_SOCKET = "operator:", "uid:"
NAMED = 5  # nodes in a sentence


def role_of(transaction: Transaction, actor: str) -> OperatorRole | None:
    """None of an operator who is none any more. The machine's own, and the coordinator itself, may everything."""
    if not actor.startswith(BY_TLS):
        return OperatorRole.ADMIN
    table = schema.operators
    row = transaction.row(select(table.c.role).where(table.c.name == actor.removeprefix(BY_TLS)))
    return None if row is None else OperatorRole(row.role)


def is_approver(role: OperatorRole | None) -> bool:
    return role is not None and role.covers(OperatorRole.APPROVER)


def person_of(actor: str) -> str:
    """Who counts as one: all who come in by the machine's admin socket do."""
    return actor if actor.startswith(BY_TLS) else BY_SOCKET


def count_approvers(transaction: Transaction, author: str) -> int:
    """How many persons may approve now what `author` applies: operators by role and certificate, and the machine."""
    table = schema.operators
    rows = transaction.rows(select(table.c.name, table.c.role).where(table.c.expires_at > transaction.now))
    able = {f"{BY_TLS}{row.name}" for row in rows if is_approver(OperatorRole(row.role))}
    return len((able | {BY_SOCKET}) - {person_of(author)})


def problems(
    transaction: Transaction, declared: Mapping[Key, Declared], made: Iterable[ResourceChange]
) -> Iterator[DeclaredProblem]:
    """Of policies that this plan writes."""
    asking = [change.after for change in made if isinstance(change.after, RolloutPolicy) and change.after.approvals]
    if not asking:
        return
    count = count_approvers(transaction, transaction.actor)
    for policy in asking:
        if policy.approvals > count:
            yield _problem(declared.get(policy.key), policy, count)


def _problem(entry: Declared | None, policy: RolloutPolicy, count: int) -> DeclaredProblem:
    who = "1 may approve" if count == 1 else f"{count} may approve"
    message = f"RolloutPolicy {policy.id} asks for {policy.approvals} approvals, and beside you {who}"
    fault = FieldFault(("spec", "approvals"), message, f"ask for at most {count}, or first: holdfastctl operators add")
    if entry is not None:
        return entry.problem(fault)
    return DeclaredProblem("(declared)", 0, "spec.approvals", fault.message, fault.remedy)


def check_policies(transaction: Transaction, before: Model, after: Model) -> None:
    freed = freed_nodes(before, after)
    if not freed or role_of(transaction, transaction.actor) is OperatorRole.ADMIN:
        return
    named = ", ".join(freed[:NAMED]) + (f" and {len(freed) - NAMED} more" if len(freed) > NAMED else "")
    detail = f"{named} would need fewer approvals than now"
    raise Refused(Code.PERMISSION_DENIED, detail, remedy="leave that to an admin: only an admin takes approvals away")


def freed_nodes(before: Model, after: Model) -> list[str]:
    """Members that need fewer approvals after than before, in the order of their ids. Pure."""
    wanted = _approvals_by_node(before)
    if not wanted:
        return []
    left = _approvals_by_node(after)
    return sorted(
        node_id for node_id, count in wanted.items() if node_id in after.members and left.get(node_id, 0) < count
    )


def _approvals_by_node(model: Model) -> dict[str, int]:
    """Of those that need any: nearly always nobody, and then no node is looked at."""
    if not any(policy.approvals for policy in model.rollout_policies):
        return {}
    by_policy = rollouts(model, model.subjects.values())
    counts = {policy: rollout_of(model, policy, len(node_ids)).approvals for policy, node_ids in by_policy.items()}
    return {
        node_id: count for policy, node_ids in by_policy.items() if (count := counts[policy]) for node_id in node_ids
    }
