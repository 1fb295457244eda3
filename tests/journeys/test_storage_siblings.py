"""Two storage nodes that copy from each other: one loses its disk while the coordinator is gone, fills up again from
the other one, and then feeds a node alone.
"""

import json
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.documented_blocks import blocks
from tests.fakes.storage import own_address
from tests.holdfast.operator_lab import UNGUARDED, Lab
from tests.journeys.gateway import FABRIC, Gateway, until_published
from tests.journeys.test_storage_nodes import certificate_of
from tests.world.ports import free_ports

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


@dataclass
class Site:
    """The two stores of the page, with addresses and certificates of their own."""

    lab: Lab
    stores: dict[str, Gateway]
    places: dict[str, str]
    pins: dict[str, str] = field(default_factory=lambda: dict.fromkeys(HOSTS, f"sha256:{'0' * 64}"))

    def declare(self, port: int) -> None:
        shown = iter(self.pins.values())
        stores = PINS.sub(lambda _: next(shown), on_the_page("kind: Node"))
        for name, host in HOSTS.items():
            stores = stores.replace(host, self.places[name])
        text = FABRIC.format(port=port).rpartition("---\nkind: DegradedModePolicy")[0] + POLICY + stores
        (self.lab.folder / "fabric.yaml").write_text(text)
        self.lab.good("apply", "-f", self.lab.folder / "fabric.yaml", "--yes")

    def join(self) -> None:
        """As the page has it."""
        writer = re.search(r"-----BEGIN.*-----END CERTIFICATE-----", certificate_of(self.lab), re.DOTALL)[0]
        for name, store in self.stores.items():
            table = on_the_page("[storage]").replace(HOSTS["depot-1"], self.places[name])
            table = re.sub(r"-----BEGIN.*-----END CERTIFICATE-----", writer, table, flags=re.DOTALL)
            with (store.folder / "agent.toml").open("a") as file:
                file.write(f"\n{table}\n")
        self.declare(8081)
        for name, store in self.stores.items():
            store.enrol()
            shown = self.lab.holdfast("show-certificate", "--root", store.folder / "state", "--json")
            self.pins[name] = json.loads(shown.out)["fingerprint"]
        self.declare(8081)

    def until_alike(self) -> None:
        """All that is published lies at both."""
        until_published(self.lab)
        first, second = self.stores.values()
        whole = self.lab.folder / "whole"
        whole.mkdir(exist_ok=True)

        def are_alike() -> bool:
            self.lab.good("publish", "--to", whole)
            all_of_it = {f"{path.parent.name}/{path.name}": path.read_bytes() for path in whole.glob("*/*.hfs")}
            return all(all_of_it.items() <= published(store).items() for store in (first, second))

        first.until(are_alike)


@pytest.fixture
def site(lab, stores) -> Site:
    places = (f"{own_address()}:{port}" for port in free_ports(2))
    return Site(lab, stores, dict(zip(HOSTS, places, strict=True)))


def test_a_store_that_lost_its_disk_fills_up_from_its_sibling(lab, gateway, site):
    """rules S2, L19, S64, P1, X1: seed 001 section 5, replication metadata; no coordinator is needed for it"""
    first, second = site.stores.values()
    site.join()
    gateway.join(8081)
    gateway.kill()
    site.declare(8082)
    site.until_alike()
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
    url = f"https://{site.places['depot-2']}"
    assert (sources[url]["kind"], sources[url]["error"]) == ("storage", "")


def test_a_relay_is_a_store_too_and_one_from_an_old_backup_follows_again(lab, gateway, site):
    """rules L19, K32, P1: the relay keeps both; the restored store gives no old head in the place of a newer one"""
    first, second = site.stores.values()
    (port,) = free_ports(1)
    configuration = first.folder / "agent.toml"
    direct = f'direct_url = "https://{own_address()}:{port}"\nstate_directory'
    peers = f'\n[peers]\nlisten = "{own_address()}:{port}"\nrelay = true\n'
    configuration.write_text(configuration.read_text().replace("state_directory", direct, 1) + peers)
    site.join()
    gateway.join(8081)
    site.until_alike()
    second.kill()
    backup = second.folder / "backup"
    shutil.copytree(second.folder / "state", backup)
    second.start()
    gateway.kill()
    site.declare(8082)
    site.until_alike()
    second.kill()
    shutil.rmtree(second.folder / "state")
    backup.rename(second.folder / "state")
    lab.stop()
    old = published(second)
    assert old != published(first)

    second.start()
    second.until(lambda: published(first).items() <= published(second).items())
    first.kill()
    gateway.start()
    gateway.until(lambda: gateway.port() == 8082)
    second.kill()
    first.start()
    lab.start()
    second.start()
    site.declare(8083)
    site.until_alike()
    gateway.until(lambda: gateway.port() == 8083, hinted=True)
