"""Whose roots this node trusts, once and for ever: pinned outside of the store (format.md 8; threats D-19).

The roots of the configuration; else those of an installed first bundle; else those that the join token names. A join
without any of them is refused, unless the operator has said that the first bundle's own are to be trusted: those are
shown as unconfirmed until somebody has compared them.
"""

import base64
from collections.abc import Collection, Sequence
from dataclasses import replace

from agent.config.configuration import TrustTable
from agent.config.token import JoinToken, RootPins
from snapshot import canonical
from snapshot import envelope as envelopes
from snapshot.bundle import ACTIVE, ROOT, KeyRecord, parse_keys
from snapshot.container import ChunkParts
from snapshot.envelope import KINDS, RECOVERY, Envelope
from snapshot.identifiers import MAX_INTEGER
from snapshot.limits import Limits
from snapshot.manifest import parse_state
from snapshot.reasons import Rejected
from snapshot.signature import ALGORITHMS, BadKey, load_public_key
from snapshot.verifier_state import Roots
from snapshot.verify import Verified
from store.base.enrolment import Enrolment
from wire.local.node_status import TRUSTED_BY, PinnedRoots

CONFIGURATION, INSTALLED, TOKEN, FIRST_USE = TRUSTED_BY


class RootsNotPinnedError(Exception):
    """Nobody has said which root keys are the cluster's, and nobody that the first ones to come are to be trusted."""


class OtherRootsError(Exception):
    """The grant is of other root keys than those that are pinned: another cluster, or somebody in its place."""


def check_pinned(trust: TrustTable, token: JoinToken | None) -> None:
    """Before anything is sent: a join by which nobody has said whose roots they are is none (threats D-19)."""
    if _pins(trust, token) is not None or trust.bundle_file is not None or _trusts_first_use(trust, token):
        return
    raise RootsNotPinnedError("neither the join token nor trust.root_key_ids names the root keys of the cluster")


def roots_for(
    first: bytes, trust: TrustTable, token: JoinToken | None, installed: bytes | None, limits: Limits
) -> tuple[Roots, str]:
    """The roots that the first bundle is judged by, and by what they are trusted. Rejected where it is no bundle."""
    offered = roots_in(first, limits)
    if installed is not None and not trust.root_key_ids:
        return roots_in(installed, limits), INSTALLED
    pins = _pins(trust, token)
    if pins is None:
        check_pinned(trust, token)
        return offered, FIRST_USE
    pinned = {key_id: record for key_id, record in offered.keys.items() if key_id in pins.root_key_ids}
    if len(pinned) < pins.threshold:
        raise OtherRootsError("the first trust bundle is of other root keys than those that are pinned")
    return Roots(pinned, pins.threshold), CONFIGURATION if trust.root_key_ids else TOKEN


def _pins(trust: TrustTable, token: JoinToken | None) -> RootPins | None:
    """What stands in the configuration is nearer to the operator than what the token says."""
    if trust.root_key_ids:
        return RootPins(frozenset(trust.root_key_ids), trust.root_threshold)
    return token.pins if token is not None else None


def _trusts_first_use(trust: TrustTable, token: JoinToken | None) -> bool:
    return trust.trust_on_first_use or (token is not None and token.trusts_first_use)


def roots_in(container: bytes, limits: Limits) -> Roots:
    """The root keys that a bundle lists, nothing of it verified yet (rules X10: it selects, and is not shown)."""
    parts = ChunkParts([container], limits)
    parts.opening()
    entries = parse_state(parts.manifest(), limits)
    sections = dict(zip(entries, parts.sections([entry.size for entry in entries.values()]), strict=True))
    try:
        keys = parse_keys(canonical.loads(sections.get("keys", b"{}"), limits), limits)
        thresholds = canonical.loads(sections.get("thresholds", b"{}"), limits)
    except canonical.NotCanonical:
        return Roots({}, 1)
    threshold = thresholds.get(ROOT, 1) if isinstance(thresholds, dict) else 1
    roots = {key_id: record for key_id, record in keys.items() if record.purpose == ROOT}
    return Roots(roots, threshold if isinstance(threshold, int) else 1)


def enrolment(node_id: str, verified: Verified, roots: Roots, trusted_by: str, now: float) -> Enrolment:
    """What is pinned: the roots, and the lowest that may ever be accepted."""
    bundle, envelope = verified.bundle, verified.envelope
    return Enrolment(
        cluster_id=envelope.cluster_id,
        node_id=node_id,
        root_keys={key_id: base64.b64encode(key.public_key).decode() for key_id, key in roots.keys.items()},
        root_threshold=roots.threshold,
        minimum_epoch=bundle.authority_epoch if bundle else envelope.authority_epoch,
        minimum_bundle_version=envelope.config_version,
        minimum_time=envelope.issued_at,
        trusted_by=trusted_by,
        enrolled_at=int(now),
        confirmed=trusted_by != FIRST_USE,
    )


def are_confirmed(enrolled: Enrolment, trust: TrustTable) -> bool:
    """Whether an operator has named these roots: before the join, or in the configuration since (threats D-19)."""
    named = set(trust.root_key_ids) == set(enrolled.root_keys) and trust.root_threshold <= enrolled.root_threshold
    return enrolled.confirmed or named


def with_confirmation(enrolled: Enrolment, named: Collection[str], threshold: int) -> Enrolment:
    """The same, once somebody has compared: every key, and how many of them must sign. OtherRootsError where not."""
    if set(named) != set(enrolled.root_keys) or threshold != enrolled.root_threshold:
        held = f"{', '.join(sorted(enrolled.root_keys))}, of which {enrolled.root_threshold} must sign"
        raise OtherRootsError(f"the root keys that this node holds are {held}")
    return replace(enrolled, confirmed=True)


def roots_report(enrolled: Enrolment | None, trust: TrustTable) -> PinnedRoots | None:
    """For `/v1/status`: by what the pinned roots are trusted; None before anything is pinned."""
    if enrolled is None:
        return None
    return PinnedRoots(
        trusted_by=enrolled.trusted_by,
        confirmed=are_confirmed(enrolled, trust),
        root_key_ids=tuple(sorted(enrolled.root_keys)),
        root_threshold=enrolled.root_threshold,
    )


def roots_of(enrolled: Enrolment) -> Roots:
    """The pinned roots again. They sign bundles alone, and only for a node that lost its own."""
    keys = {
        key_id: _root(key_id, base64.b64decode(public_key), enrolled.cluster_id)
        for key_id, public_key in enrolled.root_keys.items()
    }
    return Roots(keys, enrolled.root_threshold)


def _root(key_id: str, public_key: bytes, cluster_id: str) -> KeyRecord:
    algorithm = next(name for name in ALGORITHMS if _is_of(name, public_key))
    return KeyRecord(key_id, algorithm, public_key, ROOT, cluster_id, (), 0, MAX_INTEGER, ACTIVE)


def _is_of(algorithm: str, public_key: bytes) -> bool:
    try:
        load_public_key(algorithm, public_key)
    except BadKey:
        return False
    return True


def peek_envelope(container: bytes, limits: Limits) -> Envelope | None:
    """What a container says of itself, to choose what to ask for; None where it says nothing (rules X10)."""
    try:
        opening = ChunkParts([container], limits).opening()
    except Rejected:
        return None
    for kind in (*KINDS, RECOVERY):
        try:
            return envelopes.parse(opening.envelope, kind, limits)
        except Rejected:
            continue
    return None


def version_of(container: bytes, limits: Limits) -> int:
    """Of a bundle, as it says itself, to pass over what is held; 0 where it says none."""
    envelope = peek_envelope(container, limits)
    return envelope.config_version if envelope is not None else 0


def split_grant(documents: Sequence[bytes], limits: Limits) -> tuple[list[bytes], list[tuple[str, bytes]]]:
    """The bundles of a grant in their order, and the other documents with their kind."""
    bundles: list[bytes] = []
    others: list[tuple[str, bytes]] = []
    for data in documents:
        envelope = peek_envelope(data, limits)
        if envelope is None:
            continue
        if envelope.scope_type == "trust_bundle" and envelope.kind != RECOVERY:
            bundles.append(data)
        else:
            others.append((envelope.kind, data))
    return bundles, others
