"""A member that is taken out: drained, then removed (rules J30, J31), or removed by force (J32).

    drain, undrain      it keeps what it has, and gets nothing new; as often as one likes
    remove              only who is draining, and whom nothing depends on
    remove_by_force     whoever it is, by a reason and a trust bundle of root keys that raises the epoch

Draining says nothing of a node's health, and takes nothing from it. What it had when draining began goes on, as it is
declared by then and later: heads and documents are renewed, what is corrected, withdrawn or revoked reaches it. What it
did not have does not come: no service, no files, no entrance (declared/assignment.py). Others are not told of it as a
peer where another can be (declared/peers.py), and no change asks it or waits for it: it is given one when that is over
(rollout/facts.py). So an operator moves what runs there by declaring it elsewhere: the new place takes it up ring by
ring, and the draining one lets go last.

A removal that nobody has prepared takes services down, or is somebody's way to make them go down: so it is refused as
long as anything names the node. By force it needs what no operator has by the role alone: as many root keys as a bundle
takes. The bundle and the removal are one transaction, so neither is there without the other, and everything that was
signed while the node belonged to the cluster is of an epoch that is past.

Rejected:

- A role of operators for it: an admin gives out roles, and so would have it. Root keys are asked for wherever something
  needs more than an admin, and they lie elsewhere.
- Draining as a declared member of Node: an apply of last week's files would end it, and a change of it would go from
  ring to ring.
- A freeze, by which a draining node gets no other version of anything: what is withdrawn from it, or was wrong, has to
  reach it.
- Removal that waits until services have moved: nobody but their owners knows when that is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import partial

from sqlalchemy import update

from coordinator.base.refusal import Code, Refused, bound_text
from coordinator.database import catalog, cluster_state, documents, schema
from coordinator.database.database import Database, Transaction
from coordinator.database.member import Member
from coordinator.declared.assignment import enters, enters_by, is_assigned, is_given, runs
from coordinator.declared.config_scope import CONFIG
from coordinator.declared.kinds import Resource, RolloutRing, Selector, StorageEndpoint
from coordinator.declared.model import Key, Model, Subject
from coordinator.declared.tenant_scopes import SERVICES
from coordinator.membership import revocation
from coordinator.trust import trust_import
from snapshot import canonical

MOST_SAID = 3  # of what depends on a node, in one sentence; the others follow line by line
LET_IT_GO = "declare it elsewhere, or no more; or remove it by --force, with root keys"


def drain(database: Database, node_id: str, *, actor: str, now: float, reason: str = "") -> float:
    """Since when it is draining: from the first time on that somebody said so."""
    with database.change(actor=actor, now=now) as transaction:
        _member(transaction, node_id)
        since = _since(transaction, node_id)
        if since is not None:
            transaction.audit("drain", node_id, {"since": since}, {"since": since, "reason": bound_text(reason)})
            return since
        before = catalog.load(transaction)
        listed = documents.listings(transaction, [node_id]).get(node_id, {})
        keeps = sorted(had(before, before.subjects[node_id], listed))
        _mark(transaction, before, node_id, {"draining_since": now, "keeps": canonical.dumps(keeps).decode()})
        said = {"since": now, "keeps": len(keeps), "reason": bound_text(reason)}
        transaction.audit("drain", node_id, None, said)
        return now


def undrain(database: Database, node_id: str, *, actor: str, now: float, reason: str = "") -> None:
    """It is given again whatever is declared for it."""
    with database.change(actor=actor, now=now) as transaction:
        _member(transaction, node_id)
        since = _since(transaction, node_id)
        was = None if since is None else {"since": since}
        transaction.audit("undrain", node_id, was, {"reason": bound_text(reason)})
        if since is not None:
            _mark(transaction, catalog.load(transaction), node_id, {"draining_since": None, "keeps": None})


def remove(database: Database, node_id: str, *, reason: str, actor: str, now: float) -> frozenset[str]:
    """The nodes whose heads have to be issued again."""
    with database.change(actor=actor, now=now) as transaction:
        member = _member(transaction, node_id)
        since = _since(transaction, node_id)
        if since is None:
            remedy = f"holdfastctl nodes drain {node_id}, and move what runs there"
            raise Refused(Code.NOT_DRAINING, f"{node_id} is not draining", remedy=remedy)
        if found := list(dependants(catalog.load(transaction), node_id)):
            raise Refused(Code.HAS_DEPENDANTS, _words(node_id, found), remedy=LET_IT_GO, lines=found)
        before = {"kind": member.kind, "draining_since": since}
        transaction.audit("remove", node_id, before, {"reason": bound_text(reason)})
        return revocation.take_out(transaction, {node_id: reason})


def remove_by_force(
    database: Database,
    node_id: str,
    bundle: bytes,
    *,
    reason: str,
    actor: str,
    now: float,
    despite_reports: bool = False,
) -> None:
    """`bundle`: the next one, signed by root keys, which raises the epoch. Nothing is done where it does not."""
    also = partial(_force_out, node_id=node_id, reason=reason)
    trust_import.add_trust_bundle(database, bundle, actor=actor, now=now, despite_reports=despite_reports, also=also)


def had(model: Model, subject: Subject, listed: Mapping[str, object]) -> Iterator[Key]:
    """What a member has by now of all that selects nodes: of services and folders those that its head lists."""
    scopes = {
        **{f"{SERVICES}/{id_}": service for id_, service in model.services.items() if is_assigned(service, subject)},
        **{f"{CONFIG}/{id_}": config for id_, config in model.configs.items() if is_given(config, subject)},
    }
    yield from (resource.key for scope, resource in scopes.items() if scope in listed)
    for organization in subject.organizations:
        yield from (route.key for route in model.routes_of.get(organization, ()) if enters_by(route, subject))
        policies = model.entry_policies_of.get(organization, ())
        yield from (policy.key for policy in policies if enters(policy, subject))


def dependants(model: Model, node_id: str) -> Iterator[str]:
    """Whatever would point to nobody, or run nowhere, without the node: one sentence each (rules J31)."""
    named = set[Key]()
    for key, resource in sorted(model.resources.items()):
        for place in _places(resource, node_id):
            named.add(key)
            yield f"{resource.KIND} {resource.id} names it in {place}"
    subject = model.subjects[node_id]
    others = [other for other in model.subjects.values() if other.node_id != node_id and not other.member.is_draining]
    for _, service in sorted(model.services.items()):
        if service.key not in named and runs(service, subject) and not any(runs(service, other) for other in others):
            yield f"{service.KIND} {service.id} runs on no other member"


def _places(resource: Resource, node_id: str) -> Iterator[str]:
    """The members of a resource that name a node."""
    if isinstance(resource, StorageEndpoint) and resource.node == node_id:
        yield "node"
    for place in fields(resource):
        value = getattr(resource, place.name)
        rings = [ring.of for ring in value if isinstance(ring, RolloutRing)] if isinstance(value, tuple) else []
        selectors = [value] if isinstance(value, Selector) else rings
        if any(node_id in selector.nodes for selector in selectors):
            yield place.name


def _words(node_id: str, found: list[str]) -> str:
    more = f", and {len(found) - MOST_SAID} more" if len(found) > MOST_SAID else ""
    return f"{node_id} cannot go: {', '.join(found[:MOST_SAID])}{more}"


def _member(transaction: Transaction, node_id: str) -> Member:
    """`not_found` for a stranger; who is revoked is out already, and its entry says so (rules K22)."""
    cluster_state.standing(transaction)
    found = catalog.member(transaction, node_id)
    if found is None:
        raise Refused(Code.NOT_FOUND, f"{node_id} is no member")
    if found.revoked:
        raise Refused(Code.REVOKED, f"{node_id} is revoked; its entry stays", remedy="readmit it, or leave it")
    return found


def _since(transaction: Transaction, node_id: str) -> float | None:
    (entry,) = catalog.entries(transaction, [node_id])
    return entry.draining_since


def _mark(transaction: Transaction, before: Model, node_id: str, values: Mapping[str, object]) -> None:
    table = schema.nodes
    transaction.run(update(table).where(table.c.node_id == node_id).values(**values))
    catalog.raise_touched(transaction, before, catalog.with_member(transaction, before, node_id))


def _force_out(transaction: Transaction, epoch: int, *, node_id: str, reason: str) -> None:
    member = _member(transaction, node_id)
    standing = cluster_state.standing(transaction)
    if epoch <= standing.authority_epoch:
        remedy = f"holdfastctl nodes remove {node_id} --force makes one that does"
        raise Refused(Code.CONTRADICTION, "the bundle does not raise the epoch", remedy=remedy)
    was = {"kind": member.kind, "dependants": len(list(dependants(catalog.load(transaction), node_id)))}
    transaction.audit("remove.force", node_id, was, {"reason": bound_text(reason), "authority_epoch": epoch})
    revocation.take_out(transaction, {node_id: reason})
