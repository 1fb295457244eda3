"""`holdfastctl render`: what files would give a node, with no coordinator anywhere."""

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast.ctl.render import render
from holdfast.ctl.socket import NOT_FOUND, REFUSED

DECLARED = """
{kind: Node, id: edge-1, spec: {labels: {app: edge}}}
---
{kind: Node, id: core-1, spec: {roles: [core_mesh]}}
---
kind: Config
id: web
spec:
  to: {labels: {app: edge}}
  files:
    nginx.conf: {file: nginx/nginx.conf}
    conf.d/upstreams.json: {json: {web: ["10.0.0.1:80"]}}
    bin/run: {text: "#!/bin/sh\\n", mode: "0755"}
    motd: {text: "${node.id} at ${node.site}\\n", template: true}
    id.json: {text: '["${node.id}"]', template: true, schema: ids.schema.json}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "fabric"
    (made / "nginx").mkdir(parents=True)
    (made / "state.yaml").write_text(DECLARED)
    (made / "ids.schema.json").write_text('{"items": {"type": "string"}}')
    (made / "nginx" / "nginx.conf").write_bytes(b"worker_processes 1;\xff\n")
    return made


def run(place: Path, *words: object) -> Result:
    return CliRunner().invoke(render, [*map(str, words), "-f", str(place)])


def test_everything_is_written_as_the_node_would_have_it(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "edge-1"
    done = run(place, "edge-1", "--out", out)
    assert done.exit_code == 0, done.output
    web = out / "config" / "web"
    assert (web / "nginx.conf").read_bytes() == b"worker_processes 1;\xff\n"
    assert (web / "conf.d" / "upstreams.json").read_text() == '{"web":["10.0.0.1:80"]}'
    assert (web / "motd").read_text() == "edge-1 at default\n"
    assert (web / "id.json").read_text() == '["edge-1"]'
    assert stat.S_IMODE((web / "bin" / "run").stat().st_mode) == 0o755
    assert json.loads((out / "node_runtime" / "node.json").read_text())["labels"] == {"app": "edge"}


def test_of_one_config_the_texts_are_shown(place: Path) -> None:
    done = run(place, "edge-1", "web")
    assert done.exit_code == 0
    assert "edge-1 at default" in done.output
    assert "worker_processes" not in done.output, "it is no text"
    assert "nginx.conf" in done.output


def test_as_json(place: Path) -> None:
    found = json.loads(run(place, "edge-1", "web", "--json").output)
    assert [each["name"] for each in found["files"]] == [
        "bin/run", "conf.d/upstreams.json", "id.json", "motd", "nginx.conf"
    ]  # fmt: skip
    assert {each["scope"] for each in found["files"]} == {"config/web"}


def test_who_is_given_nothing(place: Path) -> None:
    refused = run(place, "core-1", "web")
    assert (refused.exit_code, "is for core-1" in refused.output) == (NOT_FOUND, True)
    stranger = run(place, "edge-9")
    assert (stranger.exit_code, "no Node edge-9 is declared" in stranger.output) == (NOT_FOUND, True)


def test_nothing_is_written_over(place: Path, tmp_path: Path) -> None:
    done = run(place, "edge-1", "--out", tmp_path)
    assert (done.exit_code, "is there already" in done.output) == (REFUSED, True)


def test_what_is_wrong_is_said_as_apply_says_it(place: Path) -> None:
    (place / "state.yaml").write_text(DECLARED.replace("${node.site}", "${node.labels.tier}"))
    done = run(place, "edge-1")
    assert done.exit_code == REFUSED
    assert "edge-1 has no label tier, which the template asks for" in done.output
