"""Two coordinators over one PostgreSQL in the middle of a change: whichever is killed, the other goes on where it was;
with the programs as they are shipped.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.coordinator import postgresql
from tests.fakes.storage import own_address
from tests.holdfast.operator_lab import Lab, second_of
from tests.journeys import edges
from tests.journeys.edges import Edges
from tests.journeys.test_rollout_killed import NAMES, NEW, SLOW, WHOLE, begin, given, hold, kill, rings, timeline
from tests.world.ports import free_ports


@pytest.fixture
def database(tmp_path: Path) -> Iterator[str]:
    with postgresql.or_skip(tmp_path, "taken-over", "REPLICAS ARE NOT TRIED") as server:
        yield server.url.format("postgres")


@pytest.fixture
def fleet(tmp_path: Path, database: str) -> Iterator[Edges]:
    (port,) = free_ports(1)  # kept over a stop
    init = ("--host", own_address(), "--database", database, "--listen", f"0.0.0.0:{port}")
    (tmp_path / "edges").mkdir()
    with edges.running(tmp_path / "edges", len(NAMES), *init, more=SLOW) as fleet:
        yield fleet


@pytest.fixture
def second(fleet: Edges, tmp_path: Path, database: str) -> Iterator[Lab]:
    """Of which the nodes know, too."""
    second = second_of(fleet.lab, tmp_path / "second", database, own_address())
    second.start()
    second.until_ready()
    labs = (fleet.lab, second)
    fleet.coordinators += tuple(f"https://{own_address()}:{lab.ports['fleet']}" for lab in labs)
    fleet.declare("first.example")
    fleet.lab.good("apply", "-f", fleet.declared, "--yes", "--wait", "--now", "there are two")
    fleet.until(lambda: all(len(node.status["sources"]) > len(labs) for node in fleet.nodes.values()))
    yield second
    second.stop()


def test_each_goes_on_without_the_other(fleet: Edges, second: Lab) -> None:
    """Killed while nodes are asked, and while a ring bakes: no step is made twice, and none is left out."""
    first = fleet.lab
    hold(fleet).touch()
    change = begin(fleet, rings(4))
    fleet.until(lambda: timeline(fleet, change) == ["asked"])
    kill(fleet)

    fleet.lab = second
    assert (fleet.change(change)["state"], fleet.run(NEW)) == ("preparing", [])
    hold(fleet).unlink()
    fleet.until(lambda: given(fleet, change) == 1)
    first.start()
    kill(fleet)

    fleet.lab = first
    assert fleet.until_state(change, "done", "halted")["state"] == "done"
    assert timeline(fleet, change) == WHOLE
    fleet.until_all_run(NEW)
