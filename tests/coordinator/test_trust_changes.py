"""Wishes as JSON: closed, each of its form (rules X14)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.base.refusal import Code, Refused
from coordinator.trust import trust_changes
from coordinator.trust.bundle_content import CONFIG_SCOPES
from coordinator.trust.ceremony import Add, RaiseEpoch, Remove, Restore, Retire, Revoke, Threshold
from snapshot.bundle import CONFIG, ROOT
from tests.fakes.cluster import NOW, key

KEY = "sha256:" + "ab" * 32
ONE = key("wishes")


def test_every_wish_is_read() -> None:
    given = [
        trust_changes.add(
            CONFIG, ONE.algorithm, ONE.public_key, not_after="2030-01-01T00:00:00Z", scope_types=["head"]
        ),
        trust_changes.add(ROOT, ONE.algorithm, ONE.public_key),
        {"wish": "retire", "key_id": KEY},
        {"wish": "retire", "key_id": KEY, "early": True},
        {"wish": "remove", "key_id": KEY},
        {"wish": "revoke", "key_id": KEY},
        {"wish": "threshold", "purpose": "root", "number": 2},
        {"wish": "raise_epoch"},
        {"wish": "raise_epoch", "to": 9},
        {"wish": "restore", "category": "node_ids", "value": "n1"},
    ]
    config, root, *rest = trust_changes.parse(given, NOW)
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
        [trust_changes.add(ROOT, "hmac", ONE.public_key)],
        [trust_changes.add(ROOT, "ed25519", ONE.public_key, not_after="tomorrow")],
        [{"wish": "raise_epoch"}] * 65,
    ],
)
def test_what_is_no_wish_is_refused(value: object) -> None:
    with pytest.raises(Refused) as caught:
        trust_changes.parse(value, NOW)
    assert caught.value.code is Code.BAD_REQUEST


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
)


@given(st.lists(st.dictionaries(st.sampled_from(["wish", "key_id", "to", "purpose", "number"]), JSON, max_size=4)))
def test_anything_else_is_wishes_or_refused(value: list) -> None:
    """rules P6"""
    try:
        trust_changes.parse(value, NOW)
    except Refused as refused:
        assert refused.code is Code.BAD_REQUEST
