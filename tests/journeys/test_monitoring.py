"""What the alerts, the dashboard and the page count on is what both daemons export, and the page's commands answer."""

import json
import re
import urllib.request
from contextlib import closing

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.holdfast.operator_lab import Lab
from tests.journeys.gateway import Gateway, declare
from tests.journeys.test_documented_answers import Unix
from tests.packaging.test_monitoring import DASHBOARD, PAGE, RULES

_NAME = re.compile(r"\bholdfast_[a-z_]+[a-z]\b")


def exported(text: str) -> set[str]:
    """As the families name themselves: one without a sample yet is there, too."""
    names = set()
    for family in text_string_to_metric_families(text):
        names.add(f"{family.name}_total" if family.type == "counter" else family.name)
    return names


def scraped(lab: Lab) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{lab.ports['probes']}/metrics", timeout=60) as answer:
        return answer.read().decode()


def asked_of(node: Gateway) -> str:
    with closing(Unix(node.folder / "run" / "agent.sock")) as connection:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()


def used() -> dict[str, set[str]]:
    """Where -> the metrics that it names."""
    rules = " ".join(rule["expr"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"])
    panels = json.loads(DASHBOARD.read_text())["panels"]
    dashboard = " ".join(target["expr"] for panel in panels for target in panel.get("targets", []))
    page = re.sub(r"`holdfast_fleet_\.\.\.`", "", PAGE.read_text())
    return {"rules": {*_NAME.findall(rules)}, "dashboard": {*_NAME.findall(dashboard)}, "page": {*_NAME.findall(page)}}


def value(text: str, name: str, **labels: str) -> float:
    (found,) = (
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    )
    return found


def test_what_is_watched_is_exported_and_true(lab: Lab, gateway: Gateway):
    """rules J46, K30: one node that is as it should be, one that never came; nothing is named that is not there."""
    declare(lab, 8081)
    for node_id in ("gateway", "gw-1"):
        lab.good("allow", "add", node_id)
    lab.good("tokens", "create", "--node", "gateway", "--out", gateway.folder / "join.token")
    assert value(scraped(lab), "holdfast_fleet_members", kind="data") == 0
    gateway.start()
    gateway.until(lambda: gateway.status["state"] == "active")
    gateway.until(lambda: lab.ctl("fleet").status == 0)
    gateway.until(lambda: value(scraped(lab), "holdfast_fleet_nodes", state="active") == 1)
    text = scraped(lab)
    there = exported(text) | exported(asked_of(gateway))
    for where, names in used().items():
        assert len(names) > 10 and names - there == set(), where
    assert value(text, "holdfast_fleet_members", kind="data") == 1
    assert value(text, "holdfast_fleet_modes", mode="normal") == value(text, "holdfast_fleet_heads", grade="fresh") == 1
    assert value(text, "holdfast_fleet_stragglers", reason="late") == 0
    assert value(text, "holdfast_fleet_head_expiry_timestamp_seconds") > 1_700_000_000
    (block,) = re.findall(r"(?:^    holdfastctl .*\n)+", PAGE.read_text(), re.MULTILINE)
    for line in block.splitlines():
        command = line.split()[1:]
        node_id = [word.replace("gw-1", "gateway") for word in command]
        assert lab.ctl(*node_id).status == 0, line
    shown = lab.good("nodes", "show", "gateway").out
    assert re.search(r"^agent +\d+\.", shown, re.MULTILINE) and "active" in shown
