"""`holdfastctl drill outage`, by files and by a coordinator; and what `apply` warns of."""

import pytest

from holdfast.ctl.socket import NOT_FOUND, REFUSED
from tests.holdfast.operator_lab import Lab, running

FABRIC = """
{kind: Organization, id: acme}
---
{kind: Node, id: gw-1, spec: {roles: [ingress, egress_service], organizations: [acme]}}
---
{kind: Service, id: web, spec: {organization: acme, runs_on: {nodes: [gw-1]}}}
---
{kind: Route, id: front, spec: {organization: acme, service: web}}
"""
POLICY = """
---
kind: DegradedModePolicy
id: a-day
spec: {allow: [continue_services, preserve_routes], max_duration_s: 86400}
"""
USAGE = 2


@pytest.fixture
def lab(tmp_path):
    """Without a coordinator."""
    (tmp_path / "fabric.yaml").write_text(FABRIC + POLICY)
    return Lab(tmp_path)


def test_by_files_alone(lab):
    told = lab.ctl("drill", "outage", "72h", "-f", lab.folder / "fabric.yaml")
    assert told.status == 0, told.err
    lines = [line.split(maxsplit=1) for line in told.out.splitlines()]
    assert told.out.startswith("an outage of 3 d that begins now\n")
    said = [" ".join(line[1].split()) for line in lines if line[0] == "gw-1"]
    assert said[0] == "30 min DEGRADED head_expired"
    assert "1 h 30 min no routes (front) degraded_limit" in said
    assert "1 d FENCED degraded_limit" in said
    assert "1 d no services (web) degraded_limit" in said
    assert told.out.endswith("fenced before its end, where nothing goes on: 1 of 1\n")


def test_for_scripts_with_a_restart(lab):
    told = lab.ctl("drill", "outage", "3d", "gw-1", "--restart-at", "90min", "-f", lab.folder, "--json").json
    assert (told["lasts_s"], told["restart_s"]) == (3 * 86_400, 5_400)
    (node,) = told["nodes"]
    assert (node["node_id"], node["basis"]) == ("gw-1", "declared")
    assert {"after_s": 5_400, "mode": "fenced", "cause": "unconfirmed_start"} in node["states"]
    stopped = {"after_s": 5_400, "what": "services", "names": ["web"], "reason": "unconfirmed_start"}
    assert stopped in node["stops"]


def test_what_cannot_be_foreseen(lab):
    files = "-f", lab.folder / "fabric.yaml"
    for span in ("72", "1y", "31d", "0s", "-1h"):
        assert lab.ctl("drill", "outage", span, *files).status == USAGE
    assert lab.ctl("drill", "outage", "1d", "nobody", *files).status == NOT_FOUND
    (lab.folder / "fabric.yaml").write_text(FABRIC.replace("web", "other", 1))
    refused = lab.ctl("drill", "outage", "1d", *files)
    assert (refused.status, "invalid_resources" in refused.err) == (REFUSED, True)


def test_apply_and_diff_warn_of_it_and_a_coordinator_foresees_it(tmp_path):
    """The state after the change is what counts."""
    with running(tmp_path) as lab:
        file = tmp_path / "fabric.yaml"
        file.write_text(FABRIC)
        warned = "warning: in an outage 1 of 1 nodes stop after 30 min (no DegradedModePolicy applies)"
        for command in (("apply", "--dry-run"), ("diff",), ("apply", "--yes")):
            done = lab.ctl(*command, "-f", file)
            assert done.status == 0, done.err
            assert done.err.startswith(warned), command
            assert "warning" not in done.out
        assert "warning" not in lab.ctl("apply", "-f", file).err, "nothing changes"
        file.write_text(FABRIC + POLICY)
        restart = "warning: in an outage 1 of 1 nodes stop at once after a restart (allow_unconfirmed_start is false"
        assert lab.ctl("apply", "-f", file, "--yes").err.startswith(restart)
        file.write_text(FABRIC + POLICY.replace("86400", "86400, allow_unconfirmed_start: true"))
        assert lab.ctl("apply", "-f", file, "--yes", "--json").json["warnings"] == []
        assert lab.ctl("drill", "outage", "1h", "--json").json["nodes"] == []
        assert lab.ctl("drill", "outage", "1h", "gw-1").status == NOT_FOUND
