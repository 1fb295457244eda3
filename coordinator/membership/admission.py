"""Who may join: the operator's allowlist and the join tokens (rules J17, H-000-1, K13, K25, K26)."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import delete, insert, select, update

from coordinator.base.refusal import Code, Refused
from coordinator.database import catalog, cluster_state, schema
from coordinator.database.database import Database, Transaction
from coordinator.declared.kinds import NODE_KINDS, Node
from coordinator.declared.references import DEFAULT_SITE
from coordinator.keys import tokens
from coordinator.keys.tokens import MultiUse, TokenClaims, TokenPins
from coordinator.membership import operators
from coordinator.publishing import published_state
from snapshot.bundle import ACTIVE, ROOT
from snapshot.identifiers import is_hash, is_id
from wire.forms import integer
from wire.operators.operator_answers import AllowlistEntry, TokenEntry

ONE_NODE = MultiUse()
_ALLOW, _ISSUE = insert(schema.allowlist), insert(schema.tokens)


def allow(database: Database, entry: AllowlistEntry, *, actor: str, now: float) -> None:
    """Extend the allowlist. What contradicts the catalog, a tombstone or the declaration is refused."""
    with database.change(actor=actor, now=now) as transaction:
        check_entry(transaction, entry)
        put_entry(transaction, entry)


def disallow(database: Database, node_id: str, *, actor: str, now: float) -> None:
    """Take an entry back. A member stays one."""
    with database.change(actor=actor, now=now) as transaction:
        if not transaction.run(delete(schema.allowlist).where(schema.allowlist.c.node_id == node_id)):
            raise Refused(Code.NOT_FOUND, f"{node_id} is not on the allowlist")
        transaction.audit("disallow", node_id)


def allowlist_entries(database: Database) -> list[AllowlistEntry]:
    """The allowlist in byte order of the ids."""
    with database.read() as transaction:
        rows = transaction.rows(select(schema.allowlist))
    entries = [AllowlistEntry(row.node_id, row.kind, row.site_id, row.certificate_sha256) for row in rows]
    return sorted(entries, key=lambda entry: entry.node_id)


def declared_entry(database: Database, node_id: str) -> AllowlistEntry:
    """The entry that a node's declaration asks for; of one that is not declared, a data node at the default site."""
    with database.read() as transaction:
        declared = _declared_node(transaction, node_id)
    return AllowlistEntry(node_id) if declared is None else AllowlistEntry(node_id, declared.kind, declared.site)


def issue_token(
    database: Database,
    key: Ed25519PrivateKey,
    *,
    lifetime_s: int,
    actor: str,
    now: float,
    node_id: str | None = None,
    site_id: str | None = None,
    several: MultiUse = ONE_NODE,
) -> tuple[str, TokenClaims]:
    """A new token's text, which is kept nowhere, and its claims. `key`: the token key of the issuing replica.

    Without a site it is for the node's own, else for the default one (rules K13). Ids that it lets in without an
    entry of theirs are the operator's word for each of them (rules J17).
    """
    _check_lifetime(lifetime_s)
    _check_whom(node_id, several)
    with database.change(actor=actor, now=now) as transaction:
        standing = cluster_state.sound(transaction)
        issuer = _issuer(transaction, key)
        if node_id is not None:
            _check_tombstone(transaction, node_id)  # no join with it could succeed
        site_id = _token_site(transaction, node_id, site_id)
        claims = tokens.new_claims(
            standing.cluster_id, site_id, now=now, lifetime_s=lifetime_s, node_id=node_id, pins=first_roots(transaction)
        )
        row: dict[str, object] = {"jti": claims.jti, "site_id": site_id, "node_id": node_id, "issued_by": issuer}
        row |= {"uses": several.uses, "nodes": several.nodes}
        times = {"not_before": claims.not_before, "expires_at": claims.expires_at}
        transaction.run(_ISSUE, [{**row, **times, "used": 0}])
        transaction.audit("token.issue", claims.jti, None, {**row, **times})
    return tokens.issue(claims, key), claims


def first_roots(transaction: Transaction) -> TokenPins | None:
    """What a new node pins: of the bundle that it is given first. None while there is none."""
    first = published_state.first_bundle(transaction)
    if first is None:
        return None
    roots = sorted(name for name, key in first.keys.items() if key.purpose == ROOT and key.status == ACTIVE)
    return TokenPins(tuple(roots), first.thresholds[ROOT])


def revoke_token(database: Database, jti: str, *, actor: str, now: float) -> None:
    """At once, on every replica (rules K25)."""
    table = schema.tokens
    with database.change(actor=actor, now=now) as transaction:
        chosen = update(table).where(table.c.jti == jti, table.c.revoked_at.is_(None))
        if not transaction.run(chosen.values(revoked_at=now)):
            raise Refused(Code.NOT_FOUND, f"no token {jti} that could be revoked")
        transaction.audit("token.revoke", jti)


def list_tokens(database: Database) -> list[TokenEntry]:
    """Every token that has not expired yet, the oldest first."""
    names = TokenEntry.__dataclass_fields__
    with database.read() as transaction:
        rows = transaction.rows(select(schema.tokens))
    entries = [TokenEntry(**{name: getattr(row, name) for name in names}) for row in rows]
    return sorted(entries, key=lambda entry: (entry.not_before, entry.jti))


def check_entry(transaction: Transaction, entry: AllowlistEntry) -> None:
    """Refused where an entry of the allowlist is out of form, or at odds with what there is."""
    if not is_id(entry.node_id):
        raise Refused(Code.BAD_REQUEST, "the node id is out of form")
    if entry.kind not in NODE_KINDS:
        raise Refused(Code.BAD_REQUEST, f"{entry.kind} is no kind of node", remedy="data or witness")
    if entry.certificate_sha256 is not None and not is_hash(entry.certificate_sha256):
        raise Refused(Code.BAD_REQUEST, "the certificate's hash is not sha256:...")
    if entry.certificate_sha256 is not None and entry.certificate_sha256 in operators.fingerprints(transaction):
        raise Refused(Code.CONTRADICTION, "this certificate is an operator's", remedy="name the node's own")
    _check_site(transaction, entry.site_id)
    _check_tombstone(transaction, entry.node_id)
    _check_catalog(transaction, entry)


def put_entry(transaction: Transaction, entry: AllowlistEntry) -> None:
    """Write an entry in the place of an earlier one, and both into the audit log."""
    table = schema.allowlist
    before = transaction.find(table, entry.node_id)
    if before is not None:
        transaction.run(delete(table).where(table.c.node_id == entry.node_id))
    row = {"kind": entry.kind, "site_id": entry.site_id, "certificate_sha256": entry.certificate_sha256}
    transaction.run(_ALLOW, [{"node_id": entry.node_id, "added_at": transaction.now, **row}])
    old = None if before is None else {name: getattr(before, name) for name in row}
    transaction.audit("allow", entry.node_id, old, row)


def _issuer(transaction: Transaction, key: Ed25519PrivateKey) -> str:
    table = schema.coordinators
    name = tokens.key_id(key.public_key())
    row = transaction.row(select(table.c.coordinator_id).where(table.c.token_key_id == name))
    if row is None:
        raise Refused(Code.NO_STATE, "this token key belongs to no coordinator of the cluster")
    issuer: str = row.coordinator_id
    return issuer


def _check_site(transaction: Transaction, site_id: str) -> None:
    sites = cluster_state.site_ids(transaction)
    if not sites:
        raise Refused(Code.NO_STATE, "this database holds no cluster", remedy="holdfastctl init")
    if site_id not in sites:
        known = ", ".join(sorted(sites))
        raise Refused(Code.UNKNOWN_SITE, f"there is no site {site_id}", remedy=f"declare the Site, or use {known}")


def _token_site(transaction: Transaction, node_id: str | None, asked: str | None) -> str:
    """A token for another site than the node's would be refused as `wrong_site` when it is used."""
    own = None if node_id is None else _site_of(transaction, node_id)
    if asked is not None and own is not None and asked != own:
        detail = f"{node_id} belongs to the site {own}"
        raise Refused(Code.CONTRADICTION, detail, remedy=f"leave --site out, or name {own}")
    site_id = asked or own or DEFAULT_SITE
    _check_site(transaction, site_id)
    return site_id


def _site_of(transaction: Transaction, node_id: str) -> str | None:
    """Where a node stands as a member, or may join, or is declared."""
    for table in (schema.nodes, schema.allowlist):
        row = transaction.find(table, node_id)
        if row is not None:
            return str(row.site_id)
    declared = _declared_node(transaction, node_id)
    return None if declared is None else declared.site


def _declared_node(transaction: Transaction, node_id: str) -> Node | None:
    found = catalog.load(transaction).resources.get((Node.KIND, node_id))
    return found if isinstance(found, Node) else None


def _check_tombstone(transaction: Transaction, node_id: str) -> None:
    row = transaction.find(schema.tombstones, node_id)
    if row is not None:
        raise Refused(Code(row.code), f"{node_id} was {row.code}", remedy=f"holdfastctl nodes readmit {node_id}")


def _check_catalog(transaction: Transaction, entry: AllowlistEntry) -> None:
    """rules H-000-1: a member has the kind and site that it has; so has what is declared."""
    member = catalog.member(transaction, entry.node_id)
    if member is not None and (member.kind, member.site_id) != (entry.kind, entry.site_id):
        raise Refused(
            Code.CONTRADICTION,
            f"{entry.node_id} is a member as {member.kind} at {member.site_id}",
            remedy="remove it first, then let it join anew",
        )
    declared = _declared_node(transaction, entry.node_id)
    if declared is not None and (declared.kind, declared.site) != (entry.kind, entry.site_id):
        raise Refused(
            Code.CONTRADICTION,
            f"{entry.node_id} is declared as {declared.kind} at {declared.site}",
            remedy="let both say the same",
        )


def _check_whom(node_id: str | None, several: MultiUse) -> None:
    if node_id is not None and not is_id(node_id):
        raise Refused(Code.BAD_REQUEST, "the node id is out of form")
    if not 1 <= several.uses <= tokens.MOST_USES:
        raise Refused(Code.BAD_REQUEST, f"a token is for 1 to {tokens.MOST_USES} nodes")
    if node_id is not None and several != ONE_NODE:
        raise Refused(Code.BAD_REQUEST, "a token for one node has no count and no other ids", remedy="leave one out")
    if several.nodes is not None and not tokens.is_pattern(several.nodes):
        raise Refused(Code.BAD_REQUEST, "the ids are out of form", remedy="write how they begin, and *: gw-*")


def _check_lifetime(lifetime_s: int) -> None:
    least, most = 600, 7 * 86_400  # rules, Numbers: token lifetime
    if not integer(least, most).takes(lifetime_s):
        raise Refused(Code.BAD_REQUEST, f"a token lives {least} to {most} s")
