"""Applying declared resources as a whole, in one transaction (protocol 2; rules S69, K21, H38).

apply(database, texts, ...)           `holdfastctl apply -f DIR`: the plan, carried out
carry_out(database, declared, ...)    the same of what was read already (last_read.py)
with dry_run=True                     the same code, stopped before the commit: `diff` and `--dry-run`
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import bindparam, delete, insert, select

from coordinator import authority, catalog, endpoints, plans, resources, schema, sites
from coordinator.affected import Scope
from coordinator.database import Database, Transaction
from coordinator.forms import Fault
from coordinator.kinds import Node, Resource
from coordinator.model import Key, Model
from coordinator.plans import Change
from coordinator.refusal import Code, Refused
from coordinator.resources import Declared, InvalidResources
from snapshot import canonical


@dataclass(frozen=True)
class Plan:
    """What an apply does: its changes, what stays, and the scopes that have to be compiled again."""

    changes: tuple[Change, ...]
    unchanged: int
    touched: frozenset[Scope]
    based_on: str  # the state that it was made from; hand it to `apply` to carry out exactly this plan

    def lines(self) -> list[str]:
        nodes = len({node_id for node_id, _ in self.touched})
        made = [line for change in self.changes for line in change.lines()]
        return [*made, f"{len(self.changes)} changes, {self.unchanged} unchanged, {nodes} nodes touched"]


def apply(database: Database, texts: Mapping[str, str], *, actor: str, now: float, **how: Any) -> Plan:  # noqa: ANN401 - handed on
    """Apply the YAML of `texts` (file name to text) as a whole; InvalidResources with every problem."""
    return carry_out(database, resources.read(texts), actor=actor, now=now, **how)


def carry_out(
    database: Database,
    declared: Mapping[Key, Declared],
    *,
    actor: str,
    now: float,
    prune: bool = False,
    drop_endpoints: bool = False,
    dry_run: bool = False,
    based_on: str | None = None,
) -> Plan:
    """Apply what is declared, as a whole.

    InvalidResources where it does not hold together; `concurrent_update` when the state is no longer the one that
    `based_on` names (rules H38): nothing of the loser remains. `endpoint_in_use` when members need an endpoint that
    would go, unless `drop_endpoints` (rules L15).
    """
    enter = database.rehearse if dry_run else database.change
    with enter(actor=actor, now=now) as transaction:
        standing = authority.standing(transaction)
        if based_on is not None and based_on != standing.state_id:
            raise Refused(Code.CONCURRENT_UPDATE, "the state has changed since this plan was made", remedy="diff again")
        before = catalog.load(transaction)
        flags = {"prune": prune, "drop_endpoints": drop_endpoints}
        return _made(transaction, before, declared, flags, state_id=standing.state_id)


def kept(database: Database) -> list[Resource]:
    """Everything that is declared, in the order of kind and id."""
    with database.read() as transaction:
        return [resource for _, resource in sorted(catalog.resources(transaction).items())]


def _made(
    transaction: Transaction,
    before: Model,
    declared: Mapping[Key, Declared],
    flags: Mapping[str, bool],
    *,
    state_id: str,
) -> Plan:
    wanted = {key: each.resource for key, each in declared.items()}
    made = plans.changes(before.resources, wanted, prune=flags["prune"])
    after = plans.result(before.resources, made)
    staying = {key: resource for key, resource in after.items() if key not in declared}
    resources.check(declared, staying, before.cluster_id)
    _check_catalog(transaction, declared)
    if left := list(sites.problems(transaction, made)):
        raise InvalidResources(left)
    model = replace(before, resources=after)
    if not flags["drop_endpoints"]:
        endpoints.check(transaction, before.cluster, model.cluster)
    sites.follow(transaction, made)
    _write(transaction, made)
    touched: frozenset[Scope] = frozenset()
    if made:
        touched = catalog.changed(transaction, before, model)
    transaction.audit("apply", before.cluster_id, None, {"changes": len(made), **flags})
    return Plan(made, len(after) - sum(change.after is not None for change in made), touched, state_id)


def _write(transaction: Transaction, made: Sequence[Change]) -> None:
    table = schema.resources
    this = delete(table).where(table.c.kind == bindparam("of_kind"), table.c.id == bindparam("of_id"))
    keys = [change.key for change in made if change.before is not None]
    transaction.run(this, [{"of_kind": kind, "of_id": id_} for kind, id_ in keys])
    revision = authority.standing(transaction).revision + 1
    new = [change.after for change in made if change.after is not None]
    rows = [
        {"kind": each.KIND, "id": each.id, "body": canonical.dumps(each.spec()).decode(), "revision": revision}
        for each in new
    ]
    transaction.run(insert(table), rows)
    transaction.audit_all([(f"resource.{each.verb}", " ".join(each.key), *each.specs()) for each in made])


def _check_catalog(transaction: Transaction, declared: Mapping[Key, Declared]) -> None:
    """What is declared of a node may not contradict what it is, or is allowed as (rules H-000-1)."""
    problems = []
    for table, what in ((schema.nodes, "a member"), (schema.allowlist, "on the allowlist")):
        for row in transaction.rows(select(table.c.node_id, table.c.kind, table.c.site_id)):
            each = declared.get((Node.KIND, row.node_id))
            if each is None or not isinstance(each.resource, Node):
                continue
            for field, given, there in (
                ("kind", each.resource.kind, row.kind),
                ("site", each.resource.site, row.site_id),
            ):
                if given != there:
                    message = f"{row.node_id} is {what} with {field} {there}"
                    problems.append(each.problem(Fault(("spec", field), message, "remove it first, or declare it so")))
    if problems:
        raise InvalidResources(problems)
