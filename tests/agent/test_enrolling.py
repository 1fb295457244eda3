"""Whose roots are pinned, and what is read of a grant before anything of it is believed."""

import pytest

from agent.configuration import TrustTable
from agent.enrolling import (
    CONFIGURATION,
    FIRST_USE,
    INSTALLED,
    enrolment,
    peeked,
    roots_for,
    roots_in,
    roots_of,
    split_grant,
)
from snapshot.container import ChunkParts
from snapshot.limits import Limits
from snapshot.reasons import Rejected
from snapshot.verify import verify
from tests.fakes.cluster import NODE_ID, Cluster, key

LIMITS = Limits()
ROOTS = {key(name).key_id for name in ("root-1", "root-2", "root-3")}


@pytest.fixture
def cluster():
    return Cluster()


def test_without_a_word_of_the_operator_the_first_bundles_own(cluster):
    """format.md 8, threats D-19"""
    roots, trusted_by = roots_for(cluster.first_bundle.to_bytes(), TrustTable(), None, LIMITS)
    assert (set(roots.keys), roots.threshold, trusted_by) == (ROOTS, 2, FIRST_USE)


def test_an_installed_bundle_comes_before_the_one_that_is_offered(cluster):
    """format.md 8, rules S35"""
    other = Cluster()
    other.trust("root-of-another", purpose="root")
    installed = cluster.first_bundle.to_bytes()
    roots, trusted_by = roots_for(other.trust_bundle().to_bytes(), TrustTable(), installed, LIMITS)
    assert (set(roots.keys), trusted_by) == (ROOTS, INSTALLED)


def test_pinned_ids_come_before_both(cluster):
    """format.md 8: only those of the offer that are pinned, under the operator's threshold"""
    pinned = key("root-2").key_id
    trust = TrustTable(root_key_ids=(pinned, key("somebody").key_id), root_threshold=1)
    data = cluster.first_bundle.to_bytes()
    roots, trusted_by = roots_for(data, trust, data, LIMITS)
    assert (set(roots.keys), roots.threshold, trusted_by) == ({pinned}, 1, CONFIGURATION)


@pytest.mark.parametrize("data", [b"", b"\x94", b"nonsense" * 50])
def test_what_is_no_bundle_pins_nothing(data):
    """rules P6, J15"""
    with pytest.raises(Rejected):
        roots_for(data, TrustTable(), None, LIMITS)


def test_a_bundle_whose_keys_cannot_be_read_has_no_roots(cluster):
    sections = cluster.bundle_sections() | {"keys": b"{ }"}
    assert roots_in(cluster.trust_bundle(sections).to_bytes(), LIMITS).keys == {}


def test_what_is_pinned_is_read_again_as_it_was(cluster):
    """rules L12: algorithm and key from the record alone"""
    roots = roots_in(cluster.first_bundle.to_bytes(), LIMITS)
    holder = cluster.node(take_bundle=False).holder
    parts = ChunkParts([cluster.first_bundle.to_bytes()], LIMITS)
    verified = verify(parts, holder, kind="snapshot", now=cluster.now)
    enrolled = enrolment(NODE_ID, verified, roots, FIRST_USE, cluster.now)
    assert (enrolled.confirmed, enrolled.minimum_bundle_version, enrolled.minimum_epoch) == (False, 1, 1)
    assert enrolment(NODE_ID, verified, roots, CONFIGURATION, cluster.now).confirmed
    again = roots_of(enrolled)
    assert again.threshold == 2
    for key_id, record in again.keys.items():
        assert record.public_key == roots.keys[key_id].public_key
        assert record.algorithm == roots.keys[key_id].algorithm
        assert (record.purpose, record.scope_types) == ("root", ())


def test_a_grant_is_split_by_what_its_documents_say(cluster):
    """rules J10, X10: it selects, and is not shown; what says nothing is passed over"""
    bootstrap, head = cluster.snapshot({}, "node_bootstrap"), cluster.head()
    second = cluster.trust_bundle()
    first = cluster.first_bundle.to_bytes()
    recovery = cluster.recovery(cluster.snapshot())
    documents = [bootstrap.to_bytes(), first, b"nonsense", head.to_bytes(), second.to_bytes(), recovery.to_bytes()]
    bundles, others = split_grant(documents, LIMITS)
    assert bundles == [first, second.to_bytes()]
    assert [kind for kind, _ in others] == ["snapshot", "head", "recovery"]


def test_a_glance_says_the_kind_or_nothing(cluster):
    assert peeked(cluster.head().to_bytes(), LIMITS).kind == "head"
    assert peeked(b"\x94\xc4", LIMITS) is None
    assert peeked(b"{}", LIMITS) is None
