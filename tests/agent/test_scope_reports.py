"""What is said of each scope, as the messages' own forms take it."""

from collections.abc import Collection

from agent.services.scope_reports import scope_reports
from agent.services.services import Notified
from agent.state.view import Views
from snapshot.identifiers import HEAD
from store.base.records import ProbationTerms, Rejection
from tests.agent.lab import DAY, NOW, Cluster, Node
from tests.store.cluster import BOOT
from wire.messages import Reverted, ScopeReport


def reports(periphery, listed: Collection[str] | None = None, **told: Notified) -> dict[str, ScopeReport]:
    found = scope_reports(periphery.views, periphery.views.all(), listed, told, NOW)
    assert all(ScopeReport.parse(one.to_bytes()) == one for one in found.values())
    return found


def test_active_previous_pending_and_told(periphery):
    """rules S30: epoch, version and content hash of each scope."""
    periphery.route(1, {"routes": {}})
    periphery.route(2, {"routes": {"b": {}}})
    waiting = periphery.node.cluster.snapshot(3, {"routes": {}}, valid_from=NOW + 60, refresh_after=NOW + DAY)
    periphery.node.download(waiting).wait(NOW + 60)
    view = periphery.views.all()
    told = Notified(view.generation, {"route_policy": view.scopes["route_policy"].identity}, ok=True, detail="", at=NOW)
    found = reports(periphery, web=told)["route_policy"]
    assert (found.active.config_version, found.active.authority_epoch, found.active.grade) == (2, 1, "fresh")
    assert found.active.content_hash == periphery.node.store.active("route_policy").content_hash
    assert (found.previous.config_version, found.pending.config_version) == (1, 3)
    assert (found.notified["web"].version, found.notified["web"].ok) == (2, True)
    assert found.last_rejected is None


def test_what_was_refused_before_anything_came(periphery):
    """A refused document's claims stand there only where they are in form."""
    store = periphery.node.store
    store.rejections.record(Rejection(NOW, "qos_policy", "bad_signature", 5, False, "", "UPPER CASE", 0))
    found = reports(periphery)["qos_policy"]
    assert (found.active, found.previous, found.pending) == (None, None, None)
    assert (found.last_rejected.reason, found.last_rejected.step) == ("bad_signature", 5)
    assert (found.last_rejected.snapshot_id, found.last_rejected.config_version) == (None, None)


def test_what_was_refused_is_forgotten_once_the_head_does_not_list_it(periphery):
    """rules S3, A7: a withdrawn scope is not missing; without a head nobody knows yet what is to be held"""
    periphery.node.store.rejections.record(Rejection(NOW, "qos_policy", "validator_refused", 12, True))
    assert "qos_policy" in reports(periphery)
    assert "qos_policy" in reports(periphery, {"qos_policy", "route_policy"})
    assert reports(periphery, {"route_policy"}).keys() == {"trust_bundle", "node_bootstrap"}


def test_the_head_is_reported_apart(periphery):
    """But for one that was refused since the held one came: the next that is taken ends it."""
    store, cluster = periphery.node.store, periphery.node.cluster
    assert reports(periphery).keys() == {"trust_bundle", "node_bootstrap"}
    store.rejections.record(Rejection(NOW - 5, HEAD, "unknown_key", 5, False))
    assert HEAD not in reports(periphery, ()), "the one that is held came later"
    store.rejections.record(Rejection(NOW + 5, HEAD, "bad_container", 2, False))
    report = reports(periphery, ())[HEAD]
    assert (report.active, report.last_rejected.reason) == (None, "bad_container")
    periphery.node.apply(cluster.head(2), now=NOW + 6)
    assert HEAD not in reports(periphery, ())


def test_a_head_that_was_refused_before_one_came(tmp_path):
    with Node(tmp_path / "root", Cluster()) as node:
        node.store.rejections.record(Rejection(NOW, HEAD, "unknown_key", 5, False))
        found = scope_reports(views := Views(node.store), views.all(), None, {}, NOW)
    assert found[HEAD].last_rejected.reason == "unknown_key"


def test_tried_and_went_back_is_no_never_got_it(periphery):
    """rules S30: what is on probation, what was taken back and by which check, and what is good"""
    cluster, store = periphery.node.cluster, periphery.node.store
    periphery.route(1, {"routes": {}})
    assert reports(periphery)["route_policy"].good == store.active("route_policy").content_hash
    tried = periphery.node.verified(cluster.snapshot(2, {"routes": {"b": {}}}))
    store.activate(tried, now=NOW, boot=BOOT, probations={"route_policy": ProbationTerms(60.0)})
    found = reports(periphery)["route_policy"]
    assert found.probation_until == NOW + 60
    assert (found.good, found.attempted, found.reverted) == (found.previous.content_hash, None, None)
    store.revert("route_policy", check="web", detail="exit 1", now=NOW + 5)
    found = reports(periphery)["route_policy"]
    assert (found.active.config_version, found.good) == (1, found.active.content_hash)
    assert (found.attempted.config_version, found.attempted.snapshot_id) == (2, tried.envelope.snapshot_id)
    assert found.reverted == Reverted(2, tried.content_hash, "web", "exit 1", NOW + 5)
    assert found.probation_until is None
    periphery.route(3, {"routes": {}})
    assert reports(periphery)["route_policy"].attempted.config_version == 2, "a renewal changes nothing of it"
    periphery.route(4, {"routes": {"c": {}}})
    found = reports(periphery)["route_policy"]
    assert (found.attempted, found.reverted) == (None, None)


def test_with_nothing_to_go_back_to_it_runs_what_failed(periphery):
    tried = periphery.node.verified(periphery.node.cluster.snapshot(1, {"routes": {}}))
    periphery.node.store.activate(tried, now=NOW, boot=BOOT, probations={"route_policy": ProbationTerms(60.0)})
    periphery.node.store.revert("route_policy", check="web", detail="", now=NOW + 5)
    found = reports(periphery)["route_policy"]
    assert (found.active.config_version, found.good, found.attempted) == (1, None, None)
    assert found.reverted.content_hash == found.active.content_hash
