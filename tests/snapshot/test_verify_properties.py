"""What holds for any bytes: one verdict of the table, the same for each way in which they arrive, and no trace left."""

import copy
import hashlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from snapshot import canonical
from snapshot.container import ChunkParts
from snapshot.reasons import Reason, Rejected
from snapshot.verify import Verified, verify
from tests.examples import examples
from tests.fakes.cluster import NOW, Cluster, key
from tests.fakes.damage import flipped

# format.md 7, and what its text and sections 3, 5, 8 and 10 say beside the table: the run's own step is not always
# the code's. `bad_envelope` is step 8's as well.
TABLE = {
    0: "too_large bad_container",
    1: "bad_envelope unsupported_schema",
    2: "wrong_cluster",
    3: "wrong_node unknown_scope",
    4: "unknown_key key_expired key_revoked key_not_for_scope algorithm_mismatch trust_bundle_too_old",
    5: "bad_signature threshold_not_met",
    6: "content_mismatch",
    7: "bad_validity issued_in_future not_yet_valid expired",
    8: "stale_epoch epoch_ahead epoch_needs_snapshot bad_envelope",
    9: "version_conflict rollback base_mismatch",
    10: "role_not_allowed organization_not_allowed",
    11: "bad_content patch_failed result_mismatch unrelated_organization",
    12: "raw_secret",
}
VERDICTS = {(step, Reason(code)) for step, codes in TABLE.items() for code in codes.split()}
SETTINGS = examples(100)


class Story:
    """A node, and one good document of each kind that it would take next; no signature is one too many."""

    def __init__(self):
        self.cluster = Cluster()
        self.node = self.cluster.node("core_mesh")
        self.seen = self.before = None
        self.node.take(self.cluster.snapshot({"a": {"list": [1, 2]}, "b": {"x": "y"}}))
        self.node.take(self.cluster.snapshot({"peers": {"node-b": {}}}, "peer_directory"))
        operations = [{"op": "add", "path": "/list/-", "value": 3}]
        first = self.cluster.published["route_policy"]
        self.good = {
            "increment": self.cluster.increment(sets={"c": [1]}, patches={"a": operations}, removes=["b"]),
            "head": self.cluster.head(),
            "recovery": self.cluster.recovery(first),
            "peers": self.cluster.snapshot({"peers.a": {"node-c": {}}}, "peer_directory"),
            "bundle": self.cluster.trust_bundle(keys=[key("root-1"), key("root-2")]),
            "snapshot": self.cluster.snapshot({"a": {"é": 1.5}, "b": [None, True]}),
        }

    def outcome(self, data, kind):
        """The verdict; checked on the way: of the table, nothing changed, nothing kept that no hash names."""
        if self.seen is not self.node.holder:  # a copy costs as much as a verdict, and so does a look
            self.seen, self.before = self.node.holder, copy.deepcopy(self.node.holder)
        kept = []
        try:
            verdict = verify(
                ChunkParts([data] if isinstance(data, bytes) else data),
                self.node.holder,
                kind=kind,
                now=NOW,
                keep=lambda name, section: kept.append((name, section)),
            )
        except Rejected as refused:
            verdict = None
            found = refused.step, refused.reason
            assert found in VERDICTS, refused.detail
        assert self.node.holder == self.before
        if isinstance(verdict, Verified):
            assert all(verdict.state[name].sha256 == hashlib.sha256(section).hexdigest() for name, section in kept)
            return verdict.kind, verdict.content_hash, verdict.mark
        return found if verdict is None else type(verdict)

    def take_all(self):
        for document in self.good.values():
            self.node.take(document)


STORY = Story()
WHOLE = {name: (document.to_bytes(), document.envelope.kind) for name, document in STORY.good.items()}


@pytest.mark.parametrize("name", WHOLE)
def test_each_of_them_is_good(name):
    data, kind = WHOLE[name]
    assert STORY.outcome(data, kind)[0] == kind


@pytest.mark.no_cover
@pytest.mark.parametrize("name", WHOLE)
def test_no_flipped_bit_is_ever_accepted(name):
    """rules S45, S46; threats S04: one bit of each byte of the container."""
    data, kind = WHOLE[name]
    for at in range(len(data)):
        assert STORY.outcome(flipped(data, 8 * at + at % 8), kind) in VERDICTS, at


@SETTINGS
@given(st.data())
def test_no_bit_at_random_either(draw):
    """rules S45, S46"""
    data, kind = WHOLE[draw.draw(st.sampled_from(sorted(WHOLE)))]
    assert STORY.outcome(flipped(data, draw.draw(st.integers(0, 8 * len(data) - 1))), kind) in VERDICTS


@SETTINGS
@given(st.binary(max_size=400), st.sampled_from(["snapshot", "increment", "head", "recovery"]))
def test_wild_bytes(data, kind):
    """threats E25, D-57"""
    assert STORY.outcome(data, kind) in VERDICTS


@st.composite
def spliced(draw):
    """A good container with a piece cut out, put in, doubled, or taken from another one."""
    data, kind = WHOLE[draw(st.sampled_from(sorted(WHOLE)))]
    other, _ = WHOLE[draw(st.sampled_from(sorted(WHOLE)))]
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 200)))
        pieces = st.sampled_from([b"", data[start:end] * 2, other[start:end]])
        piece = draw(pieces | st.binary(max_size=8))
        data = data[:start] + piece + data[end:]
    return data, kind


@SETTINGS
@given(spliced())
def test_spliced_containers(made):
    """threats E25, S04"""
    data, kind = made
    unchanged = any(data == whole for whole, _ in WHOLE.values())
    assert STORY.outcome(data, kind) in VERDICTS or unchanged


@SETTINGS
@given(spliced() | st.sampled_from(sorted(WHOLE.values())), st.data())
def test_the_verdict_is_the_same_for_every_chunking(made, draw):
    """rules S41; format.md 3"""
    data, kind = made
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=12)))
    chunks = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert STORY.outcome(chunks, kind) == STORY.outcome(data, kind)


def test_byte_by_byte():
    """format.md 3"""
    for data, kind in WHOLE.values():
        assert STORY.outcome([data[at : at + 1] for at in range(len(data))], kind) == STORY.outcome(data, kind)


# Signed nonsense: whoever holds a key can have anything judged

SCALARS = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=8)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = sorted(canonical.loads(STORY.good["increment"].envelope_bytes))
HINTS = st.sampled_from(
    [1, 2, "*", "node-a", "raven-1", "route_policy", "trust_bundle", "head", ["core_mesh"], ["amber"], [], "snapshot"]
)


@SETTINGS
@given(st.sampled_from(sorted(WHOLE)), st.dictionaries(st.sampled_from(MEMBERS), JSON | HINTS, max_size=3))
@example("bundle", {"expires_at": -62135596801})  # the year 0, which no calendar here has
def test_signed_envelopes_of_any_kind(name, members):
    """threats E22, E25, D-57"""
    document = STORY.good[name]
    members.pop("kind", None)
    forged = STORY.cluster.forge(document, **members)
    STORY.outcome(forged.to_bytes(), document.envelope.kind)


OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "remove", "replace", "test", "copy"]),
            "path": st.sampled_from(["", "/", "/list", "/list/-", "/list/0", "/list/9", "/list/0/x", "/~1", "/~2"]),
        },
        optional={"value": JSON},
    ),
    max_size=4,
)
ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["set", "remove", "patch", "none"]),
        "sha256": st.just("0" * 64),
        "size": st.integers(-1, 5),
        "result_sha256": st.just("0" * 64),
        "result_size": st.integers(-1, 5),
    },
)


@SETTINGS
@given(st.sampled_from(sorted(WHOLE)), st.dictionaries(st.text("ab.", max_size=3), ENTRY | JSON, max_size=3) | JSON)
def test_signed_manifests_of_any_kind(name, manifest):
    """threats E25, D-57"""
    document = STORY.good[name]
    STORY.outcome(STORY.cluster.forge(document, manifest=manifest).to_bytes(), document.envelope.kind)


@SETTINGS
@given(
    st.dictionaries(st.sampled_from(["a", "b", "peers", "keys"]), JSON, max_size=3),
    st.sampled_from(["a", "q"]),
    OPERATIONS,
)
def test_signed_sections_and_patches_of_any_kind(sections, patched, operations):
    """threats E25, I18, D-57; rules S33"""
    story = Story()
    cluster = story.cluster
    for scope in ("route_policy", "peer_directory", "degraded_mode_policy"):
        story.outcome(cluster.snapshot(sections, scope).to_bytes(), "snapshot")
    story.outcome(cluster.trust_bundle(cluster.bundle_sections() | sections).to_bytes(), "snapshot")
    story.node.take(cluster.snapshot({"a": {"list": [1, 2]}}))
    found = story.outcome(cluster.increment(patches={patched: operations}).to_bytes(), "increment")
    assert found[0] in (9, 11, 12, "increment")


# Any sequence of bad inputs, then the good ones


@SETTINGS
@given(st.lists(spliced() | st.tuples(st.binary(max_size=60), st.just("snapshot")), max_size=6))
def test_after_any_bad_inputs_the_good_ones_go_through(inputs):
    """threats C14; rules S53"""
    story = Story()
    for data, kind in inputs:
        story.outcome(data, kind)
    story.take_all()
    story.node.take(story.cluster.snapshot())
