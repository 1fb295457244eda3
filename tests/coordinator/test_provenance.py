"""From where nodes have what they run, and who hands it on, as they say it (rules S70)."""

import pytest

from coordinator.base.refusal import Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.fleet import fleet, roster
from coordinator.fleet.provenance import GivenBy, NodeProvenance, came_from, overview, relay_of
from coordinator.reports import heartbeats
from snapshot import canonical
from tests.coordinator import reports
from tests.coordinator.candidates import NOW, admit, found
from tests.coordinator.publications import basis, document, publication, publish
from tests.coordinator.reports import heartbeat
from tests.fakes.cluster import Cluster
from wire.messages import RelayCondition
from wire.operators.fleet_answers import CameBy

SETTINGS = CoordinatorSettings()
RELAY = {"for_nodes": ["node-a"], "heads": 1, "documents": 2, "bytes": 3_000, "most_bytes": 9_000, "is_relay": True}


def origin(way: str | None = "relay", node_id: str | None = "node-r", **other: object) -> dict[str, object]:
    given = {"snapshot_id": "doc-3", "source": "https://r:7447", "kind": "snapshot", "way": way, "node_id": node_id}
    return {name: value for name, value in {**given, **other}.items() if value is not None}


def scope(version: int = 3, **origins: object) -> dict[str, object]:
    return {**reports.scope(reports.mark(version)), **origins}


def test_of_one_node() -> None:
    """What is not active is not counted; what an agent does not say is unknown, and what is out of form too"""
    scopes = {
        "route_policy": scope(origin=origin()),
        "qos_policy": scope(origin=origin("coordinator", None)),
        "egress_policy": scope(origin=origin()),
        "older": scope(origin=origin(None, None)),
        "before": scope(),
        "odd": scope(origin={"way": "relay"}),
        "later": scope(origin=origin("satellite", None)),
        "gone": {**reports.scope(None), "origin": origin()},
    }
    assert {giver.words: count for giver, count in came_from(scopes).items()} == {
        "coordinator": 1, "relay node-r": 2, "unknown": 3, "other": 1,
    }  # fmt: skip
    assert relay_of({"relay": RELAY}) == RelayCondition(("node-a",), 1, 2, 3_000, 9_000, is_relay=True)
    assert relay_of({}) is relay_of({"relay": {"heads": 1}}) is None


def test_of_a_fleet() -> None:
    """By way, in a fixed order; the relay from which most have something comes first"""
    small, big = relay_of({"relay": RELAY}), relay_of({"relay": {**RELAY, "documents": 7}})
    by_big = {GivenBy("relay", "big"): 2, GivenBy("coordinator"): 1}
    nodes = [
        NodeProvenance("a", "ulm", by_big, None),
        NodeProvenance("b", "ulm", by_big, None),
        NodeProvenance("c", "ulm", {GivenBy("peer", "small"): 1}, None),
        NodeProvenance("small", "ulm", {GivenBy("coordinator"): 3}, small),
        NodeProvenance("big", "bonn", {}, big),
    ]
    ways, relays = overview(nodes)
    assert ways == (CameBy("coordinator", 5, 3), CameBy("peer", 1, 1), CameBy("relay", 4, 2))
    assert [(each.node_id, each.site_id, each.taken_by, each.keeps.documents) for each in relays] == [
        ("big", "bonn", 2, 7), ("small", "ulm", 1, 2),
    ]  # fmt: skip


def test_as_operators_are_told(database) -> None:
    """rules K30: whence, who relays, and who is behind: by how many versions, and since the first that is missing"""
    found(database)
    for node_id in ("node-a", "node-r"):
        admit(database, node_id)
    envelope = Cluster().snapshot().envelope_bytes
    for number, after_s in ((4, 0), (5, 60), (6, 100)):
        routes = document("route_policy", number, b"%d" % number, envelope=envelope)
        publish(database, publication(basis(database), routes), now=NOW + after_s)
    said = {"scopes": {"route_policy": scope(4, origin=origin())}}
    told = [heartbeat("node-a", **said), heartbeat("node-r", relay=RELAY)]
    heartbeats.record(database, told, now=NOW + 160)
    seen = fleet.observe(database, now=NOW + 160, settings=SETTINGS)
    (late,) = [each for each in seen.stragglers if each.node_id == "node-a"]
    assert (late.reason, late.versions_behind, late.behind_s) == ("late: route_policy", 2, 100)
    assert seen.came_from == (CameBy("relay", 1, 1), CameBy("unknown", 1, 1))
    assert [(each.node_id, each.taken_by) for each in seen.relays] == [("node-r", 1)]
    assert seen.relays_total == 1
    a = roster.show(database, "node-a", now=NOW + 160, settings=SETTINGS)
    (listed,) = a.scopes
    assert (a.came_from, a.versions_behind) == ({"relay node-r": 1}, 2)
    assert (listed.versions_behind, listed.behind_s, listed.origin.node_id) == (2, 100, "node-r")
    r = roster.show(database, "node-r", now=NOW + 160, settings=SETTINGS)
    assert r.relay == relay_of({"relay": RELAY})


@pytest.mark.parametrize(
    "members",
    [
        {"relay": {**RELAY, "for_nodes": ["node-a"] * 1025}},
        {"relay": {**RELAY, "for_nodes": ["\x1b[2J"]}},
        {"relay": {**RELAY, "bytes": -1}},
        {"scopes": {"route_policy": scope(origin=origin("carrier pigeon"))}},
        {"scopes": {"route_policy": scope(origin=origin(source="https://r:7447\x07"))}},
        {"scopes": {"route_policy": scope(origin=origin(node_id="../r"))}},
    ],
)
def test_what_is_out_of_form_is_no_report(members) -> None:
    """rules K53, S70: bounded, and free of control characters"""
    with pytest.raises(Refused):
        heartbeat("node-a", **members)
    assert canonical.dumps(reports.value("node-a", relay=RELAY)), "and the next one in form is read"
    assert heartbeat("node-a", relay=RELAY).node_id == "node-a"
