"""The signer's documents: what the verifier takes, byte for byte as the format says, and the same each time."""

import base64
import hashlib
from dataclasses import fields, replace

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.serialization import load_der_public_key

from coordinator.keys import signer
from coordinator.keys.signer import Base, EnvelopeClaims, SignedDocument
from coordinator.keys.signing_key import SigningKey
from snapshot import canonical, envelope, manifest
from snapshot.container import ChunkParts
from snapshot.identifiers import HEAD, SCOPE_TYPES, format_time
from snapshot.manifest import RecoveryManifest, Revocations, ScopeVersion, SectionChange
from snapshot.verify import Verified, verify
from tests.fakes import rsa_keys
from tests.fakes.cluster import CLUSTER_ID, DAY, NODE_ID, NOW, Cluster, key
from tests.fakes.signed import signed_head

CONFIG, SECOND = key("config-1"), key("config-2")


def claims(**members):
    given = {
        "snapshot_id": "one",
        "cluster_id": CLUSTER_ID,
        "scope_type": "route_policy",
        "config_version": 1,
        "authority_epoch": 1,
        "issued_at": NOW,
        "refresh_after": NOW + DAY,
        "expires_at": NOW + 2 * DAY,
        "subject_node_id": NODE_ID,
    }
    return EnvelopeClaims(**given | members)


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def node(cluster):
    return cluster.node("core_mesh")


def read(document):
    """Envelope, manifest and sections, as a reader of the container gets them."""
    parts = ChunkParts(document.chunks())
    opening, content = parts.opening(), parts.manifest()
    return canonical.loads(opening.envelope), canonical.loads(content), opening.signatures


@pytest.mark.parametrize("keys", [[CONFIG], [CONFIG, SECOND], [SECOND, CONFIG]], ids=len)
def test_a_snapshot(node, keys):
    """rules S11, S71: the first key is the primary signer, the others are listed in order."""
    document = signer.snapshot(claims(scope_ids=("b", "a")), {"z": 1, "a": {"k": "é"}}, keys)
    said, content, signatures = read(document)
    assert said["signer_key_id"] == keys[0].key_id
    assert said["cosigner_key_ids"] == sorted(one.key_id for one in keys[1:])
    assert said["signature_algorithm"] == "ed25519"
    assert said["scope_ids"] == ["a", "b"]
    assert list(content) == ["a", "z"]
    assert document.sections == ('{"k":"é"}'.encode(), b"1")
    first = document.sections[0]
    assert content["a"] == {"sha256": hashlib.sha256(first).hexdigest(), "size": len(first)}
    assert said["content_length"] == sum(map(len, document.sections))
    assert said["content_hash"] == "sha256:" + hashlib.sha256(document.manifest_bytes).hexdigest()
    assert [name for name, _ in signatures] == [one.key_id for one in keys]
    node.take(document)


def test_sections_as_bytes_are_stored_as_they_are():
    """rules S7"""
    assert signer.snapshot(claims(), {"a": b"not even JSON"}, [CONFIG]).sections == (b"not even JSON",)


def test_the_same_twice_is_the_same_content():
    """rules S6: and, with Ed25519, the same document to the last byte; an order of members changes nothing."""
    one = signer.snapshot(claims(roles=("a", "b")), {"x": {"p": 1, "q": 2}, "y": 3}, [CONFIG])
    other = signer.snapshot(claims(roles=("b", "a")), {"y": 3, "x": {"q": 2, "p": 1}}, [CONFIG])
    assert one.to_bytes() == other.to_bytes()


def test_what_is_signed_is_the_pae_of_the_kind(cluster):
    """threats D-1, S19: spelt out here, by the standard's sentence."""
    document = signer.snapshot(claims(), {}, [CONFIG])
    body = document.envelope_bytes
    public = load_der_public_key(CONFIG.public_key)
    message = b"DSSEv1 41 application/vnd.holdfast.snapshot.v1+json " + str(len(body)).encode() + b" " + body
    public.verify(document.signatures[0][1], message)


def test_an_rsa_signature_is_pss_with_a_salt_of_32(cluster):
    """rules S10; threats D-8"""
    strong = SigningKey.of(rsa_keys.key(3072))
    made = strong.sign(b"message")
    public = load_der_public_key(strong.public_key)
    public.verify(made, b"message", padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256())
    cluster.trust("strong", key=strong)
    cluster.trust_bundle()
    document = signer.snapshot(claims(), {}, [strong])
    assert document.envelope.signature_algorithm == "rsa-pss-sha256"
    cluster.node("core_mesh").take(document)


def test_every_claim_reaches_the_envelope():
    """rules S9: none is dropped on the way, whatever it is called."""
    audience = {"roles": ("core_mesh",), "organization_ids": ("amber",), "scope_ids": ("x",)}
    given = claims(**audience, valid_from=NOW + 1, min_trust_bundle_version=7)
    made = signer.snapshot(given, {}, [CONFIG]).envelope
    for field in fields(EnvelopeClaims):
        assert getattr(made, field.name) == getattr(given, field.name), field.name


@pytest.mark.parametrize("count", [1, 3])
def test_documents_that_are_alike_are_each_what_would_be_written_by_itself(count):
    """rules S6: the first, and those after it, which are filled in; with cosigners, and as many ids as there may be."""
    keys = [SigningKey.generate() for _ in range(count)]
    ids, roles = tuple(f"s{number}" for number in range(64)), ("ingress", "core_mesh")
    common = claims(scope_ids=ids, roles=roles, organization_ids=("acme", "a.b-c_d"))
    form = signer.DocumentForm("snapshot", common, keys)
    for number in range(3):
        sections = {"routes": b'{"%(x)s":"\xc3\xa9"}' * number, "a": b"{}"}
        of_each = {"snapshot_id": f"id-{number}", "subject_node_id": f"n{number}", "refresh_after": NOW + 60 + number}
        made = form.sign(b"{}", sections, config_version=5 + number, **of_each)
        alone = replace(common, config_version=5 + number, **of_each)
        wanted = signer.sign(alone.envelope("snapshot"), b"{}", (sections["a"], sections["routes"]), keys)
        assert made == wanted
        assert made.envelope_bytes == made.envelope.to_bytes()


def test_valid_from_is_issued_at_unless_it_is_said():
    assert signer.snapshot(claims(), {}, [CONFIG]).envelope.valid_from == NOW
    assert signer.snapshot(claims(valid_from=NOW + 5), {}, [CONFIG]).envelope.valid_from == NOW + 5


def test_an_increment(cluster, node):
    """rules S25: its own signatures, its base and its next."""
    before = {"a": b'{"x":1}', "b": b"2", "c": b"3"}
    full = signer.snapshot(claims(), before, [CONFIG])
    node.take(full)
    base = Base(1, {name: signer.entry_of(data) for name, data in before.items()})
    operations, result = b'[{"op":"remove","path":"/x"}]', b"{}"
    changes = {
        "d": SectionChange("set", *2 * (signer.entry_of(b"4"),)),
        "b": SectionChange("remove", None, None),
        "a": SectionChange("patch", signer.entry_of(operations), signer.entry_of(result)),
    }
    document = signer.increment(claims(config_version=2), base, changes, {"d": b"4", "a": operations}, [CONFIG, SECOND])
    said, content, _ = read(document)
    assert (said["base_config_version"], said["next_config_version"], said["config_version"]) == (1, 2, 2)
    assert said["base_content_hash"] == full.envelope.content_hash
    assert content["b"] == {"op": "remove"}
    assert content["a"]["op"] == "patch"
    assert content["a"]["result_size"] == 2
    assert document.sections == (operations, b"4")
    state = {"a": result, "c": b"3", "d": b"4"}
    after = manifest.state_bytes({name: signer.entry_of(data) for name, data in state.items()})
    assert said["next_content_hash"] == signer.content_hash(after)
    node.take(document)


def test_a_head(node):
    """rules S86: its generation is its version, its scope type is its kind."""
    listed = ScopeVersion(1, 4, signer.content_hash(b""), "one")
    gone = Revocations(2, node_ids=frozenset({"node-c", "node-b"}))
    scopes = {"route_policy/a": listed}
    document = signed_head(claims(config_version=9), scopes, [CONFIG], poll_after_s=5, revocations=gone)
    said, content, _ = read(document)
    assert (said["kind"], said["scope_type"], content["generation"], content["poll_after_s"]) == ("head", HEAD, 9, 5)
    assert content["revocations"]["node_ids"] == ["node-b", "node-c"]
    assert content["scopes"] == {"route_policy/a": listed.members()}
    taken = node.take(document)
    assert taken.head.scopes == scopes
    assert taken.head.revocations == gone


def test_a_recovery(cluster, node):
    """rules S87"""
    allowed = RecoveryManifest(5, 3, signer.content_hash(b""), "n-1")
    document = signer.recovery(claims(), allowed, [key("root-1"), key("root-2")])
    assert read(document)[1] == vars(allowed)
    assert node.take(document).recovery == allowed


def test_a_first_bundle_of_a_new_cluster():
    """rules S35: made from nothing but keys."""
    cluster = Cluster()
    assert isinstance(cluster.node("thin").holder.bundle.version, int)
    sections = cluster.bundle_sections()
    assert set(sections) == {"keys", "thresholds", "authority", "revocations"}
    assert "version" not in sections["revocations"]
    assert "key_ids" not in sections["revocations"]


def test_a_key_record():
    """format.md 8; threats D-10: the record is what a reader would write of the key."""
    given = {"cluster_id": CLUSTER_ID, "not_before": NOW, "not_after": NOW + 1}
    record = signer.key_record(CONFIG, purpose="config", **given)
    assert base64.b64decode(record["public_key"]) == CONFIG.public_key
    assert record["scope_types"] == sorted({*SCOPE_TYPES, HEAD} - {"trust_bundle"})
    assert (record["not_before"], record["not_after"]) == (format_time(NOW), format_time(NOW + 1))
    assert signer.key_record(CONFIG, purpose="root", **given)["scope_types"] == []
    narrow = signer.key_record(CONFIG, purpose="config", scope_types=["qos_policy", "head"], **given)
    assert narrow["scope_types"] == ["head", "qos_policy"]


def test_signed_as_given_changes_nothing():
    """For a document whose envelope is made elsewhere: it is signed as it stands."""
    made = signer.snapshot(claims(), {"a": 1}, [CONFIG])
    odd = replace(made.envelope, content_length=99)
    document = signer.sign_as_given(odd, made.manifest_bytes, made.sections, [SECOND])
    assert document.envelope == odd
    assert document.envelope_bytes == odd.to_bytes()
    assert [name for name, _ in document.signatures] == [SECOND.key_id]


@pytest.mark.parametrize("kind", envelope.KINDS)
def test_the_agents_verifier_reads_every_kind_back(cluster, node, kind):
    """rules S69: what is published has passed the verifier that will judge it."""
    base = cluster.snapshot()
    node.take(base)
    made = {
        "snapshot": cluster.snapshot,
        "head": cluster.head,
        "recovery": lambda: cluster.recovery(base, from_version=2),
        "increment": lambda: cluster.increment(sets={"a": 1}),
    }[kind]()
    assert isinstance(made, SignedDocument)
    verdict = verify(ChunkParts(made.chunks()), node.holder, kind=kind, now=NOW)
    assert isinstance(verdict, Verified)
    assert verdict.envelope == made.envelope
    assert made.to_bytes() == b"".join(made.chunks())
