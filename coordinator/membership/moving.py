"""A cluster that goes from one coordinator to another which has no part of its database (rules K24, K43; seed 002).

    begin        here it ends: from now on this database takes no change, and the export is of this very state
    cancel       the way back, until a node has shown that the other coordinator has published
    take_back    the same at once, where no file was made
    note_ahead   a node has shown it
    arrive       there: what came is the state, this coordinator is in it, and root keys have to raise the epoch
    read         how far a move is: who still asks here, or who has not asked here yet

Authority is in one place at any time. The transaction that `begin` makes is the last one that decides anything here;
whatever would decide something after it is `moved` (Database.change), on every coordinator of this database, and after
any restart. What goes on is what nodes need until they have gone over, which may take weeks: heads and documents are
signed again from the state as it was exported, since they last for hours and days, and a node that was not looked after
yet must not be degraded for it. Nothing new is said by them. Reports are taken. Nobody is trimmed: a node that is not
seen here may have gone over.

There, nothing is signed before root keys have raised the epoch, as for a database that was restored. So nodes that have
heard of the new epoch refuse what is renewed here, and no number is ever used for two contents. Nobody is trimmed there
either while those from which the cluster came are coordinators of it: a node that was not seen yet may ask them still.

What is used by mistake is found. If it is cancelled here, and the other one publishes all the same, a node that goes
back shows a head of an epoch that is above ours: then nothing is signed here any more (restored_backup.py). The same
where this database is put back to one of before the export, and at the next start, too (setup/export.py).

Rejected:

- Heads signed again without documents, as while the database is away: documents end within days, a move does not.
- An end by itself, after so many days without a request: whoever is away for a holiday would find nobody.
- To go on changing things here until each node has gone over, and to merge: two authorities, one of which is wrong.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.engine import Row

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import DAY
from coordinator.database import cluster_state, history_check, schema
from coordinator.database.cluster_state import ClusterState, Founding
from coordinator.database.database import CANCEL_EXPORT, MOVED_FROM, MOVED_TO, Database, Transaction
from coordinator.database.running_digests import UNDIGESTED
from coordinator.membership import replicas
from coordinator.rollout import steps
from snapshot.identifiers import format_time, is_endpoint
from wire.operators.operator_answers import MoveStanding, MovingNode

ASKED_WITHIN_S = DAY
MOST_NAMED = 1_000
IMPORTED = "the cluster came from another coordinator: what was under way there goes on when a person says so"
_TABLE = schema.moves
CANCELLED = "cancelled"


@dataclass(frozen=True)
class OtherCoordinator:
    """Where a cluster goes to, or where it came from. `identity_sha256`: of its certificate."""

    coordinator_id: str
    url: str
    identity_sha256: str


@dataclass(frozen=True)
class BegunMove:
    """`is_new`: it was not begun before. `at`: Unix seconds."""

    standing: ClusterState
    to: OtherCoordinator
    at: float
    is_new: bool


def begin(database: Database, to: OtherCoordinator, *, actor: str, now: float) -> BegunMove:
    """Refused `conflict` where it goes elsewhere already, or has gone to this identity before; `contradiction` where a
    move to here is not over; `stale_state` for a state that nothing may be signed from. Again is the same.
    """
    if not is_endpoint(to.url):
        raise Refused(Code.BAD_REQUEST, f"{to.url} is not https://host:port", remedy="give the URL of the other one")
    with database.change(actor=actor, now=now, after_move=True) as transaction:
        standing = cluster_state.sound(transaction)
        known = _rows(transaction)
        under_way = next((row for row in known if row.direction == MOVED_TO), None)
        if under_way is not None:
            _must_be_the_same(under_way, to)
            transaction.audit("cluster.export", to.coordinator_id, None, vars(to), outcome="again")
            return BegunMove(standing, to, under_way.at, is_new=False)
        _check_new(transaction, known, to)
        about = {"direction": MOVED_TO, "at": now, "authority_epoch": standing.authority_epoch, **vars(to)}
        transaction.run(insert(_TABLE).values(**about))
        transaction.audit("cluster.export", to.coordinator_id, None, vars(to))
        cluster_state.raise_revision(transaction)
        return BegunMove(cluster_state.standing(transaction), to, now, is_new=True)


def cancel(database: Database, *, actor: str, now: float) -> OtherCoordinator:
    """`not_found` where nothing is under way; `moved` where the other one has published. Its identity serves for no
    further export, so that the file that is given up is good for nobody.
    """
    with database.change(actor=actor, now=now, after_move=True) as transaction:
        row = next((row for row in _rows(transaction) if row.direction == MOVED_TO), None)
        if row is None:
            raise Refused(Code.NOT_FOUND, "the cluster was not exported from here", remedy="nothing is to be cancelled")
        if row.ahead_at is not None:
            detail = f"a node showed at {format_time(int(row.ahead_at))} that {row.coordinator_id} has published since"
            raise Refused(Code.MOVED, detail, remedy=f"bring the nodes to {row.url}, and stop this coordinator")
        transaction.run(update(_TABLE).where(_TABLE.c.direction == MOVED_TO).values(direction=CANCELLED))
        transaction.audit("cluster.export.cancel", row.coordinator_id, vars(_other(row)), None)
        cluster_state.raise_revision(transaction)
        return _other(row)


def take_back(database: Database, *, actor: str, now: float) -> None:
    """What was begun just now, and of which there is no file: as if it had never been."""
    with database.change(actor=actor, now=now, after_move=True) as transaction:
        transaction.run(delete(_TABLE).where(_TABLE.c.direction == MOVED_TO))
        transaction.audit("cluster.export.cancel", "cluster", None, None, outcome="failed")
        cluster_state.raise_revision(transaction)


def note_ahead(database: Database, *, now: float) -> None:
    """A node has shown a head of the other one. The first time counts."""
    first = update(_TABLE).where(_TABLE.c.direction == MOVED_TO, _TABLE.c.ahead_at.is_(None)).values(ahead_at=now)
    with database.record(now=now) as transaction:
        transaction.run(first.execution_options(**UNDIGESTED))


def arrive(database: Database, own: Founding, *, identity_sha256: str, actor: str, now: float) -> tuple[str, ...]:
    """One change, over the state that was exported to this identity; from which coordinators it came. `conflict`,
    `in_use` where the id or the token key is one's already; `wrong_recipient` where the state says that it went
    elsewhere.
    """
    cluster_state.check(own)
    with database.change(actor=actor, now=now, after_move=True) as transaction:
        row = next((row for row in _rows(transaction) if row.direction == MOVED_TO), None)
        if row is None or (row.identity_sha256, row.coordinator_id) != (identity_sha256, own.coordinator_id):
            detail = f"the state in it did not go to {own.coordinator_id}, {identity_sha256}"
            raise Refused(Code.WRONG_RECIPIENT, detail, remedy="export for this coordinator")
        replicas.check_new_in(transaction, own)
        transaction.run(delete(_TABLE))
        others, standing = replicas.replicas_in(transaction), cluster_state.standing(transaction)
        for replica in others:
            pinned = replica.identity_sha256 or replica.certificate_sha256
            about = {"coordinator_id": replica.coordinator_id, "url": replica.url, "identity_sha256": pinned}
            epoch = standing.authority_epoch
            transaction.run(insert(_TABLE).values(direction=MOVED_FROM, at=now, authority_epoch=epoch, **about))
        cluster_state.enter(transaction, own)
        transaction.run(update(schema.cluster).values(put_back_epoch=standing.authority_epoch))
        steps.halt_all(transaction, IMPORTED)
        names = tuple(replica.coordinator_id for replica in others)
        transaction.audit(history_check.IMPORT, own.coordinator_id, {"from": list(names)}, {"url": own.url})
        cluster_state.raise_revision(transaction)
        return names


def exported_to(database: Database) -> MoveStanding | None:
    """Where the cluster has gone, in short; None while it is here."""
    with database.read() as transaction:
        row = next((row for row in _rows(transaction) if row.direction == MOVED_TO), None)
    return None if row is None else _standing(row, (), 0, 0)


def read(database: Database, *, within_s: float, now: float) -> MoveStanding | None:
    """None where no move is under way, in either direction."""
    with database.read() as transaction:
        known = _rows(transaction)
        row = next((row for row in known if row.direction in (MOVED_TO, MOVED_FROM)), None)
        if row is None:
            return None
        seen = dict(_read_times(transaction))
    if row.direction == MOVED_TO:
        asked = {node_id: at for node_id, at in seen.items() if at is not None and at > now - within_s}
        return _standing(row, _list_some(asked), len(asked), len(seen))
    missing = {node_id: at for node_id, at in seen.items() if at is None or at < row.at}
    return _standing(row, _list_some(missing), len(missing), len(seen))


def came_from(transaction: Transaction) -> frozenset[str]:
    """The coordinators from which the cluster came, as long as they are in it."""
    return frozenset(row.coordinator_id for row in _rows(transaction) if row.direction == MOVED_FROM)


def hindrance(transaction: Transaction) -> str:
    """Why nobody is trimmed, or nothing."""
    row = next((row for row in _rows(transaction) if row.direction in (MOVED_TO, MOVED_FROM)), None)
    if row is None:
        return ""
    if row.direction == MOVED_TO:
        return f"the cluster was exported to {row.coordinator_id}: nobody is removed here"
    names = ", ".join(sorted(came_from(transaction)))
    return f"nodes of {names} may not have come over yet: `{replicas.REMOVE} NAME` says that they have"


def _must_be_the_same(row: Row[Any], to: OtherCoordinator) -> None:
    if _other(row) != to:
        detail = f"the cluster was exported to {row.coordinator_id}, {row.url}, {row.identity_sha256} already"
        raise Refused(Code.CONFLICT, detail, remedy=f"export for that one again, or: {CANCEL_EXPORT}")


def _check_new(transaction: Transaction, known: Collection[Row[Any]], to: OtherCoordinator) -> None:
    if any(row.direction == CANCELLED and row.identity_sha256 == to.identity_sha256 for row in known):
        detail = f"an export to this identity of {to.coordinator_id} was cancelled, and its file may still lie there"
        remedy = "there: holdfastctl coordinators identity NAME --anew; then export for that certificate"
        raise Refused(Code.CONFLICT, detail, remedy=remedy)
    if others := sorted(came_from(transaction)):
        detail = f"the move from {', '.join(others)} to here is not over"
        raise Refused(Code.CONTRADICTION, detail, remedy=f"end it first: {replicas.REMOVE} {others[0]}")
    present = replicas.replicas_in(transaction)
    if any(replica.coordinator_id == to.coordinator_id for replica in present):
        remedy = "a coordinator over the same database needs no export; otherwise give the other one another id"
        raise Refused(Code.CONFLICT, f"{to.coordinator_id} is a coordinator of this cluster already", remedy=remedy)


def _read_times(transaction: Transaction) -> Iterator[tuple[str, float | None]]:
    """Of each member that is not revoked: when it has asked, or reported, last."""
    nodes, reports, asked = schema.nodes, schema.node_status, schema.head_requests
    joined = nodes.outerjoin(reports, nodes.c.node_id == reports.c.node_id)
    joined = joined.outerjoin(asked, nodes.c.node_id == asked.c.node_id)
    times = reports.c.last_seen.label("reported"), asked.c.last_seen.label("asked")
    chosen = select(nodes.c.node_id, *times).select_from(joined).where(nodes.c.revoked_at.is_(None))
    for row in transaction.rows(chosen.order_by(nodes.c.node_id)):
        yield row.node_id, max((at for at in (row.reported, row.asked) if at is not None), default=None)


def _list_some(found: dict[str, float | None] | dict[str, float]) -> tuple[MovingNode, ...]:
    return tuple(MovingNode(node_id, at) for node_id, at in list(found.items())[:MOST_NAMED])


def _standing(row: Row[Any], nodes: tuple[MovingNode, ...], count: int, members: int) -> MoveStanding:
    return MoveStanding(row.direction, row.coordinator_id, row.url, row.at, row.ahead_at, members, count, nodes)


def _rows(transaction: Transaction) -> list[Row[Any]]:
    return list(transaction.rows(select(_TABLE).order_by(_TABLE.c.at, _TABLE.c.coordinator_id)))


def _other(row: Row[Any]) -> OtherCoordinator:
    return OtherCoordinator(row.coordinator_id, row.url, row.identity_sha256)
