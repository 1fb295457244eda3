"""A join from the request's bytes to the documents of its grant (rules J7, J9, J10, J12).

    prove             who asks, and what it has shown: signature, token or certificate; nothing is written
    foresee           what the joins that wait would change, the long part of the work; nothing is written
    admit             the decisions, in one transaction with all that they change; or the same node is recognised
    GrantReader       what the new member is answered with, once its first head is out

Proof and decision are apart, since they cost and risk different things. A proof is arithmetic on strangers' bytes: it
runs before any lock, and whoever fails it has written nothing, so a flood of bad joins costs processor time and no row
(refused_joins.py counts them in memory). The decision is short and holds the cluster's lock: token spent, member,
certificate and declared node are one transaction, so a token is spent exactly by who was admitted.

Between them the world may change: another replica may admit the same name, or the token may be taken away. So `admit`
decides again from the database, and what was foreseen (which scopes of which nodes the new members touch) is used only
as far as it still holds (`membership.join`). Joins that come at one time are foreseen and admitted together
(admissions.py).

Example. Two nodes ask for the name `edge-7` with one token for one join, at two coordinators, in the same second. Both
prove. One transaction commits; the other finds the token used and answers `token_used`. The first asks again after a
broken connection, with the same key: it is who it was, and is answered with its grant and not with a refusal.

Rejected:

- To decide within the proof, under the lock: strangers' signatures would be checked while members wait.
- To answer with the grant before the head is out: the node would start with documents that no head lists, and would
  have to be told by something else which of them are current.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, select

from coordinator.base.refusal import Refused
from coordinator.database import documents, schema
from coordinator.database.database import Database, Transaction
from coordinator.database.documents import TRUST_BUNDLE, HeadEntry, container_of
from coordinator.declared.model import MemberEntry
from coordinator.membership import membership
from coordinator.membership.join_reading import read_basis
from coordinator.membership.membership import ForeseenJoins, Grant
from coordinator.membership.proof import ProvenRequest
from coordinator.publishing.board import News
from coordinator.publishing.handouts import Handouts
from snapshot.container import ChunkParts

NODE_BOOTSTRAP = "node_bootstrap"
HEAD_BYTES = 64 << 10  # of a head that is read on the event loop: some 300 scopes


@dataclass(frozen=True)
class ProvenJoin:
    """Who has proven what it says, and what it would become; None where its join would change nothing."""

    request: ProvenRequest
    entry: MemberEntry | None


def prove(
    database: Database,
    body: bytes,
    proof: str,
    *,
    token: str | None,
    pin: str | None,
    note: Callable[[Refused], None],
    now: float,
) -> ProvenJoin:
    """Refused with the first code of rules J7; nothing is written. `pin`: the certificate that TLS knew. `note` is told
    of refusals that are not in the audit log: of those who have shown nothing of ours nothing is written
    (refused_joins.py).
    """
    try:
        with database.read() as transaction:
            basis = read_basis(transaction)
            request = ProvenRequest.from_proof(
                body, proof, verifier=basis.verifier, now=now, token=token, connection_certificate=pin
            )
            return ProvenJoin(request, membership.look_at(transaction, request, basis, now=now))
    except Refused as refused:
        note(refused)
        raise


def foresee(database: Database, candidates: Sequence[ProvenJoin]) -> ForeseenJoins | None:
    """What these would change together."""
    return membership.foresee(database, [candidate.entry for candidate in candidates if candidate.entry is not None])


def admit(
    database: Database, candidates: Sequence[ProvenJoin], foreseen: ForeseenJoins | None, *, now: float
) -> list[Grant | Refused]:
    """For each the first code of rules J7, or its grant: who was foreseen to be admitted is decided upon again."""
    return membership.join(database, [candidate.request for candidate in candidates], foreseen, now=now)


class GrantReader:
    """What new members are answered with. Trust bundles are for every one of them and never change under their id, so
    the bytes of each are read once: a cluster has up to 256. What is out for a node since a moment ago is at hand.
    """

    def __init__(self) -> None:
        self._bundles: dict[str, bytes] = {}
        self._chain: tuple[str, tuple[bytes, ...]] = ("", ())  # the newest one's id, and all up to it in order

    def find(self, news: News | None, handouts: Handouts) -> list[bytes] | None:
        """The trust bundles in order, then the node's own `node_bootstrap`, where all that its newest head names of it
        is in memory.
        """
        named = {} if news is None else _list_named(news.container)
        newest, bundles = self._chain
        found = handouts.find(named.get(NODE_BOOTSTRAP, ""), news) if named.get(TRUST_BUNDLE) == newest else None
        return None if found is None else [*bundles, found]

    def read(self, database: Database, node_id: str, generation: int) -> list[bytes] | None:
        """The same of the database; None until a head of this generation is out. Those that join after the node raise
        the one of its entry again and again, and say nothing that its grant is made of.
        """
        with database.read() as transaction:
            row = next(iter(transaction.rows(_STANDING, {"id": node_id})), None)
            entry = None if row is None or row.published < generation else _bootstrap_of(row.listing)
            if entry is None:
                return None
            ids = documents.trust_bundle_ids(transaction, 0)
            bundles = [self._bundle(transaction, id_) for id_ in ids]
            self._chain = ids[-1], tuple(bundles)
            return [*bundles, container_of(documents.document_in(transaction, node_id, entry.snapshot_id))]

    def _bundle(self, transaction: Transaction, snapshot_id: str) -> bytes:
        """Of two threads at once both may read it."""
        if snapshot_id not in self._bundles:
            self._bundles[snapshot_id] = container_of(documents.stored_document_in(transaction, snapshot_id))
        return self._bundles[snapshot_id]


_head = schema.heads.c
_STANDING = select(_head.generation.label("published"), _head.listing).where(_head.node_id == bindparam("id"))


def _bootstrap_of(listing: str) -> HeadEntry | None:
    return documents.entries_of(listing).get(NODE_BOOTSTRAP)


def _list_named(head: bytes) -> dict[str, str]:
    """The documents that a head of ours lists, by scope; none of one that takes long to read."""
    if len(head) > HEAD_BYTES:
        return {}
    parts = ChunkParts([head])
    parts.opening()
    return {scope: entry["snapshot_id"] for scope, entry in json.loads(parts.manifest())["scopes"].items()}
