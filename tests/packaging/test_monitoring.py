"""The alert rules and the dashboard that the package brings: read by Prometheus' own tool, and of one piece.

That they use nothing but what the daemons export: tests/journeys/test_monitoring.py.
"""

import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path

import pytest
import yaml

from tests.citations import ROOT

FOLDER = ROOT / "packaging" / "monitoring"
RULES = FOLDER / "holdfast.rules.yml"
DASHBOARD = FOLDER / "holdfast.dashboard.json"
PAGE = ROOT / "docs" / "monitoring.md"

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="NO PROMTOOL, SO NO ALERT IS TRIED: apt-get install prometheus"
)


def promtool(*arguments: object) -> None:
    ran = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def rules() -> list[dict]:
    groups = yaml.load(RULES.read_text(), Loader=yaml.CSafeLoader)["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict]:
    return json.loads(DASHBOARD.read_text())["panels"]


@needs_promtool
def test_the_rules_are_rules() -> None:
    promtool("check", "rules", RULES)


def test_every_rule_says_how_bad_it_is_and_what_is_so() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical"), rule
        assert rule["annotations"]["summary"], rule
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)


def test_the_page_tells_of_each_alert_and_of_no_other() -> None:
    told = set(re.findall(r"Holdfast[A-Z]\w+", PAGE.read_text()))
    assert told == {rule["alert"] for rule in rules()}


COORDINATOR = 'instance="c1", job="holdfast-coordinator"'
AGENT = 'instance="a1", job="holdfast-agent"'
# Alert -> (series, its values each minute, when it is asked, the labels that it fires with; None: it does not).
FIRING = [
    ("HoldfastCoordinatorDown", f"up{{{COORDINATOR}}}", "1x5 0x20", "4m", None),
    ("HoldfastCoordinatorDown", f"up{{{COORDINATOR}}}", "1x5 0x20", "20m", {"job": "holdfast-coordinator"}),
    ("HoldfastCoordinatorNotReady", "holdfast_coordinator_ready", "0x20", "10m", {}),
    ("HoldfastNothingPublished", 'holdfast_coordinator_unpublishable{reason="no_signer"}', "1x20", "10m",
     {"reason": "no_signer"}),
    ("HoldfastNodesUnpublishable", "holdfast_coordinator_unpublishable_nodes", "3x40", "30m", {}),
    ("HoldfastHeadsOverdue", "holdfast_fleet_head_refresh_timestamp_seconds", "0x60", "40m", {}),
    ("HoldfastHeadsOverdue", "holdfast_fleet_head_refresh_timestamp_seconds", "0+60x60", "40m", None),
    ("HoldfastHeadExpires", "holdfast_fleet_head_expiry_timestamp_seconds", "900x60", "40m", {}),
    ("HoldfastHeadExpires", "holdfast_fleet_head_expiry_timestamp_seconds", "900+60x60", "40m", None),
    ("HoldfastEndsSoon", 'holdfast_coordinator_due{what="trust_bundle", name="1"}', "1x60", "40m",
     {"what": "trust_bundle", "name": "1"}),
    ("HoldfastEndsSoon", 'holdfast_coordinator_due{what="trust_bundle", name="1"}', "0x60", "40m", None),
    ("HoldfastHasEnded", 'holdfast_coordinator_due{what="backup", name="1"}', "2x60", "1m",
     {"what": "backup", "name": "1"}),
    ("HoldfastAlarm", 'holdfast_coordinator_alarms_total{name="node_ahead"}', "_x20 1x5", "21m",
     {"name": "node_ahead"}),
    ("HoldfastAlarm", 'holdfast_coordinator_alarms_total{name="node_ahead"}', "1x60", "40m", None),
    ("HoldfastAlarm", 'holdfast_coordinator_alarms_total{name="node_ahead"}', "1x20 2x5", "22m",
     {"name": "node_ahead"}),
    ("HoldfastDatabaseFaults", "holdfast_coordinator_database_faults_total", "0x5 3x20", "8m", {}),
    ("HoldfastChangeHalted", 'holdfast_coordinator_changes{state="halted"}', "1x20", "10m", {"state": "halted"}),
    ("HoldfastChangeHalted", 'holdfast_coordinator_changes{state="rolling"}', "1x20", "10m", None),
    ("HoldfastChangeHalted", 'holdfast_coordinator_changes{state="halted"}', "1x3 0x20", "10m", None),
    ("HoldfastChangeStalled", "holdfast_coordinator_change_due_timestamp_seconds", "0x60", "40m", {}),
    ("HoldfastChangeStalled", "holdfast_coordinator_change_due_timestamp_seconds", "0+60x60", "40m", None),
    ("HoldfastChangeStalled", "holdfast_coordinator_change_due_timestamp_seconds", "0x10 _x60", "40m", None),
    ("HoldfastApprovalWaits", 'holdfast_coordinator_change_oldest_timestamp_seconds{state="proposed"}', "0x90", "70m",
     {"state": "proposed"}),
    ("HoldfastApprovalWaits", 'holdfast_coordinator_change_oldest_timestamp_seconds{state="proposed"}', "0x90", "50m",
     None),
    ("HoldfastApprovalWaits", 'holdfast_coordinator_change_oldest_timestamp_seconds{state="halted"}', "0x90", "70m",
     None),
    ("HoldfastNodesFenced", 'holdfast_fleet_nodes{state="fenced"}', "2x20", "10m", {"state": "fenced"}),
    ("HoldfastNodesDegraded", 'holdfast_fleet_nodes{state="degraded"}', "2x40", "30m", {"state": "degraded"}),
    ("HoldfastNodesSilent", 'holdfast_fleet_nodes{state="silent"}', "1x40", "30m", {"state": "silent"}),
    ("HoldfastNodesSilent", 'holdfast_fleet_nodes{state="active"}', "1x40", "30m", None),
    ("HoldfastNodesLate", 'holdfast_fleet_stragglers{reason="late"}', "1x90", "50m", None),
    ("HoldfastNodesLate", 'holdfast_fleet_stragglers{reason="late"}', "1x90", "70m", {"reason": "late"}),
    ("HoldfastNodesRestored", 'holdfast_fleet_stragglers{reason="node_behind"}', "1x40", "30m",
     {"reason": "node_behind"}),
    ("HoldfastRefused", "holdfast_coordinator_refusing_nodes", "1x40", "30m", {}),
    ("HoldfastRefusedRunsOut", "holdfast_coordinator_refusing_expires_in_seconds", "3600x40", "30m", {}),
    ("HoldfastBaselineShortfall", "holdfast_fleet_baseline_shortfall", "1x40", "30m", {}),
    ("HoldfastJoinsRefused", 'holdfast_fleet_joins_refused_total{instance="c1", code="bad_token"}', "0+1x60", "60m",
     {"instance": "c1"}),
    ("HoldfastJoinsRefused", 'holdfast_fleet_joins_refused_total{instance="c1", code="bad_token"}', "5x60", "60m",
     None),
    ("HoldfastAgentDown", f"up{{{AGENT}}}", "0x20", "10m", {"job": "holdfast-agent", "instance": "a1"}),
    ("HoldfastNodeFenced", 'holdfast_mode{mode="fenced"}', "1x20", "10m", {"mode": "fenced"}),
    ("HoldfastNodeHeadExpired", "holdfast_head_expires_in_seconds", "-5x20", "10m", {}),
    ("HoldfastScopeExpires", "holdfast_scopes_expire_in_seconds", "3600x40", "30m", {}),
    ("HoldfastServiceNotTold", 'holdfast_service_told{service="web"}', "0x40", "30m", {"service": "web"}),
    ("HoldfastDocumentsRefused", "holdfast_documents_rejected_total", "0x5 1x20", "8m", {}),
    ("HoldfastStoreFills", "holdfast_store_filled_ratio", "0.95x40", "30m", {}),
    ("HoldfastNodeEnds", 'holdfast_due{what="certificate", name="node"}', "1x40", "30m",
     {"what": "certificate", "name": "node"}),
]  # fmt: skip


def labels_of(series: str) -> dict[str, str]:
    return dict(re.findall(r'(\w+)="([^"]*)"', series))


def tried(alert: str, series: str, values: str, at: str, fires_with: dict | None) -> dict:
    """One test of `promtool test rules`."""
    (rule,) = (rule for rule in rules() if rule["alert"] == alert)
    expected = []
    if fires_with is not None:
        labels = {**labels_of(series), **fires_with, "severity": rule["labels"]["severity"]}
        if "sum by (instance)" in rule["expr"]:
            labels = {name: labels[name] for name in ("instance", "severity")}
        expected = [{"exp_labels": labels}]
    return {
        "interval": "1m",
        "input_series": [{"series": series, "values": values}],
        "alert_rule_test": [{"eval_time": at, "alertname": alert, "exp_alerts": expected}],
    }


@needs_promtool
def test_each_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    bare = yaml.load(RULES.read_text(), Loader=yaml.CSafeLoader)
    for group in bare["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]  # their text is no matter of when it fires
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(bare))
    cases = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [tried(*each) for each in FIRING]}
    (tmp_path / "cases.yml").write_text(yaml.safe_dump(cases))
    promtool("test", "rules", tmp_path / "cases.yml")


def test_each_alert_is_tried() -> None:
    assert {alert for alert, *_, fires_with in FIRING if fires_with is not None} == {rule["alert"] for rule in rules()}


@needs_promtool
def test_what_the_dashboard_asks_is_promql(tmp_path: Path) -> None:
    asked = [target["expr"] for panel in panels() for target in panel.get("targets", [])]
    assert len(asked) > 20
    recorded = [{"record": f"asked:{number}", "expr": expr} for number, expr in enumerate(asked)]
    (tmp_path / "asked.yml").write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": recorded}]}))
    promtool("check", "rules", tmp_path / "asked.yml")


@needs_promtool
def test_the_scrape_configuration_of_the_page_is_taken(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    named = yaml.safe_load(block)["rule_files"]
    assert [Path(each).name for each in named] == [RULES.name]
    (tmp_path / "prometheus.yml").write_text(block.replace(named[0], str(RULES)))
    promtool("check", "config", tmp_path / "prometheus.yml")


def test_the_dashboard_is_as_grafana_imports_it() -> None:
    """Grafana is not in Debian: its form is held here. Panels have ids of their own and do not overlap; each asks the
    data source that is chosen above.
    """
    whole = json.loads(DASHBOARD.read_text())
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time"} <= whole.keys()
    (chosen,) = whole["templating"]["list"]
    assert (chosen["name"], chosen["type"], chosen["query"]) == ("datasource", "datasource", "prometheus")
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)
    for panel in panels():
        place = panel["gridPos"]
        assert place["w"] > 0 and place["h"] > 0 and 0 <= place["x"] <= 24 - place["w"], panel["title"]
        for target in panel.get("targets", []):
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert [(one["title"], other["title"]) for one, other in combinations(panels(), 2) if _overlap(one, other)] == []


def _overlap(one: dict, other: dict) -> bool:
    a, b = one["gridPos"], other["gridPos"]
    return all(a[at] < b[at] + b[size] and b[at] < a[at] + a[size] for at, size in (("x", "w"), ("y", "h")))


def test_the_package_brings_both() -> None:
    installed = (ROOT / "packaging/deb/holdfast-coordinator.install").read_text()
    folder = "usr/share/holdfast-coordinator/monitoring"
    assert f"/{folder}/{RULES.name}" in PAGE.read_text()
    for path in (RULES, DASHBOARD):
        assert f"{path.relative_to(ROOT)} {folder}\n" in installed
