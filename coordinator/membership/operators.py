"""Operators who come in over TLS: each is a name and one certificate, added on the coordinator's machine (protocol 2).

A certificate speaks for one operator, or for one node, or for a coordinator: never for two of them.
"""

from collections.abc import Iterator

from sqlalchemy import delete, insert, or_, select

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state, schema
from coordinator.database.database import Database, Transaction
from coordinator.keys import certificates
from coordinator.keys.certificates import Unusable
from snapshot.identifiers import format_time, is_id
from wire.certificate import Certificate
from wire.operators.operator_answers import Operator


def add(database: Database, name: str, der: bytes, *, actor: str, now: float) -> Operator:
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
        operator = Operator(name, sha256, expires_at, actor, now)
        transaction.run(insert(schema.operators).values(**vars(operator), certificate=der))
        transaction.audit("operator.add", name, None, {"certificate": sha256, "expires_at": expires_at})
    return operator


def remove(database: Database, name: str, *, actor: str, now: float) -> None:
    """At once, on every replica: each request is held against the table (`check`)."""
    table = schema.operators
    with database.change(actor=actor, now=now) as transaction:
        row = transaction.row(select(table.c.certificate_sha256).where(table.c.name == name))
        if row is None:
            raise Refused(Code.NOT_FOUND, f"there is no operator {name}", remedy="holdfastctl operators list")
        transaction.run(delete(table).where(table.c.name == name))
        transaction.audit("operator.remove", name, {"certificate": row.certificate_sha256})


def list_operators(database: Database) -> list[Operator]:
    """In the order of their names."""
    names = Operator.__dataclass_fields__
    with database.read() as transaction:
        rows = transaction.rows(select(schema.operators))
    found = [Operator(**{name: getattr(row, name) for name in names}) for row in rows]
    return sorted(found, key=lambda each: each.name)


def names_by_certificate(database: Database) -> dict[bytes, str]:
    """Every operator's name by the certificate (DER)."""
    table = schema.operators
    with database.read() as transaction:
        return {bytes(row.certificate): row.name for row in transaction.rows(select(table.c.certificate, table.c.name))}


def check(database: Database, name: str, certificate_sha256: str, now: float) -> None:
    """Whether who holds this certificate is still that operator; Refused otherwise."""
    table = schema.operators
    own = select(table.c.expires_at).where(table.c.name == name, table.c.certificate_sha256 == certificate_sha256)
    with database.read() as transaction:
        row = transaction.row(own)
    if row is None:
        remedy = "holdfastctl operators add, on the coordinator's machine"
        raise Refused(Code.PERMISSION_DENIED, f"{name} is an operator no more", remedy=remedy)
    if now >= row.expires_at:
        detail = f"the certificate of {name} has expired at {format_time(row.expires_at)}"
        raise Refused(Code.CERTIFICATE_EXPIRED, detail, remedy="holdfastctl operators key, remove, add")


def fingerprints(transaction: Transaction) -> frozenset[str]:
    """What no node may show (rules K34)."""
    return frozenset(row[0] for row in transaction.rows(select(schema.operators.c.certificate_sha256)))


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
