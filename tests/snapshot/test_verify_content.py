"""Step 6: the content is what was signed. The manifest's hash, then its form, then each section as it arrives."""

import hashlib
from dataclasses import replace

import pytest

from snapshot import canonical
from snapshot.container import Opening
from snapshot.limits import Limits
from snapshot.manifest import Revocations
from snapshot.reasons import Reason, Rejected
from snapshot.verify import verify
from tests.fakes.cluster import NOW, Cluster, key
from tests.fakes.damage import flipped

SECTIONS = {"alpha": {"a": 1}, "beta": [2, 3], "gamma": "three"}
ZEROS = "0" * 64


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def node(cluster):
    return cluster.node("core_mesh")


@pytest.fixture
def good(cluster):
    return cluster.snapshot(SECTIONS)


def test_a_manifest_of_other_bytes(node, good):
    """rules S46; threats S05: each of its bits."""
    for bit in range(0, 8 * len(good.manifest_bytes), 5):
        spoilt = replace(good, manifest_bytes=flipped(good.manifest_bytes, bit))
        assert node.refusal(spoilt) == (6, Reason.CONTENT_MISMATCH), bit
    node.take(good)


def test_sections_of_other_bytes(node, good):
    """rules S46; threats S05: each bit of each section, also where it is no JSON any more."""
    for at, data in enumerate(good.sections):
        for bit in range(8 * len(data)):
            sections = (*good.sections[:at], flipped(data, bit), *good.sections[at + 1 :])
            assert node.refusal(replace(good, sections=sections)) == (6, Reason.CONTENT_MISMATCH), (at, bit)
    node.take(good)


COUNTS = {
    "none": lambda one: (),
    "one-lost": lambda one: one[:-1],
    "one-more": lambda one: (*one, b"{}"),
    "an-empty-one-more": lambda one: (*one, b""),
    "swapped": lambda one: one[::-1],
    "longer": lambda one: (one[0] + b" ", *one[1:]),
    "shorter": lambda one: (one[0][:-1], *one[1:]),
    "twice-the-first": lambda one: (one[0], one[0], one[2]),
}


@pytest.mark.parametrize("change", COUNTS.values(), ids=COUNTS)
def test_other_sections_than_the_manifest_says(node, good, change):
    """rules S46; threats A16"""
    node.refuses(replace(good, sections=change(good.sections)), 6, Reason.CONTENT_MISMATCH, then=good)


@pytest.mark.parametrize("kind", ["head", "recovery"])
def test_sections_where_there_are_none(cluster, node, kind):
    """rules S46; format.md 5"""
    base = cluster.snapshot()
    good = cluster.head() if kind == "head" else cluster.recovery(base, from_version=2)
    node.refuses(replace(good, sections=(b"{}",)), 6, Reason.CONTENT_MISMATCH, then=good)


@pytest.mark.parametrize("off", [-1, 1, 1000])
def test_a_length_that_is_not_the_sum(cluster, node, good, off):
    """threats I01"""
    bad = cluster.forge(good, content_length=good.envelope.content_length + off)
    node.refuses(bad, 6, Reason.CONTENT_MISMATCH, then=good)


def test_a_size_that_is_not_the_sections(cluster, node, good):
    """rules S46: signed, with the right hash and a sum that fits, and still not so."""
    manifest = canonical.loads(good.manifest_bytes)
    manifest["alpha"]["size"] += 1
    manifest["beta"]["size"] -= 1
    bad = cluster.forge(good, manifest=manifest)
    node.refuses(bad, 6, Reason.CONTENT_MISMATCH, then=good)


def test_the_verifier_looks_at_sizes_itself(node, cluster, good):
    """rules S46; format.md 7, step 6: every section's size and hash, from wherever the parts come."""
    manifest = canonical.loads(good.manifest_bytes)
    manifest["alpha"]["size"] += 1
    document = cluster.forge(good, manifest=manifest, content_length=good.envelope.content_length + 1)

    class Slot:
        def opening(self):
            return Opening(document.envelope_bytes, document.signatures)

        def manifest(self):
            return document.manifest_bytes

        def sections(self, sizes):
            return iter(document.sections)

    with pytest.raises(Rejected) as refused:
        verify(Slot(), node.holder, kind="snapshot", now=NOW)
    assert refused.value.reason is Reason.CONTENT_MISMATCH


# Sizes


def claimed(cluster, good, *sizes):
    """A signed manifest of sections of these sizes, of which no byte is there."""
    manifest = {f"s{number}": {"sha256": ZEROS, "size": size} for number, size in enumerate(sizes)}
    return cluster.forge(good, manifest=manifest, content_length=sum(sizes), sections=())


def test_a_section_over_the_limit(cluster, node, good):
    """rules S8; format.md 10: by what is said of it, before a byte of it is read."""
    node.refuses(claimed(cluster, good, (1 << 20) + 1), 0, Reason.TOO_LARGE)
    node.refuses(claimed(cluster, good, 1 << 20), 6, Reason.CONTENT_MISMATCH, then=good)


def test_content_over_the_limit(cluster, node, good):
    """rules S8"""
    node.refuses(claimed(cluster, good, *[1 << 20] * 257), 0, Reason.TOO_LARGE)
    node.refuses(claimed(cluster, good, *[1 << 20] * 256), 6, Reason.CONTENT_MISMATCH, then=good)


def test_limits_that_an_operator_has_lowered(cluster, good):
    """format.md 10"""
    small = cluster.node("core_mesh", limits=Limits(section_bytes=7 << 10, content_bytes=8 << 10))
    small.refuses(cluster.snapshot({"a": "x" * (7 << 10)}), 0, Reason.TOO_LARGE)
    small.refuses(cluster.snapshot({"a": "x" * 6000, "b": "y" * 6000}), 0, Reason.TOO_LARGE, then=cluster.snapshot())


@pytest.mark.parametrize("op", ["set", "patch"])
def test_a_result_over_the_limit(cluster, node, good, op):
    """threats I10, D-28: what a patch is to give counts as well."""
    node.take(good)
    document = cluster.increment(sets={"delta": {}})
    change = {"op": op, "sha256": ZEROS, "size": 1 << 21}
    if op == "patch":
        change |= {"size": 10, "result_sha256": ZEROS, "result_size": (1 << 20) + 1}
    bad = cluster.forge(document, manifest={"alpha": change}, sections=(), content_length=change["size"])
    node.refuses(bad, 0, Reason.TOO_LARGE, then=document)


def test_too_many_sections(cluster, node, good):
    """format.md 10"""
    manifest = {f"s{number:05}": {"sha256": ZEROS, "size": 1} for number in range(20_001)}
    node.refuses(cluster.forge(good, manifest=manifest, sections=()), 0, Reason.TOO_LARGE, then=good)
    out_of_form = dict.fromkeys(manifest, 1)
    node.refuses(cluster.forge(cluster.snapshot(), manifest=out_of_form, sections=()), 0, Reason.TOO_LARGE)


def test_a_trust_bundle_of_over_a_mebibyte(cluster, node):
    """format.md 10"""
    sections = cluster.bundle_sections() | {f"more-{n}": "x" * 60_000 for n in range(18)}
    bad = cluster.trust_bundle(sections)
    node.refuses(bad, 0, Reason.TOO_LARGE)


# The manifest's form, which is met before any section is read

HASH = {"sha256": ZEROS, "size": 1}
MANIFESTS = {
    "array": [],
    "text": "{}",
    "not-canonical": b'{"a": {}}',
    "duplicate": b'{"a":{"sha256":"%s","size":1},"a":{"sha256":"%s","size":1}}' % (2 * (ZEROS.encode(),)),
    "cut": b"{",
    "empty-bytes": b"",
    "entry-is-a-hash": {"a": ZEROS},
    "entry-without-size": {"a": {"sha256": ZEROS}},
    "entry-without-hash": {"a": {"size": 1}},
    "entry-with-more": {"a": HASH | {"compressed": True}},
    "entry-of-an-increment": {"a": HASH | {"op": "set"}},
    "upper-case-hash": {"a": {"sha256": "A" * 64, "size": 1}},
    "named-hash": {"a": {"sha256": "sha256:" + ZEROS, "size": 1}},
    "negative-size": {"a": {"sha256": ZEROS, "size": -1}},
    "size-true": {"a": {"sha256": ZEROS, "size": True}},
    "size-1.5": {"a": {"sha256": ZEROS, "size": 1.5}},
    "name-upper-case": {"A": HASH},
    "name-empty": {"": HASH},
    "name-with-slash": {"a/b": HASH},
    "name-of-129": {"a" * 129: HASH},
    "name-zero-width": {"a\u200b": HASH},
}


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS)
def test_a_manifest_out_of_form(cluster, node, good, manifest):
    """rules S13, S51; threats A16: though no section is there to be read."""
    node.refuses(cluster.forge(good, manifest=manifest, sections=()), 11, Reason.BAD_CONTENT, then=good)


CHANGES = {
    "without-op": {"a": HASH},
    "unknown-op": {"a": HASH | {"op": "merge"}},
    "op-null": {"a": HASH | {"op": None}},
    "remove-with-more": {"a": {"op": "remove"} | HASH},
    "set-without-size": {"a": {"op": "set", "sha256": ZEROS}},
    "set-with-result": {"a": HASH | {"op": "set", "result_sha256": ZEROS, "result_size": 1}},
    "patch-without-result": {"a": HASH | {"op": "patch"}},
    "patch-half-a-result": {"a": HASH | {"op": "patch", "result_sha256": ZEROS}},
    "patch-negative-result": {"a": HASH | {"op": "patch", "result_sha256": ZEROS, "result_size": -1}},
    "not-an-object": {"a": []},
}


@pytest.mark.parametrize("manifest", CHANGES.values(), ids=CHANGES)
def test_changes_out_of_form(cluster, node, good, manifest):
    """rules S51"""
    node.take(good)
    document = cluster.increment(sets={"delta": {}})
    node.refuses(cluster.forge(document, manifest=manifest, sections=()), 11, Reason.BAD_CONTENT, then=document)


def head_with(**members):
    def change(manifest):
        return manifest | members

    return change


def revoked(**members):
    def change(manifest):
        return manifest | {"revocations": manifest["revocations"] | members}

    return change


LISTED = {"authority_epoch": 1, "config_version": 1, "content_hash": "sha256:" + ZEROS, "snapshot_id": "one"}
HEADS = {
    "other-generation": head_with(generation=2),
    "more": head_with(Extra=1),
    "no-scopes": lambda manifest: {name: value for name, value in manifest.items() if name != "scopes"},
    "scopes-array": head_with(scopes=[]),
    "poll-0": head_with(poll_after_s=0),
    "poll-true": head_with(poll_after_s=True),
    "scope-out-of-form": head_with(scopes={"route_policy/": LISTED}),
    "scope-ids-unsorted": head_with(scopes={"route_policy/b,a": LISTED}),
    "scope-upper-case": head_with(scopes={"Route_policy": LISTED}),
    "listed-too-little": head_with(scopes={"route_policy": {"config_version": 1}}),
    "listed-too-much": head_with(scopes={"route_policy": LISTED | {"URL": "https://x:1"}}),
    "listed-version-0": head_with(scopes={"route_policy": LISTED | {"config_version": 0}}),
    "listed-bare-hash": head_with(scopes={"route_policy": LISTED | {"content_hash": ZEROS}}),
    "revocations-null": head_with(revocations=None),
    "revocations-more": revoked(user_ids=[]),
    "revocations-no-version": lambda manifest: manifest | {"revocations": {"key_ids": []}},
    "revocations-version": revoked(version=-1),
    "key-ids-unsorted": revoked(key_ids=["sha256:" + "1" * 64, "sha256:" + ZEROS]),
    "node-ids-twice": revoked(node_ids=["n", "n"]),
    "assignment-without-role": revoked(role_assignments=["node-a"]),
    "endpoint-http": revoked(endpoints=["http://host:1"]),
    "endpoint-without-port": revoked(endpoints=["https://host"]),
    "endpoint-userinfo": revoked(endpoints=["https://u@host:1"]),
}


@pytest.mark.parametrize("change", HEADS.values(), ids=HEADS)
def test_a_head_out_of_form(cluster, node, change):
    """rules S51; format.md 5; threats N04"""
    good = cluster.head()
    bad = cluster.forge(good, manifest=change(canonical.loads(good.manifest_bytes)))
    node.refuses(bad, 11, Reason.BAD_CONTENT, then=good)


def test_a_head_may_list_types_that_we_do_not_know(cluster, node):
    """rules S14; format.md 5: a new type blinds no old agent, and is there to be reported."""
    good = cluster.head()
    manifest = canonical.loads(good.manifest_bytes) | {"scopes": {"weather_policy/a,b": LISTED}}
    taken = node.take(cluster.forge(good, manifest=manifest))
    assert taken.head.scopes["weather_policy/a,b"].snapshot_id == "one"


def test_all_that_a_head_can_revoke_is_read(cluster, node):
    """rules S82; format.md 5"""
    said = Revocations(
        version=3,
        key_ids=frozenset({key("config-2").key_id}),
        node_ids=frozenset({"node-b", "node-c"}),
        role_assignments=frozenset({"node-d/core_mesh"}),
        service_ids=frozenset({"relay"}),
        endpoints=frozenset({"https://a.example:8443", "https://[2001:db8::1]:8443"}),
    )
    assert node.take(cluster.head(revocations=said)).head.revocations == said


RECOVERIES = {
    "more": {"extra": 1},
    "nonce-empty": {"nonce": ""},
    "nonce-of-129": {"nonce": "n" * 129},
    "nonce-upper-case": {"nonce": "N"},
    "forwards": {"to_config_version": 3},
    "to-itself": {"to_config_version": 2},
    "bare-hash": {"to_content_hash": ZEROS},
    "from-zero": {"from_config_version": 0},
}


@pytest.mark.parametrize("members", RECOVERIES.values(), ids=RECOVERIES)
def test_a_recovery_out_of_form(cluster, node, members):
    """rules S51; format.md 5"""
    good = cluster.recovery(cluster.snapshot(), from_version=2)
    bad = cluster.forge(good, manifest=canonical.loads(good.manifest_bytes) | members)
    node.refuses(bad, 11, Reason.BAD_CONTENT, then=good)


# What is handed on


def test_keep_is_given_what_the_manifest_names(node, good):
    """threats I04; rules S7: the bytes as they came, in manifest order."""
    taken = node.take(good)
    assert [name for name, _ in node.kept] == sorted(SECTIONS)
    assert tuple(data for _, data in node.kept) == good.sections
    for name, data in node.kept:
        assert hashlib.sha256(data).hexdigest() == taken.state[name].sha256
    assert taken.state_bytes == taken.manifest_bytes == good.manifest_bytes


def test_keep_is_given_nothing_whose_hash_is_wrong(node, good):
    """rules S46: what stands behind the first spoilt section is not read at all."""
    spoilt = replace(good, sections=(good.sections[0], flipped(good.sections[1]), good.sections[2]))
    assert node.refusal(spoilt) == (6, Reason.CONTENT_MISMATCH)
    assert node.kept == [("alpha", good.sections[0])]
