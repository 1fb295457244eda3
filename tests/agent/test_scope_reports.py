"""What is said of each scope, as the messages' own forms take it."""

from collections.abc import Collection

from agent.services.scope_reports import scope_reports
from agent.services.services import Notified
from agent.state.view import Views
from snapshot.identifiers import HEAD
from store.base.records import Rejection
from tests.agent.lab import DAY, NOW, Cluster, Node
from wire.messages import ScopeReport


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
