"""Whose roots are pinned, and what is read of a grant before anything of it is believed."""

from dataclasses import replace

import pytest

from agent.config.configuration import TrustTable
from agent.config.token import JoinToken
from agent.state.root_pinning import (
    CONFIGURATION,
    FIRST_USE,
    INSTALLED,
    TOKEN,
    OtherRootsError,
    RootsNotPinnedError,
    check_pinned,
    enrolment,
    peek_envelope,
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
from tests.fakes.coordinator_server import token_naming

LIMITS = Limits()
ROOTS = {key(name).key_id for name in ("root-1", "root-2", "root-3")}


@pytest.fixture
def cluster():
    return Cluster()


BARE = JoinToken("header.claims.signature")


def test_the_first_bundles_own_roots_by_an_explicit_option_alone(cluster):
    """format.md 8, threats D-19: of agent.toml, or of the token's file"""
    data = cluster.first_bundle.to_bytes()
    asked = (TrustTable(trust_on_first_use=True), BARE), (TrustTable(), replace(BARE, trusts_first_use=True))
    for trust, token in asked:
        roots, trusted_by = roots_for(data, trust, token, None, LIMITS)
        assert (set(roots.keys), roots.threshold, trusted_by) == (ROOTS, 2, FIRST_USE)
    for token in (None, BARE):
        with pytest.raises(RootsNotPinnedError, match="names the root keys"):
            roots_for(data, TrustTable(), token, None, LIMITS)
        with pytest.raises(RootsNotPinnedError):
            check_pinned(TrustTable(), token)


@pytest.mark.parametrize("first_use", [False, True])
def test_what_the_token_names_comes_before_first_use(cluster, first_use):
    """threats D-19"""
    trust = TrustTable(trust_on_first_use=first_use)
    data = cluster.first_bundle.to_bytes()
    roots, trusted_by = roots_for(data, trust, JoinToken(token_naming(["root-1", "root-2"])), None, LIMITS)
    assert (set(roots.keys), roots.threshold) == ({key("root-1").key_id, key("root-2").key_id}, 2)
    assert trusted_by == TOKEN
    for named in (["root-1", "somebody"], ["somebody", "else"]):
        with pytest.raises(OtherRootsError):
            roots_for(data, trust, JoinToken(token_naming(named)), None, LIMITS)


def test_an_installed_bundle_comes_before_the_one_that_is_offered(cluster):
    """format.md 8, rules S35"""
    other = Cluster()
    other.trust("root-of-another", purpose="root")
    installed = cluster.first_bundle.to_bytes()
    roots, trusted_by = roots_for(other.trust_bundle().to_bytes(), TrustTable(), BARE, installed, LIMITS)
    assert (set(roots.keys), trusted_by) == (ROOTS, INSTALLED)


def test_pinned_ids_come_before_both(cluster):
    """format.md 8: only those of the offer that are pinned, under the operator's threshold"""
    pinned = key("root-2").key_id
    trust = TrustTable(root_key_ids=(pinned, key("somebody").key_id), root_threshold=1)
    data = cluster.first_bundle.to_bytes()
    roots, trusted_by = roots_for(data, trust, BARE, data, LIMITS)
    assert (set(roots.keys), roots.threshold, trusted_by) == ({pinned}, 1, CONFIGURATION)


@pytest.mark.parametrize("data", [b"", b"\x94", b"nonsense" * 50])
def test_what_is_no_bundle_pins_nothing(data):
    """rules P6, J15"""
    with pytest.raises(Rejected):
        roots_for(data, TrustTable(), BARE, None, LIMITS)


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
    assert peek_envelope(cluster.head().to_bytes(), LIMITS).kind == "head"
    assert peek_envelope(b"\x94\xc4", LIMITS) is None
    assert peek_envelope(b"{}", LIMITS) is None
