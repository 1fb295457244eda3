"""The members as an operator looks at them (rules K18, K30)."""

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.database.database import Database
from coordinator.fleet import fleet, roster
from coordinator.fleet.selection import Selection, labels_of
from coordinator.membership import revocation
from coordinator.publishing import declarations
from coordinator.reports import heartbeats
from tests.coordinator import candidates, copies, reports
from tests.coordinator.candidates import NOW
from tests.coordinator.publications import basis, document, publication, publish
from tests.coordinator.reports import heartbeat
from tests.fakes.cluster import Cluster
from wire.operators.fleet_answers import DocumentAudience, MemberPage

SETTINGS = CoordinatorSettings()
DECLARED = """
{kind: Node, id: node-a, spec: {labels: {rack: r1, zone: x}}}
---
{kind: Node, id: node-b, spec: {labels: {rack: r1}}}
"""
REFUSED = {
    "config_version": 4,
    "snapshot_id": "s",
    "reason": "validator_refused",
    "step": 12,
    "at": "2027-01-15T08:00:00Z",
}


@pytest.fixture
def members(database: Database) -> Database:
    """a has reported and is behind, b is revoked, c was never heard of, d is silent."""
    copies.made(database, "roster", fill)
    return database


def fill(database: Database) -> None:
    candidates.members(database, *(f"node-{name}" for name in "dcba"))
    declarations.apply(database, {"a.yaml": DECLARED}, actor="root", now=NOW)
    shared = Cluster().snapshot(subject_node_id="*", roles=("ingress",), organization_ids=("acme",))
    routes = document("route_policy", 4, b"4", subject="*", envelope=shared.envelope_bytes)
    publish(database, publication(basis(database), routes))
    said = {"route_policy": {**reports.scope(reports.mark(3)), "last_rejected": REFUSED}}
    heartbeats.record(database, [heartbeat("node-d")], now=NOW - 3_600)
    how = {"mode": "degraded", "state": "degraded", "roots_confirmed": False}
    heartbeats.record(database, [heartbeat("node-a", scopes=said, **how)], now=NOW)
    revocation.revoke_node(database, "node-b", reason="gone", actor="root", now=NOW)


def page(database: Database, which: Selection | None = None, **how: object) -> MemberPage:
    return roster.page(database, which or Selection(), **{"now": NOW + 5, "settings": SETTINGS, **how})


def names(of: MemberPage) -> list[str]:
    return [each.node_id.removeprefix("node-") for each in of.nodes]


def test_each_as_it_is(members: Database) -> None:
    """The same words that `fleet` has for it."""
    listed = page(members).nodes
    assert [(each.node_id, each.state, each.why) for each in listed] == [
        ("node-a", "degraded", "late: route_policy, validator_refused"),
        ("node-b", "revoked", ""),
        ("node-c", "unseen", "unseen"),
        ("node-d", "silent", "silent"),
    ]
    a, *_, c, d = listed
    assert (a.mode, a.head_grade, a.agent_version, a.reported_at) == ("degraded", "fresh", "0.1.0", NOW)
    assert (a.labels, a.certificate_expires_at > NOW) == ({"rack": "r1", "zone": "x"}, True)
    assert (c.mode, c.agent_version, c.reported_at, c.labels) == (None, None, None, {})
    assert d.last_seen == NOW - 3_600
    seen = fleet.observe(members, now=NOW + 5, settings=SETTINGS)
    assert {each.node_id: each.reason for each in seen.stragglers} == {
        each.node_id: each.why for each in listed if each.why
    }


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        (Selection(site_id="default"), "abcd"),
        (Selection(site_id="east"), ""),
        (Selection(labels={"rack": "r1"}), "ab"),
        (Selection(labels={"rack": "r1", "zone": "x"}), "a"),
        (Selection(labels={"rack": "r2"}), ""),
        (Selection(state="silent"), "d"),
        (Selection(state="degraded", labels={"rack": "r1"}), "a"),
    ],
)
def test_some_of_them(members: Database, which, expected) -> None:
    """And `fleet` counts the same ones."""
    assert "".join(names(page(members, which))) == expected
    counted = fleet.observe(members, now=NOW + 5, settings=SETTINGS, which=which)
    assert sum(counted.states.values()) == len(expected)
    assert counted.baseline_shortfall == 0, "a part of the cluster is not short of members"


def test_by_pages(members: Database) -> None:
    first = page(members, most=3)
    assert (names(first), first.next) == (["a", "b", "c"], "node-c")
    last = page(members, most=3, after="node-c")
    assert (names(last), last.next) == (["d"], None)
    assert (names(page(members, after="node-a0", most=2)), page(members, after="z").nodes) == (["b", "c"], ())
    few = page(members, Selection(labels={"rack": "r1"}), most=2)
    assert (names(few), few.next) == (["a", "b"], None)


def test_stragglers_by_pages(members: Database) -> None:
    all_of_them = fleet.observe(members, now=NOW + 5, settings=SETTINGS)
    second = fleet.observe(members, now=NOW + 5, settings=SETTINGS, named=slice(1, 2))
    assert second.stragglers == all_of_them.stragglers[1:2]
    assert second.stragglers_total == all_of_them.stragglers_total == 3


def test_one_in_whole(members: Database) -> None:
    one = roster.show(members, "node-a", now=NOW + 5, settings=SETTINGS)
    (scope,) = one.scopes
    assert (scope.scope, scope.published, scope.active) == ("route_policy", "1.4", "1.3")
    assert scope.made_for == DocumentAudience("*", ("ingress",), ("acme",))
    assert (scope.expires_at, scope.refused, scope.reason) == ("2027-01-22T08:00:00Z", 4, "validator_refused")
    assert (one.head, one.boot_id, one.interval_s, one.clock_synchronised, one.clock_offset_s) == (
        "1.2", "9d1f3f6e-boot", None, True, 0,
    )  # fmt: skip
    assert [(each.state, each.mode, each.until) for each in one.history] == [("degraded", "degraded", NOW + 5)]
    unheard = roster.show(members, "node-c", now=NOW, settings=SETTINGS)
    assert (unheard.scopes, unheard.history, unheard.head, unheard.clock_synchronised) == ((), (), None, None)
    assert (one.roots_confirmed, unheard.roots_confirmed) == (False, None)
    with pytest.raises(Refused) as caught:
        roster.show(members, "node-z", now=NOW, settings=SETTINGS)
    assert caught.value.code is Code.NOT_FOUND


def test_what_is_older_than_the_ring_is_no_history(members: Database) -> None:
    """A slot keeps what it was given last; after a long silence that is of an earlier round."""
    later = NOW + SETTINGS.heartbeat_history_slots * SETTINGS.heartbeat_history_slot_s
    assert roster.show(members, "node-a", now=later - 1, settings=SETTINGS).history != ()
    assert roster.show(members, "node-a", now=later + 1, settings=SETTINGS).history == ()


def test_a_label_is_a_name_and_a_value() -> None:
    assert labels_of(["rack=a=b", "zone="]) == {"rack": "a=b", "zone": ""}
    for wrong in (["rack"], ["a=b"] * 17):
        with pytest.raises(Refused):
            labels_of(wrong)
