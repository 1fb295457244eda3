"""A trust bundle by itself: what its four sections may say, and which keys it may name (format.md 8)."""

import base64

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from coordinator.keys.signing_key import SigningKey
from snapshot.bundle import CONFIG
from snapshot.reasons import Reason
from snapshot.signature import key_id
from tests.fakes import rsa_keys
from tests.fakes.cluster import NOW, Cluster, key
from tests.fakes.damage import flipped

ED25519_PREFIX = bytes.fromhex("302a300506032b6570032100")
PUBLIC = key("config-1").public_key
BAD = (11, Reason.BAD_CONTENT)


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def node(cluster):
    return cluster.node("core_mesh")


def refused_and_kept(cluster, node, sections):
    """Bundle N stays, and a good N+1 is taken after it (threats D-40)."""
    before = node.holder.bundle
    bad = cluster.trust_bundle(sections)
    cluster.versions["trust_bundle"] -= 1
    node.refuses(bad, *BAD, then=cluster.trust_bundle())
    assert node.holder.bundle.version == before.version + 1


# One key record that is not right

ANY_POINT = b"\x05" + b"\0" * 30
WEAK = {
    "identity": b"\x01" + b"\0" * 31,
    "order-2": b"\xec" + b"\xff" * 30 + b"\x7f",
    "order-4": b"\0" * 32,
    "order-8": bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    "not-canonical": b"\xee" + b"\xff" * 30 + b"\x7f",
    "no-point": b"\x02" + b"\0" * 31,
    "31-bytes": b"\x09" * 31,
    "33-bytes": b"\x09" * 33,
}


def record(cluster, spki, algorithm="ed25519", **members):
    """The next bundle with one more config key, whose id is what it should be."""
    sections = cluster.bundle_sections()
    like = sections["keys"][key("config-1").key_id]
    text = base64.b64encode(spki).decode()
    sections["keys"][key_id(spki)] = like | {"public_key": text, "algorithm": algorithm} | members
    return sections


@pytest.mark.parametrize("point", WEAK.values(), ids=WEAK)
def test_ed25519_keys_that_must_not_verify(cluster, node, point):
    """rules S10; threats K07, K09, D-9: at load, not at first use."""
    refused_and_kept(cluster, node, record(cluster, ED25519_PREFIX + point))


def rsa_key(bits, exponent):
    return rsa_keys.key(bits, exponent).public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(("bits", "exponent"), [(1024, 65537), (2048, 65537), (3072, 3)])
def test_rsa_keys_that_must_not_verify(cluster, node, bits, exponent):
    """rules S10; threats K13"""
    refused_and_kept(cluster, node, record(cluster, rsa_key(bits, exponent), "rsa-pss-sha256"))


@pytest.fixture(scope="module")
def strong():
    return SigningKey.of(rsa_keys.key(3072))


def test_an_rsa_key_that_may(cluster, node, strong):
    """rules S10"""
    node.take(cluster.trust_bundle(record(cluster, strong.public_key, "rsa-pss-sha256")))
    node.take(cluster.snapshot(keys=[strong]))


def test_one_key_has_one_encoding(cluster, node, strong):
    """threats K16, S11, D-10: the RSASSA-PSS name for it, PKCS#1, a byte behind it."""
    der = strong.public_key
    other_name = der.replace(bytes.fromhex("2a864886f70d010101"), bytes.fromhex("2a864886f70d01010a"))
    assert other_name != der
    for spki in (other_name, der[24:], der + b"\0", der[:-1], flipped(der, 8 * len(der) - 1)):
        assert node.refusal(cluster.trust_bundle(record(cluster, spki, "rsa-pss-sha256"))) == BAD
        cluster.versions["trust_bundle"] -= 1
    node.take(cluster.trust_bundle())


def spoilt_record(**members):
    def spoil(sections):
        sections["keys"][key("config-1").key_id] |= members

    return spoil


def without(name):
    def spoil(sections):
        del sections["keys"][key("config-1").key_id][name]

    return spoil


def under_another_id(sections):
    sections["keys"]["sha256:" + "0" * 64] = sections["keys"].pop(key("config-1").key_id)


def the_same_key_under_two_ids(sections):
    sections["keys"]["sha256:" + "0" * 64] = sections["keys"][key("config-1").key_id]


TEXT = base64.b64encode(PUBLIC).decode()
RECORDS = {
    "another-id": under_another_id,
    "two-ids": the_same_key_under_two_ids,
    "extra-member": spoilt_record(keyIdHashAlgorithms=["sha256"]),
    "unknown-algorithm": spoilt_record(algorithm="ecdsa-p256"),
    "other-algorithm": spoilt_record(algorithm="rsa-pss-sha256"),
    "hmac": spoilt_record(algorithm="hs256"),
    "unknown-purpose": spoilt_record(purpose="release"),
    "unknown-status": spoilt_record(status="suspended"),
    "unknown-scope-type": spoilt_record(scope_types=["Weather"]),
    "unsorted-scope-types": spoilt_record(scope_types=["route_policy", "qos_policy"]),
    "scope-types-twice": spoilt_record(scope_types=["qos_policy", "qos_policy"]),
    "scope-types-text": spoilt_record(scope_types="*"),
    "cluster-out-of-form": spoilt_record(cluster_id="Raven"),
    "time-out-of-form": spoilt_record(not_after="2028-02-30T00:00:00Z"),
    "time-as-number": spoilt_record(not_before=NOW),
    "base64-unpadded": spoilt_record(public_key=TEXT.rstrip("=") + "A"),
    "base64-url": spoilt_record(public_key=TEXT.replace("+", "-").replace("/", "_") + "\n"),
    "base64-with-space": spoilt_record(public_key=" " + TEXT),
    "base64-of-nothing": spoilt_record(public_key=""),
    "pem": spoilt_record(public_key="-----BEGIN PUBLIC KEY-----"),
    "public-key-null": spoilt_record(public_key=None),
    **{f"no-{name}": without(name) for name in ("algorithm", "public_key", "purpose", "cluster_id", "scope_types",
                                                "not_before", "not_after", "status")},
}  # fmt: skip


@pytest.mark.parametrize("spoil", RECORDS.values(), ids=RECORDS)
def test_a_key_record_out_of_form(cluster, node, spoil):
    """threats S11, K18, K19, K20, D-10, D-40"""
    sections = cluster.bundle_sections()
    spoil(sections)
    refused_and_kept(cluster, node, sections)


# The sections


def replaced(name, value):
    def spoil(sections):
        sections[name] = value

    return spoil


def more(name, **members):
    def spoil(sections):
        sections[name] |= members

    return spoil


SECTIONS = {
    "no-keys": lambda sections: sections.pop("keys"),
    "no-thresholds": lambda sections: sections.pop("thresholds"),
    "no-authority": lambda sections: sections.pop("authority"),
    "no-revocations": lambda sections: sections.pop("revocations"),
    "a-fifth-that-grants": replaced("delegations", {"audit_authority": {}}),
    "keys-empty": replaced("keys", {}),
    "keys-array": replaced("keys", []),
    "keys-null": replaced("keys", None),
    "root-threshold-0": more("thresholds", root=0),
    "root-threshold-negative": more("thresholds", root=-1),
    "root-threshold-true": more("thresholds", root=True),
    "root-threshold-above-the-keys": more("thresholds", root=4),
    "config-threshold-0": more("thresholds", config=0),
    "config-threshold-above-the-keys": more("thresholds", config=3),
    "a-third-threshold": more("thresholds", head=1),
    "one-threshold": replaced("thresholds", {"root": 1}),
    "epoch-0": more("authority", authority_epoch=0),
    "epoch-true": more("authority", authority_epoch=True),
    "authority-more": more("authority", audit_authority=1),
    "revocations-with-key-ids": more("revocations", key_ids=[]),
    "revocations-with-version": more("revocations", version=1),
    "revocations-unsorted": more("revocations", node_ids=["b", "a"]),
    "revocations-array": replaced("revocations", []),
}


@pytest.mark.parametrize("spoil", SECTIONS.values(), ids=SECTIONS)
def test_sections_out_of_form(cluster, node, spoil):
    """rules S51; threats S08, A15, I17, D-40"""
    sections = cluster.bundle_sections()
    spoil(sections)
    refused_and_kept(cluster, node, sections)


def test_a_threshold_counts_only_the_keys_that_can_still_sign(cluster, node):
    """threats D-40: a revoked key is none of them, a retiring one is."""
    cluster.trust("config-2", status="revoked")
    cluster.config_threshold = 2
    refused_and_kept_sections = cluster.bundle_sections()
    cluster.config_threshold = 1
    refused_and_kept(cluster, node, refused_and_kept_sections)
    cluster.trust("config-2", status="retiring")
    cluster.config_threshold = 2
    node.take(cluster.trust_bundle())


@pytest.mark.parametrize(("count", "holds"), [(64, True), (65, False)])
def test_at_most_64_keys(cluster, node, count, holds):
    """format.md 8, 10"""
    for number in range(count - len(cluster.trusted)):
        cluster.trust(f"more-{number}", purpose=CONFIG)
    bundle = cluster.trust_bundle()
    if holds:
        node.take(bundle)
    else:
        assert node.refusal(bundle) == BAD


def test_what_a_bundle_says_is_what_the_reader_holds(cluster, node):
    """rules S35; format.md 8"""
    taken = node.take(cluster.trust_bundle())
    assert taken.bundle is node.holder.bundle
    assert (taken.bundle.version, taken.bundle.authority_epoch, taken.bundle.thresholds) == (
        2,
        1,
        {"root": 2, "config": 1},
    )
    assert set(taken.bundle.keys) == {one.key.key_id for one in cluster.trusted.values()}


@pytest.mark.parametrize("name", ["keys", "thresholds", "authority", "revocations"])
def test_a_section_that_is_not_canonical(cluster, node, name):
    """rules S13"""
    refused_and_kept(cluster, node, cluster.bundle_sections() | {name: b"{ }"})
