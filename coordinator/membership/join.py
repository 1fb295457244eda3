"""Whether a candidate becomes a member: state in, decision out (seed 000; rules J4..J17, K34, X7, X8).

    1 cluster       names ours
    2 revocation    neither the id nor the certificate was revoked
    3 tombstone     nor removed
    4 token         ours, unused, in time; a member with its own certificate needs none
    5 allowlist     an operator named it, with this certificate if one is fixed, or made its token for ids like its own;
                    a member is allowed by the catalog
    6 kind          as allowed; a member's is the catalog's
    7 certificate   nobody else's, and a member's own, or a new one that the old key or a token bound to it stands for
    8 site          the token's site exists and is the entry's

The proof came before (proof.py). The first failure wins and nothing changes (rules J7, J11). The peer is told the code
alone; the sentences are for the audit log (rules J16, H-000-4).

The order is part of the rule: who has no good token is refused for that before the allowlist, kinds, certificates or
sites are looked at, and so learns nothing of them. The decision sees all of its inputs as one value, read in the
transaction that also writes the outcome: two requests with one token cannot both find it unused.

Example. node-a was stolen and revoked. The thief joins with node-a's certificate and a token that he found on its
disk: step 2, `revoked`, and the token stays unused. The operator installs a new machine, readmits the id and makes a
token: the new certificate passes, since the token stands for it. The thief's stays revoked, under whatever id.

A member that asks again with its own certificate needs no token: a grant that was lost on the way is simply asked for
again.

Rejected:

- First come, first served with a shared secret: one leaked file would be the whole fleet's.
- Letting the declared state admit: who may write a file of the repository could then bring machines in. What a
  declaration says of a node limits what it becomes; an operator's entry or token lets it in.
- Answering with the sentence of the refusal: it says what the cluster knows. The peer has the code, the operator the
  rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.base.refusal import Code, Refused
from coordinator.database.member import Member, is_same_pin
from coordinator.keys import tokens
from coordinator.keys.tokens import TokenClaims, TokenRecord
from coordinator.membership.proof import ProvenRequest


@dataclass(frozen=True)
class AllowedPeer:
    """An operator's entry: this node may join, as this kind, at this site."""

    kind: str
    site_id: str
    certificate_sha256: str | None = None


@dataclass(frozen=True)
class JoinState:
    """What the decision needs to know; read in the transaction that applies it."""

    cluster_id: str
    token_keys: Mapping[str, bytes]
    own_certificates: frozenset[str]
    sites: frozenset[str]
    member: Member | None = None
    certificate_owner: str | None = None  # the member that the presented certificate is pinned for
    tombstone: str | None = None  # "removed" or "revoked", of the node id
    retired: str | None = None  # the same, of the certificate
    allowed: AllowedPeer | None = None
    declared: AllowedPeer | None = None  # what its declaration says of it; that alone lets nobody in
    token: TokenRecord | None = None


@dataclass(frozen=True)
class Decision:
    """Admit. `outcome` is the peer's; the rest is what the database has to do in one transaction."""

    outcome: str  # "admitted" | "already_member"
    kind: str
    site_id: str
    pin: str  # "first" | "keep" | "next" (both hold) | "replace" (the old one is lost)
    consume: str | None = None  # the token's jti


@dataclass
class _Case:
    """One candidate before one state, and what the steps found out on the way."""

    request: ProvenRequest
    state: JoinState
    now: float
    claims: TokenClaims | None = field(default=None, init=False)

    @property
    def fingerprint(self) -> str:
        return self.request.certificate.sha256

    @property
    def allowed_peer(self) -> AllowedPeer | None:
        """The operator's entry; or what a token stands for that was made for ids like this one."""
        if self.state.allowed is not None or self.claims is None or self.state.token is None:
            return self.state.allowed
        if not self.state.token.lets_in(self.request.node_id):
            return None
        return self.state.declared or AllowedPeer("data", self.claims.site_id)

    @property
    def shows_own_pin(self) -> bool:
        member = self.state.member
        return member is not None and any(is_same_pin(self.fingerprint, pin) for pin in member.pins)

    @property
    def is_renewal(self) -> bool:
        """A member that TLS knew by a pinned certificate brings a new one."""
        member, known = self.state.member, self.request.connection_certificate
        return member is not None and known is not None and any(is_same_pin(known, pin) for pin in member.pins)


def decide(request: ProvenRequest, state: JoinState, now: float) -> Decision:
    """The decision for a proven request; Refused with the code of the first step that fails."""
    case = _Case(request, state, now)
    for step in STEPS:
        step(case)
    return _admit(case)


def cluster_is_ours(case: _Case) -> None:
    wanted, ours = case.request.cluster_id, case.state.cluster_id
    if wanted != ours:
        raise Refused(Code.WRONG_CLUSTER, f"join targets cluster {wanted}, but this coordinator serves {ours}")


def nothing_is_revoked(case: _Case) -> None:
    member = case.state.member
    if "revoked" in (case.state.tombstone, case.state.retired) or (member is not None and member.revoked):
        raise Refused(Code.REVOKED, f"{case.request.node_id} was revoked", remedy="readmit it")


def nothing_is_removed(case: _Case) -> None:
    if "removed" in (case.state.tombstone, case.state.retired):
        raise Refused(Code.REMOVED, f"{case.request.node_id} was removed", remedy="readmit it")


def token_is_good(case: _Case) -> None:
    """A newcomer brings a token of ours that is neither spent, over nor another's."""
    if case.shows_own_pin or case.is_renewal:
        return  # rules J12, X4: the node's key speaks for it now
    if case.request.token is None:
        if case.state.member is not None:
            return  # step 7 names the conflict
        raise Refused(Code.BAD_TOKEN, f"{case.request.node_id} brought no token")
    case.claims = case.request.token_claims(case.request.token, case.state.token_keys, case.state.cluster_id)
    node_id, record = case.request.node_id, case.state.token
    tokens.judge(case.claims, record, node_id=node_id, certificate_sha256=case.fingerprint, now=case.now)


def operator_allows(case: _Case) -> None:
    """An operator has put the node on the allowlist, for this certificate where the entry names one."""
    allowed = case.allowed_peer
    if case.state.member is not None:
        return  # rules J13
    if allowed is None:
        raise Refused(
            Code.UNAUTHORIZED_PEER,
            f"peer {case.request.node_id} is not an authorized cluster member",
            remedy="holdfastctl allow",
        )
    if allowed.certificate_sha256 is not None and not is_same_pin(case.fingerprint, allowed.certificate_sha256):
        raise Refused(
            Code.UNAUTHORIZED_PEER, f"peer {case.request.node_id} shows another certificate than its entry fixes"
        )


def kind_is_allowed(case: _Case) -> None:
    allowed, wanted = _entry(case).kind, case.request.kind
    if allowed != wanted:
        raise Refused(Code.KIND_MISMATCH, f"peer {case.request.node_id} is allowed as {allowed} but requested {wanted}")


def certificate_is_its_own(case: _Case) -> None:
    """No other node's and no coordinator's; a member changes its own by renewal, or by a token bound to its id."""
    owner, node_id = case.state.certificate_owner, case.request.node_id
    if case.fingerprint in case.state.own_certificates or (owner is not None and owner != node_id):
        raise Refused(Code.IDENTITY_CONFLICT, f"{node_id} shows the certificate of {owner or 'no node'}")
    if case.state.member is None or case.shows_own_pin or case.is_renewal:
        return
    if case.claims is None or case.claims.node_id is None:
        raise Refused(
            Code.IDENTITY_CONFLICT,
            f"{node_id} is a member with another certificate",
            remedy="renew over the old certificate, or issue a token bound to this node id",
        )


def site_is_the_tokens(case: _Case) -> None:
    """The token, the entry and the sites agree."""
    if case.claims is None:
        return
    site, entry = case.claims.site_id, _entry(case)
    if site not in case.state.sites or site != entry.site_id:
        raise Refused(Code.WRONG_SITE, f"the token is for site {site}, the entry for {entry.site_id}")


STEPS = (
    cluster_is_ours,
    nothing_is_revoked,
    nothing_is_removed,
    token_is_good,
    operator_allows,
    kind_is_allowed,
    certificate_is_its_own,
    site_is_the_tokens,
)


def _entry(case: _Case) -> Member | AllowedPeer:
    """Where the node's kind and site stand: the catalog, else the allowlist."""
    entry = case.state.member or case.allowed_peer
    if entry is None:
        raise AssertionError("a candidate without an entry was refused before")
    return entry


def _admit(case: _Case) -> Decision:
    entry = _entry(case)
    consume = None if case.claims is None else case.claims.jti
    if case.state.member is None:
        return Decision("admitted", entry.kind, entry.site_id, "first", consume)
    if case.shows_own_pin:
        return Decision("already_member", entry.kind, entry.site_id, "keep")
    pin = "next" if case.is_renewal else "replace"
    return Decision("already_member", entry.kind, entry.site_id, pin, consume)
