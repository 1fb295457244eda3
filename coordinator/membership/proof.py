"""A join request exists only once its sender has proven that it holds the certificate's key (rules J1, J2, J3, J26).

`ProvenRequest.authenticated` is the one way to make one. It checks, in this order: the body's form, the certificate,
the signature over the body as it was sent, that it was made for this server and this token, and the age of its nonce.
That the nonce was not used before is the database's to say, when it records the use.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field

from coordinator.base.refusal import Code, Refused
from coordinator.keys import nonces, tokens
from coordinator.keys.certificates import NodeCertificate, Unusable, read
from coordinator.keys.tokens import TokenClaims
from snapshot.signature import pae
from wire.messages import BadMessageError, JoinRequest

KINDS = ("data", "witness")
_PROVEN = object()


@dataclass(frozen=True)
class Verifier:
    """What a proof is held against."""

    nonce_key: bytes
    server_certificates: frozenset[str]  # "sha256:" of each DER that we show
    body_bytes: int = 64 << 10


@dataclass(frozen=True)
class ProvenRequest:
    """A candidate's wish to be a member; its possession of `certificate`'s key is proven."""

    cluster_id: str
    node_id: str
    kind: str
    certificate: NodeCertificate
    incarnation: str
    direct_url: str | None
    nonce: str
    nonce_expires_at: int
    token: str | None
    connection_certificate: str | None  # the pin by which TLS knew the peer: a renewal
    proven: InitVar[object]
    _claims: dict[object, TokenClaims] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self, proven: object) -> None:
        if proven is not _PROVEN:
            raise TypeError("a ProvenRequest is made by ProvenRequest.authenticated, from a proof")

    def token_claims(self, token: str, keys: Mapping[str, bytes], cluster_id: str) -> TokenClaims:
        """As `tokens.read` has them, of its token. A join is decided twice, by the same keys nearly always: its token's
        signature is verified once by each.
        """
        by = (token, cluster_id, frozenset(keys.items()))
        if by not in self._claims:
            self._claims[by] = tokens.read(token, keys, cluster_id)
        return self._claims[by]

    @classmethod
    def from_proof(
        cls,
        body: bytes,
        proof: str,
        *,
        verifier: Verifier,
        now: float,
        token: str | None = None,
        connection_certificate: str | None = None,
    ) -> "ProvenRequest":
        """The request in `body` (as received), proven by the header `proof`; Refused `bad_proof` otherwise."""
        request = _read(body, verifier.body_bytes)
        certificate = _certificate(request.certificate, now)
        if not certificate.verify(_base64(proof), pae("join", body)):
            raise Refused(Code.BAD_PROOF, "the proof is not a signature of this body by the certificate's key")
        _check_binding(request, verifier, token)
        expires_at = nonces.expiry(verifier.nonce_key, request.nonce)
        if expires_at is None or now >= expires_at:
            raise Refused(Code.BAD_PROOF, "the nonce is not ours, or too old", remedy="ask for a new one")
        return cls(
            cluster_id=request.cluster_id,
            node_id=request.node_id,
            kind=request.kind,
            certificate=certificate,
            incarnation=request.incarnation,
            direct_url=request.direct_url,
            nonce=request.nonce,
            nonce_expires_at=expires_at,
            token=token,
            connection_certificate=connection_certificate,
            proven=_PROVEN,
        )


def _read(body: bytes, most: int) -> JoinRequest:
    """Of a cluster id the message asks little: another one is `wrong_cluster`, whatever its form (rules J25)."""
    try:
        return JoinRequest.parse(body, most)
    except BadMessageError as error:
        raise Refused(Code.BAD_PROOF, str(error)) from error


def _certificate(der: bytes, now: float) -> NodeCertificate:
    try:
        return read(der, now)
    except Unusable as error:
        raise Refused(Code.BAD_PROOF, str(error)) from error


def _check_binding(request: JoinRequest, verifier: Verifier, token: str | None) -> None:
    """A proof made for another server, or beside another token, cannot be used again here."""
    if request.server not in verifier.server_certificates:
        raise Refused(Code.BAD_PROOF, "the proof was made for another server")
    digest = None if token is None else "sha256:" + hashlib.sha256(token.encode()).hexdigest()
    if request.token_sha256 != digest:
        raise Refused(Code.BAD_PROOF, "the proof was made beside another token")


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused(Code.BAD_PROOF, "not base64") from error
