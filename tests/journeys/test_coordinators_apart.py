"""Forty nodes and three coordinators, of which one is cut off from the others, then from the database as well, and one
loses its disk; in the middle of each, root keys sign another set (rules H1, H2, H16, H21, H25).
"""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from coordinator.keys import seed as seeds
from coordinator.membership.replica_reports import READY
from tests.coordinator import postgresql
from tests.coordinator.postgresql import Server
from tests.fakes.storage import own_address
from tests.holdfast.operator_lab import Lab, declare_coordinators, prepared_of
from tests.journeys.cut_off import Lines, needs_root
from tests.journeys.forty_nodes import LIFETIME_S, NODES, SETTINGS, Fleet, gateway_of, off_loop, running
from tests.journeys.gateway import WITHIN_S, Gateway
from tests.journeys.three_coordinators import NAMES, Three, kill, set_, three
from tests.world.pauses import pauses
from wire.operators.operator_answers import ReplicaStandings

pytestmark = [pytest.mark.slow, pytest.mark.root, needs_root]


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def server(tmp_path: Path, lines: Lines) -> Iterator[Server]:
    with postgresql.or_skip(tmp_path, "apart", "COORDINATORS ARE NOT PARTED", address=lines.database) as started:
        yield started


@pytest.fixture
def labs(tmp_path: Path, server: Server, lines: Lines) -> Iterator[Three]:
    far = f"postgresql+psycopg://holdfast@/postgres?host={lines.database}"
    ways = {"of_third": far, "introducing": lines.introduce}
    with three(tmp_path, server.url.format("postgres"), SETTINGS, **ways) as found:
        yield found


@pytest.fixture
def gateway(labs: Three, tmp_path: Path) -> Iterator[Gateway]:
    made = gateway_of(labs, tmp_path / "gateway")
    yield made
    made.kill()


def until_not_ready(lab: Lab, *words: str) -> None:
    """And says why."""
    end, pause = time.monotonic() + WITHIN_S, pauses()
    while (said := lab.readiness())[0] == 200 or not all(word in said[1] for word in words):
        assert time.monotonic() < end, (said, lab.log())
        time.sleep(next(pause))


async def another_set(fleet: Fleet, labs: Three, *named: str) -> float:
    """Signed by root keys and committed at the first one, which has a new mesh key by that; how long nobody wrote."""
    began = time.monotonic()
    await off_loop(partial(declare_coordinators, labs[0], *named))
    return await fleet.writer.written_after(began)


async def all_follow(*labs: Lab) -> float:
    """All are ready, of the newest manifest, as the first one is told of them; in how many seconds."""
    began = time.monotonic()
    await off_loop(_until_all_follow, labs)
    return time.monotonic() - began


def _until_all_follow(labs: Three) -> None:
    end, pause = time.monotonic() + WITHIN_S, pauses()
    while True:
        said = labs[0].asked.get(ReplicaStandings, "coordinators", "status")
        follow = [each.state == READY and each.manifest == said.manifest for each in said.coordinators]
        if all(follow) and len(follow) == len(labs) and all(lab.readiness()[0] == 200 for lab in labs):
            return
        assert time.monotonic() < end, (said, [lab.readiness() for lab in labs])
        time.sleep(next(pause))


def on_a_new_disk(lost: Lab, first: Lab, folder: Path, server: Server) -> tuple[Lab, str]:
    """Prepared where nothing of the lost one is, at its address; and the pin of its new identity."""
    made, pin = prepared_of(first, folder, server.url.format("postgres"), own_address(), NAMES[1])
    text = made.configuration.read_text()
    for line in ("fleet", "coordinators"):
        (kept,) = re.findall(rf'(?m)^{line} = ".*"', lost.configuration.read_text())
        text = re.sub(rf'(?m)^{line} = ".*"', kept, text)
    peers = re.search(r"\n\[peers\]\n.*\n", lost.configuration.read_text())
    assert peers is not None
    made.configuration.write_text(text + peers[0])
    set_(made, SETTINGS)
    return made, pin


async def test_forty_nodes_go_on_while_coordinators_are_parted(
    labs: Three, gateway: Gateway, server: Server, lines: Lines, tmp_path: Path, shown: Callable[[str], None]
) -> None:
    """rules H1, H2, H5, H6, H16, H17, H21, H25, H41, K26, X16: no node has two contents under one number, goes a step
    back, or sees its head end; whoever joins or writes is served by another one; and who was cut off, or has lost
    everything, has it from the others again without an operator
    """
    first, second, third = labs
    async with running(labs, gateway, tmp_path) as fleet:
        writer = fleet.writer
        writer.between_s = 2.0  # here it counts that all come, not how much
        await fleet.all_are_given_the_same()

        with lines.cut(lines.coordinators):
            writer.at = 2
            without = await another_set(fleet, labs, *NAMES)
            shown(f"writes {without:.2f} s after a set began that the third could not follow")
            await off_loop(until_not_ready, third, "recovery_mode")
            await off_loop(second.until_ready)
            began = time.monotonic()
            await fleet.all_run(writer.last)
            shown(f"what was written then is at every node {time.monotonic() - began:.2f} s later")
            writer.at = 2
            await writer.written_after(time.monotonic())
            await off_loop(until_not_ready, third, "recovery_mode")
            await fleet.all_run(writer.last)
        shown(f"the third ready {await all_follow(*labs):.2f} s after it could ask the others")
        await fleet.all_are_given_the_same()

        with lines.cut(lines.database, lines.coordinators):
            writer.at, began = 2, time.monotonic()
            shown(f"writes {await writer.written_after(began):.2f} s after the third was cut off from everybody")
            without = await another_set(fleet, labs, *NAMES)
            shown(f"writes {without:.2f} s after a set began that the third did not see")
            await off_loop(second.until_ready)
            began = time.monotonic()
            await fleet.all_run(writer.last)
            shown(f"what was written then is at every node {time.monotonic() - began:.2f} s later")
        shown(f"the third ready {await all_follow(*labs):.2f} s after it had all lines again")
        await fleet.all_are_given_the_same()

        writer.at, began = 1, time.monotonic()
        await off_loop(shutil.rmtree, second.folder / "state")
        shown(f"writes {await writer.written_after(began):.2f} s after the disk of the second was lost, while it runs")
        await off_loop(until_not_ready, second, "No such file")
        shown(f"it says so, and is not ready, after {time.monotonic() - began:.0f} s")
        await writer.written_after(time.monotonic())
        await fleet.all_run(writer.last)
        began = time.monotonic()
        await off_loop(kill, second)
        shown(f"writes {await writer.written_after(began):.2f} s after it was killed")
        anew, pin = await off_loop(on_a_new_disk, second, first, tmp_path / "anew", server)
        without = await another_set(fleet, labs, NAMES[0], f"{NAMES[1]}={pin}", NAMES[2])
        shown(f"writes {without:.2f} s after a set began that names its new identity")
        await off_loop(anew.start)
        try:
            shown(f"ready {await all_follow(first, anew, third):.2f} s after it was started on an empty disk")
            assert seeds.load(anew.keys, {}) == seeds.load(first.keys, {}), "nobody has carried it there"
            fleet.doors[1].lab = anew
            await fleet.all_are_given_the_same()
            shown(f"{writer.last} writes, {len(fleet.ledger.said)} contents at {NODES} nodes, each under one number")
            shown(f"{fleet.joined} joins, the longest {fleet.longest_join_s:.1f} s")
            shown(f"the head of no node was nearer to its end than {fleet.view_left_s:.0f} s of {LIFETIME_S}")
        finally:
            anew.stop()
