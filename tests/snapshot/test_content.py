"""Steps 11 and 12 over a snapshot's sections: structure, organizations, topology, secrets."""

import pytest

from snapshot.reasons import Reason, Rejected
from tests.fakes.cluster import PEER_DIRECTORY, Cluster

FORBIDDEN = ("query_grants", "audit_authority", "policy_mutations", "user_directory")
PRIVATE = "".join(("-----BEGIN ", "PRIVATE KEY-----\\nMC4CAQAwBQYDK2VwBCIEIJ"))


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def node(cluster):
    return cluster.node("core_mesh")


def refused(cluster, node, section, step, reason, scope="route_policy", **members):
    """In the second of three sections, under a member of an element: whoever looks only at the top misses it."""
    bad = cluster.snapshot({"a": {}, "b": section, "c": {}}, scope, **members)
    node.refuses(bad, step, reason, then=cluster.snapshot({"a": {}}, scope))


# Step 11: canonical

SPELLINGS = {
    "not-json": b"{",
    "empty": b"",
    "space": b'{"a": 1}',
    "newline": b"{}\n",
    "duplicate": b'{"a":1,"a":1}',
    "unsorted": b'{"b":1,"a":1}',
    "float-form": b"1.0",
    "minus-zero": b"-0",
    "nan": b"NaN",
    "infinity": b"-Infinity",
    "integer-too-large": b"9007199254740993",
    "5000-digits": b"1" * 5000,
    "escape": b'"\\u0041"',
    "lone-surrogate": b'"\\ud800"',
    "not-utf-8": b'"\xff"',
    "depth-33": b"[" * 33 + b"]" * 33,
    "depth-100000": b"[" * 100_000 + b"]" * 100_000,
    "values-200001": b"[" + b",".join([b"0"] * 200_000) + b"]",
    "long-string": b'"' + b"x" * 65_537 + b'"',
    "long-name": b'{"' + b"x" * 65_537 + b'":0}',
    "two-values": b"{}{}",
    "messagepack": b"\x80",
}


@pytest.mark.parametrize("data", SPELLINGS.values(), ids=SPELLINGS)
def test_a_section_that_is_not_canonical(cluster, node, data):
    """rules S13, S22, S51; threats E08, E10, E13, E14, E17: in every scope type, though it is signed."""
    refused(cluster, node, data, 11, Reason.BAD_CONTENT)


@pytest.mark.parametrize(
    "data",
    [b"[" * 32 + b"]" * 32, b"[" + b",".join([b"0"] * 199_999) + b"]", b'"' + b"x" * 65_536 + b'"', b"1e+30", b"null"],
    ids=["depth-32", "values-200000", "string-64-kib", "a-float", "null"],
)
def test_a_section_at_the_limits(cluster, node, data):
    """rules S51; format.md 10"""
    node.take(cluster.snapshot({"a": data}))


@pytest.mark.parametrize("name", ["__proto__", "__class__", "constructor", "", "\u200b", "K\u0308"])
def test_an_open_section_may_name_its_members_as_it_likes(cluster, node, name):
    """rules S22; threats E15, E16"""
    node.take(cluster.snapshot({"a": {name: 1}}))


# Step 11: structure


@pytest.mark.parametrize("scope", ["route_policy", "node_runtime", "degraded_mode_policy", "peer_directory"])
@pytest.mark.parametrize("name", FORBIDDEN)
def test_no_snapshot_carries_such_authority(cluster, node, name, scope):
    """rules S23, S51; threats A15"""
    refused(cluster, node, [{"deep": {name: []}}], 11, Reason.BAD_CONTENT, scope)


def test_only_the_members_name_counts(cluster, node):
    """rules S23: the same words as values, or within longer names, are nothing."""
    node.take(cluster.snapshot({"a": {"note": "query_grants", "query_grants_url": 1, "Query_Grants": 2}}))


PEERS = {"array": [], "text": "node-b", "null": None, "upper-case-id": {"Node": {}}, "empty-id": {"": {}},
         "zero-width-id": {"node\u200b": {}}, "slash-id": {"a/b": {}}}  # fmt: skip


@pytest.mark.parametrize("section", ["peers", "peers.eu"])
@pytest.mark.parametrize("value", PEERS.values(), ids=PEERS)
def test_peers_are_an_object_by_node_id(cluster, node, section, value):
    """rules S51; format.md 10; threats E19"""
    node.refuses(cluster.snapshot({section: value}, PEER_DIRECTORY), 11, Reason.BAD_CONTENT)


@pytest.mark.parametrize("section", ["peersonal", "my.peers", "notes", "peer"])
def test_other_sections_of_a_peer_directory_are_open(cluster, node, section):
    """rules S22"""
    node.take(cluster.snapshot({section: ["as", "they", "like"]}, PEER_DIRECTORY))


# Step 11: organizations


@pytest.mark.parametrize("other", ["onyx", "sable", None, 7, True, [], ["amber"], {"id": "amber"}, "Amber", "amber "])
def test_every_organization_id_is_one_of_the_envelopes(cluster, node, other):
    """rules S20, S23, S51, S79; threats A07: ours, where the document is not for it, is as foreign; it is a string."""
    section = {"routes": [{"to": {"organization_id": "amber"}}, {"to": {"organization_id": other}}]}
    refused(cluster, node, section, 11, Reason.UNRELATED_ORGANIZATION, organization_ids=["amber"])


def test_organizations_that_the_envelope_lists(cluster, node):
    """rules S51"""
    section = [{"organization_id": "amber"}, {"organization_id": "sable", "organization_ids": ["anything"]}]
    node.take(cluster.snapshot({"a": section}, organization_ids=["amber", "sable"]))


def test_a_storage_node_holds_no_other_organizations_data():
    """rules S20"""
    cluster = Cluster()
    node = cluster.node("storage_config", organization_ids=["amber"])
    foreign = {"endpoints": {"one": {"url": "https://s:1", "organization_id": "sable"}}}
    bad = cluster.snapshot(foreign, "storage_directory", organization_ids=["amber"])
    node.refuses(bad, 11, Reason.UNRELATED_ORGANIZATION)


# Step 11: topology


def peers(count, start=0):
    return {f"node-{number}": {} for number in range(start, start + count)}


TOPOLOGIES = {
    "16": ({"peers": peers(16)}, True),
    "17": ({"peers": peers(17)}, False),
    "16-in-parts": ({"peers.a": peers(8), "peers.b": peers(8, 8)}, True),
    "17-in-parts": ({"peers": peers(8), "peers.a": peers(8, 8), "peers.b": peers(1, 16)}, False),
    "the-same-in-two-parts": ({"peers.a": peers(16), "peers.b": peers(16)}, True),
    "17-elsewhere": ({"notes": peers(17)}, True),
}


@pytest.mark.parametrize(("sections", "applies"), TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_a_thin_node_has_at_most_16_peers(cluster, sections, applies):
    """rules S21, S23, S51"""
    node, document = cluster.node("thin"), cluster.snapshot(sections, PEER_DIRECTORY)
    if applies:
        node.take(document)
    else:
        node.refuses(document, 11, Reason.BAD_CONTENT)


@pytest.mark.parametrize("roles", [("core_mesh",), ("thin", "core_mesh"), ("thin", "storage_config")], ids=str)
def test_the_bound_holds_where_no_other_role_grants_the_type(cluster, roles):
    """format.md 10"""
    cluster.node(*roles).take(cluster.snapshot({"peers": peers(40)}, PEER_DIRECTORY))


def test_the_bound_holds_beside_a_role_that_does_not_grant_it(cluster):
    """format.md 10"""
    node = cluster.node("thin", "ingress")
    node.refuses(cluster.snapshot({"peers": peers(17)}, PEER_DIRECTORY), 11, Reason.BAD_CONTENT)


# Step 12

SECRETS = {
    "rdp-password": {"rdp": {"password": "x"}},
    "vnc": {"vncPassword": "x"},
    "ssh-key": {"ssh": {"privateKey": "x"}},
    "vpn": {"vpn": {"pre_shared_key": "x"}},
    "service-credential": {"credentials": {"user": "u"}},
    "token-number": {"token": 7},
    "in-an-array": {"api_keys": 1, "api_key": [None, "x"]},
    "pem": {"note": PRIVATE},
    "pem-as-a-name": {PRIVATE: 1},
    "url": {"url": "https://u:" + "p@host/"},
    "reference-with-more": {"secret_ref": "vault:a", "fallback": 1},
    "reference-that-is-none": {"secret_ref": "a"},
    "reference-not-text": {"secret_ref": ["vault:a"]},
    "zero-width-in-a-name": {"pass\u200bword": "x"},
    "full-width-name": {"\uff50assword": "x"},
}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_raw_secret(cluster, node, secret):
    """rules S18, S19, S23, S52, S78; threats X01, X03, X05, X08"""
    refused(cluster, node, {"deep": [secret]}, 12, Reason.RAW_SECRET)


@pytest.mark.parametrize("role", ["egress_service", "ingress"])
def test_a_service_credential_only_by_reference(cluster, role):
    """rules S18, S19"""
    node = cluster.node(role)
    services = {"services": {"web": {"password": {"secret_ref": "vault:web/password"}}}}
    node.take(cluster.snapshot(services, "service_assignment"))
    raw = cluster.snapshot({"services": {"web": {"password": "hunter2"}}}, "service_assignment")
    node.refuses(raw, 12, Reason.RAW_SECRET)


def test_what_is_no_secret_passes(cluster, node):
    """rules S52; threats X09"""
    one = cluster.first_bundle.envelope
    node.take(cluster.snapshot({"a": {"hash": one.content_hash, "key_id": one.signer_key_id, "password": None}}))


def test_no_secret_is_repeated_in_what_is_said_of_it(cluster, node):
    """threats D-55: where, and by which detector; never the value."""
    with pytest.raises(Rejected) as caught:
        node.judge(cluster.snapshot({"a": {}, "b": {"deep": [{"password": "hunter2"}]}}))
    assert "b/deep/0" in caught.value.where
    assert "hunter2" not in f"{caught.value} {caught.value.detail} {caught.value!r}"


def test_no_secret_is_repeated_by_an_earlier_step(cluster, node):
    """threats D-55: where a secret stands in the place of an organization's id."""
    with pytest.raises(Rejected) as caught:
        node.judge(cluster.snapshot({"a": {"organization_id": {"password": "hunter2"}}}))
    assert caught.value.reason is Reason.UNRELATED_ORGANIZATION
    assert "hunter2" not in caught.value.detail


# The order within step 11


@pytest.mark.parametrize("first", ["a", "z"])
@pytest.mark.parametrize("bad", [b"{ }", {"query_grants": 1}], ids=["spelling", "structure"])
def test_within_step_11_the_order_is_the_texts(cluster, node, bad, first):
    """rules S54, S88: whichever section came first, and before any secret."""
    sections = {"m": {"organization_id": "onyx", "password": "x"}, first: bad}
    node.refuses(cluster.snapshot(sections), 11, Reason.BAD_CONTENT)


def test_an_organization_before_the_topology_and_a_secret():
    """rules S54, S88"""
    cluster = Cluster()
    node = cluster.node("thin")
    sections = {"a": {"password": "x"}, "peers": peers(17) | {"node-99": {"organization_id": "onyx"}}}
    node.refuses(cluster.snapshot(sections, PEER_DIRECTORY), 11, Reason.UNRELATED_ORGANIZATION)
