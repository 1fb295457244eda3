"""The join decision: pure, in the order of rules J7; seed 000's own tests by name."""

from dataclasses import replace

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.database.member import Member
from coordinator.keys import tokens
from coordinator.keys.tokens import TokenRecord
from coordinator.membership.join import STEPS, AllowedPeer, JoinState, decide
from tests.coordinator.candidates import CLUSTER, NOW, SERVER, TOKEN_KEY, Candidate

KEYS = {tokens.key_id(TOKEN_KEY.public_key()): tokens.spki(TOKEN_KEY.public_key())}
NODE = Candidate("node-c")


def token(node_id: str | None = None, *, site: str = "default", cluster: str = CLUSTER, now: float = NOW):
    claims = tokens.new_claims(cluster, site, now=now, lifetime_s=600, node_id=node_id)
    return tokens.issue(claims, TOKEN_KEY), claims


def state(claims=None, **other) -> JoinState:
    record = None if claims is None else TokenRecord(claims.jti)
    known = {"allowed": AllowedPeer("data", "default"), "token": record}
    return JoinState(CLUSTER, KEYS, frozenset({SERVER}), frozenset({"default"}), **{**known, **other})


def refused(request, known) -> Code:
    with pytest.raises(Refused) as caught:
        decide(request, known, NOW)
    return caught.value.code


def member(candidate: Candidate, **other) -> Member:
    return replace(Member(candidate.node_id, candidate.kind, "default", candidate.pin), **other)


def test_an_authorised_node_is_admitted() -> None:
    text, claims = token()
    decision = decide(NODE.request(text), state(claims), NOW)
    assert (decision.outcome, decision.kind, decision.pin, decision.consume) == (
        "admitted", "data", "first", claims.jti,
    )  # fmt: skip


def test_another_cluster() -> None:
    """rules J4: refused, even for an authorised peer."""
    text, claims = token()
    assert refused(NODE.request(text, cluster_id="staging"), state(claims)) is Code.WRONG_CLUSTER


def test_not_on_the_allowlist() -> None:
    """rules J5"""
    text, claims = token()
    assert refused(NODE.request(text), state(claims, allowed=None)) is Code.UNAUTHORIZED_PEER


def test_another_certificate_than_the_entry_fixes() -> None:
    """rules J5"""
    text, claims = token()
    fixed = AllowedPeer("data", "default", Candidate("node-c").pin)
    assert refused(NODE.request(text), state(claims, allowed=fixed)) is Code.UNAUTHORIZED_PEER
    own = AllowedPeer("data", "default", NODE.pin)
    assert decide(NODE.request(text), state(claims, allowed=own), NOW).outcome == "admitted"


def test_another_kind_than_allowed() -> None:
    """rules J6"""
    text, claims = token()
    assert refused(NODE.request(text, kind="witness"), state(claims)) is Code.KIND_MISMATCH


def test_a_member_asking_for_another_kind() -> None:
    """rules H-000-1, J13: the catalog's kind holds, not the allowlist's."""
    known = state(member=member(NODE), allowed=AllowedPeer("witness", "default"))
    assert refused(NODE.request(kind="witness"), known) is Code.KIND_MISMATCH
    assert decide(NODE.request(), known, NOW).outcome == "already_member"


def test_a_member_needs_no_token() -> None:
    """rules J12, X4: a retry after a lost answer works, with the spent token or without one."""
    text, claims = token()
    used = TokenRecord(claims.jti, used_certificate_sha256=NODE.pin, used_by="node-c")
    for request in (NODE.request(), NODE.request(text)):
        decision = decide(request, state(member=member(NODE), token=used), NOW)
        assert (decision.outcome, decision.pin, decision.consume) == ("already_member", "keep", None)


def test_a_node_without_a_token() -> None:
    assert refused(NODE.request(), state()) is Code.BAD_TOKEN


def test_the_same_node_id_with_another_certificate() -> None:
    """rules H-000-3, X8, K34: a stranger's certificate, and a token that is bound to nobody."""
    text, claims = token()
    other = state(claims, member=member(Candidate("node-c")))
    assert refused(NODE.request(text), other) is Code.IDENTITY_CONFLICT
    assert refused(NODE.request(), other) is Code.IDENTITY_CONFLICT


def test_a_token_bound_to_the_node_replaces_a_lost_certificate() -> None:
    """rules X8"""
    text, claims = token("node-c")
    decision = decide(NODE.request(text), state(claims, member=member(Candidate("node-c"))), NOW)
    assert (decision.outcome, decision.pin, decision.consume) == ("already_member", "replace", claims.jti)


def test_the_old_key_vouches_for_a_new_certificate() -> None:
    """rules X8: a renewal over a connection that the old certificate authenticates."""
    new = NODE.renewed()
    decision = decide(new.request(connection=NODE.pin), state(member=member(NODE)), NOW)
    assert (decision.outcome, decision.pin) == ("already_member", "next")
    stranger = Candidate("node-x")
    assert refused(new.request(connection=stranger.pin), state(member=member(NODE))) is Code.IDENTITY_CONFLICT


def test_a_certificate_of_another_member_or_of_a_coordinator() -> None:
    """rules K34"""
    text, claims = token()
    assert refused(NODE.request(text), state(claims, certificate_owner="node-a")) is Code.IDENTITY_CONFLICT
    ours = replace(state(claims), own_certificates=frozenset({NODE.pin}))
    assert refused(NODE.request(text), ours) is Code.IDENTITY_CONFLICT


@pytest.mark.parametrize("code", [Code.REVOKED, Code.REMOVED])
def test_what_was_ended_stays_ended(code: Code) -> None:
    """rules X7, H-000-2, P29: by its id or by its certificate, before token, allowlist and catalog."""
    text, claims = token()
    assert refused(NODE.request(text), state(claims, tombstone=code.value)) is code
    assert refused(NODE.request(text), state(claims, retired=code.value)) is code
    assert refused(NODE.request(), state(member=member(NODE, revoked=True))) is Code.REVOKED


def test_the_site_of_the_token() -> None:
    """rules K13, K17: the entry's site, and one that exists."""
    text, claims = token(site="elsewhere")
    assert refused(NODE.request(text), state(claims)) is Code.WRONG_SITE
    known = replace(state(claims, allowed=AllowedPeer("data", "elsewhere")), sites=frozenset({"default"}))
    assert refused(NODE.request(text), known) is Code.WRONG_SITE


def test_the_first_failure_wins() -> None:
    """rules J7: take the faults away one by one, in the order of the steps."""
    text, claims = token(site="elsewhere")
    worst = replace(
        state(claims, allowed=None, tombstone="revoked", certificate_owner="node-a"),
        token=TokenRecord(claims.jti, revoked=True),
    )
    wrong = {"cluster_id": "staging", "kind": "witness"}
    repairs = [
        (Code.WRONG_CLUSTER, {"cluster_id": CLUSTER}, {}),
        (Code.REVOKED, {}, {"tombstone": "removed"}),
        (Code.REMOVED, {}, {"tombstone": None}),
        (Code.TOKEN_REVOKED, {}, {"token": TokenRecord(claims.jti)}),
        (Code.UNAUTHORIZED_PEER, {}, {"allowed": AllowedPeer("data", "default")}),
        (Code.KIND_MISMATCH, {"kind": "data"}, {}),
        (Code.IDENTITY_CONFLICT, {}, {"certificate_owner": None}),
        (Code.WRONG_SITE, {}, {"allowed": AllowedPeer("data", "elsewhere"), "sites": frozenset({"elsewhere"})}),
    ]
    for code, asked, known in repairs:
        assert refused(NODE.request(text, **wrong), worst) is code
        wrong |= asked
        worst = replace(worst, **known)
    assert decide(NODE.request(text, **wrong), worst, NOW).outcome == "admitted"
    assert len(STEPS) == len(repairs)


def test_audit_texts() -> None:
    """rules J16: the sentences; rules H-000-4: they are details, the code alone is the peer's."""
    text, claims = token()
    cases = [
        (NODE.request(text, cluster_id="staging"), state(claims), ("join targets cluster staging, but "
            "this coordinator serves prod")),
        (NODE.request(text), state(claims, allowed=None), "peer node-c is not an authorized cluster member"),
        (NODE.request(text, kind="witness"), state(claims), "peer node-c is allowed as data but requested witness"),
    ]  # fmt: skip
    for request, known, sentence in cases:
        with pytest.raises(Refused) as caught:
            decide(request, known, NOW)
        assert caught.value.detail == sentence
        assert "prod" not in caught.value.code and "data" not in caught.value.code
