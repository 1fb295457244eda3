"""A first `apply` of a large fleet: how long it takes, how that grows, and how long a node's report waits meanwhile.

    .venv/bin/python -m benchmarks.coordinator_first_apply [--nodes 500 1000 2000 5000] [--database SQLite] [--now]

Through the threads that a coordinator uses: YAML is read and the change worked out and judged beside the one that
writes, a report is written every 20 ms. Prints the parts for each size, and the exponent that fits them (1 is linear, 2
is quadratic).
"""

import argparse
import math
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import trio

from benchmarks.coordinator import databases, state, with_members
from benchmarks.figures import note
from coordinator.base.threads import in_database, in_library
from coordinator.changes.records import ChangeRequest
from coordinator.database.database import Database
from coordinator.declared import resources
from coordinator.publishing import declarations, plan_check, proposals
from coordinator.reports import heartbeat_form, heartbeats
from tests.coordinator.founding import Founded
from tests.coordinator.reports import body

EVERY_S = 0.02


@dataclass
class Measured:
    read: float = 0.0
    worked_out: float = 0.0
    written: float = 0.0
    waits: list[float] = field(default_factory=list)

    @property
    def applied(self) -> float:
        return self.worked_out + self.written


async def reporting(database: Database, now: float, measured: Measured) -> None:
    """One node's report, again and again: how long until it is written."""
    report = heartbeat_form.parse(body("n0", {}))
    while True:
        begun = time.perf_counter()
        with trio.CancelScope(shield=True):
            await in_database(heartbeats.record, database, [report], now=now)
        measured.waits.append(time.perf_counter() - begun)
        await trio.sleep(EVERY_S)


async def apply(database: Database, nodes: int, now: float, ask: ChangeRequest | None) -> Measured:
    measured = Measured()
    async with trio.open_nursery() as nursery:
        times = [time.perf_counter()]
        declared = await in_library(resources.read, {"fleet.yaml": state(nodes)})
        nursery.start_soon(reporting, database, now, measured)
        times.append(time.perf_counter())
        proposal = await in_library(proposals.propose, database, declared)
        proposal = await in_library(plan_check.judge, database, proposal, ask)
        times.append(time.perf_counter())
        carry_out = partial(declarations.carry_out, actor="benchmark", now=now, ask=ask)
        plan = await in_database(carry_out, database, proposal)
        times.append(time.perf_counter())
        assert len({node_id for node_id, _ in plan.touched}) == nodes
        nursery.cancel_scope.cancel()
    measured.read, measured.worked_out, measured.written = (later - at for at, later in pairwise(times))
    return measured


def exponent(points: list[tuple[int, float]]) -> float:
    """The slope of the line through the logarithms, by least squares."""
    logs = [(math.log(size), math.log(seconds)) for size, seconds in points]
    middle_x, middle_y = (sum(each) / len(logs) for each in zip(*logs, strict=True))
    steep = sum((x - middle_x) * (y - middle_y) for x, y in logs)
    return steep / sum((x - middle_x) ** 2 for x, _ in logs)


def sized(name: str, folder: Path, nodes: int, ask: ChangeRequest | None) -> Measured:
    folder.mkdir()
    with databases(folder) as urls:
        founded = Founded(folder, urls[name])
        database = Database(urls[name])
        with_members(database, nodes, founded.now)
        measured = trio.run(apply, database, nodes, founded.now, ask)
        database.close()
    waits = sorted(measured.waits)
    note("apply/a report at most", "ms", [waits[-1] * 1e3], size=nodes)
    note("apply/the whole of it", "ms", [measured.applied * 1e3], size=nodes)
    print(
        f"{name}: {nodes} nodes: read {measured.read:.2f} s, worked out {measured.worked_out:.2f} s, written"
        f" {measured.written:.2f} s; a report waits {waits[len(waits) // 2] * 1e3:.0f} ms, at most {waits[-1]:.2f} s"
    )
    return measured


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", type=int, nargs="+", default=[500, 1_000, 2_000, 5_000])
    options.add_argument("--database", choices=["SQLite", "PostgreSQL"], default="SQLite")
    options.add_argument("--now", action="store_true", help="without a change: to all at once")
    chosen = options.parse_args()
    ask = None if chosen.now else ChangeRequest("measured")
    with tempfile.TemporaryDirectory() as directory:
        found = {nodes: sized(chosen.database, Path(directory) / str(nodes), nodes, ask) for nodes in chosen.nodes}
    if len(found) > 1:
        fitted = exponent([(nodes, each.applied) for nodes, each in found.items()])
        print(f"{chosen.database}: the time of an apply grows with nodes to the power of {fitted:.2f}")


if __name__ == "__main__":
    main()
