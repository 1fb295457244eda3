"""Join tokens (rules K16, K25, K26; threats D-34, D-35, D-52, J01, J02, J03, J07, J08, J10, J11)."""

import base64
import hmac
import json

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from coordinator.base.refusal import Code, Refused
from coordinator.keys import tokens
from coordinator.keys.tokens import TokenClaims, TokenPins, TokenRecord
from tests.coordinator.candidates import NOW, TOKEN_KEY
from tests.fakes import rsa_keys

KID = tokens.key_id(TOKEN_KEY.public_key())
KEYS = {KID: tokens.spki(TOKEN_KEY.public_key())}
CLAIMS = tokens.new_claims("prod", "default", now=NOW, lifetime_s=600)


def signed(header: dict | bytes, payload: dict | bytes, key=TOKEN_KEY) -> str:
    """A token with any header and payload, honestly signed."""
    parts = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in (header, payload)]
    message = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    return (message + b"." + base64.urlsafe_b64encode(key.sign(message)).rstrip(b"=")).decode()


HEADER = {"alg": "EdDSA", "typ": tokens.TYPE, "kid": KID}


def is_bad(token: str) -> bool:
    with pytest.raises(Refused) as caught:
        tokens.read(token, KEYS, "prod")
    assert caught.value.code is Code.BAD_TOKEN
    assert tokens.read(tokens.issue(CLAIMS, TOKEN_KEY), KEYS, "prod") == CLAIMS
    return True


@pytest.mark.parametrize("node_id", [None, "node-a"])
def test_what_is_issued_is_read(node_id) -> None:
    """rules K26"""
    claims = tokens.new_claims("prod", "default", now=NOW, lifetime_s=600, node_id=node_id)
    token = tokens.issue(claims, TOKEN_KEY)
    assert tokens.read(token, KEYS, "prod") == claims
    assert tokens.jti_of(token) == claims.jti
    assert claims.expires_at == NOW + 600
    assert tokens.read(signed(HEADER, claims.payload().to_value()), KEYS, "prod") == claims


PINS = TokenPins((f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"), 2)


def test_the_roots_that_a_node_pins_stand_in_it() -> None:
    """threats D-19"""
    claims = tokens.new_claims("prod", "default", now=NOW, lifetime_s=600, node_id="node-a", pins=PINS)
    assert tokens.read(tokens.issue(claims, TOKEN_KEY), KEYS, "prod") == claims
    payload = claims.payload().to_value()
    for spoilt in ({"root_key_ids": "x"}, {"root_key_ids": ["x"]}, {"root_key_ids": [1]}, {"root_threshold": 0}):
        assert is_bad(signed(HEADER, {**payload, **spoilt}))
    for name in ("root_key_ids", "root_threshold"):
        assert is_bad(signed(HEADER, {key: value for key, value in payload.items() if key != name}))


@pytest.mark.parametrize("alg", ["none", "nOnE", "HS256", "ES256", "eddsa", None, ["EdDSA"]])
def test_one_algorithm(alg) -> None:
    """threats J01, D-34"""
    assert is_bad(signed({**HEADER, "alg": alg}, CLAIMS.payload().to_value()))


def test_no_shared_secret() -> None:
    """threats J02, D-35: HS256 keyed with the bytes of the public key, raw or DER."""
    raw = TOKEN_KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    for secret in (raw, KEYS[KID]):
        header = base64.urlsafe_b64encode(json.dumps({**HEADER, "alg": "HS256"}).encode()).rstrip(b"=")
        message = (
            header + b"." + base64.urlsafe_b64encode(json.dumps(CLAIMS.payload().to_value()).encode()).rstrip(b"=")
        )
        mac = base64.urlsafe_b64encode(hmac.digest(secret, message, "sha256")).rstrip(b"=")
        assert is_bad((message + b"." + mac).decode())


@pytest.mark.parametrize("name", ["aud", "cluster", "site", "jti", "nbf", "exp"])
def test_every_claim_is_required_and_of_its_type(name: str) -> None:
    """threats J03"""
    payload = CLAIMS.payload().to_value()
    assert is_bad(signed(HEADER, {key: value for key, value in payload.items() if key != name}))
    for value in (None, [payload[name]], {"x": 1}, True, 1.5, "", -1):
        assert is_bad(signed(HEADER, {**payload, name: value}))
    assert is_bad(signed(HEADER, {**payload, "admin": True}))


def test_one_exact_audience() -> None:
    """threats J03"""
    for audience in ("prod", "prod/other", "other/default", ["prod/default"], "prod/default/"):
        assert is_bad(signed(HEADER, {**CLAIMS.payload().to_value(), "aud": audience}))
    other = tokens.new_claims("staging", "default", now=NOW, lifetime_s=600)
    assert is_bad(tokens.issue(other, TOKEN_KEY))


@pytest.mark.parametrize(
    "extra",
    [
        {"crit": ["exp"]}, {"jku": "https://evil.example/keys"}, {"jwk": {"kty": "OKP"}}, {"x5u": "https://evil"},
        {"typ": "JWT"}, {"typ": "at+jwt"}, {"kid": "../../etc/passwd"}, {"kid": "' OR 1=1"}, {"b64": False},
        {"kid": "sha256:" + "0" * 64},
    ],
)  # fmt: skip
def test_headers_that_are_refused(extra) -> None:
    """threats J07, J10, J11"""
    assert is_bad(signed({**HEADER, **extra}, CLAIMS.payload().to_value()))


def test_parts_are_read_strictly() -> None:
    """threats J08, D-34: size cap first, names once, our own reading after the signature."""
    payload = json.dumps(CLAIMS.payload().to_value())
    twice = (payload[:-1] + ',"site":"other"}').encode()
    deep = b'{"a":' * 1_000 + b"1" + b"}" * 1_000
    for header, body in (
        (HEADER, twice),
        (deep, CLAIMS.payload().to_value()),
        (HEADER, deep),
        (b"[]", b"{}"),
        (HEADER, b"[1]"),
    ):
        assert is_bad(signed(header, body))
    good = tokens.issue(CLAIMS, TOKEN_KEY)
    for text in ("", ".", "..", "a.b", "a.b.c.d", good + ".", good[:-2], "é" + good, good + "=" * 8_192, good + "\n"):
        assert is_bad(text)
    header, body, signature = good.split(".")
    flipped = ("A" if signature[0] != "A" else "B") + signature[1:]
    for text in (f"{header}.{body}.{flipped}", f"{header}.{body}.", f"{body}.{header}.{signature}"):
        assert is_bad(text)


def test_a_key_of_another_kind_or_of_nobody() -> None:
    other = Ed25519PrivateKey.generate()
    assert is_bad(tokens.issue(CLAIMS, other))
    assert is_bad(signed(HEADER, CLAIMS.payload().to_value(), key=other))
    spki = rsa_keys.key(2048).public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(Refused):
        tokens.read(tokens.issue(CLAIMS, TOKEN_KEY), {KID: spki}, "prod")


def judged(
    record: TokenRecord | None, *, claims: TokenClaims = CLAIMS, now: float = NOW, pin: str = "p", node="node-a"
):
    try:
        tokens.judge(claims, record, node_id=node, certificate_sha256=pin, now=now)
    except Refused as refused:
        return refused.code
    return None


def test_the_record_decides() -> None:
    """rules K25, K26; threats D-52: the retry with the same certificate gets the same answer."""
    fresh = TokenRecord(CLAIMS.jti)
    used = TokenRecord(CLAIMS.jti, used_certificate_sha256="p", used_by="node-a")
    assert judged(fresh) is None
    assert judged(None) is Code.BAD_TOKEN
    assert judged(TokenRecord(CLAIMS.jti, revoked=True)) is Code.TOKEN_REVOKED
    assert judged(used) is None
    assert judged(used, pin="q") is Code.TOKEN_USED
    assert judged(used, node="node-b") is Code.TOKEN_USED


def test_both_edges_of_its_time() -> None:
    fresh = TokenRecord(CLAIMS.jti)
    assert judged(fresh, now=NOW - 1) is Code.BAD_TOKEN
    assert judged(fresh, now=NOW + 599.9) is None
    assert judged(fresh, now=NOW + 600) is Code.TOKEN_EXPIRED


def test_a_token_bound_to_a_node() -> None:
    """rules K26"""
    bound = tokens.new_claims("prod", "default", now=NOW, lifetime_s=600, node_id="node-a")
    assert judged(TokenRecord(bound.jti), claims=bound) is None
    assert judged(TokenRecord(bound.jti), claims=bound, node="node-b") is Code.BAD_TOKEN


def test_the_library_agrees() -> None:
    payload = jwt.decode(
        tokens.issue(CLAIMS, TOKEN_KEY),
        TOKEN_KEY.public_key(),
        algorithms=["EdDSA"],
        audience="prod/default",
        options={"verify_exp": False, "verify_nbf": False},
    )
    assert payload == CLAIMS.payload().to_value()


def test_a_part_that_is_nested_too_deep_is_said_to_be() -> None:
    """threats D-56: whatever stands in strings"""
    deep = b'{"kid": [' + b'["]",' * 40 + b"1" + b',"["]' * 40 + b"]}"
    with pytest.raises(Refused, match="nested too deep") as caught:
        tokens.read(signed(deep, CLAIMS.payload().to_value()), KEYS, "prod")
    assert caught.value.code is Code.BAD_TOKEN
