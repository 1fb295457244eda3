"""Whether there is anything of the name that is to be revoked: a slip of the pen must not look like a revocation."""

from collections.abc import Iterable

from sqlalchemy import select

from coordinator.base.refusal import Code, Refused
from coordinator.database import catalog, schema
from coordinator.database.database import Transaction
from coordinator.declared.kinds import Node
from coordinator.declared.model import Model
from coordinator.publishing import published_state
from snapshot.roles import ROLES

ANYWAY = "or revoke it all the same with --unknown"
_SHOWN = 8  # of the names that a refusal lists


def check_known(transaction: Transaction, category: str, value: str) -> None:
    """`not_found` with what there is. `value` is in the form of its category."""
    known = sorted(_known_values(transaction, category, value))
    if value in known:
        return
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    there = ", ".join(known[:_SHOWN]) + more or "none"
    remedy = f"there is: {there}; {ANYWAY}"
    raise Refused(Code.NOT_FOUND, f"nothing is known of {category} {value}", remedy=remedy)


def check_role(value: str) -> None:
    """The role of `node/role` is one of ours, whatever a node has."""
    role = value.partition("/")[2]
    if role not in ROLES:
        raise Refused(Code.BAD_REQUEST, f"{role} is no role", remedy=", ".join(sorted(ROLES)))


def _known_values(transaction: Transaction, category: str, value: str) -> Iterable[str]:
    model = catalog.load(transaction)
    match category:
        case "key_ids":
            found = published_state.latest_bundle(transaction)
            return () if found is None else found[1].keys
        case "role_assignments":
            return _assignments(model, value.partition("/")[0])
        case "service_ids":  # and what services go out by: no two share an id (references.py)
            return [*model.services, *model.egress_resources]
        case _:
            return _endpoints(transaction, model)


def _assignments(model: Model, node_id: str) -> set[str]:
    """Those of the node where it has any, else everybody's."""
    every = {f"{node.id}/{role}": node.id for node in model.of(Node) for role in node.roles}
    return {value for value, owner in every.items() if owner == node_id} or set(every)


def _endpoints(transaction: Transaction, model: Model) -> set[str]:
    """Where nodes are told to ask: coordinators, storage endpoints, and members that hand documents on."""
    urls = {endpoint.url for endpoint in model.storage_endpoints}
    urls |= set(model.cluster.coordinators) if model.cluster else set()
    urls |= {member.direct_url for member in model.members.values() if member.direct_url}
    return urls | {row.url for row in transaction.rows(select(schema.coordinators.c.url))}
