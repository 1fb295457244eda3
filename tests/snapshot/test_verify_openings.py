"""Steps 0 to 3: the container, the envelope, whose document this is. Nothing here has been vouched for yet."""

from dataclasses import replace

import pytest

from snapshot import canonical, container
from snapshot.identifiers import SCOPE_TYPES, SHAREABLE
from snapshot.reasons import Reason
from tests.fakes.cluster import DROP, Cluster, key

ENVELOPE_MEMBERS = sorted(canonical.loads(Cluster().snapshot().envelope_bytes))
INCREMENT_MEMBERS = ("base_config_version", "next_config_version", "base_content_hash", "next_content_hash")


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def node(cluster):
    return cluster.node("core_mesh")


def whole(document):
    return b"".join(document.chunks())


# Step 0


CONTAINERS = {
    "empty": lambda data: b"",
    "json": lambda data: b"{}",
    "a-map-outside": lambda data: b"\x84" + data[1:],
    "three-items": lambda data: b"\x93" + data[1:],
    "nested-a-million-deep": lambda data: b"\x94" + b"\x91" * 1_000_000,
    "envelope-as-text": lambda data: b"\x94\xda" + data[2:],
    "envelope-as-ext": lambda data: b"\x94\xc7" + data[2:],
    "megabytes-of-empty-maps": lambda data: b"\x94" + b"\x80" * 3_000_000,
    "a-byte-too-many": lambda data: data + b"\0",
    "a-second-container": lambda data: data + data,
    "last-byte-lost": lambda data: data[:-1],
    "cut-in-the-envelope": lambda data: data[:100],
}


@pytest.mark.parametrize("spoil", CONTAINERS.values(), ids=CONTAINERS)
def test_what_is_no_container(cluster, node, spoil):
    """threats E04, E05, E06, E07; rules S13: refused at once, and no state is left behind for the next document."""
    good = cluster.snapshot()
    node.refuses([spoil(whole(good))], 0, Reason.BAD_CONTAINER, then=good)


def test_no_signature_at_all(cluster, node):
    """threats S01"""
    good = cluster.snapshot()
    node.refuses(replace(good, signatures=()), 0, Reason.BAD_CONTAINER, then=good)


@pytest.mark.parametrize("threshold", [1, 2])
def test_the_same_key_id_twice(threshold):
    """threats S09: whether the threshold is met without it or not."""
    cluster = Cluster(config_threshold=threshold)
    node, good = cluster.node("core_mesh"), cluster.snapshot()
    twice = replace(good, signatures=(*good.signatures, good.signatures[0]))
    node.refuses(twice, 0, Reason.BAD_CONTAINER, then=good)


def test_ten_thousand_signatures(cluster, node):
    """threats S14: refused by their number, before one of them is looked at."""
    good = cluster.snapshot()
    many = tuple((f"sha256:{number:064x}", b"x" * 64) for number in range(10_000))
    node.refuses(replace(good, signatures=many), 0, Reason.TOO_LARGE, then=good)


@pytest.mark.parametrize(
    "chunks",
    [
        [b"\x94\xc6\xff\xff\xff\xff"],
        [b"\x94\xc6\x00\x01\x00\x01" + b" " * 65537],
        [b"\x94\xc6\x7f\xff\xff\xff", *[b"x" * 65536] * 64],
    ],
    ids=["length-alone", "one-byte-over", "endless"],
)
def test_an_envelope_over_the_limit(cluster, node, chunks):
    """rules S8; threats E01: by the length alone, also where the bytes are not there."""
    node.refuses(chunks, 0, Reason.TOO_LARGE)


# Step 1


@pytest.mark.parametrize("member", ENVELOPE_MEMBERS)
def test_each_member_missing(cluster, node, member):
    """rules S9, S41; threats E22"""
    good = cluster.snapshot()
    node.refuses(cluster.forge(good, **{member: DROP}), 1, Reason.BAD_ENVELOPE, then=good, kind="snapshot")


@pytest.mark.parametrize("member", [*ENVELOPE_MEMBERS, *INCREMENT_MEMBERS])
def test_each_increment_member_missing(cluster, node, member):
    """rules S9, S25"""
    node.take(cluster.snapshot())
    good = cluster.increment(sets={"routes": {}})
    node.refuses(cluster.forge(good, **{member: DROP}), 1, Reason.BAD_ENVELOPE, then=good, kind="increment")


@pytest.mark.parametrize("member", ["extra", "signature", "__proto__", "__class__", *INCREMENT_MEMBERS])
def test_an_unknown_member(cluster, node, member):
    """rules S9; threats E16, E21"""
    good = cluster.snapshot()
    node.refuses(cluster.forge(good, **{member: 1}), 1, Reason.BAD_ENVELOPE, then=good, kind="snapshot")


@pytest.mark.parametrize("value", [None, True, -1, [[]], {}, ""], ids=repr)
@pytest.mark.parametrize("member", ENVELOPE_MEMBERS)
def test_each_member_out_of_form(cluster, node, member, value):
    """threats E22; rules S41: `schema_version` alone is looked at before its form (`-1` is another schema)."""
    good = cluster.snapshot()
    bad = cluster.forge(good, **{member: value})
    other_schema = member == "schema_version" and value == -1
    node.refuses(bad, 1, Reason.UNSUPPORTED_SCHEMA if other_schema else Reason.BAD_ENVELOPE, then=good, kind="snapshot")


@pytest.mark.parametrize("version", [0, -1, True, "7", 2**53, 1.5], ids=repr)
def test_versions_out_of_form(cluster, node, version):
    """threats V06, V23: also epoch 0 and a negative one."""
    good = cluster.snapshot()
    for member in ("config_version", "authority_epoch"):
        spelt = good.envelope_bytes.replace(
            b'"%s":%d' % (member.encode(), getattr(good.envelope, member)),
            b'"%s":%s' % (member.encode(), f"{version!r}".replace("'", '"').replace("True", "true").encode()),
        )
        assert spelt != good.envelope_bytes
        assert node.refusal(cluster.forge(good, envelope=spelt)) == (1, Reason.BAD_ENVELOPE)
    node.take(good)


IDS = ("../etc", "a/b", "a\0", "a?b", "a#b", "Upper", "a" * 300, "", "a..b", "-a", "a\n", "\u0430dmin", "a\u200bb")


@pytest.mark.parametrize("bad", IDS, ids=ascii)
def test_ids_out_of_form(cluster, node, bad):
    """threats A10, E19, E24"""
    good = cluster.snapshot()
    for member in ("cluster_id", "subject_node_id", "snapshot_id", "scope_type"):
        assert node.refusal(cluster.forge(good, **{member: bad}), kind="snapshot") == (1, Reason.BAD_ENVELOPE)
    for member in ("scope_ids", "roles", "organization_ids"):
        assert node.refusal(cluster.forge(good, **{member: [bad]}), kind="snapshot") == (1, Reason.BAD_ENVELOPE)
    node.take(good)


FORMS = {
    "space": lambda data: data.replace(b'":', b'": ', 1),
    "newline-behind": lambda data: data + b"\n",
    "byte-order-mark": lambda data: b"\xef\xbb\xbf" + data,
    "number-with-point": lambda data: data.replace(b'"config_version":1', b'"config_version":1.0'),
    "exponent": lambda data: data.replace(b'"config_version":1', b'"config_version":1e0'),
    "minus-zero": lambda data: data.replace(b'"min_trust_bundle_version":0', b'"min_trust_bundle_version":-0'),
    "escape": lambda data: data.replace(b'"route_policy"', b'"route\\u005fpolicy"'),
    "duplicate": lambda data: data.replace(b'"config_version":1', b'"config_version":1,"config_version":1'),
    "order": lambda data: b'{"subject_node_id":"node-a",' + data[1:].replace(b',"subject_node_id":"node-a"', b""),
    "nan": lambda data: data.replace(b'"config_version":1', b'"config_version":NaN'),
    "infinity": lambda data: data.replace(b'"config_version":1', b'"config_version":Infinity'),
    "large-integer": lambda data: data.replace(b'"config_version":1', b'"config_version":9007199254740993'),
    "five-thousand-digits": lambda data: data.replace(b'"config_version":1', b'"config_version":' + b"1" * 5000),
    "not-utf-8": lambda data: data.replace(b'"node-a"', b'"node-\xff"'),
    "lone-surrogate": lambda data: data.replace(b'"node-a"', b'"\\ud800"'),
    "cut": lambda data: data[:-1],
    "array": lambda data: b"[" + data + b"]",
    "number": lambda data: b"1",
    "depth-7": lambda data: data.replace(b'"roles":[]', b'"roles":[[[[[[]]]]]]'),
    "depth-30000": lambda data: b"[" * 30_000 + b"]" * 30_000,
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("spoil", FORMS.values(), ids=FORMS)
def test_an_envelope_that_is_not_canonical(cluster, node, spoil):
    """rules S13, S41; threats E08, E10, E14: though it is signed, byte for byte as it stands."""
    good = cluster.snapshot()
    spoilt = spoil(good.envelope_bytes)
    assert spoilt != good.envelope_bytes
    node.refuses(cluster.forge(good, envelope=spoilt), 1, Reason.BAD_ENVELOPE, then=good)


@pytest.mark.parametrize("version", [2, 0, -1, 2**53 - 1])
def test_another_schema_is_seen_before_what_it_brings(cluster, node, version):
    """rules S41"""
    good = cluster.snapshot()
    newer = cluster.forge(good, schema_version=version, what_version_2_brings={})
    node.refuses(newer, 1, Reason.UNSUPPORTED_SCHEMA, then=good)


@pytest.mark.parametrize("asked", ["increment", "head", "recovery"])
def test_another_kind_than_the_one_asked_for(cluster, node, asked):
    """threats S16, N12; rules S41"""
    good = cluster.snapshot()
    node.refuses(good, 1, Reason.BAD_ENVELOPE, kind=asked, then=good)


def test_an_hmac_named_as_the_algorithm(cluster, node):
    """threats K06"""
    good = cluster.snapshot()
    node.refuses(cluster.forge(good, signature_algorithm="hs256"), 1, Reason.BAD_ENVELOPE, then=good)


LISTS = {
    "roles-unsorted": {"roles": ["thin", "core_mesh"]},
    "roles-twice": {"roles": ["thin", "thin"]},
    "17-roles": {"roles": [f"role-{number:02}" for number in range(17)]},
    "65-scope-ids": {"scope_ids": [f"id-{number:02}" for number in range(65)]},
    "257-organizations": {"organization_ids": [f"org-{number:03}" for number in range(257)]},
    "16-cosigners": {"cosigner_key_ids": [f"sha256:{number:064x}" for number in range(16)]},
    "primary-among-the-cosigners": {"cosigner_key_ids": [key("config-1").key_id]},
    "empty-hash": {"content_hash": ""},
    "hash-of-another-function": {"content_hash": "sha512:" + "0" * 64},
    "head-of-another-scope-type": {"kind": "head"},
}


@pytest.mark.parametrize("members", LISTS.values(), ids=LISTS)
def test_members_at_odds(cluster, node, members):
    """rules S41; threats I03"""
    good = cluster.snapshot()
    asked = str(members.get("kind", "snapshot"))
    node.refuses(cluster.forge(good, **members), 1, Reason.BAD_ENVELOPE, kind=asked, then=good)


# Steps 2 and 3


def test_a_document_of_another_cluster(cluster, node):
    """rules S42, S73, S34; threats S17, A04: signed by the very key that we trust here."""
    good = cluster.snapshot()
    node.refuses(cluster.forge(good, cluster_id="raven-2"), 2, Reason.WRONG_CLUSTER, then=good)


def test_a_document_of_another_node(cluster, node):
    """rules S43, S74; threats A01"""
    good = cluster.snapshot()
    node.refuses(cluster.forge(good, subject_node_id="node-b"), 3, Reason.WRONG_NODE, then=good)


@pytest.mark.parametrize("scope_type", sorted(set(SCOPE_TYPES) - SHAREABLE))
def test_what_is_never_shared(cluster, node, scope_type):
    """threats A03"""
    good = cluster.snapshot(scope=scope_type, roles=["core_mesh"])
    node.refuses(cluster.forge(good, subject_node_id="*"), 3, Reason.WRONG_NODE)


def test_a_head_is_one_nodes_own(cluster, node):
    """rules S43: what to hold is said to each node for itself."""
    good = cluster.head(roles=["core_mesh"])
    node.refuses(cluster.forge(good, subject_node_id="*"), 3, Reason.WRONG_NODE, then=good)
    node.refuses(cluster.head(subject_node_id="node-b"), 3, Reason.WRONG_NODE)


@pytest.mark.parametrize("roles", [[], ["ingress"], ["ingress", "thin"]], ids=str)
def test_shared_data_of_another_role(cluster, node, roles):
    """rules S43"""
    good = cluster.snapshot(subject_node_id="*", roles=["core_mesh"])
    node.refuses(cluster.forge(good, roles=roles), 3, Reason.WRONG_NODE, then=good)


@pytest.mark.parametrize("scope_type", ["weather_policy", "head", "route-policy", "sub_tree.policy"])
def test_an_unknown_scope_type(cluster, node, scope_type):
    """rules S14, S43; threats A09: it fails alone."""
    good = cluster.snapshot()
    node.refuses(cluster.forge(good, scope_type=scope_type), 3, Reason.UNKNOWN_SCOPE, then=good, kind="snapshot")


def test_the_subject_is_looked_at_before_the_type(cluster, node):
    """format.md 7, details; rules S88"""
    good = cluster.snapshot()
    foreign = cluster.forge(good, subject_node_id="node-b", scope_type="weather_policy")
    node.refuses(foreign, 3, Reason.WRONG_NODE, then=good)


def test_what_is_asked_for_decides_not_the_container(cluster, node):
    """The container's form is the same for each kind: an increment is no snapshot because its bytes would do."""
    good = cluster.snapshot()
    assert container.MEDIA_TYPE == "application/vnd.holdfast.document"
    node.refuses(cluster.forge(good, signed_as="increment"), 5, Reason.BAD_SIGNATURE, then=good)
