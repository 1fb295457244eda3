"""How long a node serves content that has failed: from the check's "no" to the old content, for readers and in files.

    python -m benchmarks.revert [--runs N] [--kib N] [DIRECTORY]

The agent is a process, over real TLS, and no coordinator is there any more when the check fails. The moment of the "no"
is written down by the check itself, before it ends; socket and file are looked at all the time. Bare floor of the same
run: the same bytes written to a file and synced, and read once over the agent's socket. Goal: 1 s at the latest.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import trio

from tests.fakes.watched import until_there
from tests.journeys.lab import ROUTES
from tests.journeys.test_probation import ILL, OnProbation, found

LEAST_S = 0.001
GOAL_S = 1.0


def content(kib: int, number: int) -> dict[str, object]:
    return {f"r{number}-{index:04}": {"via": os.urandom(500).hex()} for index in range(kib)}


async def floor_s(victim: OnProbation, data: bytes) -> float:
    began = time.perf_counter()
    file = os.open(victim.folder / "floor", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.write(file, data)
    os.fsync(file)
    os.close(file)
    await victim.ask("v1", "scopes", ROUTES, "sections", "routes")
    return time.perf_counter() - began


async def served_since(victim: OnProbation, old: bytes) -> float:
    while True:
        answer = await victim.ask("v1", "scopes", ROUTES, "sections", "routes")
        if answer is not None and answer.body == old:
            return time.time()
        await trio.sleep(LEAST_S)


async def laid_out_since(file: Path, old: bytes) -> float:
    while file.read_bytes() != old:  # noqa: ASYNC110, ASYNC240 - another process writes it, and it is small
        await trio.sleep(LEAST_S)
    return time.time()


async def run_once(victim: OnProbation, old: bytes, kib: int, number: int) -> tuple[float, float, float]:
    """Seconds: for who reads over the socket, for who reads files, and the floor."""
    said, ill = victim.folder / "said", victim.folder / "ill"
    for file in (said, ill):
        file.unlink(missing_ok=True)
    version = victim.roll_out(content(kib, number))
    await victim.until(lambda: victim.is_on_probation(version))
    await victim.until_asked(1)
    victim.server.down = True
    ill.touch()
    await until_there(said)
    times: dict[str, float] = {}

    async def note(name: str, look: Callable[[], Awaitable[float]]) -> None:
        times[name] = await look()

    file = victim.folder / "run" / "active" / ROUTES / "routes.json"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(note, "socket", partial(served_since, victim, old))
        nursery.start_soon(note, "files", partial(laid_out_since, file, old))
    failed = float(said.read_text())
    victim.server.down = False
    return times["socket"] - failed, times["files"] - failed, await floor_s(victim, old)


async def measure(folder: Path, runs: int, kib: int) -> None:
    async with found(folder, ILL) as (victim, _):
        first = victim.roll_out(content(kib, 0), probation_s=0)
        with victim.living():
            await victim.until(lambda: victim.is_at(first))
            answer = await victim.ask("v1", "scopes", ROUTES, "sections", "routes")
            assert answer is not None
            found_s = [await run_once(victim, answer.body, kib, number) for number in range(1, runs + 1)]
    floor = statistics.median(row[2] for row in found_s)
    print(f"{runs} times, {len(answer.body) >> 10} KiB; floor {floor * 1000:.0f} ms")
    for name, column in (("served on the socket", 0), ("in the files", 1)):
        taken = sorted(row[column] for row in found_s)
        middle, most = statistics.median(taken), taken[-1]
        print(
            f"{name:22} median {middle * 1000:5.0f} ms ({middle / floor:.1f} times the floor),"
            f" at most {most * 1000:5.0f} ms [{GOAL_S * 1000:.0f}]"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--kib", type=int, default=100, help="Of one section: at most 900.")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.directory) as folder:
        trio.run(measure, Path(folder), asked.runs, asked.kib)


if __name__ == "__main__":
    main()
