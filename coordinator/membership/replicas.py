"""The coordinators of a cluster over one database, each with a certificate and a token key of its own (rules K26, K34).

A join is bound to a certificate of one of them, and a token is signed by the key of one. Their entries follow their
files: what was exchanged there counts from the start, or the reload, of the coordinator that has it.
"""

from sqlalchemy import insert, select, update

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state, schema
from coordinator.database.cluster_state import Founding
from coordinator.database.database import MOVED_FROM, Database, Transaction
from coordinator.declared.references import DEFAULT_SITE
from coordinator.keys.tokens import key_id_of
from wire.operators.operator_answers import Replica

PREPARE = "holdfastctl coordinators prepare"
REMOVE = "holdfastctl coordinators remove"

_TABLE = schema.coordinators


def list_replicas(database: Database) -> list[Replica]:
    """All of them, in the order in which they were added."""
    with database.read() as transaction:
        return replicas_in(transaction)


def add_entry(transaction: Transaction, coordinator_id: str, url: str, identity_sha256: str) -> None:
    """The entry of one that a set adds, in its transaction: until it follows its files it signs no token, and shows
    nodes no certificate. A token key of no bytes is nobody's.
    """
    row = {"coordinator_id": coordinator_id, "site_id": DEFAULT_SITE, "url": url, "identity_sha256": identity_sha256}
    keys = {"certificate_sha256": identity_sha256, "token_key_id": identity_sha256, "token_public_key": b""}
    transaction.run(insert(_TABLE).values(**row, **keys, added_at=transaction.now))


def follow(
    database: Database, coordinator_id: str, certificate_sha256: str, token_public_key: bytes, *, actor: str, now: float
) -> bool:
    """Bring the entry of a coordinator to what its files are; whether anything was to be changed.

    `not_found` where the cluster has none of this id, `in_use` where the token key is another one's.
    """
    has = {"certificate_sha256": certificate_sha256, "token_key_id": key_id_of(token_public_key)}
    with database.read() as transaction:
        if _of(_own(transaction, coordinator_id)) == has:
            return False
    with database.change(actor=actor, now=now, after_move=True) as transaction:
        before = _of(_own(transaction, coordinator_id))
        _must_be_its_own(transaction, coordinator_id, token_public_key)
        entry = update(_TABLE).where(_TABLE.c.coordinator_id == coordinator_id)
        transaction.run(entry.values(**has, token_public_key=token_public_key))
        transaction.audit("coordinator.follow", coordinator_id, before, has)
    return True


def identity_of(database: Database, coordinator_id: str) -> str:
    """What the entry of a coordinator pins of its identity, or nothing; `not_found` where the cluster has none such."""
    with database.read() as transaction:
        return _own(transaction, coordinator_id).identity_sha256


def pin(database: Database, coordinator_id: str, identity_sha256: str, *, actor: str, now: float) -> None:
    """From now on it is known by this identity alone. `in_use` where that is another one's."""
    with database.change(actor=actor, now=now) as transaction:
        before = _own(transaction, coordinator_id).identity_sha256
        others = {replica.identity_sha256: replica.coordinator_id for replica in replicas_in(transaction)}
        if identity_sha256 in others:
            remedy = "each coordinator makes an identity of its own; copy it to none"
            detail = f"the identity {identity_sha256} is that of {others[identity_sha256]}"
            raise Refused(Code.IN_USE, detail, remedy=remedy)
        entry = update(_TABLE).where(_TABLE.c.coordinator_id == coordinator_id)
        transaction.run(entry.values(identity_sha256=identity_sha256))
        transaction.audit("coordinator.pin", coordinator_id, before or None, identity_sha256)


def remove(database: Database, coordinator_id: str, *, answering: str, actor: str, now: float) -> None:
    """One that is gone: its tokens count no more. Not the one that answers, so that one is always left."""
    with database.change(actor=actor, now=now) as transaction:
        own = _own(transaction, coordinator_id)
        if coordinator_id == answering:
            raise Refused(Code.IN_USE, f"{coordinator_id} is the one that answers", remedy="ask one that stays")
        forget(transaction, coordinator_id)
        transaction.audit("coordinator.remove", coordinator_id, {"url": own.url, **_of(own)}, None)


def forget(transaction: Transaction, coordinator_id: str) -> None:
    """Its entry, its last word, and that the cluster came from it."""
    for table in (_TABLE, schema.coordinator_reports):
        transaction.run(table.delete().where(table.c.coordinator_id == coordinator_id))
    moves = schema.moves
    came = (moves.c.direction == MOVED_FROM) & (moves.c.coordinator_id == coordinator_id)
    transaction.run(moves.delete().where(came))


def check_new_in(transaction: Transaction, founding: Founding) -> None:
    """`wrong_cluster`, `conflict`, `in_use`."""
    if cluster_state.standing(transaction).cluster_id != founding.cluster_id:
        raise Refused(Code.WRONG_CLUSTER, f"this database is not of {founding.cluster_id}")
    name = founding.coordinator_id
    if any(replica.coordinator_id == name for replica in replicas_in(transaction)):
        remedy = f"choose another id, or, if that one is gone, first: {REMOVE} {name}"
        raise Refused(Code.CONFLICT, f"{name} is a coordinator of this cluster already", remedy=remedy)
    _must_be_its_own(transaction, name, founding.token_public_key)


def _own(transaction: Transaction, coordinator_id: str) -> Replica:
    cluster_state.standing(transaction)
    every = {replica.coordinator_id: replica for replica in replicas_in(transaction)}
    if coordinator_id not in every:
        known = ", ".join(every)
        remedy = f"this cluster has {known}; a further one begins with `{PREPARE}`"
        raise Refused(Code.NOT_FOUND, f"{coordinator_id} is no coordinator of this cluster", remedy=remedy)
    return every[coordinator_id]


def _of(replica: Replica) -> dict[str, str]:
    return {"certificate_sha256": replica.certificate_sha256, "token_key_id": replica.token_key_id}


def _must_be_its_own(transaction: Transaction, coordinator_id: str, token_public_key: bytes) -> None:
    token_key_id = key_id_of(token_public_key)
    others = {replica.token_key_id: replica.coordinator_id for replica in replicas_in(transaction)}
    if (holder := others.get(token_key_id, coordinator_id)) != coordinator_id:
        remedy = f"each coordinator has a token key of its own, which `{PREPARE}` makes; copy it to none"
        raise Refused(Code.IN_USE, f"the token key of {coordinator_id} is that of {holder}", remedy=remedy)


def replicas_in(transaction: Transaction) -> list[Replica]:
    rows = transaction.rows(select(_TABLE).order_by(_TABLE.c.added_at, _TABLE.c.coordinator_id))
    return [
        Replica(
            row.coordinator_id, row.url, row.certificate_sha256, row.token_key_id, row.added_at, row.identity_sha256
        )
        for row in rows
    ]
