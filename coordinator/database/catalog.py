"""Reading the declared state: the members, the model of everything, and what a change of it touches."""

import json
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass

from sqlalchemy import bindparam, func, select
from sqlalchemy.engine import Row

from coordinator.database import cluster_state, schema
from coordinator.database.cluster_state import ClusterState
from coordinator.database.database import Database, Transaction, is_in
from coordinator.database.member import Member
from coordinator.declared import kinds
from coordinator.declared.change_impact import Touched, affected_scopes
from coordinator.declared.kinds import Resource
from coordinator.declared.model import Key, MemberEntry, Model
from coordinator.declared.next_model import next_model
from snapshot import canonical
from wire.operators.fleet_answers import NodeEntry

# Made once: making a statement costs as much as running it.
_SOME = select(schema.nodes).where(schema.nodes.c.node_id.in_(bindparam("ids", expanding=True)))


def nodes(database: Database) -> list[NodeEntry]:
    """Every entry, revoked ones too, in byte order of the ids (rules J33)."""
    with database.read() as transaction:
        return entries(transaction)


def entries(transaction: Transaction, node_ids: Sequence[str] | None = None) -> list[NodeEntry]:
    """The same, or of some. Seen is who asks for a head or reports."""
    nodes, reports, asked = schema.nodes, schema.node_status, schema.head_requests
    joined = nodes.outerjoin(reports, nodes.c.node_id == reports.c.node_id)
    joined = joined.outerjoin(asked, nodes.c.node_id == asked.c.node_id)
    times = reports.c.last_seen.label("reported"), asked.c.last_seen.label("asked")
    statement = select(nodes, *times).select_from(joined)
    chosen = statement if node_ids is None else statement.where(nodes.c.node_id.in_(node_ids))
    return sorted((_entry(row) for row in transaction.rows(chosen)), key=lambda entry: entry.node_id)


def member(transaction: Transaction, node_id: str) -> Member | None:
    row = transaction.find(schema.nodes, node_id)
    return None if row is None else _member(row)


def members(transaction: Transaction, node_ids: Iterable[str]) -> dict[str, tuple[Member, int]]:
    """Those of these that are members, each with its generation."""
    rows = transaction.rows(_SOME, {"ids": sorted(node_ids)})
    return {row.node_id: (_member(row), row.generation) for row in rows}


def joined_at(transaction: Transaction, node_ids: Sequence[str]) -> dict[str, float]:
    """When each of these has become a member."""
    table = schema.nodes
    chosen = select(table.c.node_id, table.c.first_seen).where(is_in(table.c.node_id, node_ids))
    return {row.node_id: row.first_seen for row in transaction.rows(chosen)}


def load(transaction: Transaction, standing: ClusterState | None = None) -> Model:
    """The whole declared state as one value. Remembered by the state's name, so it is read once for each state.
    `standing`: where it was read in this transaction.
    """
    standing = standing or cluster_state.standing(transaction)
    known = transaction.recall(standing.state_id)
    if isinstance(known, Model):
        return known
    model = Model(standing.cluster_id, resources(transaction), _members(transaction), authorities(transaction))
    transaction.to_remember = {standing.state_id: model}
    return model


@dataclass(frozen=True)
class StateName:
    """Of one state. `state_id`: of all of it; `declared_id`: of its resources alone, whoever joins or leaves."""

    state_id: str
    declared_id: str


def state_name(transaction: Transaction) -> StateName:
    """Every write of resources raises the revision of what it writes, and every removal lowers their number: no two
    states of one epoch have both alike. They are counted where the state is not remembered: an index leads to the
    newest, and none to how many there are.
    """
    standing = cluster_state.standing(transaction)
    table, known = schema.resources, transaction.recall(standing.state_id)
    newest = transaction.number(select(func.max(table.c.revision)))
    if isinstance(known, Model):
        number = len(known.resources)
    else:
        number = transaction.number(select(func.count()).select_from(table))
    return StateName(standing.state_id, f"{standing.authority_epoch}.{newest}.{number}")


def resources(transaction: Transaction) -> dict[Key, Resource]:
    rows = transaction.rows(select(schema.resources))
    restored = (kinds.restore(row.kind, row.id, canonical.loads(row.body.encode())) for row in rows)
    return {resource.key: resource for resource in restored}


def authorities(transaction: Transaction) -> tuple[bytes, ...]:
    """The CAs that nodes are told to believe, DER, in the order of their fingerprints."""
    table = schema.node_authorities
    rows = transaction.rows(select(table.c.certificate).order_by(table.c.certificate_sha256))
    return tuple(bytes(row.certificate) for row in rows)


def raise_touched(
    transaction: Transaction, before: Model, after: Model, *, but: Set[str] = frozenset()
) -> frozenset[Touched]:
    """Raise the revision and the generation of every node that a change touches, `but` of those that go on with what
    they have; what it touches.
    """
    touched = affected_scopes(before, after)
    gone = before.members.keys() - after.members.keys()
    left = {before.members[node_id].site_id for node_id in gone}
    cluster_state.raise_generations(transaction, {node_id for node_id, _ in touched} - but, left=left)
    remember(transaction, after)
    return touched


def remember(transaction: Transaction, after: Model) -> None:
    """The state has become `after`."""
    transaction.to_remember = {cluster_state.raise_revision(transaction): after}


def with_member(transaction: Transaction, model: Model, node_id: str) -> Model:
    """The model with one member as it now stands in the database: there, changed, or gone."""
    return next_model(model, {}, {node_id: member_entry(transaction, node_id)})


def member_entry(transaction: Transaction, node_id: str) -> MemberEntry | None:
    """As it stands in a model."""
    return member_entries(transaction, [node_id])[node_id]


def member_entries(transaction: Transaction, node_ids: Collection[str]) -> dict[str, MemberEntry | None]:
    """The same of each of these."""
    found: dict[str, MemberEntry | None] = dict.fromkeys(node_ids)
    rows = transaction.rows(_SOME, {"ids": sorted(node_ids)})
    return found | {row.node_id: _member_entry(row) for row in rows if row.revoked_at is None}


def _members(transaction: Transaction) -> dict[str, MemberEntry]:
    """Revoked members stand in no model: every other node's next map lacks them (rules K22)."""
    rows = transaction.rows(select(schema.nodes).where(schema.nodes.c.revoked_at.is_(None)))
    return {row.node_id: _member_entry(row) for row in rows}


def _member_entry(row: "Row[tuple[object, ...]]") -> MemberEntry:
    certificates = (row.certificate, row.next_certificate)
    pins = tuple(bytes(certificate) for certificate in certificates if certificate is not None)
    keeps = None if row.keeps is None else frozenset((kind, id_) for kind, id_ in json.loads(row.keeps))
    return MemberEntry(row.node_id, row.kind, row.site_id, pins, row.direct_url, keeps)


def _member(row: "Row[tuple[object, ...]]") -> Member:
    pins = (row.certificate_sha256, row.next_certificate_sha256)
    return Member(row.node_id, row.kind, row.site_id, *pins, revoked=row.revoked_at is not None)


def _entry(row: "Row[tuple[object, ...]]") -> NodeEntry:
    times = [at for at in (row.reported, row.asked) if at is not None]
    values = {name: getattr(row, name) for name in NodeEntry.__dataclass_fields__ if name != "last_seen"}
    return NodeEntry(last_seen=max(times, default=None), **values)
