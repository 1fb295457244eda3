"""Two storage nodes that copy from each other: one loses its disk while the coordinator is gone, fills up again from
the other one, and then feeds a node alone.
"""

import json
import re
import shutil
from pathlib import Path

import pytest

from examples.demo.processes import free_ports
from tests.documented_blocks import blocks
from tests.fakes.storage import own_address
from tests.holdfast.operator_lab import UNGUARDED
from tests.journeys.gateway import FABRIC, Gateway, until_published
from tests.journeys.test_storage_nodes import certificate_of, standing

POLICY = """\
---
kind: DegradedModePolicy
id: stored
spec: {allow: [continue_services, use_storage_endpoints], allow_unconfirmed_start: true}
---
"""
HOSTS = {"depot-1": "10.20.0.11:7448", "depot-2": "10.20.0.12:7448"}
PINS = re.compile(r"sha256:[0-9a-f]{64}")


def on_the_page(beginning: str) -> str:
    (found,) = [block.text for block in blocks("docs/sites.md") if block.text.startswith(beginning)]
    return found


@pytest.fixture
def settings() -> str:
    return f"{UNGUARDED}\nstore_polling_s = 1\n"


@pytest.fixture
def stores(lab, tmp_path: Path):
    made = {name: Gateway(tmp_path / name, lab, node_id=name) for name in HOSTS}
    yield made
    for store in made.values():
        store.kill()


def published(store: Gateway) -> dict[str, bytes]:
    found = (store.folder / "state").rglob("published/*/*.hfs")
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in found}


def test_a_store_that_lost_its_disk_fills_up_from_its_sibling(lab, gateway, stores):
    """rules S2, L19, S64, P1, X1: seed 001 section 5, replication metadata; no coordinator is needed for it"""
    places = dict(zip(HOSTS, (f"{own_address()}:{port}" for port in free_ports(2)), strict=True))
    writer = re.search(r"-----BEGIN.*-----END CERTIFICATE-----", certificate_of(lab), re.DOTALL)[0]
    pins = dict.fromkeys(HOSTS, f"sha256:{'0' * 64}")

    def declare(port: int) -> None:
        shown = iter(pins.values())
        stores = PINS.sub(lambda _: next(shown), on_the_page("kind: Node"))
        for name, host in HOSTS.items():
            stores = stores.replace(host, places[name])
        text = FABRIC.format(port=port).rpartition("---\nkind: DegradedModePolicy")[0] + POLICY + stores
        (lab.folder / "fabric.yaml").write_text(text)
        lab.good("apply", "-f", lab.folder / "fabric.yaml", "--yes")

    for name, store in stores.items():
        table = on_the_page("[storage]").replace(HOSTS["depot-1"], places[name])
        table = re.sub(r"-----BEGIN.*-----END CERTIFICATE-----", writer, table, flags=re.DOTALL)
        with (store.folder / "agent.toml").open("a") as file:
            file.write(f"\n{table}\n")
    declare(8081)
    for name, store in stores.items():
        store.enrol()
        shown = json.loads(lab.holdfast("show-certificate", "--root", store.folder / "state", "--json").out)
        pins[name] = shown["fingerprint"]
    declare(8081)
    gateway.join(8081)
    gateway.kill()
    declare(8082)
    until_published(lab)
    first, second = stores.values()

    def are_alike() -> bool:
        states = {store["state"] for store in standing(lab).values()}
        return states == {"current"} and published(first) == published(second)

    first.until(are_alike)
    lab.stop()

    second.kill()
    (folder,) = (second.folder / "state").rglob("published")
    shutil.rmtree(folder)
    second.start()
    second.until(lambda: published(second) == published(first))
    assert "heads" in {path.partition("/")[0] for path in published(first)}

    first.kill()
    gateway.start()
    gateway.until(lambda: gateway.port() == 8082)
    sources = {row["url"]: row for row in gateway.status["sources"]}
    url = f"https://{places['depot-2']}"
    assert (sources[url]["kind"], sources[url]["error"]) == ("storage", "")
