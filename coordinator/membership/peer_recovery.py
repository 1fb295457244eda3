"""What a coordinator gets from another one: the seed, its salt and the mesh key of the manifest (rules H7, H26, H27).

    read_unverified   the manifest that the newest link names, believed by nobody: whom to ask in this call, and no more
    hand_over         on the one that is asked: to a coordinator that the manifest in place names, from that one state
    judge             on the one that asks: whether what came fits the history, of which it could read nothing before

The seven steps of H27, as its client takes them: (1) `read_unverified`; (2) its pins decide whose key is trusted;
(3) the call; and in `judge` (4) the manifest that came is that one; (5) a seed engine for this call; (6) the whole
history verifies with it; (7) the manifest of the verified history is the one that came, and its trust bundle follows
from the root keys that are named here (trust/pinned_roots.py; rules H50). Then it is adopted (rules H5, H6).

What step 4 catches is a server of another state; what step 7 catches is a store that moved on, or one that is forged
and has a server of its own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import select

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state, history, history_check, object_store, schema
from coordinator.database.continuity import LinkMark
from coordinator.database.database import Database, Transaction
from coordinator.database.history import LinkedHistory
from coordinator.keys import signing_key
from coordinator.keys.pinned_root_keys import PinnedRootKeys
from coordinator.keys.seed import BYTES, Seed
from coordinator.keys.signing_key import SigningKey, UnusableKeyError
from coordinator.membership.recover_messages import RecoverAnswer
from coordinator.trust import pinned_roots
from coordinator.trust.pinned_roots import FollowedBundle
from snapshot import canonical

ROLE = "coordinator"
IDENTITIES, AUTHORITIES = "identities", "authorities"
AGAIN = "nothing was adopted: it is tried again by itself"


@dataclass(frozen=True)
class _Entry:
    url: str
    certificate_sha256: str
    roles: object


@dataclass(frozen=True)
class _Manifest:
    """What is read of one."""

    coordinators: Mapping[str, _Entry]
    mesh_key: str
    trust_bundle: str


@dataclass(frozen=True)
class NamedPeer:
    """Another coordinator of a manifest: `certificate` is DER."""

    coordinator_id: str
    url: str
    certificate: bytes


@dataclass(frozen=True)
class UnverifiedManifest:
    """`peers`: without the one that reads, and without those whose certificate is not known."""

    content: bytes
    mesh_key: str
    trust_bundle: str
    pins: Mapping[str, str]
    peers: tuple[NamedPeer, ...]


@dataclass(frozen=True)
class Secrets:
    """What is adopted."""

    seed: Seed
    mesh_key: SigningKey = field(repr=False)


def publish(database: Database, identity: bytes, authorities: Sequence[bytes] = (), *, now: float) -> None:
    """The certificate of an identity (DER), as an object under the hash that the manifest pins, and of CAs: nobody has
    to be believed for them. No authority, and no link of the history; again is the same.
    """
    with database.record(now=now) as transaction:
        object_store.put_all(transaction, IDENTITIES, [identity])
        object_store.put_all(transaction, AUTHORITIES, authorities)


def identity_certificate(transaction: Transaction, pin: str) -> bytes | None:
    """DER; None where its coordinator has put none there."""
    return _find_object(transaction, IDENTITIES, pin)


def authority_certificates(database: Database, own: str) -> list[bytes]:
    """The CAs of the certificates that the other coordinators show, DER, those of most of them first; last the one that
    this id has shown before: of a machine that is lost, where there is no other.
    """
    table = schema.coordinators
    with database.read() as transaction:
        rows = transaction.rows(select(table.c.coordinator_id, table.c.authority_sha256))
        others = Counter(row.authority_sha256 for row in rows if row.coordinator_id != own)
        before = [row.authority_sha256 for row in rows if row.coordinator_id == own]
        shown = filter(None, [*(fingerprint for fingerprint, _ in others.most_common()), *before])
        found = (_find_object(transaction, AUTHORITIES, fingerprint) for fingerprint in shown)
        return [der for der in found if der is not None]


def read_unverified(database: Database, own: str) -> UnverifiedManifest | None:
    """None where there is no history. `untrusted_history` where what is there is out of form."""
    with database.read() as transaction:
        content = _newest_manifest(transaction)
        if content is None:
            return None
        manifest = _parse(content)
        found = (
            (name, entry, identity_certificate(transaction, entry.certificate_sha256))
            for name, entry in manifest.coordinators.items()
            if name != own
        )
        peers = tuple(NamedPeer(name, entry.url, der) for name, entry, der in found if der is not None)
    pins = {name: entry.certificate_sha256 for name, entry in manifest.coordinators.items()}
    return UnverifiedManifest(content, manifest.mesh_key, manifest.trust_bundle, pins, peers)


def hand_over(
    database: Database, asking: str, pin: str, nonce: str, seed: Seed | None, keys: Sequence[SigningKey]
) -> RecoverAnswer:
    """Answered from one state. `permission_denied` for whoever the manifest in place does not name by this certificate;
    `stale_state` where this one is not ready itself.
    """
    if not isinstance(database.history, LinkedHistory) or seed is None:
        raise Refused(Code.STALE_STATE, "this coordinator has no seed itself", remedy="ask another one")
    with database.read() as transaction:
        latest = database.history.latest(transaction)
        database.history.check_own(transaction, latest)
        content = history.get(transaction, history.MANIFESTS, latest.transition.manifest)
    manifest = _parse(content)
    entry = manifest.coordinators.get(asking)
    if not pin or entry is None or entry.certificate_sha256 != pin or entry.roles != [ROLE]:
        raise Refused(Code.PERMISSION_DENIED, f"the manifest names no coordinator {asking} with the certificate {pin}")
    mesh_key = next((key for key in keys if key.key_id == manifest.mesh_key), None)
    if mesh_key is None:
        raise Refused(Code.STALE_STATE, "this coordinator has no mesh key of the manifest itself", remedy="ask another")
    return RecoverAnswer(nonce, seed.seed, seed.salt, mesh_key.to_pem(), content)


def note(database: Database, asking: str, pin: str, *, now: float) -> None:
    """In the audit log of the one that hands over, before it does."""
    with database.record(now=now) as transaction:
        transaction.audit("coordinator.recover", asking, None, {"certificate_sha256": pin})


def judge(
    database: Database,
    tried: UnverifiedManifest,
    nonce: str,
    received: RecoverAnswer,
    pins: PinnedRootKeys,
    held: Seed | None,
) -> Secrets:
    """Steps 4 to 7. `database`: without a history of its own, for this call alone. `held`: the seed that is here, if
    one is: then it is known whose history this is, also where no root keys are named. `manifest_mismatch`,
    `untrusted_history`, `bad_request`: nothing is adopted then.
    """
    if received.nonce != nonce:
        raise Refused(Code.BAD_REQUEST, "the answer is of another exchange", remedy=AGAIN)
    if received.manifest != tried.content:  # 4
        raise Refused(Code.MANIFEST_MISMATCH, "the peer is of another manifest than the store", remedy=AGAIN)
    seed = _read_seed(received)  # 5
    if held not in (None, seed):
        raise history.distrust("the seed that came is another one than the one that lies here")
    database.history = LinkedHistory(seed.history_key)
    if read_verified(database) != received.manifest:  # 6, 7
        raise Refused(Code.MANIFEST_MISMATCH, "the history has moved on to another manifest", remedy=AGAIN)
    if pins.key_ids or held is None:
        _check_roots(database, tried, pins)
    return Secrets(seed, _read_mesh_key(received, tried.mesh_key))


def _check_roots(database: Database, tried: UnverifiedManifest, pins: PinnedRootKeys) -> None:
    """The manifest's bundle is one that the root keys lead to, and lists the mesh key."""
    if not follow_roots(database, tried, pins).lists(tried.mesh_key):
        raise history.distrust("the trust bundle that the root keys lead to does not list the manifest's mesh key")


def follow_roots(database: Database, tried: UnverifiedManifest, pins: PinnedRootKeys) -> FollowedBundle:
    """The manifest's bundle. `untrusted_history` where it is none that these root keys lead to."""
    with database.read() as transaction:
        followed = pinned_roots.follow(transaction, pins, cluster_state.standing(transaction).cluster_id)
    if followed.content_hash != tried.trust_bundle:
        raise history.distrust("the manifest's trust bundle is not the one that the root keys lead to")
    return followed


def read_verified(database: Database) -> bytes:
    """The manifest of the newest link, once every link that is kept follows."""
    at = LinkMark()
    while (after := history_check.walk(database, at)) != at:
        at = after
    with database.read() as transaction:
        if not isinstance(database.history, LinkedHistory):
            raise AssertionError("it was set a moment ago")
        latest = database.history.latest(transaction)
        return history.get(transaction, history.MANIFESTS, latest.transition.manifest)


def _read_seed(received: RecoverAnswer) -> Seed:
    for name, value in (("seed", received.seed), ("salt", received.salt)):
        if len(value) != BYTES or value == bytes(BYTES):
            raise Refused(Code.BAD_REQUEST, f"the {name} that came is not {BYTES} random bytes", remedy=AGAIN)
    return Seed(received.seed, received.salt)


def _read_mesh_key(received: RecoverAnswer, wanted: str) -> SigningKey:
    try:
        key = signing_key.from_pem(received.mesh_key, name="the mesh key that came")
    except UnusableKeyError as error:
        raise Refused(Code.BAD_REQUEST, str(error), remedy=AGAIN) from None
    if key.key_id != wanted:
        raise Refused(Code.BAD_REQUEST, "the key that came is not the mesh key of the manifest", remedy=AGAIN)
    return key


def _find_object(transaction: Transaction, kind: str, fingerprint: str) -> bytes | None:
    try:
        return object_store.get(transaction, f"{kind}/{fingerprint.removeprefix('sha256:')}")
    except Refused:
        return None


def _newest_manifest(transaction: Transaction) -> bytes | None:
    pointer = object_store.pointer(transaction, history.LATEST)
    if pointer is None:
        return None
    transition = history.parse_transition(history.get(transaction, history.TRANSITIONS, pointer.value))
    return history.get(transaction, history.MANIFESTS, transition.manifest)


def _parse(content: bytes) -> _Manifest:
    """`untrusted_history` for any other form: of what nobody has verified yet nothing is taken for granted."""
    try:
        value = canonical.loads(content)
    except canonical.NotCanonical as error:
        raise history.distrust(f"the manifest is out of form: {error}") from None
    members = value if isinstance(value, dict) else {}
    entries, mesh_key, bundle = (members.get(name) for name in ("coordinators", "mesh_key", "trust_bundle"))
    if not isinstance(entries, dict) or not isinstance(mesh_key, str) or not isinstance(bundle, str):
        raise history.distrust("the manifest is out of form")
    return _Manifest({name: _entry(name, entry) for name, entry in entries.items()}, mesh_key, bundle)


def _entry(name: str, value: object) -> _Entry:
    members = value if isinstance(value, dict) else {}
    url, pin = members.get("url"), members.get("certificate_sha256")
    if not isinstance(url, str) or not isinstance(pin, str):
        raise history.distrust(f"the manifest's entry of {name} is out of form")
    return _Entry(url, pin, members.get("roles"))
