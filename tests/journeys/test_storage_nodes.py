"""A node that keeps what coordinators publish feeds others once the coordinator is gone, though another store fails."""

import json
import re
from pathlib import Path

import pytest

from tests.fakes.storage import own_address
from tests.holdfast.operator_lab import UNGUARDED
from tests.journeys.gateway import FABRIC, Gateway, until_published
from tests.world.ports import free_ports

STORES = """\
---
kind: Node
id: depot
spec: {{roles: [storage_config]}}
---
kind: StorageEndpoint
id: depot
spec: {{url: "{url}", node: depot, certificates: ["{certificate}"]}}
---
kind: StorageEndpoint
id: broken
spec: {{url: "https://broken.example:443", system_roots: true}}
---
kind: DegradedModePolicy
id: stored
spec: {{allow: [continue_services, use_storage_endpoints], allow_unconfirmed_start: true}}
"""

BROKEN = """
[storage.broken]
bucket = "http://127.0.0.1:1/holdfast"
credentials = "/dev/null"
"""


@pytest.fixture
def settings() -> str:
    return f"{UNGUARDED}\nstore_polling_s = 1\n{BROKEN}"


@pytest.fixture
def depot(lab, tmp_path: Path):
    made = Gateway(tmp_path / "depot", lab, node_id="depot")
    yield made
    made.kill()


def declare(lab, port: int, url: str, certificate: str) -> None:
    fabric = FABRIC.format(port=port).rpartition("---\nkind: DegradedModePolicy")[0]
    (lab.folder / "fabric.yaml").write_text(fabric + STORES.format(url=url, certificate=certificate))
    lab.good("apply", "-f", lab.folder / "fabric.yaml", "--yes")


def standing(lab) -> dict[str, dict]:
    return {store["id"]: store for store in json.loads(lab.ctl("storage", "--json").out)["stores"]}


def test_a_storage_node_feeds_a_node_whose_coordinator_is_gone(lab, gateway, depot):
    """rules S2, L19, S64, X1: published there by itself over mutual TLS; the store that fails holds up nothing"""
    (port,) = free_ports(1)
    url = f"https://{own_address()}:{port}"
    writer = re.search(r"-----BEGIN.*-----END CERTIFICATE-----", certificate_of(lab), re.DOTALL)[0]
    with (depot.folder / "agent.toml").open("a") as file:
        file.write(f'\n[storage]\nlisten = "{own_address()}:{port}"\n')
        file.write(f'[[storage.writers]]\ncoordinator_id = "coordinator-1"\ncertificate = """\n{writer}\n"""\n')
    declare(lab, 8081, "https://depot.example:1", f"sha256:{'0' * 64}")
    depot.enrol()
    shown = json.loads(lab.holdfast("show-certificate", "--root", depot.folder / "state", "--json").out)
    declare(lab, 8081, url, shown["fingerprint"])
    gateway.join(8081)

    def is_current() -> bool:
        found = standing(lab)
        return found["depot"]["state"] == "current" and found["broken"]["state"] == "failing"

    gateway.until(is_current)
    said = " ".join(lab.good("status").out.split())
    assert "broken failing, unusable, lacks" in said and "depot current" in said
    gateway.kill()
    depot.until(lambda: (standing(lab)["depot"]["held"] or {"files": 0})["files"] == standing(lab)["depot"]["files"])
    before = standing(lab)["depot"]["good_at"]
    declare(lab, 8082, url, shown["fingerprint"])
    until_published(lab)
    depot.until(lambda: is_current() and standing(lab)["depot"]["good_at"] > before)
    lab.stop()

    gateway.start()
    gateway.until(lambda: gateway.port() == 8082)
    sources = {row["url"]: row for row in gateway.status["sources"]}
    assert (sources[url]["kind"], sources[url]["failures"], sources[url]["error"]) == ("storage", 0, "")
    assert "connect_failed" in next(row["error"] for row in sources.values() if row["kind"] == "coordinator")
    depot.kill()
    depot.start()
    assert sorted(path.parent.name for path in (depot.folder / "state").rglob("published/*/*.hfs"))


def certificate_of(lab) -> str:
    return lab.good("show-certificate", "--identity", "--configuration", lab.configuration).out
