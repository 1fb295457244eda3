"""Join tokens: JWTs that only this project's coordinators read (rules K16, K25, K26; threats D-34, D-35, D-52).

A token is good for one node at one site of one cluster, once, until it expires; one with a count for as many nodes,
each bound to its certificate by its use. The signature says who issued it; the record of its `jti` says how often it
was used, whom it lets in, and whether it was revoked, on every replica at once. Count and ids stand in the record and
not in the token: an operator takes them back without finding the disks that it lies on.

It also names the root keys that sign the first trust bundle, and how many of them must: the node, which has the token
from an operator and not from whoever answers its join, pins them (threats D-19).
"""

import base64
import binascii
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from coordinator.base.refusal import Code, Refused
from snapshot.identifiers import is_id
from wire.forms import CONTENT, HASH, IDENTIFIER, array, hexadecimal, integer, member, message, one_of
from wire.messages import ROOTS_MAX, BadMessageError, Message

Part = TypeVar("Part", bound=Message)

MAX_BYTES = 8 << 10
MOST_USES = 10_000
TYPE = "holdfast-join+jwt"


@message
class TokenHeader(Message):
    """All of it: so `crit`, `jku`, `jwk` and `x5u` are unknown members."""

    alg: str = member(one_of("EdDSA"))
    typ: str = member(one_of(TYPE))
    kid: str = member(HASH)


@message
class TokenPayload(Message):
    """The claims as they are signed. `aud` is cluster and site, `nbf` and `exp` Unix seconds."""

    aud: str = member(CONTENT)
    cluster: str = member(IDENTIFIER)
    site: str = member(IDENTIFIER)
    jti: str = member(hexadecimal(32))
    nbf: int = member(integer(1))
    exp: int = member(integer(1))
    node_id: str | None = member(IDENTIFIER, default=None)
    root_key_ids: tuple[str, ...] | None = member(array(HASH, ROOTS_MAX), default=None)
    root_threshold: int | None = member(integer(1), default=None)


@dataclass(frozen=True)
class TokenPins:
    """The root keys of the first trust bundle, and how many of them must have signed it."""

    root_key_ids: tuple[str, ...]
    threshold: int


@dataclass(frozen=True)
class TokenClaims:
    """What a token says, its signature verified. Times are Unix seconds."""

    cluster_id: str
    site_id: str
    jti: str
    not_before: int
    expires_at: int
    node_id: str | None = None
    pins: TokenPins | None = None

    def payload(self) -> TokenPayload:
        return TokenPayload(
            aud=f"{self.cluster_id}/{self.site_id}",
            cluster=self.cluster_id,
            site=self.site_id,
            jti=self.jti,
            nbf=self.not_before,
            exp=self.expires_at,
            node_id=self.node_id,
            root_key_ids=self.pins.root_key_ids if self.pins else None,
            root_threshold=self.pins.threshold if self.pins else None,
        )


@dataclass(frozen=True)
class MultiUse:
    """For how many nodes a token is, and which ids it lets in beside the allowlist, as `gw-*`."""

    uses: int = 1
    nodes: str | None = None


@dataclass(frozen=True)
class TokenRecord:
    """What the database knows of an issued token."""

    jti: str
    revoked: bool = False
    used_certificate_sha256: str | None = None
    used_by: str | None = None
    uses: int = 1
    used: int = 0
    nodes: str | None = None
    used_here: bool = False  # by the very node and certificate that bring it again

    def lets_in(self, node_id: str) -> bool:
        """Whether it stands for an entry of the allowlist: an operator has made it for ids of this kind (rules J17)."""
        return self.nodes is not None and node_id.startswith(self.nodes.removesuffix("*"))


def new_claims(
    cluster_id: str,
    site_id: str,
    *,
    now: float,
    lifetime_s: int,
    node_id: str | None = None,
    pins: TokenPins | None = None,
) -> TokenClaims:
    start = int(now)
    return TokenClaims(cluster_id, site_id, secrets.token_hex(16), start, start + lifetime_s, node_id, pins)


def issue(claims: TokenClaims, key: Ed25519PrivateKey) -> str:
    """The token's text. It is shown once and kept nowhere."""
    headers = {"typ": TYPE, "kid": key_id(key.public_key())}
    return jwt.api_jws.PyJWS().encode(claims.payload().to_bytes(), key, algorithm="EdDSA", headers=headers)


def is_pattern(text: str) -> bool:
    """`<beginning of ids>*`, as `gw-*`; never every id."""
    return text.endswith("*") and len(text) > 1 and is_id(f"{text[:-1]}0")


def key_id(key: Ed25519PublicKey) -> str:
    return key_id_of(spki(key))


def key_id_of(public_key: bytes) -> str:
    """Of the key's SubjectPublicKeyInfo, DER."""
    return "sha256:" + hashlib.sha256(public_key).hexdigest()


def spki(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def read(token: str, keys: Mapping[str, bytes], cluster_id: str) -> TokenClaims:
    """The claims of a token signed by one of `keys` (key id to SPKI DER) for this cluster; else `bad_token`.

    Its times and its record are not looked at: `judge` does that.
    """
    if len(token) > MAX_BYTES or not token.isascii() or token.count(".") != 2:
        raise Refused(Code.BAD_TOKEN, "not a token of ours by its form")
    header_text, payload_text, _ = token.split(".")
    header = _part(TokenHeader, header_text)
    _verify_signature(token, keys.get(header.kid))
    payload = _part(TokenPayload, payload_text)
    claims = _claims(payload)
    if claims.payload() != payload or claims.cluster_id != cluster_id:
        raise Refused(Code.BAD_TOKEN, "the token is for another audience")
    return claims


def judge(
    claims: TokenClaims, record: TokenRecord | None, *, node_id: str, certificate_sha256: str, now: float
) -> None:
    """Whether this node may use the token now, in the order of rules K26; a retry with its certificate may."""
    if record is None:
        raise Refused(Code.BAD_TOKEN, "no record of this token: it was not issued from this database")
    if record.revoked:
        raise Refused(Code.TOKEN_REVOKED, f"token {claims.jti} was revoked")
    if now >= claims.expires_at:
        raise Refused(Code.TOKEN_EXPIRED, f"token {claims.jti} expired at {claims.expires_at}")
    if now < claims.not_before:
        raise Refused(Code.BAD_TOKEN, f"token {claims.jti} is not valid before {claims.not_before}")
    if claims.node_id is not None and claims.node_id != node_id:
        raise Refused(Code.BAD_TOKEN, f"token {claims.jti} is bound to node {claims.node_id}")
    if record.uses > 1:
        if not record.used_here and record.used >= record.uses:
            raise Refused(Code.TOKEN_USED, f"token {claims.jti} was used by {record.used} nodes, and is for no more")
        return
    used_with = record.used_certificate_sha256
    if used_with is not None and (used_with, record.used_by) != (certificate_sha256, node_id):
        raise Refused(Code.TOKEN_USED, f"token {claims.jti} was used by {record.used_by}")


def jti_of(token: str) -> str | None:
    """The `jti` that a token claims, unverified: good for looking up its record and for nothing else."""
    if len(token) > MAX_BYTES or not token.isascii() or token.count(".") != 2:
        return None
    try:
        return _part(TokenPayload, token.split(".")[1]).jti
    except Refused:
        return None


def _verify_signature(token: str, public_key: bytes | None) -> None:
    if public_key is None:
        raise Refused(Code.BAD_TOKEN, "signed by a key that is none of the coordinators'")
    try:
        # A key of another type than Ed25519 is an InvalidKeyError of the one algorithm that is allowed.
        jwt.api_jws.PyJWS().decode(token, load_der_public_key(public_key), algorithms=["EdDSA"])  # type: ignore[arg-type]
    except (jwt.PyJWTError, ValueError) as error:
        raise Refused(Code.BAD_TOKEN, "the signature does not verify") from error


def _part(kind: type[Part], text: str) -> Part:
    try:
        return kind.parse(_base64url(text), MAX_BYTES)
    except BadMessageError as error:
        raise Refused(Code.BAD_TOKEN, str(error)) from error


def _claims(payload: TokenPayload) -> TokenClaims:
    named = payload.root_key_ids
    return TokenClaims(
        cluster_id=payload.cluster,
        site_id=payload.site,
        jti=payload.jti,
        not_before=payload.nbf,
        expires_at=payload.exp,
        node_id=payload.node_id,
        pins=None if named is None else TokenPins(named, payload.root_threshold or 0),
    )


def _base64url(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused(Code.BAD_TOKEN, "not base64url") from error
