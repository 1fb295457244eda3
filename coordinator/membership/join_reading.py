"""What a join is decided by, as it stands in the transaction that decides: of the cluster, and of the candidate.

Of a candidate nine tables know something, each by its key: one row of them side by side, by one statement that is made
once. Nine statements, each made anew, took three times as long, and with the writing of what follows they were a fifth
of a join.

Rejected: to read for all that join together at once. Of two of them that bring one token, or come under one name, the
second has to see what became of the first.
"""

from dataclasses import dataclass, replace

from sqlalchemy import BindParameter, bindparam, literal, or_, select

from coordinator.database import cluster_state, schema
from coordinator.database.cluster_state import ClusterState
from coordinator.database.database import Transaction
from coordinator.database.member import Member
from coordinator.declared.kinds import Node
from coordinator.declared.model import Model
from coordinator.keys.tokens import TokenRecord, jti_of
from coordinator.membership import operators
from coordinator.membership.join import AllowedPeer, JoinState
from coordinator.membership.proof import ProvenRequest, Verifier

_node, _allowed, _token = schema.nodes.c, schema.allowlist.c, schema.tokens.c
_tombstone, _retired, _use = schema.tombstones.c, schema.retired_certificates.c, schema.token_uses.c
_owner = schema.nodes.alias("owner")
_ID: BindParameter[str] = bindparam("id")
_PIN: BindParameter[str] = bindparam("pin")
_JTI: BindParameter[str] = bindparam("jti")
_candidate = select(literal(1).label("one")).subquery("candidate")
_KNOWN = select(
    _node.node_id.label("member"),
    _node.kind,
    _node.site_id,
    _node.certificate_sha256,
    _node.next_certificate_sha256,
    _node.revoked_at,
    select(_owner.c.node_id)
    .where(or_(_owner.c.certificate_sha256 == _PIN, _owner.c.next_certificate_sha256 == _PIN))
    .limit(1)
    .scalar_subquery()
    .label("owner"),
    _tombstone.code.label("tombstone"),
    _retired.code.label("retired"),
    _allowed.node_id.label("allowed"),
    _allowed.kind.label("allowed_kind"),
    _allowed.site_id.label("allowed_site"),
    _allowed.certificate_sha256.label("allowed_pin"),
    _token.jti,
    _token.revoked_at.label("token_revoked_at"),
    _token.used_certificate_sha256,
    _token.used_by,
    _token.uses,
    _token.used,
    _token.nodes,
    _use.jti.label("used_here"),
    schema.used_nonces.c.nonce.label("spent"),
    schema.heads.c.generation.label("last_head"),
).select_from(
    _candidate.outerjoin(schema.nodes, _node.node_id == _ID)
    .outerjoin(schema.tombstones, _tombstone.node_id == _ID)
    .outerjoin(schema.retired_certificates, _retired.certificate_sha256 == _PIN)
    .outerjoin(schema.allowlist, _allowed.node_id == _ID)
    .outerjoin(schema.tokens, _token.jti == _JTI)
    .outerjoin(schema.token_uses, (_use.jti == _JTI) & (_use.node_id == _ID) & (_use.certificate_sha256 == _PIN))
    .outerjoin(schema.used_nonces, schema.used_nonces.c.nonce == bindparam("nonce"))
    .outerjoin(schema.heads, schema.heads.c.node_id == _ID)
)


@dataclass(frozen=True)
class JoinBasis:
    """What is the same for whoever joins, and no join changes."""

    standing: ClusterState
    server_certificates: frozenset[str]
    state: JoinState

    @property
    def verifier(self) -> Verifier:
        """What a proof is held against."""
        return Verifier(self.standing.nonce_key, self.server_certificates)


@dataclass(frozen=True)
class KnownCandidate:
    """`last_head`: the generation of the last head under this id, which it may still hold."""

    state: JoinState
    is_nonce_spent: bool
    last_head: int


def read_basis(transaction: Transaction, standing: ClusterState | None = None) -> JoinBasis:
    """`standing`: where it was read in this transaction."""
    standing = standing or cluster_state.standing(transaction)
    servers = cluster_state.server_certificates(transaction)
    state = JoinState(
        cluster_id=standing.cluster_id,
        token_keys=cluster_state.token_keys(transaction),
        own_certificates=servers | operators.fingerprints(transaction),
        sites=cluster_state.site_ids(transaction),
    )
    return JoinBasis(standing, servers, state)


def read_candidate(
    transaction: Transaction, request: ProvenRequest, basis: JoinBasis, declared: Model
) -> KnownCandidate:
    """All that the decision reads of it. `declared`: the declared state of this transaction."""
    jti = None if request.token is None else jti_of(request.token)
    asked = {"id": request.node_id, "pin": request.certificate.sha256, "jti": jti, "nonce": request.nonce}
    (row,) = transaction.rows(_KNOWN, asked)
    member, allowed, token = None, None, None
    if row.member is not None:
        pins = (row.certificate_sha256, row.next_certificate_sha256)
        member = Member(row.member, row.kind, row.site_id, *pins, revoked=row.revoked_at is not None)
    if row.allowed is not None:
        allowed = AllowedPeer(row.allowed_kind, row.allowed_site, row.allowed_pin)
    if row.jti is not None:  # the decision verifies before it believes it
        token = TokenRecord(
            row.jti,
            row.token_revoked_at is not None,
            row.used_certificate_sha256,
            row.used_by,
            row.uses,
            row.used,
            row.nodes,
            used_here=row.uses > 1 and row.used_here is not None,
        )
    state = replace(
        basis.state,
        member=member,
        certificate_owner=row.owner,
        tombstone=row.tombstone,
        retired=row.retired,
        allowed=allowed,
        declared=_declared_peer(declared, request.node_id),
        token=token,
    )
    return KnownCandidate(state, row.spent is not None, row.last_head or 0)


def _declared_peer(declared: Model, node_id: str) -> AllowedPeer | None:
    found = declared.resources.get((Node.KIND, node_id))
    return AllowedPeer(found.kind, found.site) if isinstance(found, Node) else None
