"""Operators who come in over TLS: each is a name, one certificate and a role, added on the coordinator's machine.

A certificate speaks for one operator, or for one node, or for a coordinator: never for two of them. What the role lets
an operator do is held against this table at each request (`check`), so another role is another one at once, on every
replica. The machine's own root needs no entry here: whoever is locked out, or the last admin, is let in again by the
admin socket.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sqlalchemy import delete, insert, or_, select, update
from sqlalchemy.engine import Row

from coordinator.base.refusal import Code, Refused
from coordinator.changes import records
from coordinator.changes.states import ChangeState
from coordinator.database import cluster_state, schema
from coordinator.database.database import Database, Transaction
from coordinator.database.documents import chunks
from coordinator.keys import certificates
from coordinator.keys.certificates import Unusable
from snapshot.identifiers import format_time, is_id
from wire.certificate import Certificate
from wire.operators.operator_answers import Operator
from wire.operators.operator_roles import OperatorRole


def add(
    database: Database,
    name: str,
    der: bytes,
    *,
    role: OperatorRole = OperatorRole.ADMIN,
    actor: str,
    now: float,
) -> Operator:
    """`certificate`: self-signed P-256, no CA, valid now, and nobody else's; `conflict` otherwise."""
    if not is_id(name):
        raise Refused(Code.BAD_REQUEST, "the operator's name is no id", remedy="use a-z 0-9 . _ -")
    try:
        sha256 = certificates.read(der, now).sha256
    except Unusable as error:
        raise Refused(Code.BAD_REQUEST, str(error), remedy="holdfastctl operators key makes a good one") from error
    expires_at = int(Certificate.read(der).not_after)
    with database.change(actor=actor, now=now) as transaction:
        cluster_state.standing(transaction)
        _check_new(transaction, name, sha256)
        operator = Operator(name, sha256, expires_at, actor, now, str(role))
        transaction.run(insert(schema.operators).values(**vars(operator), certificate=der))
        entry = {"certificate": sha256, "expires_at": expires_at, "role": str(role)}
        transaction.audit("operator.add", name, None, entry)
    return operator


def remove(database: Database, name: str, *, actor: str, now: float) -> None:
    """At once, on every replica: each request is held against the table (`check`)."""
    table = schema.operators
    with database.change(actor=actor, now=now) as transaction:
        row = transaction.row(select(table.c.certificate_sha256).where(table.c.name == name))
        if row is None:
            raise _unknown(name)
        transaction.run(delete(table).where(table.c.name == name))
        _take_back_approvals(transaction, name)
        transaction.audit("operator.remove", name, {"certificate": row.certificate_sha256})


def set_role(database: Database, name: str, role: OperatorRole, *, actor: str, now: float) -> Operator:
    """From the operator's next request on, on every replica."""
    table = schema.operators
    with database.change(actor=actor, now=now) as transaction:
        row = transaction.row(select(table).where(table.c.name == name))
        if row is None:
            raise _unknown(name)
        transaction.run(update(table).where(table.c.name == name).values(role=str(role)))
        transaction.audit("operator.role", name, {"role": row.role}, {"role": str(role)})
    return replace(_entry(row), role=str(role))


def list_operators(database: Database) -> list[Operator]:
    """In the order of their names."""
    with database.read() as transaction:
        rows = transaction.rows(select(schema.operators))
    return sorted(map(_entry, rows), key=lambda each: each.name)


def names_by_certificate(database: Database) -> dict[bytes, str]:
    """Every operator's name by the certificate (DER)."""
    table = schema.operators
    with database.read() as transaction:
        return {bytes(row.certificate): row.name for row in transaction.rows(select(table.c.certificate, table.c.name))}


def check(database: Database, name: str, certificate_sha256: str, now: float) -> OperatorRole:
    """What who holds this certificate may, as that operator; Refused where it is one no more."""
    table = schema.operators
    is_own = (table.c.name == name, table.c.certificate_sha256 == certificate_sha256)
    with database.read() as transaction:
        row = transaction.row(select(table.c.expires_at, table.c.role).where(*is_own))
    if row is None:
        remedy = "holdfastctl operators add, on the coordinator's machine"
        raise Refused(Code.PERMISSION_DENIED, f"{name} is an operator no more", remedy=remedy)
    if now >= row.expires_at:
        detail = f"the certificate of {name} has expired at {format_time(row.expires_at)}"
        raise Refused(Code.CERTIFICATE_EXPIRED, detail, remedy="holdfastctl operators key, remove, add")
    return OperatorRole(row.role)


def check_role(name: str, role: OperatorRole, needed: OperatorRole) -> None:
    """`permission_denied`, which names what is needed."""
    if not role.covers(needed):
        raise Refused(
            Code.PERMISSION_DENIED,
            f"{name} is {role.with_article}, and this needs {needed.with_article}",
            remedy=f"as root on the coordinator's machine: holdfastctl operators set-role {name} {needed}",
        )


def note_refusal(database: Database, name: str, asked: str, refused: Refused, *, now: float) -> None:
    """What an operator wanted and may not, in the audit log."""
    with database.change(actor=f"operator:{name}", now=now) as transaction:
        transaction.audit("operator.ask", asked, None, {"detail": refused.detail}, outcome=refused.code.value)


# Of each node that asks to join; made once: making a statement costs as much as running it.
_FINGERPRINTS = select(schema.operators.c.certificate_sha256)


def fingerprints(transaction: Transaction) -> frozenset[str]:
    """What no node may show (rules K34)."""
    return frozenset(row[0] for row in transaction.rows(_FINGERPRINTS))


def _take_back_approvals(transaction: Transaction, name: str) -> None:
    """Of changes that have not begun, also halted ones: who comes back under the name is somebody else."""
    given = schema.change_approvals
    waits = (ChangeState.PROPOSED, ChangeState.HALTED)
    changes = (change for change in records.open_changes(transaction) if change.state in waits)
    waiting = [change.change_id for change in changes if not change.has_begun]
    for chunk in chunks(waiting):
        of_operator = given.c.operator == f"operator:{name}"
        transaction.run(delete(given).where(of_operator, given.c.change_id.in_(chunk)))


def _entry(row: Row[Any]) -> Operator:
    return Operator(**{name: getattr(row, name) for name in Operator.__dataclass_fields__})


def _unknown(name: str) -> Refused:
    return Refused(Code.NOT_FOUND, f"there is no operator {name}", remedy="holdfastctl operators list")


def _check_new(transaction: Transaction, name: str, sha256: str) -> None:
    table = schema.operators
    if transaction.row(select(table.c.name).where(table.c.name == name)) is not None:
        detail = f"{name} is an operator already"
        raise Refused(Code.CONFLICT, detail, remedy="remove it first; or add the new key under a second name")
    for owner in _owners(transaction, sha256):
        raise Refused(Code.CONFLICT, f"this certificate is {owner}", remedy="make one for the operator alone")


def _owners(transaction: Transaction, sha256: str) -> Iterator[str]:
    """Who else has a claim to a certificate, also one that is past."""
    operators, nodes, retired, allowlist = schema.operators, schema.nodes, schema.retired_certificates, schema.allowlist
    if sha256 in cluster_state.server_certificates(transaction):
        yield "a coordinator's"
    of_operator = select(operators.c.name).where(operators.c.certificate_sha256 == sha256)
    yield from (f"the operator {row.name}'s" for row in transaction.rows(of_operator))
    shown = or_(nodes.c.certificate_sha256 == sha256, nodes.c.next_certificate_sha256 == sha256)
    of_node = [
        select(nodes.c.node_id).where(shown),
        select(retired.c.node_id).where(retired.c.certificate_sha256 == sha256),
        select(allowlist.c.node_id).where(allowlist.c.certificate_sha256 == sha256),
    ]
    yield from (f"the node {row.node_id}'s" for chosen in of_node for row in transaction.rows(chosen))
