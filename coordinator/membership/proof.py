"""A join request exists only once its sender has proven that it holds the certificate's key (rules J1, J2, J3, J26).

`ProvenRequest.authenticated` is the one way to make one. It checks, in this order: the body's form, the certificate,
the signature over the body as it was sent, that it was made for this server and this token, and the age of its nonce.
That the nonce was not used before is the database's to say, when it records the use.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import InitVar, dataclass

from coordinator.base import requests
from coordinator.base.refusal import Code, Refused
from coordinator.base.requests import BodyMember, is_text
from coordinator.keys import nonces
from coordinator.keys.certificates import NodeCertificate, Unusable, read
from snapshot.identifiers import is_endpoint, is_hash, is_id
from snapshot.signature import pae

KINDS = ("data", "witness")

_MEMBERS = {
    # In form or not, an id is judged by the decision: another cluster is `wrong_cluster`, not a bad proof.
    "cluster_id": BodyMember(is_text(256)),
    "node_id": BodyMember(is_id),
    "kind": BodyMember(is_text(64)),
    "certificate": BodyMember(is_text(12_000)),
    "incarnation": BodyMember(is_id),
    "nonce": BodyMember(is_text(256)),
    "server": BodyMember(is_hash),
    "token_sha256": BodyMember(is_hash, required=False),
    "direct_url": BodyMember(is_endpoint, required=False),
}
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

    def __post_init__(self, proven: object) -> None:
        if proven is not _PROVEN:
            raise TypeError("a ProvenRequest is made by ProvenRequest.authenticated, from a proof")

    @classmethod
    def authenticated(
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
        value = requests.parse(body, verifier.body_bytes, Code.BAD_PROOF)
        requests.closed(value, _MEMBERS, Code.BAD_PROOF)
        certificate = _certificate(value, now)
        if not certificate.verify(_base64(proof), pae("join", body)):
            raise Refused(Code.BAD_PROOF, "the proof is not a signature of this body by the certificate's key")
        _check_binding(value, verifier, token)
        expires_at = nonces.expiry(verifier.nonce_key, value["nonce"])
        if expires_at is None or now >= expires_at:
            raise Refused(Code.BAD_PROOF, "the nonce is not ours, or too old", remedy="ask for a new one")
        direct_url = value.get("direct_url")
        return cls(
            cluster_id=str(value["cluster_id"]),
            node_id=str(value["node_id"]),
            kind=str(value["kind"]),
            certificate=certificate,
            incarnation=str(value["incarnation"]),
            direct_url=None if direct_url is None else str(direct_url),
            nonce=str(value["nonce"]),
            nonce_expires_at=expires_at,
            token=token,
            connection_certificate=connection_certificate,
            proven=_PROVEN,
        )


def _certificate(value: Mapping[str, object], now: float) -> NodeCertificate:
    try:
        return read(_base64(str(value["certificate"])), now)
    except Unusable as error:
        raise Refused(Code.BAD_PROOF, str(error)) from error


def _check_binding(value: Mapping[str, object], verifier: Verifier, token: str | None) -> None:
    """A proof made for another server, or beside another token, cannot be used again here."""
    if value["server"] not in verifier.server_certificates:
        raise Refused(Code.BAD_PROOF, "the proof was made for another server")
    digest = None if token is None else "sha256:" + hashlib.sha256(token.encode()).hexdigest()
    if value.get("token_sha256") != digest:
        raise Refused(Code.BAD_PROOF, "the proof was made beside another token")


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused(Code.BAD_PROOF, "not base64") from error
