"""A coordinator that is killed in the middle of a change, whichever state that is in, goes on where it was; with the
programs as they are shipped.
"""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys import edges
from tests.journeys.edges import PROXY, Edges

NAMES = ("edge-1", "edge-2", "edge-3")
# A validator that takes its time while the file is there; it is asked anew for each candidate.
SLOW = PROXY.replace(
    '"! grep -rqs forbidden', '"while [ -e {folder}/../hold ]; do sleep 0.1; done; ! grep -rqs forbidden'
)
RINGS = "rings: [{{nodes: 1}}, {{percent: 60}}, {{percent: 100}}], bake_s: {bake_s}, on_failure: {on_failure}"
NEW = "second.example"


def rings(bake_s: int, on_failure: str = "halt") -> str:
    return RINGS.format(bake_s=bake_s, on_failure=on_failure)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edges]:
    with edges.running(tmp_path_factory.mktemp("edges"), len(NAMES), more=SLOW) as fleet:
        yield fleet


@pytest.fixture
def fleet(started: Edges) -> Iterator[Edges]:
    """All of whose nodes run the first routes, with a coordinator that runs."""
    started.declare("first.example")
    started.lab.good("apply", "-f", started.declared, "--yes", "--wait", "--now", "the next test")
    started.until_all_run("first.example")
    yield started
    hold(started).unlink(missing_ok=True)


def hold(fleet: Edges) -> Path:
    """While it is there, no node votes."""
    return fleet.folder / "hold"


def begin(fleet: Edges, policy: str, host: str = NEW) -> str:
    fleet.declare(host, policy=policy)
    return fleet.apply("-m", "in the middle of which it is killed")


def kill(fleet: Edges) -> None:
    fleet.lab.process.send_signal(signal.SIGKILL)
    fleet.lab.process.wait()


def timeline(fleet: Edges, change: str) -> list[str]:
    """What was done, with its ring."""
    moments = fleet.change(change)["timeline"]
    steps = ("asked", "accepted", "given", "passed", "done", "halted", "reverting", "reverted")
    return [
        each["what"] + "".join(re.findall(r"^ring (\d)", each["detail"]))
        for each in moments
        if each["what"] in steps and not each["node_id"]
    ]


WHOLE = ["asked", "accepted", "given1", "passed1", "given2", "passed2", "given3", "passed3", "done"]


def given(fleet: Edges, change: str) -> int:
    return fleet.change(change)["counts"]["given"]


def test_while_nodes_are_asked(fleet: Edges) -> None:
    """Nobody has it before all were heard, and nobody is asked twice."""
    hold(fleet).touch()
    change = begin(fleet, rings(1))
    assert fleet.until_state(change, "preparing")["counts"]["given"] == 0
    fleet.until(lambda: timeline(fleet, change) == ["asked"])
    kill(fleet)
    fleet.lab.start()
    assert fleet.change(change)["state"] == "preparing"
    assert (timeline(fleet, change), fleet.run(NEW)) == (["asked"], [])
    hold(fleet).unlink()
    assert fleet.until_state(change, "done", "halted")["state"] == "done"
    assert timeline(fleet, change) == WHOLE
    fleet.until_all_run(NEW)


def test_while_the_first_ring_bakes(fleet: Edges) -> None:
    """Twice: the ring is the same one afterwards, is not given anew, and the bake is not over with the restart."""
    change = begin(fleet, rings(8))
    fleet.until(lambda: len(fleet.run(NEW)) == 1)
    canary = fleet.run(NEW)
    for _ in range(2):
        kill(fleet)
        fleet.lab.start()
        assert (given(fleet, change), fleet.run(NEW)) == (1, canary)
    took = fleet.until_state(change, "done", "halted")
    assert (took["state"], timeline(fleet, change)) == ("done", WHOLE)
    at = {each["what"] + each["detail"][:6]: each["at"] for each in took["timeline"]}
    assert at["givenring 2"] - at["givenring 1"] >= 8
    fleet.until_all_run(NEW)


def test_halted_stays_halted(fleet: Edges) -> None:
    """Whatever was refused is refused, and the one decision stands; a person lets it go on, and it is refused anew."""
    change = begin(fleet, rings(1), "forbidden.example")
    before = fleet.until_state(change, "halted")
    for _ in range(2):
        kill(fleet)
        fleet.lab.start()
        found = fleet.change(change)
        assert (found["state"], found["revision"], found["why"]) == ("halted", before["revision"], before["why"])
    assert fleet.run("forbidden.example") == []
    fleet.lab.good("changes", "resume", change, "--yes")
    assert fleet.until_state(change, "halted", "done")["state"] == "halted"
    assert fleet.run("forbidden.example") == []


def test_while_it_is_taken_back(fleet: Edges) -> None:
    """By one change, which the second line names, and by no other one after the restart."""
    change = begin(fleet, rings(60, "revert"), "damaging.example")
    fleet.until(lambda: given(fleet, change) == 1)
    hold(fleet).touch()
    fleet.until_state(change, "reverting", "reverted")
    kill(fleet)
    fleet.lab.start()
    hold(fleet).unlink()
    assert fleet.until_state(change, "reverted", "halted")["state"] == "reverted"
    listed = fleet.lab.good("changes", "list", "--json").json["changes"]
    assert [each["state"] for each in listed if each["reverts"] == change] == ["done"]
    fleet.until_all_run("first.example")
    assert timeline(fleet, change) == ["asked", "accepted", "given1", "reverting", "reverting", "reverted"]
