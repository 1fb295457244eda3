"""A join from the request's bytes to the documents of its grant (rules J7, J9, J10, J12)."""

from collections.abc import Callable

from coordinator.base.refusal import Refused
from coordinator.database import documents
from coordinator.database.database import Database
from coordinator.membership import membership
from coordinator.membership.membership import Grant
from coordinator.membership.proof import ProvenRequest
from coordinator.publishing import heads
from coordinator.publishing.publisher import container_of


def admit(
    database: Database,
    body: bytes,
    proof: str,
    *,
    token: str | None,
    pin: str | None,
    note: Callable[[Refused], None],
    now: float,
) -> Grant:
    """Refused with the first code of rules J7. `pin`: the certificate that TLS knew. `note` is told of refusals that
    are not in the audit log: of those who have shown nothing of ours nothing is written (refused_joins.py).
    """
    try:
        request = ProvenRequest.authenticated(
            body,
            proof,
            verifier=membership.verifier(database),
            now=now,
            token=token,
            connection_certificate=pin,
        )
        membership.turn_away_stranger(database, request, now=now)
    except Refused as refused:
        note(refused)
        raise
    return membership.join(database, request, now=now)


def granted(database: Database, node_id: str) -> list[bytes] | None:
    """The trust bundles in order, then the node's own `node_bootstrap`; None until its head is up with its entry."""
    with database.read() as transaction:
        basis = heads.basis(transaction, node_id)
        entry = documents.listing(transaction, node_id).get("node_bootstrap")
        if entry is None or basis.published < basis.generation:
            return None
        bundles = documents.trust_bundles_in(transaction, 0)
        bootstrap = documents.document_in(transaction, node_id, entry.snapshot_id)
    return [container_of(each) for each in (*bundles, bootstrap)]
