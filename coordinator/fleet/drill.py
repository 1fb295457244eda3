"""`GET /v1/drill/outage`: what members do in an outage that begins now, by what is published for them.

What is published is what they hold, or are about to: of a node that is behind it is what it will do once it has come
up. For whom nothing is published yet it is what is declared, as if it were published now.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy import select

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.database import catalog, schema
from coordinator.database.database import Database, Transaction
from coordinator.declared import foresight
from coordinator.declared.config_scope import CONFIG
from coordinator.declared.foresight import DeclaredScope
from coordinator.declared.model import Model
from coordinator.publishing import published_state
from coordinator.publishing.published_state import Situation
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.bundle import TrustBundle
from snapshot.degraded import GateFacts
from snapshot.manifest import Revocations
from snapshot.outage import Foreseen, Outage
from wire.operators.fleet_answers import NodeOutage

BATCH = 64


def drill(
    database: Database, outage: Outage, node_ids: Sequence[str], settings: CoordinatorSettings
) -> list[NodeOutage]:
    """Of these members, or of all; `not_found` for who is none. Each batch is one consistent read."""
    with database.read() as transaction:
        model = catalog.load(transaction)
    strangers = sorted(set(node_ids) - model.members.keys())
    if strangers:
        raise Refused(Code.NOT_FOUND, f"{strangers[0]} is no member", remedy="see `holdfastctl nodes list`, or use -f")
    wanted = sorted(set(node_ids) or model.members)
    found: list[NodeOutage] = []
    for start in range(0, len(wanted), BATCH):
        with database.read() as transaction:
            found += _of_batch(transaction, model, wanted[start : start + BATCH], outage, settings)
    return found


def rehearse_declared(
    model: Model, outage: Outage, node_ids: Sequence[str], settings: CoordinatorSettings
) -> list[NodeOutage]:
    """The same of files alone: by nothing but what they declare."""
    model = foresight.with_declared_members(model)
    strangers = sorted(set(node_ids) - model.members.keys())
    if strangers:
        raise Refused(
            Code.NOT_FOUND, f"no Node {strangers[0]} is declared there", remedy="declare it, or ask without -f"
        )
    wanted = sorted(set(node_ids) or model.members)
    return [_outage_of(model, node_id, outage, settings) for node_id in wanted]


def _outage_of(model: Model, node_id: str, outage: Outage, settings: CoordinatorSettings) -> NodeOutage:
    return _foreseen(node_id, "declared", foresight.foresee_node(model, node_id, outage, settings))


def _of_batch(
    transaction: Transaction, model: Model, node_ids: Sequence[str], outage: Outage, settings: CoordinatorSettings
) -> list[NodeOutage]:
    table = schema.heads
    chosen = select(table.c.node_id, table.c.expires_at).where(table.c.node_id.in_(node_ids))
    heads: Mapping[str, int] = {row.node_id: row.expires_at for row in transaction.rows(chosen)}
    present = published_state.read_situations(transaction, node_ids)
    bundle = published_state.latest_bundle(transaction)
    revoked = published_state.read_revocations(transaction)
    found = []
    for node_id in node_ids:
        one = present.get(node_id)
        if one is None or node_id not in heads or bundle is None:
            found.append(_outage_of(model, node_id, outage, settings))
        else:
            facts = _facts(model, node_id, heads[node_id], bundle[1], revoked)
            foreseen = foresight.of_documents(_documents(one, bundle[1]), facts, outage)
            found.append(_foreseen(node_id, "published", foreseen))
    return found


def _facts(model: Model, node_id: str, expires_at: int, bundle: TrustBundle, revoked: Revocations) -> GateFacts:
    return GateFacts(
        head_expires_at=expires_at,
        revocations=revoked.with_bundle(bundle.revocations),
        authority_epoch=bundle.authority_epoch,
        node_id=node_id,
        roles=frozenset(model.subjects[node_id].roles),
    )


def _documents(present: Situation, bundle: TrustBundle) -> dict[str, DeclaredScope]:
    documents = {
        scope: DeclaredScope(
            held.envelope.expires_at,
            held.envelope.authority_epoch,
            {} if held.envelope.scope_type == CONFIG else {name: held.read(name) for name in held.sections},
        )
        for scope, held in present.held.items()
    }
    documents[TRUST_BUNDLE] = DeclaredScope(bundle.expires_at, bundle.authority_epoch, {})
    return documents


def _foreseen(node_id: str, basis: str, foreseen: Foreseen) -> NodeOutage:
    return NodeOutage(node_id, basis, foreseen.states, foreseen.stops)
