"""What is said of each scope, as the messages' own forms take it."""

from agent.scope_reports import scope_reports
from agent.services import Notified
from store.records import Rejection
from tests.agent.lab import DAY, NOW
from wire.messages import ScopeReport


def reports(periphery, **told: Notified) -> dict[str, ScopeReport]:
    found = scope_reports(periphery.views, periphery.views.all(), told, NOW)
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


def test_the_head_is_reported_apart(periphery):
    assert reports(periphery).keys() == {"trust_bundle", "node_bootstrap"}
