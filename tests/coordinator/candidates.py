"""Nodes that want to join, with real keys, certificates, nonces and proofs; and the coordinator that they meet."""

import base64
import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from coordinator.base.refusal import Refused
from coordinator.database import cluster_state
from coordinator.database.cluster_state import Founding
from coordinator.database.database import Database
from coordinator.declared.model import MemberEntry
from coordinator.declared.references import DEFAULT_SITE
from coordinator.keys import certificates, nonces, tokens
from coordinator.membership import admission, leaving, membership, revocation
from coordinator.membership.join_reading import read_basis
from coordinator.membership.membership import Grant
from coordinator.membership.proof import ProvenRequest, Verifier
from snapshot import canonical
from snapshot.signature import pae
from tests.coordinator import copies
from wire.operators.operator_answers import AllowlistEntry

NOW = 1_800_000_000.0
CLUSTER = "prod"
SERVER = "sha256:" + "5e" * 32
TOKEN_KEY = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
NONCE_KEY = b"\x01" * 32
FOUNDING = Founding(CLUSTER, "coord-1", "https://coord.example:7443", SERVER, tokens.spki(TOKEN_KEY.public_key()))


def make_certificate(
    key, name: str = "node", *, ca: bool | None = False, start: float = NOW - 60, lifetime_s: float = 4 * 365 * 86_400
) -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begin = datetime.fromtimestamp(start, UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(seconds=lifetime_s))
    )
    if ca is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


@dataclass
class Candidate:
    """A node before its join, and after."""

    node_id: str
    kind: str = "data"
    incarnation: str = "i-1"
    direct_url: str | None = None
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    der: bytes = b""

    def __post_init__(self) -> None:
        self.der = self.der or make_certificate(self.key, self.node_id)

    @property
    def pin(self) -> str:
        return certificates.fingerprint(self.der)

    def renewed(self) -> "Candidate":
        """The same node with a new key."""
        return Candidate(self.node_id, self.kind, self.incarnation, self.direct_url)

    def body(self, nonce: str, token: str | None = None, **other: object) -> bytes:
        value: dict[str, object] = {
            "cluster_id": CLUSTER,
            "node_id": self.node_id,
            "kind": self.kind,
            "certificate": base64.b64encode(self.der).decode(),
            "incarnation": self.incarnation,
            "nonce": nonce,
            "server": SERVER,
        }
        if token is not None:
            value["token_sha256"] = "sha256:" + hashlib.sha256(token.encode()).hexdigest()
        if self.direct_url is not None:
            value["direct_url"] = self.direct_url
        return canonical.dumps({**value, **other})

    def proof(self, body: bytes) -> str:
        return base64.b64encode(self.key.sign(pae("join", body), ec.ECDSA(hashes.SHA256()))).decode()

    def request(
        self,
        token: str | None = None,
        *,
        verifier: Verifier | None = None,
        now: float = NOW,
        connection: str | None = None,
        **other: object,
    ) -> ProvenRequest:
        verifier = verifier or Verifier(NONCE_KEY, frozenset({SERVER}))
        body = self.body(nonces.issue(verifier.nonce_key, now, 60), token, **other)
        return ProvenRequest.from_proof(
            body, self.proof(body), verifier=verifier, now=now, token=token, connection_certificate=connection
        )


def found(database: Database) -> None:
    cluster_state.initialise(database, FOUNDING, actor="root", now=NOW)


def token_for(
    database: Database, node_id: str | None = None, *, now: float = NOW, lifetime_s: int = 3_600, **more: object
) -> str:
    how = {"lifetime_s": lifetime_s, "actor": "root", "now": now}
    return admission.issue_token(database, TOKEN_KEY, node_id=node_id, **how, **more)[0]


def allow(database: Database, candidate: Candidate, **entry: object) -> None:
    admission.allow(database, AllowlistEntry(candidate.node_id, candidate.kind, **entry), actor="root", now=NOW)


def verifier_of(database: Database) -> Verifier:
    with database.read() as transaction:
        return read_basis(transaction).verifier


def look_at(database: Database, request: ProvenRequest) -> MemberEntry | None:
    with database.read() as transaction:
        return membership.look_at(transaction, request, read_basis(transaction), now=NOW)


def join(database: Database, candidate: Candidate, token: str | None = None, **options: object) -> Grant:
    now = options.get("now", NOW)
    request = candidate.request(token, verifier=verifier_of(database), **options)
    return join_one(database, request, now=now)


def join_one(database: Database, request: ProvenRequest, *, now: float = NOW) -> Grant:
    """Alone, with nothing foreseen; Refused with the first code of rules J7."""
    (outcome,) = membership.join(database, [request], now=now)
    if isinstance(outcome, Refused):
        raise outcome
    return outcome


def admit(
    database: Database, node_id: str, kind: str = "data", site_id: str = DEFAULT_SITE, **options: object
) -> Candidate:
    """A member: allowed, with a token, joined."""
    candidate = Candidate(node_id, kind, **options)
    allow(database, candidate, site_id=site_id)
    assert join(database, candidate, token_for(database, site_id=site_id)).outcome == "admitted"
    return candidate


def members(database: Database, *node_ids: str) -> tuple[Candidate, ...]:
    """Of a cluster that is founded with them, in an empty database: a copy of one with the same ones."""

    def fill(new: Database) -> tuple[Candidate, ...]:
        found(new)
        return tuple(admit(new, node_id) for node_id in node_ids)

    return copies.made(database, ("members", node_ids), fill)


def remove_node(database: Database, node_id: str, *, reason: str, actor: str, now: float) -> frozenset[str]:
    """As an operator does it: drained, then removed."""
    leaving.drain(database, node_id, actor=actor, now=now)
    return leaving.remove(database, node_id, reason=reason, actor=actor, now=now)


def cut_out(database: Database, node_id: str, *, reason: str, actor: str, now: float) -> frozenset[str]:
    """Whatever it runs, as by force."""
    with database.change(actor=actor, now=now) as transaction:
        transaction.audit("remove", node_id)
        return revocation.take_out(transaction, {node_id: reason})


def contents(database: Database, *tables: str) -> dict[str, list[tuple]]:
    """Every row of the tables, to hold against a later reading."""
    from coordinator.database import schema

    with database.read() as transaction:
        chosen = {name: schema.metadata.tables[name] for name in tables}
        return {name: sorted(map(repr, transaction.rows(table.select()))) for name, table in chosen.items()}
