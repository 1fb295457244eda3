"""Files for any program, as an operator declares them and a node has them: the shipped programs as processes.

A folder of files is applied, compiled, signed, fetched and verified; then one byte of it changes.
"""

import json
from http import HTTPStatus
from pathlib import Path

import httpx
import pytest

from tests.fakes.binary import random_bytes
from tests.holdfast.operator_lab import UNGUARDED, Lab, Ran
from tests.journeys.gateway import FABRIC, Gateway, until_published

MIB = 1 << 20
LABELLED = "{{roles: [ingress], organizations: [acme]}}"
FOLDER = """\
kind: Config
id: edge
spec:
  organization: acme
  to: {labels: {app: edge}}
  files:
    geo/db.bin: {file: data/db.bin, mode: "0640"}
    motd: {text: "${node.id} runs ${node.labels.app}\\n", template: true}
    upstreams.json: {json: {web: ["10.0.0.1:80"]}, schema: upstreams.schema.json}
    app.conf: {text: "workers 1\\n"}
"""
SCHEMA = {"type": "object", "additionalProperties": {"type": "array", "items": {"pattern": "^[0-9.]+:[0-9]+$"}}}


@pytest.fixture
def settings() -> str:
    return UNGUARDED


def write(lab: Lab, database: bytes) -> Path:
    """The declared folder, with files beside the YAML."""
    folder = lab.folder / "declared"
    (folder / "data").mkdir(parents=True, exist_ok=True)
    labelled = LABELLED.replace("}}", ", labels: {{app: edge}}}}", 1)
    assert LABELLED in FABRIC
    (folder / "fabric.yaml").write_text(FABRIC.replace(LABELLED, labelled, 1).format(port=8081))
    (folder / "edge.yaml").write_text(FOLDER)
    (folder / "upstreams.schema.json").write_text(json.dumps(SCHEMA))
    (folder / "data" / "db.bin").write_bytes(database)
    return folder


def ask(gateway: Gateway, *segments: str) -> httpx.Response:
    """A question to the local API, as a service asks it: bytes come back as they are."""
    transport = httpx.HTTPTransport(
        uds=str(gateway.folder / "run" / "agent.sock"), verify=False
    )  # no TLS; else each question would read every CA
    with httpx.Client(transport=transport, base_url="http://localhost", timeout=60) as client:
        return client.get("/v1/scopes/config%2Fedge" + "".join(f"/{each}" for each in segments))


def held(gateway: Gateway) -> dict[str, bytes]:
    """The files that the node has active, by path, put together from their sections; nothing while it has none."""
    index = ask(gateway, "sections", "files")
    if index.status_code != HTTPStatus.OK:
        return {}
    found = {path: [ask(gateway, "sections", name) for name in each["sections"]] for path, each in index.json().items()}
    return {path: b"".join(part.content for part in parts) for path, parts in found.items()}


def projected(gateway: Gateway) -> dict[str, bytes]:
    """The same as a program reads them: from one generation of files, which stays for a while after the next."""
    place = (gateway.folder / "run" / "active" / "config" / "edge").resolve()
    return {str(each.relative_to(place)): each.read_bytes() for each in place.rglob("*") if each.is_file()}


def explained(lab: Lab, *words: str) -> Ran:
    return lab.good("explain", "gateway", "config/edge", *words)


def test_files_reach_a_node_and_change_by_the_part(lab: Lab, gateway: Gateway) -> None:
    """rules S69, S71: what is declared is what the node has, bit for bit; and what is refused changes nothing."""
    database = bytearray(random_bytes(3 * MIB))
    folder = write(lab, bytes(database))
    applied = lab.good("apply", "-f", folder, "--yes")
    assert "+ Config edge" in applied.out
    gateway.join(8081)
    gateway.until(lambda: "geo/db.bin" in held(gateway))
    rendered_before = rendered(lab, folder)
    assert held(gateway) == rendered_before
    assert held(gateway)["geo/db.bin"] == bytes(database)
    assert held(gateway)["motd"] == b"gateway runs edge\n"
    gateway.until(lambda: projected(gateway) == rendered_before)

    sources = {each["entry"]: each["because"] for each in json.loads(explained(lab, "--json").out)["entries"]}
    assert sources["geo/db.bin"].startswith("file data/db.bin; ")

    database[MIB] ^= 1
    folder = write(lab, bytes(database))
    shown = lab.good("diff", "-f", folder)
    assert "~ geo/db.bin: 3145728 bytes" in shown.out
    lab.good("apply", "-f", folder, "--yes")
    until_published(lab)
    gateway.until(lambda: held(gateway).get("geo/db.bin") == bytes(database))
    gateway.until(lambda: projected(gateway).get("geo/db.bin") == bytes(database))

    (folder / "edge.yaml").write_text(FOLDER.replace("10.0.0.1:80", "nowhere"))
    refused = lab.ctl("apply", "-f", folder, "--yes")
    assert refused.status != 0
    assert "spec.files.upstreams.json.json.web[0]" in refused.err
    (folder / "data" / "db.bin").write_bytes(b"x\n" + b"ghp_" + b"a1B2" * 9)
    (folder / "edge.yaml").write_text(FOLDER)
    refused = lab.ctl("apply", "-f", folder, "--yes")
    assert "line 2" in refused.err
    assert "a1B2" not in refused.err
    assert held(gateway)["geo/db.bin"] == bytes(database)

    (folder / "edge.yaml").unlink()
    lab.good("apply", "-f", folder, "--prune", "--yes")
    gateway.until(lambda: not held(gateway))


def rendered(lab: Lab, folder: Path) -> dict[str, bytes]:
    """What `render` says that the node would have."""
    out = lab.folder / "rendered"
    lab.good("render", "gateway", "edge", "-f", folder, "--out", out)
    place = out / "config" / "edge"
    return {str(each.relative_to(place)): each.read_bytes() for each in place.rglob("*") if each.is_file()}
