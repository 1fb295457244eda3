"""Several faults in one document: the verdict is that of the first that is met (rules S54, S88).

`FAULTS` stands in the order in which they are met. That is the order of the steps, but for what format.md says itself:
a container's fault behind the signatures is step 0's, and a manifest out of form is step 11's, met before any section.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.keys.signer import SignedDocument
from snapshot import canonical
from snapshot.reasons import Reason
from tests.examples import examples
from tests.fakes.cluster import NOW, Cluster, key
from tests.fakes.damage import flipped


@dataclass
class Draft:
    """A document in the making; each fault spoils it in the one place where it belongs."""

    sections: dict[str, object] = field(default_factory=lambda: {"a": {}, "b": {"list": [1]}})
    members: dict[str, object] = field(default_factory=dict)
    manifest: dict[str, object] = field(default_factory=dict)
    signer: str = "config-1"
    sealed: list[Callable[[SignedDocument], SignedDocument]] = field(default_factory=list)
    sent: list[Callable[[bytes], bytes]] = field(default_factory=list)

    def to_bytes(self, cluster):
        document = cluster.snapshot(self.sections, keys=[key(self.signer)], **self.members)
        if self.manifest:
            manifest = canonical.loads(document.manifest_bytes) | self.manifest
            document = cluster.forge(document, manifest=manifest, **self.members)
        for change in self.sealed:
            document = change(document)
        data = document.to_bytes()
        for change in self.sent:
            data = change(data)
        return data


def spoilt_signature(document):
    name, made = document.signatures[0]
    return replace(document, signatures=((name, flipped(made, 77)),))


ZEROS = "0" * 64
FAULTS = {
    "no-array": (lambda d: d.sent.append(lambda data: b"\x93" + data[1:]), 0, Reason.BAD_CONTAINER),
    "schema": (lambda d: d.members.update(schema_version=2), 1, Reason.UNSUPPORTED_SCHEMA),
    "unknown-member": (lambda d: d.members.update(extra=1), 1, Reason.BAD_ENVELOPE),
    "cluster": (lambda d: d.members.update(cluster_id="raven-2"), 2, Reason.WRONG_CLUSTER),
    "node": (lambda d: d.members.update(subject_node_id="node-b"), 3, Reason.WRONG_NODE),
    "scope-type": (lambda d: d.members.update(scope_type="weather_policy"), 3, Reason.UNKNOWN_SCOPE),
    "signer": (lambda d: setattr(d, "signer", "other"), 4, Reason.UNKNOWN_KEY),
    "algorithm": (lambda d: d.members.update(signature_algorithm="rsa-pss-sha256"), 4, Reason.ALGORITHM_MISMATCH),
    "bundle-age": (lambda d: d.members.update(min_trust_bundle_version=2), 4, Reason.TRUST_BUNDLE_TOO_OLD),
    "signature": (lambda d: d.sealed.append(spoilt_signature), 5, Reason.BAD_SIGNATURE),
    "manifest-bytes": (
        lambda d: d.sealed.append(lambda one: replace(one, manifest_bytes=flipped(one.manifest_bytes, 9))),
        6,
        Reason.CONTENT_MISMATCH,
    ),
    "manifest-form": (lambda d: d.manifest.update(UPPER=1), 11, Reason.BAD_CONTENT),
    "section-size": (lambda d: d.manifest.update(z={"sha256": ZEROS, "size": 1 << 21}), 0, Reason.TOO_LARGE),
    "length": (lambda d: d.members.update(content_length=1), 6, Reason.CONTENT_MISMATCH),
    "section-lost": (
        lambda d: d.sealed.append(lambda one: replace(one, sections=one.sections[:-1])),
        6,
        Reason.CONTENT_MISMATCH,
    ),
    "trailing-byte": (lambda d: d.sent.append(lambda data: data + b"\0"), 0, Reason.BAD_CONTAINER),
    "expired": (lambda d: d.members.update(refresh_after=NOW, expires_at=NOW), 7, Reason.EXPIRED),
    "epoch": (lambda d: d.members.update(authority_epoch=2), 8, Reason.EPOCH_AHEAD),
    "version": (lambda d: d.members.update(config_version=1), 9, Reason.ROLLBACK),
    "role": (lambda d: d.members.update(roles=["ingress"]), 10, Reason.ROLE_NOT_ALLOWED),
    "organization": (lambda d: d.members.update(organization_ids=["onyx"]), 10, Reason.ORGANIZATION_NOT_ALLOWED),
    "spelling": (lambda d: d.sections.update(a=b"{ }"), 11, Reason.BAD_CONTENT),
    "authority": (lambda d: d.sections.update(c={"query_grants": 1}), 11, Reason.BAD_CONTENT),
    "foreign": (lambda d: d.sections.update(b={"organization_id": "onyx-2"}), 11, Reason.UNRELATED_ORGANIZATION),
    "secret": (lambda d: d.sections.update(d={"password": "x"}), 12, Reason.RAW_SECRET),
}
ORDER = list(FAULTS)


class Story:
    """A node at version 2."""

    def __init__(self):
        self.cluster = Cluster()
        self.node = self.cluster.node("core_mesh")
        self.cluster.snapshot()
        self.node.take(self.cluster.snapshot())

    def verdict(self, names):
        draft = Draft()
        for name in sorted(names, key=ORDER.index):
            FAULTS[name][0](draft)
        return self.node.refusal([draft.to_bytes(self.cluster)])


@pytest.fixture(scope="module")
def story():
    return Story()


def expected(names):
    first = min(names, key=ORDER.index)
    return FAULTS[first][1:]


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_alone(name):
    """rules S53, S54: it is met, and the next good version is taken."""
    story = Story()
    assert story.verdict([name]) == expected([name])
    story.node.take(story.cluster.snapshot())


@pytest.mark.parametrize("pair", list(combinations(FAULTS, 2)), ids="+".join)
def test_the_earlier_of_two_faults(story, pair):
    """rules S54, S88"""
    assert story.verdict(pair) == expected(pair)


@examples(60)
@given(st.sets(st.sampled_from(ORDER), min_size=3))
def test_the_earliest_of_many_faults(names):
    """rules S54"""
    assert Story().verdict(names) == expected(names)


def test_without_a_fault_it_is_taken(story):
    """The draft itself is good: nothing above is refused for another reason than its fault."""
    story = Story()
    story.node.judge([Draft().to_bytes(story.cluster)])


def test_the_faults_cover_the_steps():
    """rules S54: each of the steps that one document can fail."""
    assert {step for _, step, _ in FAULTS.values()} == {*range(13)}
