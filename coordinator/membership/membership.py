"""Joining, and what a member's certificate is from then on: acts of the decisions in join.py (rules J, K).

Each operation is one transaction; nodes that join at one time share one (admissions.py). A refusal leaves catalog,
tokens and history as they were (rules J11); it spends the nonce and stands in the audit log, with the details that the
peer is not told (rules X20, H-000-4).
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import bindparam, case, insert, select, update
from sqlalchemy.engine import Row

from coordinator.base.refusal import Code, Refused
from coordinator.database import catalog, cluster_state, schema
from coordinator.database.database import Database, Transaction
from coordinator.database.member import Member
from coordinator.declared.change_impact import affected_scopes, changed_members
from coordinator.declared.model import MemberEntry, Model
from coordinator.declared.next_model import next_model
from coordinator.keys import nonces
from coordinator.keys.tokens import TokenRecord
from coordinator.membership.join import Decision, decide
from coordinator.membership.join_reading import JoinBasis, KnownCandidate, read_basis, read_candidate
from coordinator.membership.proof import ProvenRequest
from coordinator.reports import heartbeats

NO_HEAD = -1  # that was ever published for it
# Made once: making a statement costs as much as running it.
_SPEND, _ADMIT, _NOTE_USE = insert(schema.used_nonces), insert(schema.nodes), insert(schema.token_uses)
_token = schema.tokens.c
_USE_TOKEN = (
    update(schema.tokens)
    .where(_token.jti == bindparam("token"), (_token.uses == 1) | (_token.used < _token.uses))
    .values(
        used=case((_token.uses == 1, 1), else_=_token.used + 1),
        used_at=bindparam("at"),
        used_by=bindparam("by"),
        used_certificate_sha256=bindparam("pin"),
    )
)


@dataclass(frozen=True)
class Grant:
    """The answer to a join, made from the state after it (rules J9); the documents are added by who signs them."""

    outcome: str  # "admitted" | "already_member"
    member: Member
    generation: int
    touched: frozenset[str]  # nodes whose heads have to be issued again, for all that joined with it


def new_nonce(database: Database, *, now: float, lifetime_s: int) -> str:
    """The nonce of `GET /v1/join/nonce`. Nothing is written."""
    with database.read() as transaction:
        return nonces.issue(cluster_state.standing(transaction).nonce_key, now, lifetime_s)


def look_at(transaction: Transaction, request: ProvenRequest, basis: JoinBasis, *, now: float) -> MemberEntry | None:
    """What the join would make of the node. None where it would be refused, or for nothing.

    Refused, and nothing is written, not even the nonce, for who shows neither a token of ours nor a pinned certificate.
    Whoever is not refused here is decided upon again, in the transaction of `join`.
    """
    declared = catalog.load(transaction, basis.standing)
    state = read_candidate(transaction, request, basis, declared).state
    try:
        decision = decide(request, state, now)
    except Refused:
        if request.connection_certificate is None and state.token is None:
            raise
        return None  # by `join`, with its audit row
    known = declared.members.get(request.node_id)
    entry = _entry_after(known, request, decision)
    return None if entry == known else entry


@dataclass(frozen=True)
class ForeseenJoins:
    """The declared state before some joins, and as it is when nothing else comes first."""

    before: Model
    after: Model


def foresee(database: Database, entries: Iterable[MemberEntry]) -> ForeseenJoins | None:
    """What the joins would make of the state, and with it which heads they touch: that takes a while in a large
    cluster, so it is worked out beside everybody else, and `join` finds it done. None where they are for nothing.
    """
    changed = {entry.node_id: entry for entry in entries}
    if not changed:
        return None
    with database.read() as transaction:
        before = catalog.load(transaction)
    after = next_model(before, {}, changed)
    affected_scopes(before, after)  # which stays with `after`
    return ForeseenJoins(before, after)


def _entry_after(known: MemberEntry | None, request: ProvenRequest, decision: Decision) -> MemberEntry:
    """As `_insert` and `_update` write it."""
    der = request.certificate.der
    if known is None or decision.pin == "first":
        return MemberEntry(request.node_id, decision.kind, decision.site_id, (der,), request.direct_url)
    pins = {"keep": known.certificates, "next": (known.certificates[0], der), "replace": (der,)}
    return replace(known, certificates=pins[decision.pin], direct_url=request.direct_url)


def join(
    database: Database, requests: Sequence[ProvenRequest], foreseen: ForeseenJoins | None = None, *, now: float
) -> list[Grant | Refused]:
    """Admit, or recognise, or renew each of them, one after the other; or the first code of rules J7. One transaction
    for all, also for who is refused: that writes the nonce and an audit row, and nothing else. What was foreseen counts
    where it still is so.
    """
    with database.change(actor="", now=now) as transaction:
        standing = cluster_state.sound(transaction)  # without a state, or restored, a coordinator admits nobody
        before, basis = catalog.load(transaction, standing), read_basis(transaction, standing)
        new_stores: set[str] = set()
        decided = [_decide(transaction, request, basis, before, new_stores) for request in requests]
        heartbeats.forget(transaction, new_stores)
        joined = {
            request.node_id
            for request, decision in zip(requests, decided, strict=True)
            if isinstance(decision, Decision)
        }
        touched = _tell_others(transaction, before, joined, foreseen)
        members = catalog.members(transaction, joined)
        return [
            decision if isinstance(decision, Refused) else Grant(decision.outcome, *members[request.node_id], touched)
            for request, decision in zip(requests, decided, strict=True)
        ]


def confirm_pin(database: Database, certificate_sha256: str, *, now: float) -> bool:
    """A member has used its new certificate: from now on it is the only one. False when there was nothing to do."""
    with database.read() as transaction:
        if _waiting(transaction, certificate_sha256) is None:
            return False
    with database.change(actor="coordinator", now=now, after_move=True) as transaction:
        row = _waiting(transaction, certificate_sha256)
        if row is None:
            transaction.audit("certificate.confirm", certificate_sha256, outcome="nothing")
            return False
        before = catalog.load(transaction)
        new = {"certificate": row.next_certificate, "certificate_sha256": row.next_certificate_sha256}
        _set(transaction, row.node_id, {**new, "next_certificate": None, "next_certificate_sha256": None})
        pins = ({"certificate": row.certificate_sha256}, {"certificate": certificate_sha256})
        transaction.audit("certificate.confirm", row.node_id, *pins)
        catalog.raise_touched(transaction, before, catalog.with_member(transaction, before, row.node_id))
        return True


def _waiting(transaction: Transaction, certificate_sha256: str) -> Row[Any] | None:
    table = schema.nodes
    return transaction.row(select(table).where(table.c.next_certificate_sha256 == certificate_sha256))


def _spend_nonce(transaction: Transaction, request: ProvenRequest, known: KnownCandidate) -> None:
    if known.is_nonce_spent:
        raise Refused(Code.BAD_PROOF, "the nonce was used before", remedy="ask for a new one")
    transaction.run_many(_SPEND, [{"nonce": request.nonce, "expires_at": request.nonce_expires_at}])


def _decide(
    transaction: Transaction, request: ProvenRequest, basis: JoinBasis, before: Model, new_stores: set[str]
) -> Decision | Refused:
    """With all that the decision writes of this node, and its audit row. `new_stores`: gets the node where another
    store reports from now on.
    """
    transaction.actor = f"node:{request.node_id}"
    known = read_candidate(transaction, request, basis, before)
    try:
        _spend_nonce(transaction, request, known)
        decision = decide(request, known.state, transaction.now)
        if decision.consume is not None and known.state.token is not None:
            _consume(transaction, known.state.token, request)
    except Refused as refused:
        _audit_refusal(transaction, request.node_id, refused)
        return refused
    if decision.pin == "first":
        _insert(transaction, request, decision, known.last_head)
        new_stores.add(request.node_id)
    else:
        if decision.pin == "replace" and _is_another_store(transaction, request):
            new_stores.add(request.node_id)
        _update(transaction, request, decision)
    by = {} if decision.consume is None else {"token": decision.consume}
    transaction.audit("join", request.node_id, None, {**_describe(request), **by, "pin": decision.pin})
    return decision


def _tell_others(
    transaction: Transaction, before: Model, joined: Set[str], foreseen: ForeseenJoins | None
) -> frozenset[str]:
    """Whose heads have to be issued again."""
    entries = catalog.member_entries(transaction, joined)
    changed = {node_id: entry for node_id, entry in entries.items() if entry != before.members.get(node_id)}
    if not changed:
        return frozenset()
    after = _foreseen_model(foreseen, before, changed) or next_model(before, {}, changed)
    return frozenset(node_id for node_id, _ in catalog.raise_touched(transaction, before, after))


def _foreseen_model(
    foreseen: ForeseenJoins | None, before: Model, changed: Mapping[str, MemberEntry | None]
) -> Model | None:
    """Where nothing has come first, and just these members became what was foreseen."""
    if foreseen is None or foreseen.before is not before:
        return None
    is_so = changed.keys() == changed_members(before, foreseen.after) and all(
        foreseen.after.members.get(node_id) == entry for node_id, entry in changed.items()
    )
    return foreseen.after if is_so else None


def _consume(transaction: Transaction, record: TokenRecord, request: ProvenRequest) -> None:
    """The statement itself counts: whatever was read before, a token is never used more often than it may be."""
    if record.used_here:
        return  # a retry: counted already
    use = {"at": transaction.now, "by": request.node_id}
    pin = {"pin": request.certificate.sha256}
    if not transaction.run(_USE_TOKEN, [{"token": record.jti, **use, **pin}]):
        raise Refused(Code.TOKEN_USED, f"token {record.jti} is for no more nodes")
    if record.uses > 1:
        named = {"jti": record.jti, "node_id": request.node_id, "certificate_sha256": request.certificate.sha256}
        transaction.run_many(_NOTE_USE, [{**named, "at": transaction.now}])


def _insert(transaction: Transaction, request: ProvenRequest, decision: Decision, last_head: int) -> None:
    """Joined-empty (rules J8). A node that was here before goes on from the generation that it may still hold; what it
    reported before, also while its membership was ending, is not held against it.
    """
    row = {
        "node_id": request.node_id,
        "kind": decision.kind,
        "site_id": decision.site_id,
        "certificate": request.certificate.der,
        "certificate_sha256": request.certificate.sha256,
        "direct_url": request.direct_url,
        "incarnation": request.incarnation,
        "first_seen": transaction.now,
        "generation": last_head,
        "published": last_head or NO_HEAD,
    }
    transaction.run_many(_ADMIT, [row])


def _update(transaction: Transaction, request: ProvenRequest, decision: Decision) -> None:
    """What a member says anew of itself; its kind, site and `first_seen` stay (rules J29, K18)."""
    values: dict[str, object] = {"incarnation": request.incarnation, "direct_url": request.direct_url}
    der, sha256 = request.certificate.der, request.certificate.sha256
    if decision.pin == "next":
        values |= {"next_certificate": der, "next_certificate_sha256": sha256}
    elif decision.pin == "replace":
        values |= {"certificate": der, "certificate_sha256": sha256}
        values |= {"next_certificate": None, "next_certificate_sha256": None}
    _set(transaction, request.node_id, values)


def _is_another_store(transaction: Transaction, request: ProvenRequest) -> bool:
    """The same store under another key keeps its marks: an old copy of it would be noticed by them (rules K41)."""
    table = schema.nodes
    here = select(table.c.node_id).where(table.c.node_id == request.node_id, table.c.incarnation == request.incarnation)
    return transaction.row(here) is None


def _set(transaction: Transaction, node_id: str, values: dict[str, object]) -> None:
    transaction.run(update(schema.nodes).where(schema.nodes.c.node_id == node_id).values(**values))


def _describe(request: ProvenRequest) -> dict[str, object]:
    return {"kind": request.kind, "certificate": request.certificate.sha256, "incarnation": request.incarnation}


def _audit_refusal(transaction: Transaction, subject: str, refusal: Refused) -> None:
    transaction.audit("join", subject, None, {"detail": refusal.detail}, outcome=refusal.code.value)
