"""Two coordinators over one PostgreSQL: a node joins at the second, that one dies, and it goes on with the first."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.coordinator import postgresql
from tests.fakes.storage import own_address
from tests.holdfast.operator_lab import EVERYWHERE, Lab, running, second_of
from tests.journeys.gateway import FABRIC, Gateway
from tests.world import programs

WRONG_CONFIGURATION = 78


@pytest.fixture
def database(tmp_path: Path) -> Iterator[str]:
    with postgresql.or_skip(tmp_path, "replicas", "REPLICAS ARE NOT TRIED") as server:
        yield server.url.format("postgres")


@pytest.fixture
def lab(tmp_path: Path, database: str) -> Iterator[Lab]:
    folder = tmp_path / "first"
    folder.mkdir()
    with running(folder, "--host", own_address(), "--database", database, *EVERYWHERE) as first:
        yield first


@pytest.fixture
def second(lab: Lab, tmp_path: Path, database: str) -> Iterator[Lab]:
    second = second_of(lab, tmp_path / "second", database, own_address())
    second.start()
    second.until_ready()
    yield second
    second.stop()


def url(lab: Lab) -> str:
    """A signed list may not lead to a loopback (threats D-47)."""
    return f"https://{own_address()}:{lab.ports['fleet']}"


def declare(lab: Lab, port: int, *urls: str) -> None:
    text = FABRIC.format(port=port).replace('"https://localhost:7443"', ", ".join(f'"{each}"' for each in urls))
    (lab.folder / "fabric.yaml").write_text(text)
    lab.good("apply", "-f", lab.folder / "fabric.yaml", "--yes")


def test_a_node_of_the_second_outlives_it(lab: Lab, second: Lab, tmp_path: Path) -> None:
    """rules H10, H38, K26, K34, P25: a join is bound to the certificate that was shown, and a token to its issuer; what
    one of them is told the other publishes; and of the dead one nothing is needed
    """
    assert lab.good("status", "--json").json["cluster_id"] == second.good("status", "--json").json["cluster_id"]
    declare(lab, 8081, url(lab), url(second))
    gateway = Gateway(tmp_path / "node", second)
    try:
        gateway.join(8081)
        declare(lab, 8082, url(lab), url(second))
        gateway.until(lambda: gateway.port() == 8082)
        gateway.until(lambda: url(lab) in {row["url"] for row in gateway.status["sources"]})

        second.process.send_signal(signal.SIGKILL)
        second.process.wait()
        declare(lab, 8083, url(lab))
        gateway.until(lambda: gateway.port() == 8083, hinted=True)
    finally:
        gateway.kill()

    names = [each["coordinator_id"] for each in lab.good("coordinators", "list", "--json").json["coordinators"]]
    assert names == ["coordinator-1", "coordinator-2"]
    lab.good("coordinators", "remove", "coordinator-2", "--yes")
    ran = programs.run("holdfast-coordinator", second.configuration, folder=second.folder)
    assert ran.status == WRONG_CONFIGURATION
    assert "coordinator-2 is no coordinator of this cluster" in ran.err
    assert "holdfastctl coordinators prepare" in ran.err
