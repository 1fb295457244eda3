"""rules J39: numbers out of range, or at odds with each other, are refused when they are loaded."""

from dataclasses import fields

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import DAY, CoordinatorSettings

RANGED = [each for each in fields(CoordinatorSettings) if "least" in each.metadata]


def test_the_defaults_hold() -> None:
    settings = CoordinatorSettings()
    assert settings.head_refresh_s == 900
    assert settings.key_rollout_s >= settings.snapshot_lifetime_s


@pytest.mark.parametrize("each", RANGED, ids=lambda each: each.name)
def test_a_number_out_of_its_range_is_refused_by_name(each) -> None:
    """rules J39"""
    for value in (each.metadata["least"] - 1, each.metadata["most"] + 1, "7", True, 1.5, None):
        with pytest.raises(Refused) as refused:
            CoordinatorSettings.from_mapping({each.name: value})
        assert refused.value.code is Code.INVALID_SETTINGS
        assert each.name in refused.value.detail


@pytest.mark.parametrize(
    "values",
    [
        {"head_lifetime_s": 899},
        {"snapshot_lifetime_s": DAY, "snapshot_refresh_s": DAY},
        {"snapshot_lifetime_s": 30 * DAY, "key_rollout_s": 29 * DAY},
        {"poll_after_s": 300, "head_lifetime_s": 20, "short_lifetimes": True},
        {"head_lifetime_s": DAY, "snapshot_lifetime_s": 3_600, "snapshot_refresh_s": 60},
        {"short_lifetimes": 1},
    ],
)
def test_numbers_at_odds_are_refused(values) -> None:
    """rules X22, J39"""
    with pytest.raises(Refused) as refused:
        CoordinatorSettings.from_mapping(values)
    assert refused.value.code is Code.INVALID_SETTINGS


def test_short_lifetimes_must_be_asked_for() -> None:
    settings = CoordinatorSettings.from_mapping({"head_lifetime_s": 20, "short_lifetimes": True})
    assert settings.head_lifetime_s == 20


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(Refused) as refused:
        CoordinatorSettings.from_mapping({"head_lifetime": 1800})
    assert "head_lifetime_s" in refused.value.remedy
