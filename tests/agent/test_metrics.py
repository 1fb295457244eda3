"""The exposition, read back by the library's own parser."""

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from agent.local.metrics import Sample, exposition
from agent.services.services import Notified
from snapshot.degraded import Mode
from tests.agent.lab import NOW, Node, Periphery
from wire.endings import EndingThing

BEGUN = "2026-01-15T08:00:00Z"


def values(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_is_measured(periphery):
    periphery.route(3, {"routes": {}})
    told = {"web": Notified(4, {}, ok=False, detail="", at=0.0)}
    view = periphery.views.all()
    text = exposition(
        Sample(view, NOW, "degraded", Mode.DEGRADED, 0.25, told, {"joins_failed": 2}, relayed_bytes=7)
    ).decode()
    assert "holdfast_relayed_bytes 7.0" in text
    found = values(text)
    assert found["holdfast_generation",] == view.generation
    assert found["holdfast_store_filled_ratio",] == 0.25
    assert found["holdfast_state", "degraded"] == 1
    assert (found["holdfast_mode", "degraded"], found["holdfast_mode", "normal"]) == (1, 0)
    assert found["holdfast_head_age_seconds",] == 0, "dated a minute back, taken just now"
    assert found["holdfast_scope_version", "route_policy"] == 3
    assert found["holdfast_scope_grade", "fresh", "route_policy"] == 1
    assert (found["holdfast_service_told", "web"], found["holdfast_service_generation", "web"]) == (0, 4)
    assert found["holdfast_service_not_running", "web"] == 0
    assert found["holdfast_joins_failed_total",] == 2


def test_what_is_not_for_the_caller_is_counted_and_not_named(periphery):
    periphery.route(3, {"routes": {}})
    sample = Sample(periphery.views.all(), NOW, "active", Mode.NORMAL, 0.0, refused={"qos_policy": "expired"})
    whole, less = (
        values(exposition(replace(sample, sees=sees)).decode()) for sees in (lambda _: True, "route_policy".__eq__)
    )
    for found, hidden in ((whole, 0), (less, 3)):
        assert found["holdfast_scopes_hidden",] == hidden
        assert (found["holdfast_scopes", "fresh"], found["holdfast_scopes", "expired"]) == (3, 0)
        assert found["holdfast_scopes_refused",] == 1
        assert found["holdfast_scopes_expire_in_seconds",] > 0
    assert {key[-1] for key in less if key[0] == "holdfast_scope_version"} == {"route_policy"}
    assert ("holdfast_scope_refused", "expired", "qos_policy") in whole.keys() - less.keys()


def test_a_unit_that_did_not_run_is_seen(periphery):
    told = {"web": Notified(4, {}, ok=False, detail="not_running: web.service", at=0.0)}
    found = values(exposition(Sample(periphery.views.all(), NOW, "active", Mode.NORMAL, 0.0, told)).decode())
    assert (found["holdfast_service_told", "web"], found["holdfast_service_not_running", "web"]) == (0, 1)


def test_every_family_says_what_it_is(periphery):
    text = exposition(Sample(periphery.views.all(), NOW, "active", Mode.NORMAL, 0.0)).decode()
    families = list(text_string_to_metric_families(text))
    assert len(families) > 10
    assert all(family.documentation for family in families)


def test_a_node_without_a_head(tmp_path, cluster):
    with Node(tmp_path / "root", cluster) as node:
        (tmp_path / "run").mkdir()
        view = Periphery(node, tmp_path / "run").views.all()
        found = values(exposition(Sample(view, NOW, "unenrolled", Mode.FENCED, 0.0)).decode())
    assert ("holdfast_head_age_seconds",) not in found
    assert found["holdfast_state", "unenrolled"] == 1


def test_what_ends_stands_there_with_its_time(periphery):
    ends = [
        EndingThing("trust_bundle", "3", BEGUN, "2027-01-15T08:00:00Z", BEGUN, "soon", "", ""),
        EndingThing("node_certificate", "node-a", BEGUN, "2030-01-15T08:00:00Z", BEGUN, "fine", "", ""),
    ]
    found = values(exposition(Sample(periphery.views.all(), NOW, "active", Mode.NORMAL, 0.0, ends=ends)).decode())
    assert found["holdfast_expires_timestamp_seconds", "3", "trust_bundle"] == 1_800_000_000
    assert (found["holdfast_due", "3", "trust_bundle"], found["holdfast_due", "node-a", "node_certificate"]) == (1, 0)
