"""The state of the fleet: counts, spread, lag and names, never one boolean (rules J28, K30)."""

import pytest

from coordinator.base.refusal import Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.database.database import Database
from coordinator.fleet import fleet
from coordinator.fleet.fleet import FleetMember, assess, quantiles
from coordinator.fleet.member_report import MemberReport
from coordinator.membership import revocation
from coordinator.reports import heartbeats
from tests.coordinator import reports
from tests.coordinator.candidates import NOW, Candidate, admit, found, join, token_for
from tests.coordinator.publications import basis, document, publication, publish
from tests.coordinator.reports import heartbeat
from wire.operators.fleet_answers import Fleet

SETTINGS = CoordinatorSettings()


def report(node_id: str, version: int, *, seen: float = NOW, **other: object) -> MemberReport:
    values = {"state": "active", "mode": "normal", "head_grade": "fresh", "behind": False}
    return MemberReport(node_id, seen, active={"route_policy": (1, version)}, **{**values, **other})


def member(node_id: str, version: int = 5, **other: object) -> FleetMember:
    return FleetMember(node_id, **{"kind": "data", "published": {"route_policy": (1, version)}, **other})


def assessed(members, reports, **rejected: int) -> Fleet:
    return assess(members, {each.node_id: each for each in reports}, rejected, now=NOW, settings=SETTINGS)


def test_counts_spread_and_lag() -> None:
    members = [member(f"n{number}") for number in range(10)]
    reports = [report(f"n{number}", 5) for number in range(7)] + [report("n7", 3), report("n8", 1, state="degraded")]
    seen = assessed(members, reports, bad_token=3)
    assert seen.states == {"active": 8, "degraded": 1, "unseen": 1}
    assert seen.versions == {"route_policy": {"1.1": 1, "1.3": 1, "1.5": 7}}
    assert seen.lag_versions == {"p50": 0, "p90": 4, "p99": 4, "max": 4}
    assert seen.rejected_joins == {"bad_token": 3}
    assert [(each.node_id, each.reason) for each in seen.stragglers] == [
        ("n9", "unseen"), ("n7", "late: route_policy"), ("n8", "late: route_policy"),
    ]  # fmt: skip


def test_the_baseline_reports_a_shortfall() -> None:
    """rules J28, J18: data members that are not revoked."""
    members = [member("a"), member("b"), member("w", kind="witness"), member("r", revoked=True)]
    seen = assessed(members, [])
    assert (seen.members, seen.data_members, seen.baseline_shortfall) == (3, 2, 1)
    assert assessed([*members, member("c")], []).baseline_shortfall == 0
    assert seen.states["revoked"] == 1


def test_stragglers_by_name_and_reason() -> None:
    silent = report("silent", 5, seen=NOW - 91)
    late = report("just", 5, seen=NOW - 90)
    seen = assessed([member("silent"), member("just"), member("back")], [silent, late, report("back", 5, behind=True)])
    assert [(each.node_id, each.reason) for each in seen.stragglers] == [("silent", "silent"), ("back", "node_behind")]
    assert seen.states == {"active": 2, "silent": 1}
    many = assessed([member(f"n{number:03}") for number in range(80)], [])
    assert (len(many.stragglers), many.stragglers_total) == (50, 80)


def test_a_node_is_silent_by_its_own_interval(database: Database) -> None:
    """rules K30: what it says is how often it means to report; the coordinator's setting is for who says nothing"""
    found(database)
    for node_id, said in (("node-slow", {"interval_s": 300}), ("node-mute", {}), ("node-fast", {"interval_s": 5})):
        admit(database, node_id)
        heartbeats.record(database, [heartbeat(node_id, **said)], now=NOW)
    for after_s, silent in ((15, []), (16, ["fast"]), (91, ["fast", "mute"]), (901, ["fast", "mute", "slow"])):
        seen = fleet.observe(database, now=NOW + after_s, settings=SETTINGS)
        assert sorted(each.node_id for each in seen.stragglers if each.reason == "silent") == [
            f"node-{name}" for name in silent
        ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], {}),
        ([7], {"p50": 7, "p90": 7, "p99": 7, "max": 7}),
        (range(1, 101), {"p50": 50, "p90": 90, "p99": 99, "max": 100}),
        ([3, 1, 2], {"p50": 2, "p90": 3, "p99": 3, "max": 3}),
    ],
)
def test_quantiles_by_the_nearest_rank(values, expected) -> None:
    assert quantiles(values) == expected


def test_observed_in_the_database(database: Database) -> None:
    """rules J24: a node is seen after its join, a stranger never; what was refused is counted."""
    found(database)
    for node_id in ("node-a", "node-b", "node-r"):
        admit(database, node_id)
    revocation.revoke_node(database, "node-r", reason="", actor="root", now=NOW)
    publish(database, publication(basis(database), document("route_policy", 4, b"4")))
    heartbeats.record(database, [heartbeat("node-a"), heartbeat("node-b", {"qos_policy": 1})], now=NOW)
    with pytest.raises(Refused):
        join(database, Candidate("node-x"), token_for(database))
    seen = fleet.observe(database, now=NOW + 10, settings=SETTINGS)
    assert seen.states == {"active": 2, "revoked": 1}
    assert seen.versions == {"qos_policy": {"1.1": 1}, "route_policy": {"1.3": 1}}
    assert [(each.node_id, each.reason) for each in seen.stragglers] == [("node-a", "late: route_policy")]
    assert seen.lag_versions["max"] == 1
    assert seen.rejected_joins == {"unauthorized_peer": 1}
    assert seen.seconds_since_seen["max"] == 10


REFUSED = {
    "config_version": 4, "snapshot_id": "s", "reason": "validator_refused", "step": 12, "at": "2027-01-15T08:00:00Z",
}  # fmt: skip


@pytest.mark.parametrize(
    ("counters", "refused", "reason"),
    [
        ({"store_full": 1}, None, "late: route_policy, store_full"),
        ({"store_io": 1}, None, "late: route_policy, store_io"),
        ({"store_full": 1}, REFUSED, "late: route_policy, validator_refused"),
        ({"store_full": 0, "store_refusals": 3}, None, "late: route_policy"),
    ],
)
def test_whose_disk_is_full_is_named(database: Database, counters, refused, reason) -> None:
    """rules K30, L35"""
    found(database)
    admit(database, "node-a")
    publish(database, publication(basis(database), document("route_policy", 4, b"4")))
    scopes = {"route_policy": {**reports.scope(reports.mark(3)), "last_rejected": refused}}
    heartbeats.record(database, [heartbeat("node-a", scopes=scopes, counters=counters)], now=NOW)
    seen = fleet.observe(database, now=NOW + 10, settings=SETTINGS)
    assert [each.reason for each in seen.stragglers] == [reason]


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (REFUSED, "late: route_policy, validator_refused"),
        (REFUSED | {"config_version": 3}, "late: route_policy"),  # of another version than what is published
        (REFUSED | {"config_version": None}, "late: route_policy"),
        (None, "late: route_policy"),
    ],
)
def test_who_refused_what_is_published_is_named_with_its_reason(database: Database, refused, reason) -> None:
    """rules K30: the node says it in its report"""
    found(database)
    admit(database, "node-a")
    publish(database, publication(basis(database), document("route_policy", 4, b"4")))
    scopes = {"route_policy": {**reports.scope(reports.mark(3)), "last_rejected": refused}}
    heartbeats.record(database, [heartbeat("node-a", scopes=scopes)], now=NOW)
    seen = fleet.observe(database, now=NOW + 10, settings=SETTINGS)
    assert [each.reason for each in seen.stragglers] == [reason]
