"""Ending a membership, or a part of what was granted (rules H-000-2, K22, K54, P29, S60, S61).

    revoke_node     its entry stays and is told `revoked`; every head says so
    take_out        its entry goes; a tombstone keeps the id out (who may be taken out, and when: leaving.py)
    readmit         the operator lets an id in again: tombstone off, allowlist on
    revoke          a key, a role assignment, a service or an endpoint, in every head from now on

Each is one transaction over entry, allowlist, tokens, tombstone, revocations and generations.
"""

from collections.abc import Mapping

from sqlalchemy import delete, insert, select, update

from coordinator.base.refusal import Code, Refused, bound_text
from coordinator.changes import records
from coordinator.database import catalog, cluster_state, object_store, schema
from coordinator.database.database import Database, Transaction
from coordinator.database.revocations import CATEGORIES
from coordinator.declared.model import Model
from coordinator.declared.next_model import next_model
from coordinator.membership import admission, revocable
from coordinator.reports import heartbeats, last_seen
from snapshot.identifiers import is_id
from wire.operators.operator_answers import AllowlistEntry

CERTIFICATES = "certificates"  # the kind of the objects: certificates of nodes that are no members any more


def revoke_node(database: Database, node_id: str, *, reason: str, actor: str, now: float) -> None:
    """Members and former members alike: what is revoked does not come back without the operator."""
    with database.change(actor=actor, now=now) as transaction:
        _put_tombstone(transaction, node_id, Code.REVOKED, reason)
        _add(transaction, "node_ids", node_id, reason)
        _end_shared_tokens(transaction, node_id)
        before = catalog.load(transaction)
        chosen = update(schema.nodes).where(schema.nodes.c.node_id == node_id)
        transaction.run(chosen.values(revoked_at=now, reason=bound_text(reason)))
        _end_admission(transaction, node_id)
        records.forget_node(transaction, node_id)
        transaction.audit("revoke.node", node_id, None, {"reason": bound_text(reason)})
        _touch_everybody(transaction, catalog.with_member(transaction, before, node_id))


def take_out(transaction: Transaction, reasons: Mapping[str, str]) -> frozenset[str]:
    """Members that are not revoked, and why. The nodes whose heads have to be issued again."""
    before = catalog.load(transaction)
    for node_id, reason in sorted(reasons.items()):  # as reports take their rows
        _put_tombstone(transaction, node_id, Code.REMOVED, reason)
        transaction.run(delete(schema.nodes).where(schema.nodes.c.node_id == node_id))
        last_seen.forget(transaction, node_id)
        heartbeats.forget(transaction, [node_id])
        records.forget_node(transaction, node_id)
        _end_admission(transaction, node_id)
    after = next_model(before, {}, dict.fromkeys(reasons))
    touched = catalog.raise_touched(transaction, before, after)
    return frozenset(touching for touching, _ in touched).difference(reasons)


def readmit(database: Database, entry: AllowlistEntry, *, actor: str, now: float) -> None:
    """Explicit re-admission: the tombstone goes, the node may join again as any other, with a new token."""
    with database.change(actor=actor, now=now) as transaction:
        tombstones, retired = schema.tombstones, schema.retired_certificates
        tombstone = transaction.row(select(tombstones.c.code).where(tombstones.c.node_id == entry.node_id))
        if tombstone is None:
            raise Refused(
                Code.NOT_FOUND, f"{entry.node_id} has no tombstone", remedy=f"holdfastctl allow add {entry.node_id}"
            )
        transaction.run(delete(tombstones).where(tombstones.c.node_id == entry.node_id))
        # The key of a revoked node may be in other hands: it comes back only where the entry names it.
        named = retired.c.certificate_sha256 == (entry.certificate_sha256 or "")
        which = named if tombstone.code == Code.REVOKED else retired.c.node_id == entry.node_id
        transaction.run(delete(retired).where(retired.c.node_id == entry.node_id, which))
        transaction.run(delete(schema.nodes).where(schema.nodes.c.node_id == entry.node_id))
        admission.check_entry(transaction, entry)
        admission.put_entry(transaction, entry)
        transaction.audit("readmit", entry.node_id, {"tombstone": tombstone.code})
        if _take_back(transaction, "node_ids", entry.node_id):
            _touch_everybody(transaction, catalog.load(transaction))


def revoke(
    database: Database, category: str, value: str, *, reason: str, actor: str, now: float, unknown: bool = False
) -> None:
    """A key, a role assignment (`node/role`), a service or an endpoint; nodes have their own operation.

    `unknown`: also where nothing of the name is known any more, as of a service that is declared no longer.
    """
    _check(category, value)
    if category == "role_assignments":
        revocable.check_role(value)
    with database.change(actor=actor, now=now) as transaction:
        cluster_state.standing(transaction)
        _add(transaction, category, value, reason)
        if not unknown:
            revocable.check_known(transaction, category, value)
        transaction.audit("revoke", f"{category} {value}", None, {"reason": bound_text(reason)})
        _touch_everybody(transaction, catalog.load(transaction))


def restore(database: Database, category: str, value: str, *, actor: str, now: float) -> None:
    """Take a revocation out of the next heads: once the trust bundle carries it, or when it was a mistake."""
    _check(category, value)
    with database.change(actor=actor, now=now) as transaction:
        if not _take_back(transaction, category, value):
            raise Refused(Code.NOT_FOUND, f"{category} {value} is not revoked")
        transaction.audit("restore", f"{category} {value}")
        _touch_everybody(transaction, catalog.load(transaction))


def _touch_everybody(transaction: Transaction, after: Model) -> None:
    """Every head carries the revocations, so every node is to get a new one."""
    catalog.remember(transaction, after)
    cluster_state.raise_generations(transaction, (), everybody=True)


def _check(category: str, value: str) -> None:
    if category == "node_ids":
        raise Refused(Code.BAD_REQUEST, "a node is revoked as a node", remedy="holdfastctl revoke node")
    if category not in CATEGORIES:
        raise Refused(Code.BAD_REQUEST, f"{category} cannot be revoked", remedy=", ".join(CATEGORIES))
    if not CATEGORIES[category](value):
        raise Refused(Code.BAD_REQUEST, f"{bound_text(value)} is out of form for {category}")


def _put_tombstone(transaction: Transaction, node_id: str, code: Code, reason: str) -> None:
    """The id and its keys stay out, under this name or another, until the operator says otherwise."""
    cluster_state.standing(transaction)
    if not is_id(node_id):
        raise Refused(Code.BAD_REQUEST, "the node id is out of form")
    tombstones = schema.tombstones
    before = transaction.row(select(tombstones).where(tombstones.c.node_id == node_id))
    if before is not None and before.code == code:
        raise Refused(code, f"{node_id} was {code} already")
    if before is None and catalog.member(transaction, node_id) is None:
        raise Refused(Code.NOT_FOUND, f"{node_id} is and was no member")
    transaction.run(delete(tombstones).where(tombstones.c.node_id == node_id))
    row = {"node_id": node_id, "code": code.value, "reason": bound_text(reason), "at": transaction.now}
    transaction.run(insert(tombstones).values(**row))
    _retire_certificates(transaction, node_id, code)


def _retire_certificates(transaction: Transaction, node_id: str, code: Code) -> None:
    retired = schema.retired_certificates
    transaction.run(update(retired).where(retired.c.node_id == node_id).values(code=code.value))
    member = catalog.member(transaction, node_id)
    pins = () if member is None else member.pins
    known = {row[0] for row in transaction.rows(select(retired.c.certificate_sha256))} if pins else set()
    rows = [{"certificate_sha256": pin, "node_id": node_id, "code": code.value} for pin in pins if pin not in known]
    transaction.run(insert(retired), rows)
    _keep_certificates(transaction, node_id)


def _keep_certificates(transaction: Transaction, node_id: str) -> None:
    """So that TLS still knows who it is, and who comes back can be told (rules K22, H-000-2)."""
    table = schema.nodes
    row = transaction.row(select(table.c.certificate, table.c.next_certificate).where(table.c.node_id == node_id))
    if row is not None:
        object_store.put_all(
            transaction, CERTIFICATES, [bytes(certificate) for certificate in row if certificate is not None]
        )


def _end_admission(transaction: Transaction, node_id: str) -> None:
    """Allowlist entry and tokens go in the same transaction (rules H-000-2, K54)."""
    transaction.run(delete(schema.allowlist).where(schema.allowlist.c.node_id == node_id))
    table = schema.tokens
    alone = (table.c.used_by == node_id) & (table.c.uses == 1)
    its_own = (table.c.node_id == node_id) | alone
    transaction.run(update(table).where(its_own, table.c.revoked_at.is_(None)).values(revoked_at=transaction.now))


def _end_shared_tokens(transaction: Transaction, node_id: str) -> None:
    """A token for several nodes lay on the disk of one that is believed no more: it lets nobody else in."""
    table, uses = schema.tokens, schema.token_uses
    brought = table.c.jti.in_(select(uses.c.jti).where(uses.c.node_id == node_id))
    transaction.run(update(table).where(brought, table.c.revoked_at.is_(None)).values(revoked_at=transaction.now))


def _add(transaction: Transaction, category: str, value: str, reason: str) -> None:
    table = schema.revocations
    here = select(table.c.value).where(table.c.category == category, table.c.value == value)
    if transaction.row(here) is not None:
        raise Refused(Code.REVOKED, f"{category} {value} is revoked already")
    row = {"category": category, "value": value, "at": transaction.now, "reason": bound_text(reason)}
    transaction.run(insert(table).values(**row))
    _raise_version(transaction)


def _take_back(transaction: Transaction, category: str, value: str) -> bool:
    table = schema.revocations
    if not transaction.run(delete(table).where(table.c.category == category, table.c.value == value)):
        return False
    _raise_version(transaction)
    return True


def _raise_version(transaction: Transaction) -> None:
    version = schema.cluster.c.revocations_version + 1
    transaction.run(update(schema.cluster).values(revocations_version=version))
