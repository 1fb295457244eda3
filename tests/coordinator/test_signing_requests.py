"""Signing on another machine: a file that a person can read, bound to the bundle that it extends (rules S35, S40)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.base.refusal import Code, Refused
from coordinator.trust import signing_requests
from coordinator.trust.ceremony import Add, Carry, RaiseEpoch
from coordinator.trust.signing_requests import SigningRequest
from snapshot.bundle import CONFIG, ROOT
from snapshot.container import ChunkParts
from snapshot.manifest import RecoveryManifest, Revocations
from snapshot.roles import ROLES
from snapshot.verifier_state import VerifierState
from snapshot.verify import Verified, verify
from tests.coordinator.ceremonies import YEARS, Ceremonies, public
from tests.examples import examples

WANTED = RecoveryManifest(9, 7, "sha256:" + "ab" * 32, "nonce-1")


def code(function, *arguments) -> Code:
    with pytest.raises(Refused) as caught:
        function(*arguments)
    return caught.value.code


@pytest.fixture
def cluster() -> Ceremonies:
    return Ceremonies()


@pytest.fixture
def request_for(cluster: Ceremonies) -> SigningRequest:
    new = public(cluster.new_key())
    revoked = Carry(Revocations(node_ids=frozenset({"n7"})))
    return cluster.request(Add(new, CONFIG, cluster.now + YEARS), RaiseEpoch(), revoked)


def test_a_request_is_read_as_it_was_written(request_for: SigningRequest) -> None:
    text = request_for.to_text()
    assert signing_requests.read(text) == request_for
    assert signing_requests.read(text).to_text() == text


def test_it_says_in_words_what_would_change(request_for: SigningRequest, cluster: Ceremonies) -> None:
    said = request_for.changes()
    assert request_for.about == "trust bundle 2 of cluster prod"
    assert any(line.startswith("adds config key sha256:") for line in said)
    assert {"announces epoch 2 instead of 1", "revokes node_ids n7"} <= set(said)
    assert not any("root" in line for line in said)


def test_it_travels_from_machine_to_machine(request_for: SigningRequest, cluster: Ceremonies) -> None:
    """Two of three roots, each on a machine of its own, in one round or side by side."""
    first, second, third = (cluster.keys[name] for name in cluster.of(ROOT))
    text = request_for.to_text()
    assert code(request_for.document) is Code.CONFLICT
    one = signing_requests.read(text).with_signature(first)
    two = signing_requests.read(text).with_signature(third)
    assert not one.is_complete()
    together = signing_requests.read(one.to_text()).merge(signing_requests.read(two.to_text()))
    assert together.is_complete()
    assert signing_requests.read(one.to_text()).with_signature(second).is_complete()
    cluster.accept(together)
    assert cluster.followed(cluster.joined()).bundle.authority_epoch == 2


def test_keys_that_are_not_asked_do_not_sign(request_for: SigningRequest, cluster: Ceremonies) -> None:
    """threats T15: a config key never signs a bundle."""
    assert code(request_for.with_signature, cluster.keys[cluster.config_key()]) is Code.CONTRADICTION
    assert code(request_for.with_signature, cluster.new_key()) is Code.CONTRADICTION


def test_signatures_that_do_not_verify_are_none(request_for: SigningRequest, cluster: Ceremonies) -> None:
    first, second, _ = cluster.of(ROOT)
    good = request_for.with_signature(cluster.keys[first])
    forged = json.loads(good.to_text())
    forged["signatures"][second] = forged["signatures"][first]
    assert not signing_requests.read(json.dumps(forged)).is_complete()
    assert signing_requests.read(json.dumps(forged)).with_signature(cluster.keys[second]).is_complete()


def test_requests_of_different_bundles_are_not_merged(request_for: SigningRequest, cluster: Ceremonies) -> None:
    assert code(request_for.merge, cluster.request()) is Code.CONFLICT


def test_a_recovery_is_asked_for_alike(cluster: Ceremonies) -> None:
    """rules S65, S87: by root keys, for one scope of one node."""
    made = signing_requests.for_recovery(cluster.containers[-1], "n1", "route_policy/a,b", WANTED, cluster.lifetime())
    assert made.about == "recovery of route_policy/a,b on n1 in cluster prod"
    assert "from version 9 to 7" in made.changes()[0]
    for name in cluster.of(ROOT)[:2]:
        made = signing_requests.read(made.to_text()).with_signature(cluster.keys[name])
    node = VerifierState("prod", "n1", roles=frozenset(ROLES), bundle=cluster.joined().bundle)
    verdict = verify(ChunkParts(made.document().chunks()), node, kind="recovery", now=cluster.now)
    assert isinstance(verdict, Verified)
    assert verdict.recovery == WANTED


def edited(text: str, *path: str, value: object) -> str:
    whole = json.loads(text)
    inner = whole
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return json.dumps(whole)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("about",), "trust bundle 2 of cluster other"),
        (("changes",), ["nothing of note"]),
        (("envelope", "config_version"), 3),
        (("envelope", "cluster_id"), "other"),
        (("envelope", "kind"), "recovery"),
        (("envelope", "content_length"), "many"),
        (("sections", "authority", "authority_epoch"), 9),
        (("sections", "thresholds", "root"), 1),
        (("manifest", "authority"), {"sha256": "0" * 64, "size": 3}),
        (("extends",), "bm9uZQ=="),
        (("extends",), "~"),
        (("holdfast_signing_request",), 2),
        (("more",), 1),
    ],
)
def test_a_file_that_shows_other_than_it_signs_is_refused(
    request_for: SigningRequest, path: tuple[str, ...], value: object
) -> None:
    """threats D-14: nobody signs what he was not shown."""
    text = request_for.to_text()
    assert code(signing_requests.read, edited(text, *path, value=value)) is Code.BAD_REQUEST
    assert signing_requests.read(text) == request_for


@examples(200)
@given(data=st.data())
def test_any_text_is_a_request_or_refused(data) -> None:
    """rules P6"""
    cluster = Ceremonies()
    text = cluster.request(RaiseEpoch()).to_text()
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    changed = text[:start] + data.draw(st.text(max_size=5)) + text[end:]
    try:
        found = signing_requests.read(changed)
    except Refused as refused:
        assert refused.code is Code.BAD_REQUEST
    else:
        assert found.changes() == ["announces epoch 2 instead of 1", "is good until 2028-03-04T16:00:00Z"]


DEEP = ("[" * 40 + "]" * 40, "[" * 100_000 + "]" * 100_000, '["]",' * 40 + "1" + ',"["]' * 40)


@pytest.mark.parametrize("inner", DEEP, ids=["deep", "very deep", "brackets in strings"])
def test_what_is_nested_too_deep_is_said_to_be(inner: str) -> None:
    """threats D-56: looked at before it is parsed, and whatever stands in strings"""
    with pytest.raises(Refused, match="nested too deep") as caught:
        signing_requests.read('{"holdfast_signing_request": 1, "envelope": {"a": ' + inner + "}}")
    assert caught.value.code is Code.BAD_REQUEST
