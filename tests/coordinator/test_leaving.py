"""Members that are taken out: drained, removed, removed by force; and nothing old that brings one back."""

import pytest

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.changes import records
from coordinator.changes.states import ChangeState, Step
from coordinator.database import audit_log, catalog
from coordinator.database.database import Database
from coordinator.declared import peers
from coordinator.fleet import fleet, roster
from coordinator.fleet.selection import Selection
from coordinator.membership import admission, leaving, membership, pin_sync, revocation
from coordinator.reports import heartbeats, last_seen
from coordinator.runtime import fleet_figures, fleet_metrics
from tests.coordinator import models, reports
from tests.coordinator.candidates import (
    NOW,
    Candidate,
    admit,
    contents,
    join,
    look_at,
    remove_node,
    token_for,
    verifier_of,
)
from tests.coordinator.publishing import HOUR, Press
from tests.coordinator.rollouts import RolloutFleet
from wire.operators.operator_answers import AllowlistEntry
from wire.peer import PinState

HOW = {"actor": "root", "now": NOW}
KEPT = ("nodes", "allowlist", "tombstones", "retired_certificates", "tokens", "cluster", "trust_bundles", "heads")
NEW = """
kind: Service
id: db
spec: {organization: acme, runs_on: {roles: [egress_service]}}
---
kind: Config
id: motd
spec: {to: {roles: [egress_service, ingress]}, files: {motd: {text: hello}}}
---
kind: EntryPolicy
id: office
spec: {organization: acme, networks: [192.0.2.0/24]}
---
kind: Route
id: back
spec: {organization: acme, service: web, match: {hosts: [db.example]}}
"""
WEB_9 = "kind: Service\nid: web\nspec: {organization: acme, runs_on: {nodes: [node-a]}, settings: {workers: 9}}"
WEB_GONE = "kind: Service\nid: web\nspec: {organization: acme, runs_on: {nodes: [node-z]}}"
NODE_Z = "kind: Node\nid: node-z\nspec: {roles: [egress_service], organizations: [acme]}"


@pytest.fixture
def press(database: Database) -> Press:
    return Press.published(database, "node-a", "node-b")


def refusal(act, *arguments: object, **options: object) -> Refused:
    with pytest.raises(Refused) as caught:
        act(*arguments, **options)
    return caught.value


def entry(database: Database, node_id: str = "node-a"):
    return next(each for each in catalog.nodes(database) if each.node_id == node_id)


# ---- draining


def test_draining_is_said_once_and_stays(press: Press) -> None:
    """rules J30: as often as one likes, over restarts, and back."""
    database = press.database
    assert leaving.drain(database, "node-a", actor="root", now=NOW) == NOW
    before = contents(database, "nodes")
    assert leaving.drain(database, "node-a", actor="root", now=NOW + 9) == NOW
    assert contents(database, "nodes") == before
    again = Database(database.url)  # as after a restart
    assert entry(again).draining_since == NOW and entry(again, "node-b").draining_since is None
    again.close()
    for _ in range(2):
        leaving.undrain(database, "node-a", actor="root", now=NOW)
        assert entry(database).draining_since is None
    assert [row.action for row in audit_log.read(database, most=4)] == ["undrain", "undrain", "drain", "drain"]


def test_who_is_draining_keeps_what_it_has_and_gets_nothing_new(press: Press) -> None:
    """rules J30: what it had is renewed, corrected and withdrawn; what it had not does not come."""
    held = {node_id: press.listing(node_id).keys() for node_id in ("node-a", "node-b")}
    for node_id in held:
        leaving.drain(press.database, node_id, actor="root", now=press.now)
    press.publish()
    assert {node_id: press.listing(node_id).keys() for node_id in held} == held
    admit(press.database, "node-z")
    press.apply("\n---\n".join((NEW, WEB_9, NODE_Z)))
    press.publish()
    assert press.section("service_assignment/web", "services", "node-a")["web"]["settings"] == {"workers": 9}
    assert {node_id: press.listing(node_id).keys() for node_id in held} == held
    assert press.section("route_policy", "entry_policies", "node-b") == {}
    routes = press.reader("node-b").follow().text("route_policy")
    assert b"front" in routes and b"back" not in routes
    assert {"service_assignment/db", "config/motd"} < press.listing("node-z").keys()
    press.now += 2 * 24 * HOUR
    press.publish()
    reader = press.reader().follow()
    assert reader.holder.bundle.version == 1 and press.head().scopes.keys() == held["node-a"]
    press.apply(WEB_GONE)
    press.publish()
    assert "service_assignment/web" not in press.listing()
    leaving.undrain(press.database, "node-a", actor="root", now=press.now)
    press.publish()
    assert {"service_assignment/db", "config/motd"} < press.listing().keys()


def test_what_was_applied_and_not_published_is_new(press: Press) -> None:
    """rules J30: what a change still keeps from it, it has not."""
    press.apply(NEW)
    leaving.drain(press.database, "node-a", actor="root", now=press.now)
    press.publish()
    assert not {"service_assignment/db", "config/motd"} & press.listing().keys()


def test_a_revocation_reaches_who_is_draining(press: Press) -> None:
    """rules J30, K54"""
    leaving.drain(press.database, "node-a", actor="root", now=press.now)
    revocation.revoke(press.database, "service_ids", "web", reason="gone", actor="root", now=press.now)
    press.publish()
    assert press.head().revocations.service_ids == {"web"}
    revocation.revoke_node(press.database, "node-a", reason="stolen", actor="root", now=press.now)
    assert refusal(leaving.drain, press.database, "node-a", **HOW).code is Code.REVOKED


def test_who_is_draining_is_a_peer_only_where_there_is_no_other() -> None:
    """rules J30, K1"""
    nodes = [models.Node(f"n{number}", roles=("core_mesh",), organizations=("acme",)) for number in range(6)]
    some = models.PeerPolicy("p", most=2)
    all_ = {node.id: models.entry(node.id) for node in nodes}
    gone = {**all_, "n1": models.replace(all_["n1"], keeps=frozenset())}
    before, after = (models.model(*nodes, some, members=members) for members in (all_, gone))
    chosen = {node.id: peers.chosen_ids(after, after.subjects[node.id]) for node in nodes}
    assert any("n1" in peers.chosen_ids(before, before.subjects[node.id]) for node in nodes)
    assert all(len(ids) == 2 and "n1" not in ids for ids in chosen.values())
    few = models.model(*nodes[:3], some, members={id_: gone[id_] for id_ in ("n0", "n1", "n2")})
    assert peers.chosen_ids(few, few.subjects["n0"]) == ("n1", "n2")


def test_draining_says_nothing_of_health_and_is_shown(cluster: Database) -> None:
    """rules J30: states and late nodes are as before; list, show, fleet and metrics say it beside them."""
    for node_id in ("node-a", "node-b"):
        admit(cluster, node_id)
    heartbeats.record(cluster, [reports.heartbeat("node-a"), reports.heartbeat("node-b")], now=NOW)
    how = {"now": NOW, "settings": CoordinatorSettings()}
    before = fleet.observe(cluster, **how)
    leaving.drain(cluster, "node-a", **HOW)
    after = fleet.observe(cluster, **how)
    assert (after.draining, after.draining_total) == (("node-a",), 1)
    same = ("members", "data_members", "baseline_shortfall", "states", "stragglers")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
    listed = {each.node_id: each for each in roster.page(cluster, Selection(), **how).nodes}
    assert (listed["node-a"].draining_since, listed["node-b"].draining_since) == (NOW, None)
    assert roster.show(cluster, "node-a", **how).draining_since == NOW
    figures = fleet_metrics.families(fleet_figures.figures(cluster, **how))
    assert {sample.value for each in figures for sample in each.samples if sample.name.endswith("draining")} == {1}


# ---- draining, and changes


def test_a_change_asks_nobody_who_is_draining(database: Database) -> None:
    """rules J30: no vote and no ring is its own; it is given the change once that is over."""
    fleet_ = RolloutFleet.of(database, 3)
    leaving.drain(database, "n0", actor="root", now=fleet_.now)
    fleet_.tell()
    started = fleet_.change(9)
    assert list(started.lines())[1] == "c-1: 1 node is draining: not asked, and given it once it is over"
    fleet_.look()
    assert fleet_.at(Step.OFFERED) == {"n1", "n2"} and fleet_.at(Step.HELD) == {"n0"}
    fleet_.tell()
    fleet_.report("n1", "n2", vote="accepted")
    for _ in range(8):
        fleet_.look()
        fleet_.tell()
        fleet_.report(*fleet_.ids)
        fleet_.wait(31, "n1", "n2")
    assert fleet_.record().state is ChangeState.DONE
    assert fleet_.at(Step.HELD) == set()
    assert "n0" in next(event.detail for event in fleet_.timeline() if event.what == "left_out")


def test_a_change_to_nobody_but_who_is_draining_is_over_at_once(database: Database) -> None:
    """rules J30: it is never `preparing` for ever, and says why nobody was asked."""
    fleet_ = RolloutFleet.of(database, 2)
    for node_id in fleet_.ids:
        leaving.drain(database, node_id, actor="root", now=fleet_.now)
    fleet_.tell()
    started = fleet_.change(9)
    assert list(started.lines())[1] == "c-1: all of them are draining: not asked, and given it once it is over"
    fleet_.look()
    assert fleet_.record().state is ChangeState.DONE
    assert fleet_.at(Step.HELD) == set()
    assert fleet_.timeline()[0].detail == "2 nodes held back, 2 of them draining"


def test_who_begins_to_drain_is_waited_for_no_more(database: Database) -> None:
    """rules J30: also in the middle of a vote; and who is not draining any more is asked."""
    fleet_ = RolloutFleet.of(database, 2)
    fleet_.change(9)
    fleet_.look()
    fleet_.tell()
    fleet_.report("n1", vote="accepted")
    fleet_.look()
    assert fleet_.at(Step.RELEASED) == set()
    leaving.drain(database, "n0", actor="root", now=fleet_.now)
    fleet_.look()
    fleet_.look()
    assert fleet_.at(Step.RELEASED) == {"n1"}
    leaving.undrain(database, "n0", actor="root", now=fleet_.now)
    fleet_.tell()
    fleet_.report("n0", vote="accepted")
    with database.read() as transaction:
        assert records.nodes_of(transaction, 1)[0].votes


# ---- removal


@pytest.mark.parametrize(
    ("node_id", "code"),
    [("node-x", Code.NOT_FOUND), ("node-b", Code.NOT_DRAINING), ("node-a", Code.HAS_DEPENDANTS)],
)
def test_who_may_not_be_removed_stays(press: Press, node_id: str, code: Code) -> None:
    """rules J31: a stranger, one that is not draining, one that others name; the answer names them."""
    leaving.drain(press.database, "node-a", actor="root", now=press.now)
    before = contents(press.database, *KEPT)
    refused = refusal(leaving.remove, press.database, node_id, reason="sold", **HOW)
    assert refused.code is code and node_id in refused.detail
    assert contents(press.database, *KEPT) == before
    if code is Code.HAS_DEPENDANTS:
        assert refused.lines == ("Service web names it in runs_on",)
    press.apply("\n---\n".join((WEB_GONE, NODE_Z)))
    leaving.remove(press.database, "node-a", reason="sold", **HOW)
    assert "node-a" not in {each.node_id for each in catalog.nodes(press.database)}


def test_whatever_depends_on_a_node_is_named(press: Press) -> None:
    """rules J31: by its name, as the mirror of somebody, and as the only one that runs something."""
    press.apply("kind: Service\nid: alone\nspec: {organization: acme, runs_on: {roles: [egress_service]}}")
    mirror = "kind: StorageEndpoint\nid: m\nspec: {url: 'https://m.example:1', node: node-b}"
    press.apply(f"{mirror}\n---\nkind: Node\nid: node-b\nspec: {{roles: [storage_config]}}")
    press.apply("kind: RolloutPolicy\nid: r\nspec: {rings: [{nodes: 1, of: {nodes: [node-a]}}, {percent: 100}]}")
    with press.database.read() as transaction:
        model = catalog.load(transaction)
    assert list(leaving.dependants(model, "node-a")) == [
        "RolloutPolicy r names it in rings",
        "Service web names it in runs_on",
        "Service alone runs on no other member",
    ]
    assert list(leaving.dependants(model, "node-b")) == ["StorageEndpoint m names it in node"]


# ---- removal by force


def test_by_force_with_root_keys_and_a_reason(press: Press) -> None:
    """rules J32, P12: one that runs what nothing else does; the epoch is raised in the same transaction, audited."""
    bundle = press.bundles.next(epoch=2)
    leaving.remove_by_force(press.database, "node-a", bundle, reason="it does as it likes", **HOW)
    with press.database.read() as transaction:
        assert "node-a" not in catalog.load(transaction).members
        assert refusal(admission.check_entry, transaction, AllowlistEntry("node-a")).code is Code.REMOVED
    (row,) = audit_log.read(press.database, most=9, action="remove.force")
    assert row.after == {"reason": "it does as it likes", "authority_epoch": 2}
    assert row.actor == "root" and row.before == {"kind": "data", "dependants": 1}
    press.publish()
    assert press.reader("node-b").follow().holder.bundle.authority_epoch == 2


@pytest.mark.parametrize("fault", ["same epoch", "one root", "stranger"])
def test_without_its_permission_nobody_goes_by_force(press: Press, fault: str) -> None:
    """rules J32, P12: fewer root keys, a bundle that raises nothing, somebody unknown: nothing is changed."""
    options = {"same epoch": {}, "one root": {"epoch": 2, "roots": press.bundles.roots[:1]}, "stranger": {"epoch": 2}}
    bundle = press.bundles.next(**options[fault])
    who = "node-x" if fault == "stranger" else "node-a"
    before = contents(press.database, *KEPT, "audit")
    refused = refusal(leaving.remove_by_force, press.database, who, bundle, reason="now", **HOW)
    assert refused.code in (Code.CONTRADICTION, Code.CONFLICT, Code.NOT_FOUND)
    assert contents(press.database, *KEPT, "audit") == before
    press.bundles.version, press.bundles.epoch = 1, 1
    leaving.remove_by_force(press.database, "node-a", press.bundles.next(epoch=2), reason="now", **HOW)


# ---- nothing old brings an id back


def test_a_late_report_and_a_late_request_bring_nobody_back(cluster: Database) -> None:
    """rules K43, P17: what was on its way when the node was removed."""
    admit(cluster, "node-a")
    remove_node(cluster, "node-a", reason="sold", **HOW)
    before = contents(cluster, *KEPT, "node_status", "head_requests", "events")
    heartbeats.record(cluster, [reports.heartbeat("node-a")], now=NOW + 1)
    last_seen.record(cluster, {"node-a": NOW + 1})
    assert contents(cluster, *KEPT, "node_status", "head_requests", "events") == before


def test_a_token_and_an_entry_of_before_bring_nobody_back(cluster: Database) -> None:
    """rules K43, P29: bound, open and for many; with the old key and with a new one."""
    node = admit(cluster, "node-a")
    several = admission.MultiUse(9, "node-*")
    tokens = [token_for(cluster, "node-a"), token_for(cluster), token_for(cluster, several=several)]
    remove_node(cluster, "node-a", reason="sold", **HOW)
    for token in tokens:
        for candidate in (node, node.renewed()):
            assert refusal(join, cluster, candidate, token).code is Code.REMOVED
    assert refusal(admission.allow, cluster, AllowlistEntry("node-a"), **HOW).code is Code.REMOVED
    revocation.readmit(cluster, AllowlistEntry("node-a"), **HOW)
    assert refusal(join, cluster, node, tokens[0]).code is Code.TOKEN_REVOKED


def test_a_renewed_certificate_brings_nobody_back(cluster: Database) -> None:
    """rules K43, P29: both pins of a renewal that was under way are out, under this name and another."""
    node = admit(cluster, "node-a")
    renewed = node.renewed()
    assert join(cluster, renewed, connection=node.pin).outcome == "already_member"
    remove_node(cluster, "node-a", reason="sold", **HOW)
    assert membership.confirm_pin(cluster, renewed.pin, now=NOW) is False
    for each in (node, renewed):
        other = Candidate("node-b", key=each.key, der=each.der)
        admission.allow(cluster, AllowlistEntry("node-b"), **HOW)
        assert refusal(join, cluster, other, token_for(cluster)).code is Code.REMOVED
        assert refusal(join, cluster, each, connection=node.pin).code is Code.REMOVED
    assert {pin.state for pin in pin_sync.read(cluster, ["node-a"])["node-a"]} == {PinState.REMOVED}


def test_a_lagging_replica_brings_nobody_back(cluster: Database, second: Database) -> None:
    """rules K43, P17: what it has read before is not what it writes from."""
    if cluster.is_sqlite:
        pytest.skip("of a SQLite file there is one coordinator")
    node = admit(cluster, "node-a")
    admit(cluster, "node-b")
    with second.read() as transaction:
        assert "node-a" in catalog.load(transaction).members
    seen = look_at(second, node.renewed().request(connection=node.pin))
    foreseen = membership.foresee(second, [seen])
    remove_node(cluster, "node-a", reason="sold", **HOW)
    late = node.renewed().request(connection=node.pin, verifier=verifier_of(second))
    assert [each.code for each in membership.join(second, [late], foreseen, now=NOW)] == [Code.REMOVED]
    assert refusal(leaving.undrain, second, "node-a", **HOW).code is Code.NOT_FOUND
    leaving.drain(second, "node-b", **HOW)
    with second.read() as transaction:
        assert catalog.load(transaction).members.keys() == {"node-b"}


def test_a_declaration_brings_nobody_back(press: Press) -> None:
    """rules K43, J17: an apply of last week's files declares the node, and it stays out."""
    remove_node(press.database, "node-b", reason="sold", actor="root", now=press.now)
    press.apply("kind: Node\nid: node-b\nspec: {roles: [ingress], organizations: [acme], labels: {x: y}}")
    press.publish()
    with press.database.read() as transaction:
        assert catalog.load(transaction).members.keys() == {"node-a"}
    assert refusal(join, press.database, Candidate("node-b"), token_for(press.database)).code is Code.REMOVED
