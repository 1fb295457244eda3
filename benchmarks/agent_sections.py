"""What an idle agent keeps in memory that holds a scope of many sections.

    python -m benchmarks.agent_sections [--sections 10 20000] [--runs 3]

received    it has downloaded, verified and activated them, written their files, and does nothing any more
started     it was started with them, and did nothing since

Anonymous memory: what is mapped of the store's file belongs to the page cache. Coordinator and node are real, over
real TLS (benchmarks/agent.py).
"""

import argparse
import tempfile
from pathlib import Path

import trio

from benchmarks.agent import Process, agent, coordinator, until_held
from benchmarks.documents import routes
from benchmarks.figures import note
from tests.fakes.cluster import ORGANIZATIONS
from tests.fakes.coordinator_server import CoordinatorServer
from tests.journeys.lab import ROUTES

EACH = 256
SETTLED_S = 15.0  # modules that come after the first answer, garbage, and what is given back to the system


async def settled(process: Process, version: int) -> float:
    """MiB of anonymous memory, once nothing is left to do."""
    await until_held(process, version)
    await trio.sleep(SETTLED_S)
    return process.kib("RssAnon") / 1024


def publish(server: CoordinatorServer, count: int) -> int:
    sections = {f"routes.{number:05d}": routes(number, EACH) for number in range(count)}
    server.snapshot(sections, ROUTES, organization_ids=list(ORGANIZATIONS))
    server.announce()
    return server.cluster.versions[ROUTES]


async def measure(count: int, runs: int) -> None:
    received, started = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            async with coordinator(folder) as server:
                version = publish(server, count)
                for found in (received, started):
                    with agent(folder) as process:
                        found.append(await settled(process, version))
    for what, found in (("received", received), ("started", started)):
        note(f"sections/{what}, anonymous memory", "MiB", found, size=count)
        print(f"{count} sections, {what}: {', '.join(f'{each:.1f}' for each in found)} MiB of anonymous memory")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sections", type=int, nargs="*", default=[10, 1_000, 20_000])
    options.add_argument("--runs", type=int, default=2)
    chosen = options.parse_args()
    for count in chosen.sections:
        trio.run(measure, count, chosen.runs, strict_exception_groups=True)


if __name__ == "__main__":
    main()
