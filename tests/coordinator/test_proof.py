"""A join request exists only once possession of the key is proven (rules J1, J2, J3, J26)."""

import base64
import json
from dataclasses import fields

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st

from coordinator.base.refusal import Code, Refused
from coordinator.keys import nonces, tokens
from coordinator.membership.proof import ProvenRequest, Verifier
from tests.coordinator.candidates import NONCE_KEY, NOW, SERVER, TOKEN_KEY, Candidate, make_certificate
from tests.fakes.resigned import ECDSA_SHA256, resigned, unreadable_for_tls
from wire.certificate import make_identity
from wire.messages import BadMessageError, JoinRequest

TOKEN_SPKI = tokens.spki(TOKEN_KEY.public_key())
VERIFIER = Verifier(NONCE_KEY, frozenset({SERVER}))
NODE = Candidate("node-a", direct_url="https://node-a.example:7444")


def nonce() -> str:
    return nonces.issue(NONCE_KEY, NOW, 60)


def read(body: bytes, proof: str | None = None, node: Candidate = NODE, **options) -> ProvenRequest:
    shown = node.proof(body) if proof is None else proof
    return ProvenRequest.from_proof(body, shown, verifier=VERIFIER, now=options.pop("now", NOW), **options)


def is_bad(*arguments, **options) -> bool:
    with pytest.raises(Refused) as caught:
        read(*arguments, **options)
    return caught.value.code is Code.BAD_PROOF


def test_a_proven_request_has_what_the_body_says() -> None:
    """rules J1"""
    request = read(NODE.body(nonce(), "token"), token="token")
    assert (request.cluster_id, request.node_id, request.kind, request.incarnation) == ("prod", "node-a", "data", "i-1")
    assert request.certificate.sha256 == NODE.pin
    assert request.direct_url == "https://node-a.example:7444"


def test_there_is_no_other_way_to_make_one() -> None:
    """rules J2"""
    proven = read(NODE.body(nonce()))
    values = {each.name: getattr(proven, each.name) for each in fields(proven) if each.init}
    with pytest.raises(TypeError):
        ProvenRequest(**values, proven=object())
    with pytest.raises(TypeError):
        ProvenRequest(**values)


def test_its_token_is_read_by_each_keys_once(monkeypatch) -> None:
    """threats D-34: by other keys, and for another cluster, it is read again; what was refused is never remembered."""
    reads, read_token = [], tokens.read
    monkeypatch.setattr(tokens, "read", lambda *by: (reads.append(by), read_token(*by))[1])
    claims = tokens.new_claims("prod", "default", now=NOW, lifetime_s=600)
    token, keys = tokens.issue(claims, TOKEN_KEY), {tokens.key_id(TOKEN_KEY.public_key()): TOKEN_SPKI}
    request = read(NODE.body(nonce(), token), token=token)
    for by, cluster in (({}, "prod"), (keys, "prod"), (keys, "other"), ({}, "prod")):
        for _ in range(2):
            if by is keys and cluster == "prod":
                assert request.token_claims(token, by, cluster) == claims
            else:
                with pytest.raises(Refused):
                    request.token_claims(token, by, cluster)
    assert len(reads) == 2 * 3 + 1


def test_a_signature_by_another_key() -> None:
    """rules J3"""
    body = NODE.body(nonce())
    assert is_bad(body, Candidate("node-a").proof(body))


def test_a_signature_of_another_body() -> None:
    """rules J3: an unproven field is never identity."""
    assert is_bad(NODE.body(nonce(), node_id="node-b"), NODE.proof(NODE.body(nonce())))


@pytest.mark.parametrize("shown", ["", "!", "AAAA", base64.b64encode(b"x" * 70).decode()])
def test_no_signature_at_all(shown: str) -> None:
    assert is_bad(NODE.body(nonce()), shown)


def test_the_nonce_is_ours_and_young() -> None:
    """rules J3: good for 60 s."""
    body = NODE.body(nonce())
    assert read(body, now=NOW + 59.9).nonce_expires_at == NOW + 60
    assert is_bad(body, now=NOW + 60)
    assert is_bad(NODE.body(nonces.issue(b"\x02" * 32, NOW, 60)))
    for forged in ("x", "1800000060." + "0" * 32 + "." + "0" * 64, nonce()[:-1], "9" + nonce()):
        assert is_bad(NODE.body(forged))


def test_a_proof_for_another_server_or_beside_another_token() -> None:
    """protocol 1: what was said to one server cannot be said again to another."""
    assert is_bad(NODE.body(nonce(), server="sha256:" + "00" * 32))
    body = NODE.body(nonce(), "token")
    assert is_bad(body, token="other")
    assert is_bad(body)
    assert is_bad(NODE.body(nonce()), token="token")
    assert read(body, token="token").token == "token"


def test_a_body_is_closed_and_read_strictly() -> None:
    """rules J1: nothing else; X14, P6."""
    good = json.loads(NODE.body(nonce()))
    assert is_bad(NODE.body(nonce(), role="core_mesh"))
    for name in ("cluster_id", "node_id", "kind", "certificate", "incarnation", "nonce", "server"):
        assert is_bad(json.dumps({key: value for key, value in good.items() if key != name}).encode())
    text = json.dumps(good)
    for body in (
        b"", b"[]", b"null", b"{", b"\xff", text[:-1].encode(), (text[:-1] + ',"kind":"data"}').encode(),
        text.replace('"data"', "NaN").encode(), b"[" * 100_000, b'{"a":' * 100_000, b" " * (65 << 10),
    ):  # fmt: skip
        assert is_bad(body)


@pytest.mark.parametrize("node_id", ["", " node-a", "node-a ", "Node-A", "node-a\n", "a..b", "n" * 65, "nöde"])
def test_an_id_is_never_trimmed(node_id: str) -> None:
    """rules J25"""
    assert is_bad(NODE.body(nonce(), node_id=node_id))


def test_another_form_of_cluster_id_is_another_cluster() -> None:
    """rules J25, J7: it is for the decision to refuse, as any other cluster."""
    assert read(NODE.body(nonce(), cluster_id="PROD")).cluster_id == "PROD"


@given(st.sampled_from(sorted(JoinRequest.__dataclass_fields__)), st.data())
def test_any_body_gets_the_verdict_of_the_message(name: str, data: st.DataObject) -> None:
    """rules J1, K53: what an agent can write is read, and nothing else; what a proof is held against comes after"""
    other = st.none() | st.booleans() | st.integers() | st.text(max_size=300) | st.just("x" * 12_000)
    words = st.sampled_from(
        ["n" * 64, "n" * 65, "https://a:1", "https://a:99999", "sha256:" + "0" * 64, "AAAA", "A A="]
    )
    body = json.dumps({**json.loads(NODE.body(nonce())), name: data.draw(other | words)}).encode()
    try:
        read(body)
        refusal = ""
    except Refused as refused:
        assert refused.code is Code.BAD_PROOF
        refusal = refused.detail
    try:
        JoinRequest.parse(body)
    except BadMessageError as error:
        assert refusal == str(error)
    else:
        assert " must be " not in refusal and "lacks" not in refusal


@pytest.mark.parametrize("url", ["http://a:1", "https://a", "https://u:p@a:1", "https://a:1/x", "https://A:1"])
def test_a_direct_url_is_https_host_port_only(url: str) -> None:
    """rules K4"""
    assert is_bad(NODE.body(nonce(), direct_url=url))


def _certificate(**options) -> bytes:
    return make_certificate(options.pop("key", NODE.key), **options)


def _with_an_extension_twice() -> bytes:
    """The use of its key becomes one more of whether it is a CA's."""
    made = make_identity("node-a", NOW - 60)
    key = load_pem_private_key(made.key_pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return resigned(made.der, key, b"\x06\x03\x55\x1d\x0f", b"\x06\x03\x55\x1d\x13")


@pytest.mark.parametrize(
    "der",
    [
        b"",
        b"\x30\x03\x02\x01\x01",
        NODE.der[:-1],
        NODE.der + b"\x00",
        _certificate(key=ec.generate_private_key(ec.SECP384R1())),
        _certificate(ca=True),
        _certificate(start=NOW + 1),
        _certificate(start=NOW - 100, lifetime_s=100),
        NODE.der[:-1] + bytes([NODE.der[-1] ^ 1]),
        unreadable_for_tls(NODE.der, NODE.key, "node-a"),
        _with_an_extension_twice(),
        resigned(NODE.der, NODE.key, ECDSA_SHA256, ECDSA_SHA256[:-1] + b"\x09"),
    ],
    ids=[
        *("empty", "no-certificate", "cut", "longer", "p-384", "ca", "too-early", "over", "not-self-signed"),
        *("a-name-that-is-none", "an-extension-twice", "an-unknown-signature"),
    ],
)
def test_a_certificate_that_identifies_nobody(der: bytes) -> None:
    """rules J26, K48; threats, fact 12: a CA would vouch for every name. Nor does one that TLS could not read later,
    beside those of all others.
    """
    assert is_bad(NODE.body(nonce(), certificate=base64.b64encode(der).decode()))
    assert read(NODE.body(nonce())).node_id == "node-a"


def test_names_in_certificates_are_not_read() -> None:
    """rules H-000-3"""
    named = Candidate("node-a", key=NODE.key, der=make_certificate(NODE.key, "somebody-else", ca=None))
    assert read(named.body(nonce()), node=named).node_id == "node-a"
