"""The numbers that a coordinator keeps, each with its range, refused when out of it (rules J39)."""

import difflib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

from coordinator.base.refusal import Code, Refused
from wire.forms import BOOLEAN, integer

MINUTE, HOUR, DAY = 60, 3_600, 86_400
CLOCK_SKEW_S = 300  # fixed by format.md 7


def _number(default: int, least: int, most: int, about: str) -> int:
    return field(default=default, metadata={"least": least, "most": most, "about": about})


@dataclass(frozen=True)
class CoordinatorSettings:
    """Units stand in the names; docs/configuration.md says what each is for."""

    poll_after_s: int = _number(15, 5, 300, "how long a node waits between head requests that are not held")
    heartbeat_interval_s: int = _number(30, 5, 300, "the interval of a node whose report does not say its own")
    head_lifetime_s: int = _number(1_800, 10, DAY, "the grace time: a node without a fresh head is degraded")
    short_lifetimes: bool = field(default=False, metadata={"about": "allow a head lifetime under 900 s"})
    snapshot_lifetime_s: int = _number(7 * DAY, HOUR, 30 * DAY, "how long a snapshot authorises")
    snapshot_refresh_s: int = _number(DAY, MINUTE, 30 * DAY, "when a snapshot is issued again")
    trust_bundle_lifetime_s: int = _number(365 * DAY, 7 * DAY, 730 * DAY, "how long a trust bundle holds")
    key_rollout_s: int = _number(30 * DAY, DAY, 365 * DAY, "how long a retiring key stays in the bundle")
    token_lifetime_s: int = _number(DAY, 10 * MINUTE, 7 * DAY, "how long a join token can be used")
    nonce_lifetime_s: int = _number(60, 10, 300, "how long the nonce of a join is good")
    joins_per_minute: int = _number(10, 1, 10_000, "join attempts for each source address")
    increment_history_s: int = _number(7 * DAY, HOUR, 30 * DAY, "how far back increments are kept")
    increment_history_versions: int = _number(64, 1, 1_024, "and how many versions of a scope")
    baseline_data_members: int = _number(3, 1, 1_000, "data members that a healthy cluster has")
    heartbeat_bytes: int = _number(1 << 20, 4 << 10, 4 << 20, "largest heartbeat")
    heartbeat_history_slots: int = _number(48, 1, 1_000, "past states kept for each node")
    heartbeat_history_slot_s: int = _number(300, 30, DAY, "the time that one past state stands for")
    event_history_s: int = _number(30 * DAY, DAY, 365 * DAY, "how long reported events are kept")
    audit_history_s: int = _number(
        365 * DAY, 30 * DAY, 3_650 * DAY, "how long audit rows are kept, and changes that are over"
    )
    keep_secrets: bool = field(
        default=True,
        metadata={"about": "keep the seed and keys that come from others over a restart; else in memory alone"},
    )
    guarded_changes: bool = field(
        default=True, metadata={"about": "nodes vote on a change and get it in rings; else all get it at once"}
    )
    local_request_s: int = _number(15, 1, 300, "limit for an operator's request; `apply` and `publish` take longer")
    backup_age_s: int = _number(7 * DAY, 0, 365 * DAY, "how old the newest backup may be; 0 where others watch that")
    trim_window_s: int = _number(30 * DAY, 8 * DAY, 365 * DAY, "how long nobody may have seen a member that stays one")
    trim_members: bool = field(
        default=True, metadata={"about": "remove members that nobody has seen for so long; else they are only named"}
    )
    store_polling_s: int = _number(5, 1, 300, "how often the store is polled for changes of others")
    storage_check_s: int = _number(
        600, 10, DAY, "how often a store that is kept up to date is listed, for what was lost or changed there"
    )
    database_away_s: int = _number(
        DAY, 0, 3 * DAY, "how long the last heads are signed again as they are while the database is away; 0: never"
    )

    def __post_init__(self) -> None:
        problems = [problem for field in fields(self) for problem in _out_of_range(field, self)]
        problems += _at_odds(self)
        if problems:
            raise Refused(Code.INVALID_SETTINGS, "; ".join(problems))

    @property
    def head_refresh_s(self) -> int:
        """When a head is issued again, in seconds after its issue: at half."""
        return self.head_lifetime_s // 2

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> "CoordinatorSettings":
        """From a configuration table. An unknown key is an error that names the nearest known one (protocol 5)."""
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                remedy = f"did you mean {near[0]}?" if near else "see the list of settings"
                raise Refused(Code.INVALID_SETTINGS, f"{name} is not a setting", remedy=remedy)
        return cls(**values)  # type: ignore[arg-type]  # each value's type is judged in __post_init__


def _out_of_range(each: "Field[Any]", settings: CoordinatorSettings) -> list[str]:
    value = getattr(settings, each.name)
    if each.type is bool or each.type == "bool":
        return [] if BOOLEAN.takes(value) else [f"{each.name} must be true or false"]
    least, most = each.metadata["least"], each.metadata["most"]
    if integer(least, most).takes(value):
        return []
    if type(value) is int:
        return [f"{each.name} is {value}, but must be {least} to {most}"]
    return [f"{each.name} must be an integer from {least} to {most}"]


def _at_odds(settings: CoordinatorSettings) -> list[str]:
    if any(type(getattr(settings, field.name)) not in (int, bool) for field in fields(settings)):
        return []
    rules = [
        (
            settings.short_lifetimes or settings.head_lifetime_s >= 900,
            "head_lifetime_s under 900 needs short_lifetimes = true",
        ),
        (
            settings.short_lifetimes or settings.head_lifetime_s - settings.head_refresh_s >= CLOCK_SKEW_S,
            f"head_lifetime_s less its half must leave {CLOCK_SKEW_S} s for clocks that differ",
        ),
        (
            settings.snapshot_refresh_s < settings.snapshot_lifetime_s,
            "snapshot_refresh_s must be below snapshot_lifetime_s",
        ),
        (
            settings.key_rollout_s >= settings.snapshot_lifetime_s,
            "key_rollout_s must be at least snapshot_lifetime_s",
        ),
        (
            settings.head_lifetime_s <= settings.snapshot_lifetime_s,
            "head_lifetime_s must not exceed snapshot_lifetime_s",
        ),
        (
            settings.trim_window_s >= settings.snapshot_lifetime_s + CLOCK_SKEW_S,
            f"trim_window_s must be at least snapshot_lifetime_s and {CLOCK_SKEW_S} s for clocks that differ",
        ),
        (
            settings.audit_history_s >= settings.trim_window_s,
            "audit_history_s must be at least trim_window_s: what a trim has taken is counted from it",
        ),
        (settings.poll_after_s <= settings.head_lifetime_s, "poll_after_s must not exceed head_lifetime_s"),
    ]
    return [text for holds, text in rules if not holds]
