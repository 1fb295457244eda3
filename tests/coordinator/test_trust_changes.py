"""Wishes: closed, each of its form, and what the coordinator makes of them (rules X14)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.trust import trust_changes
from coordinator.trust.bundle_content import CONFIG_SCOPES
from coordinator.trust.ceremony import Add, RaiseEpoch, Remove, Restore, Retire, Revoke, Threshold
from snapshot.bundle import CONFIG, ROOT
from snapshot.identifiers import parse_time
from tests.fakes.cluster import NOW, key
from wire.messages import BadMessageError
from wire.operators.trust_messages import (
    AddWish,
    BundleDraftRequest,
    EpochWish,
    RemoveWish,
    RestoreWish,
    RetireWish,
    RevokeWish,
    ThresholdWish,
)

KEY = "sha256:" + "ab" * 32
ONE = key("wishes")


def read(wishes: object) -> BundleDraftRequest:
    return BundleDraftRequest.parse(json.dumps({"wishes": wishes}).encode())


def test_every_wish_is_read() -> None:
    end = parse_time("2030-01-01T00:00:00Z")
    said = BundleDraftRequest(
        (
            AddWish(CONFIG, ONE.algorithm, ONE.public_key, end, ("head",)),
            AddWish(ROOT, ONE.algorithm, ONE.public_key),
            RetireWish(KEY),
            RetireWish(KEY, early=True),
            RemoveWish(KEY),
            RevokeWish(KEY),
            ThresholdWish("root", 2),
            EpochWish(),
            EpochWish(9),
            RestoreWish("node_ids", "n1"),
        )
    )
    received = BundleDraftRequest.parse(said.to_bytes())
    assert received == said
    config, root, *rest = trust_changes.wishes_of(received, NOW)
    assert isinstance(config, Add)
    assert isinstance(root, Add)
    assert (config.key.key_id, config.not_after, config.scope_types) == (ONE.key_id, 1_893_456_000, ("head",))
    assert (root.purpose, root.scope_types) == (ROOT, CONFIG_SCOPES)
    assert root.not_after == NOW + trust_changes.DEFAULT_LIFETIME_S[ROOT]
    assert rest == [
        Retire(KEY),
        Retire(KEY, early=True),
        Remove(KEY),
        Revoke(KEY),
        Threshold(ROOT, 2),
        RaiseEpoch(),
        RaiseEpoch(9),
        Restore("node_ids", "n1"),
    ]


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        [{}],
        ["retire"],
        [{"wish": "carry"}],
        [{"wish": "retire"}],
        [{"wish": "retire", "key_id": "ab"}],
        [{"wish": "retire", "key_id": KEY, "early": "no"}],
        [{"wish": "retire", "key_id": KEY, "more": 1}],
        [{"wish": "threshold", "purpose": "root", "number": 0}],
        [{"wish": "threshold", "purpose": "node", "number": 1}],
        [{"wish": "threshold", "purpose": "root", "number": True}],
        [{"wish": "raise_epoch", "to": "2"}],
        [{"wish": "add", "purpose": "root", "algorithm": "ed25519", "public_key": "~"}],
        [{"wish": "add", "purpose": "root", "algorithm": "hmac", "public_key": "AAAA"}],
        [{"wish": "add", "purpose": "root", "algorithm": "ed25519", "public_key": "AAAA", "not_after": "tomorrow"}],
        [{"wish": "raise_epoch"}] * 65,
    ],
)
def test_what_is_no_wish_is_refused(value: object) -> None:
    with pytest.raises(BadMessageError):
        read(value)


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"key_id": KEY}, r"wishes\[0\] must be an object with a member wish"),
        (
            {"wish": "carry"},
            r"wishes\[0\].wish must be one of add, retire, remove, revoke, threshold, raise_epoch, rest",
        ),
        ({"wish": "retire"}, r"wishes\[0\] lacks key_id"),
        (
            {"wish": "retire", "key_id": KEY, "now": 1},
            r"wishes\[0\] has a member that is unknown: it may have early, k",
        ),
    ],
)
def test_what_is_wrong_with_a_wish_is_named(wish: object, said: str) -> None:
    with pytest.raises(BadMessageError, match=said):
        read([wish])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
)


@given(st.lists(st.dictionaries(st.sampled_from(["wish", "key_id", "to", "purpose", "number"]), JSON, max_size=4)))
def test_anything_else_is_wishes_or_refused(value: list) -> None:
    """rules P6"""
    try:
        assert len(trust_changes.wishes_of(read(value), NOW)) == len(value)
    except BadMessageError as error:
        assert "wishes" in str(error) or "not JSON" in str(error)
