"""The envelope of format.md 4: each member's form, at its edges, and what single members cannot tell."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot import canonical, envelope
from snapshot.envelope import Envelope, parse
from snapshot.identifiers import MAX_INTEGER
from snapshot.limits import Limits
from snapshot.reasons import Reason, Rejected
from tests.fakes.cluster import Cluster

DIGEST = "sha256:" + "0" * 64
SNAPSHOT = {
    "schema_version": 1,
    "kind": "snapshot",
    "snapshot_id": "s-1",
    "cluster_id": "raven-1",
    "subject_node_id": "node-a",
    "scope_type": "route_policy",
    "scope_ids": ["a", "b"],
    "roles": ["core_mesh"],
    "organization_ids": ["amber", "sable"],
    "config_version": 7,
    "authority_epoch": 3,
    "issued_at": "2027-12-05T16:00:00Z",
    "valid_from": "2027-12-05T16:00:01Z",
    "refresh_after": "2027-12-06T16:00:00Z",
    "expires_at": "2027-12-07T16:00:00Z",
    "min_trust_bundle_version": 0,
    "signer_key_id": DIGEST,
    "signature_algorithm": "ed25519",
    "cosigner_key_ids": ["sha256:" + "1" * 64],
    "content_hash": DIGEST,
    "content_length": 0,
}
INCREMENT = SNAPSHOT | {
    "kind": "increment",
    "base_config_version": 6,
    "next_config_version": 7,
    "base_content_hash": DIGEST,
    "next_content_hash": DIGEST,
}
HEAD = SNAPSHOT | {"kind": "head", "scope_type": "head", "scope_ids": []}
RECOVERY = SNAPSHOT | {"kind": "recovery"}
KINDS = {members["kind"]: members for members in (SNAPSHOT, INCREMENT, HEAD, RECOVERY)}


def read(members, kind=None):
    return parse(canonical.dumps(members), kind or members["kind"])


def refused(members, kind="snapshot", reason=Reason.BAD_ENVELOPE, where=None):
    with pytest.raises(Rejected) as verdict:
        parse(members if isinstance(members, bytes) else canonical.dumps(members), kind)
    assert (verdict.value.step, verdict.value.reason) == (1, reason)
    assert where is None or verdict.value.where == where


@pytest.mark.parametrize("members", KINDS.values(), ids=KINDS)
def test_each_kind_there_and_back(members):
    """rules S13"""
    data = canonical.dumps(members)
    assert parse(data, members["kind"]).to_bytes() == data


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in KINDS for name in KINDS[kind]])
def test_each_member_is_needed(kind, name):
    """rules S9; threats E22"""
    refused({member: value for member, value in KINDS[kind].items() if member != name}, kind)
    if name != "schema_version":
        refused(KINDS[kind] | {name: None}, kind)


UNKNOWN = ["", "x", "signature", "Kind", "kind ", "__proto__", "__class__", "schema_versi\u03bfn", "ki\u200bnd"]


@pytest.mark.parametrize("name", UNKNOWN, ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_no_other_member(kind, name):
    """threats D-6; rules S9; threats E15, E16, E21"""
    refused(KINDS[kind] | {name: 1}, kind)


@pytest.mark.parametrize("name", sorted(INCREMENT.keys() - SNAPSHOT.keys()))
@pytest.mark.parametrize("kind", ["snapshot", "head", "recovery"])
def test_a_base_is_an_increments_alone(kind, name):
    refused(KINDS[kind] | {name: INCREMENT[name]}, kind)


IDS = ["", "A", "a b", "../a", "a/b", "a\0", "a?", "a#", "a\n", "a" * 65, "\u0430", 1, ["a"], {"a": 1}, True]
TIMES = [
    "2027-12-05T16:00:00",
    "2027-12-05 16:00:00Z",
    "2027-02-30T00:00:00Z",
    "2019-12-31T23:59:59Z",
    1828022400,
    True,
]
VERSIONS = [0, -1, True, False, "1", 1.5, [1]]
HASHES = ["", "0" * 64, "sha256:", "sha256:" + "A" * 64, "sha512:" + "0" * 64, DIGEST + "\n", 0, [DIGEST]]
BAD = {
    "kind": ["", "Snapshot", "other", 1, ["snapshot"], {}],
    "snapshot_id": IDS,
    "cluster_id": [*IDS, "*"],
    "subject_node_id": [*IDS, "**", "*a"],
    "scope_type": [*IDS, "*"],
    "config_version": VERSIONS,
    "authority_epoch": VERSIONS,
    "issued_at": TIMES,
    "valid_from": TIMES,
    "refresh_after": TIMES,
    "expires_at": TIMES,
    "min_trust_bundle_version": [-1, True, False, "0", 0.5],
    "signer_key_id": HASHES,
    "signature_algorithm": ["", "hs256", "none", "Ed25519", "rsa-pss-sha512", 1, ["ed25519"], {}],
    "content_hash": HASHES,
    "content_length": [-1, True, "0", 0.5],
    "scope_ids": ["a", {}, {"a": 1}, ["b", "a"], ["a", "a"], ["A"], [""], [1], [["a"]]],
    "roles": ["a", ["b", "a"], ["a", "a"], ["A"], [1], [None]],
    "organization_ids": ["a", ["b", "a"], ["a", "a"], ["A"], [1], [True]],
    "cosigner_key_ids": ["", DIGEST, [DIGEST, DIGEST], ["sha256:" + "2" * 64, "sha256:" + "1" * 64], ["a"], [1]],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in BAD for value in BAD[name]], ids=repr)
def test_each_form(name, value):
    """threats A10, E19, E22, E24, I03, K06, V06, V23"""
    refused(SNAPSHOT | {name: value}, where=name if name != "kind" else None)


@pytest.mark.parametrize(
    "name", ["base_config_version", "next_config_version", "base_content_hash", "next_content_hash"]
)
@pytest.mark.parametrize("value", [0, -1, True, "", "7", None, "sha256:"], ids=repr)
def test_each_form_of_an_increment(name, value):
    """rules S25"""
    refused(INCREMENT | {name: value}, "increment")


def ids(count):
    return [f"i{number:03}" for number in range(count)]


def key_ids(count):
    return [f"sha256:{number + 1:064x}" for number in range(count)]


EDGES = [("scope_ids", 64, ids), ("roles", 16, ids), ("organization_ids", 256, ids), ("cosigner_key_ids", 15, key_ids)]


@pytest.mark.parametrize(("name", "most", "make"), EDGES, ids=[edge[0] for edge in EDGES])
def test_as_many_as_may_be(name, most, make):
    """format.md 4"""
    for count in (0, 1, most):
        assert len(getattr(read(SNAPSHOT | {name: make(count)}), name)) == count
    refused(SNAPSHOT | {name: make(most + 1)}, where=name)


@pytest.mark.parametrize("name", ["config_version", "authority_epoch", "min_trust_bundle_version", "content_length"])
def test_the_largest_number(name):
    """threats V06"""
    assert getattr(read(SNAPSHOT | {name: MAX_INTEGER}), name) == MAX_INTEGER
    data = canonical.dumps(SNAPSHOT | {name: MAX_INTEGER})
    refused(data.replace(b"%d" % MAX_INTEGER, b"%d" % (MAX_INTEGER + 1)))


@pytest.mark.parametrize("version", [0, 2, -1, MAX_INTEGER])
def test_another_schema_is_said_first(version):
    """format.md 4: looked at before closedness, and whatever else there is."""
    refused({"schema_version": version, "new": {}}, reason=Reason.UNSUPPORTED_SCHEMA)
    refused(SNAPSHOT | {"schema_version": version, "kind": "letter"}, reason=Reason.UNSUPPORTED_SCHEMA)


@pytest.mark.parametrize("version", [True, False, "1", "2", None, [2], 1.5, 2.5], ids=repr)
def test_no_schema(version):
    refused(SNAPSHOT | {"schema_version": version})


@pytest.mark.parametrize("asked", KINDS)
@pytest.mark.parametrize("kind", KINDS)
def test_only_the_kind_that_was_asked_for(asked, kind):
    """threats S16, N12"""
    if asked == kind:
        assert read(KINDS[kind]).kind == kind
    else:
        refused(KINDS[kind], asked, where="kind")


AT_ODDS = {
    "primary-among-cosigners": (SNAPSHOT | {"cosigner_key_ids": [DIGEST]}, "cosigner_key_ids"),
    "head-of-a-scope": (HEAD | {"scope_type": "route_policy"}, "scope_type"),
    "increment-of-a-bundle": (INCREMENT | {"scope_type": "trust_bundle"}, "scope_type"),
    "next-is-another": (INCREMENT | {"next_config_version": 8}, "next_config_version"),
    "base-is-next": (INCREMENT | {"base_config_version": 7}, "base_config_version"),
    "base-is-later": (INCREMENT | {"base_config_version": 8}, "base_config_version"),
}


@pytest.mark.parametrize(("members", "where"), AT_ODDS.values(), ids=AT_ODDS)
def test_members_at_odds(members, where):
    """threats I07, I17"""
    refused(members, members["kind"], where=where)


@pytest.mark.parametrize("base", [1, 5, 6])
def test_any_base_below(base):
    """threats I07: 5 to 7 is fine."""
    assert read(INCREMENT | {"base_config_version": base}).base_config_version == base


@pytest.mark.parametrize("data", [b"", b"[]", b"1", b'""', b"null", b"{}", b"\xff", b'{"a":1,"a":1}', b"{ }"], ids=repr)
def test_no_envelope(data):
    """threats E08, E14"""
    refused(data)


def test_depth():
    """format.md 10: 6, and `bad_envelope` beyond; either way the member is unknown."""
    assert canonical.loads(b"[" * 6 + b"]" * 6, depth=Limits().envelope_depth)
    refused(SNAPSHOT | {"scope_ids": [[[[[["a"]]]]]]})
    refused(b'{"a":' * 50_000 + b"1" + b"}" * 50_000)


def test_what_it_says_of_itself():
    said = read(INCREMENT)
    assert (said.scope, said.version, said.state_hash) == ("route_policy/a,b", (3, 7), DIGEST)
    assert said.signers == (DIGEST, "sha256:" + "1" * 64)
    assert read(HEAD).scope == "head"


ORDERED = ["2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z", "2027-01-03T00:00:00Z", "2027-01-04T00:00:00Z"]
NAMES = ["issued_at", "valid_from", "refresh_after", "expires_at"]


@given(st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_the_order_of_the_times(places):
    """format.md 4, and step 7: equal times are in order, but for valid_from and expires_at."""
    times = dict(zip(NAMES, (ORDERED[place] for place in places), strict=True))
    said: Envelope = read(SNAPSHOT | times)
    if places == sorted(places) and places[1] < places[3]:
        envelope.refuse_bad_validity(said)
    else:
        with pytest.raises(Rejected, match="bad_validity"):
            envelope.refuse_bad_validity(said)


def test_a_head_has_one_line_of_generations():
    """rules K32: whatever ids it bears, its mark is that of `head`."""
    cluster = Cluster()
    assert cluster.head(scope_ids=["a"]).envelope.scope == "head"
