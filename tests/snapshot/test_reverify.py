"""What is active is judged again at every start: what still holds, what only marks a scope, what is damage."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from coordinator.keys.signer import SignedDocument
from snapshot.bundle import REVOKED
from snapshot.manifest import Revocations
from snapshot.reasons import Reason, Rejected
from snapshot.reverify import AT_START, Reverdict, is_accepted, judge_again
from snapshot.verification import digest_is
from snapshot.verify import STEPS
from tests.fakes.cluster import DAY, HOUR, NOW, Cluster, key
from tests.fakes.node import Node


@dataclass(frozen=True)
class Kept:
    """A document as a store would hold it."""

    document: SignedDocument
    state_bytes: bytes
    bytes_by_name: Mapping[str, bytes]

    @property
    def kind(self) -> str:
        return self.document.envelope.kind

    @property
    def envelope_bytes(self) -> bytes:
        return self.document.envelope_bytes

    @property
    def signatures(self) -> tuple[tuple[str, bytes], ...]:
        return self.document.signatures

    def holds(self, name: str, sha256: str) -> bool:
        return digest_is(self.bytes_by_name[name], sha256)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def node(cluster: Cluster) -> Node:
    return cluster.node("core_mesh")


def taken(cluster: Cluster, node: Node, document: SignedDocument) -> Kept:
    verified = node.take(document)
    return Kept(document, verified.state_bytes, cluster.states[document.envelope.scope].sections)


def again(kept: Kept, node: Node, now: float = NOW) -> Reverdict:
    return judge_again(kept, node.holder, now=now)


def test_what_was_taken_is_still_active(cluster: Cluster, node: Node) -> None:
    """threats D-26, D-27: a snapshot, and the state after an increment."""
    kept = taken(cluster, node, cluster.snapshot({"a": {"x": 1}, "b": {}}))
    assert again(kept, node) is Reverdict.ACTIVE
    kept = taken(cluster, node, cluster.increment(sets={"a": {"x": 2}}))
    assert again(kept, node) is Reverdict.ACTIVE
    assert is_accepted(kept, node.holder)


def test_expiry_ends_the_authority_and_not_the_bytes(cluster: Cluster, node: Node) -> None:
    """rules S29, S47: half-open, at `expires_at` it is over."""
    kept = taken(cluster, node, cluster.snapshot())
    end = kept.document.envelope.expires_at
    assert again(kept, node, end - 1) is Reverdict.ACTIVE
    assert again(kept, node, end) is Reverdict.EXPIRED


def test_a_clock_that_went_back_is_no_damage(cluster: Cluster, node: Node) -> None:
    """rules A19: `issued_in_future` and `not_yet_valid` do not apply at start."""
    assert again(taken(cluster, node, cluster.snapshot()), node, NOW - 30 * DAY) is Reverdict.ACTIVE


def test_an_expired_bundle_or_key_marks_nothing(cluster: Cluster, node: Node) -> None:
    """format.md 7, last part: only a signer that is no longer trusted does."""
    kept = taken(cluster, node, cluster.snapshot(expires_at=NOW + 400 * DAY))
    assert again(kept, node, NOW + 300 * DAY) is Reverdict.ACTIVE


@pytest.mark.parametrize("by", ["bundle", "head"])
def test_a_revoked_signer_marks_the_scope(cluster: Cluster, node: Node, by: str) -> None:
    """rules S82; threats T14."""
    kept = taken(cluster, node, cluster.snapshot(keys=[key("config-1")]))
    if by == "bundle":
        cluster.trust("config-1", status=REVOKED)
        node.take(cluster.trust_bundle())
    else:
        node.take(cluster.head(revocations=Revocations(1, key_ids=frozenset({key("config-1").key_id}))))
    assert again(kept, node) is Reverdict.SIGNER_REVOKED


def test_damage_is_rejected_with_its_reason(cluster: Cluster, node: Node) -> None:
    """rules L29, L34; threats C09: bytes, state, signature and envelope."""
    kept = taken(cluster, node, cluster.snapshot({"a": {"x": 1}}))
    (name, signature), *_ = kept.signatures
    flipped = bytes([signature[0] ^ 1]) + signature[1:]
    damaged = {
        (6, Reason.CONTENT_MISMATCH, "section"): replace(kept, bytes_by_name={"a": b'{"x":2}'}),
        (6, Reason.CONTENT_MISMATCH, "state"): replace(kept, state_bytes=b"{}"),
        (5, Reason.BAD_SIGNATURE, "signature"): replace(
            kept, document=replace(kept.document, signatures=((name, flipped),))
        ),
        (1, Reason.BAD_ENVELOPE, "envelope"): replace(
            kept, document=replace(kept.document, envelope_bytes=kept.envelope_bytes[:-1])
        ),
    }
    for (step, reason, what), one in damaged.items():
        with pytest.raises(Rejected) as refused:
            again(one, node)
        assert (refused.value.step, refused.value.reason) == (step, reason), what
    assert again(kept, node) is Reverdict.ACTIVE


def test_a_role_that_was_taken_away_ends_the_scope(cluster: Cluster, node: Node) -> None:
    """rules S17: step 10 as ever."""
    kept = taken(cluster, node, cluster.snapshot())
    without = replace(node.holder, roles=frozenset({"storage_config"}))
    with pytest.raises(Rejected) as refused:
        judge_again(kept, without, now=NOW)
    assert refused.value.reason is Reason.ROLE_NOT_ALLOWED


def test_the_accepted_version_or_one_that_a_kept_recovery_allows(cluster: Cluster, node: Node) -> None:
    """rules S31, S87: below the mark only by the recovery that led there."""
    old = taken(cluster, node, cluster.snapshot({"a": 1}))
    new = taken(cluster, node, cluster.snapshot({"a": 2}))
    assert is_accepted(new, node.holder)
    assert not is_accepted(old, node.holder)
    recovery = cluster.recovery(old.document).to_bytes()
    assert is_accepted(old, node.holder, [b"no container", recovery])
    other = cluster.recovery(old.document, from_version=7).to_bytes()
    assert not is_accepted(old, node.holder, [other])


def test_the_steps_at_start_are_steps_of_the_whole() -> None:
    """architecture.md: a sub-tuple runs again over what is read from disk."""
    assert set(AT_START) <= {holds for _, holds in STEPS}


def test_a_head_is_judged_again(cluster: Cluster, node: Node) -> None:
    """Its manifest is its content; it expires as everything does."""
    document = cluster.head()
    verified = node.take(document)
    kept = Kept(document, verified.state_bytes, {})
    assert again(kept, node) is Reverdict.ACTIVE
    assert again(kept, node, NOW + HOUR) is Reverdict.EXPIRED


def test_a_changed_envelope_under_a_revoked_signer_is_damage(cluster: Cluster, node: Node) -> None:
    """format.md 7, last part: a key that we know still tells what it signed."""
    kept = taken(cluster, node, cluster.snapshot(keys=[key("config-1")]))
    cluster.trust("config-1", status=REVOKED)
    node.take(cluster.trust_bundle())
    longer = cluster.forge(kept.document, keys=[key("config-2")], expires_at="2199-01-01T00:00:00Z")
    forged = replace(kept, document=replace(longer, signatures=((key("config-1").key_id, longer.signatures[0][1]),)))
    with pytest.raises(Rejected) as refused:
        again(forged, node)
    assert refused.value.reason is Reason.BAD_SIGNATURE
    assert again(kept, node) is Reverdict.SIGNER_REVOKED
