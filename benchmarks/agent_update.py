"""What an update costs a node: until what was announced is durable, active and told, and until its files are there too.

    python -m benchmarks.agent_update [--runs 9] [--only small one large] [--apart 0.5]

small    1 MiB in 102 sections of 10 KiB, each of them new
one      one of these 102, as an increment
large    one of 10,000 sections (10 MiB), as an increment, and how long a status waits meanwhile

Rounds follow each other at once; `--apart 61` waits so many seconds before each. Of a scope of many sections the files
are brought up in a folder of before whose minute is over, of which six updates a minute find one
(agent/files/former_folders.py). So of `large` two bursts are measured:

busy     the first 12 updates after a start, at once: none finds such a folder, all files are linked for each, and where
         there are too many folders, one is removed for each as well. "More than six a minute" are the last three
large    a minute later: 5 updates at once, which is what "in all" stands for. What the node spends in that minute is
         printed beside it: what is beyond the folders that stay is removed then

The files lie in memory, as on a node (/run), where there is a /dev/shm; all else on the temporary directory's disk.

Processor time of the agent's process, against a floor of the same run: the same bytes over TLS, hashed, parsed, their
signature verified, written to one file and synced. Coordinator and node are real, over real TLS (benchmarks/agent.py).
"""

import argparse
import hashlib
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import trio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.agent import Process, agent, coordinator, myself, output_of
from benchmarks.figures import note
from tests.fakes.cluster import ORGANIZATIONS
from tests.fakes.coordinator_server import CoordinatorServer
from tests.journeys.lab import ROUTES

MEMORY = Path("/dev/shm")
SETTLED_S, STARTED_S = 0.5, 5.0
BUSY, MEASURED_BUSY, MINUTE_S = 12, 3, 66.0  # the files are looked at every five seconds
Publish = Callable[[int], None]
CALLED = {"small": "1 MiB in 102 sections", "one": "one section of 102", "large": "one section of 10,000"}


def section(name: str, size: int, mark: int = 0) -> dict[str, object]:
    """Routes, of about so many bytes. Those of another mark are all others."""
    route = {"match": {"hosts": ["www.acme.example"], "path_prefix": "/", "port": 443}, "service_id": "web"}
    each = len(json.dumps(route)) + 40
    return {f"{name}-{number:03}": {**route, "ttl_s": 60 + mark} for number in range(max(1, size // each))}


def sections(count: int, size: int, mark: int = 0) -> dict[str, object]:
    return {f"routes.{number:05x}": section(f"r{number:05}", size, mark) for number in range(count)}


class Kind:
    """What is held at first, and what each round publishes."""

    def __init__(self, server: CoordinatorServer, name: str) -> None:
        self.server, self.count, self.size = server, *((10_000, 1024) if name == "large" else (102, 10240))
        self.whole = name == "small"

    def begin(self) -> None:
        self.publish_whole(0)

    def publish_whole(self, mark: int) -> None:
        self.server.snapshot(sections(self.count, self.size, mark), ROUTES, organization_ids=list(ORGANIZATIONS))

    def publish(self, mark: int) -> None:
        if self.whole:
            self.publish_whole(mark)
        else:
            changed = {f"routes.{7:05x}": section(f"r{7:05}", self.size, mark)}
            self.server.publish_increment(ROUTES, sets=changed, organization_ids=list(ORGANIZATIONS))


async def told(process: Process, after: int) -> int:
    """The generation with which the routes have changed; one request that waits for it."""
    target = f"/v1/watch?after={after}&wait=50&scope={ROUTES}"
    answer = await trio.to_thread.run_sync(process.answer, target)
    assert answer is not None
    assert b" 200 " in answer[:20], answer[:200]
    return int(json.loads(answer.partition(b"\r\n\r\n")[2])["generation"])


def generation_of(process: Process) -> int:
    answer = process.answer("/v1/scopes")
    assert answer is not None
    head = answer.partition(b"\r\n\r\n")[0].lower()
    return int(head.partition(b"holdfast-generation: ")[2].split()[0])


async def files_show(files: Path, version: int) -> None:
    """Nobody asks the agent for it."""
    index = files / "active" / "index.json"
    while shown_by(index) != version:  # noqa: ASYNC110 - another process
        await trio.sleep(0.005)


def shown_by(index: Path) -> int | None:
    if not index.exists():
        return None
    scope = json.loads(index.read_bytes())["scopes"].get(ROUTES)
    return None if scope is None else int(scope["config_version"])


async def one_round(
    process: Process, files: Path, kind: Kind, mark: int, apart_s: float = SETTLED_S
) -> tuple[float, float, float]:
    """Milliseconds of processor time until it is told, and until all is done; and on the wall until it is told."""
    await trio.sleep(apart_s)
    after = generation_of(process)
    kind.publish(mark)
    used, begun = process.used_s(), time.perf_counter()
    kind.server.announce()
    await told(process, after)
    until_told, waited = process.used_s() - used, time.perf_counter() - begun
    await files_show(files, kind.server.cluster.versions[ROUTES])
    await trio.sleep(SETTLED_S)
    return until_told * 1000, (process.used_s() - used) * 1000, waited * 1000


@contextmanager
def files_in_memory(folder: Path) -> Iterator[Path]:
    """Where the node's files are written to: /run is a tmpfs, and what is written there waits for no disk."""
    if not MEMORY.is_dir():
        yield folder / "run"
        return
    configuration, setting = folder / "agent.toml", "projection_directory = "
    with tempfile.TemporaryDirectory(dir=MEMORY) as made:
        text = configuration.read_text().replace(f'{setting}"{folder / "run"}"', f'{setting}"{made}"')
        assert made in text
        configuration.write_text(text)
        yield Path(made)


async def measure(folder: Path, name: str, runs: int, apart_s: float) -> None:
    async with coordinator(folder) as server:
        kind = Kind(server, name)
        kind.begin()
        server.announce()
        with files_in_memory(folder) as files, agent(folder) as process:
            while process.answer() is None:  # noqa: ASYNC110 - another process
                await trio.sleep(0.05)
            await files_show(files, server.cluster.versions[ROUTES])
            await trio.sleep(3)
            if name == "large":
                await busy(process, files, kind)
            for mark in range(1, 3 if name != "large" else 1):
                await one_round(process, files, kind, mark)
            floor = [floor_of(kind, folder) for _ in range(runs)]
            first = 3 + BUSY
            rounds = [await one_round(process, files, kind, mark, apart_s) for mark in range(first, first + runs)]
            anonymous = process.kib("RssAnon") / 1024
            probe = myself("probe", str(process.socket), "/v1/status")
            await trio.sleep(STARTED_S)
            for mark in range(first + runs, first + runs + 3):
                await one_round(process, files, kind, mark)
            longest, p99, _ = await output_of(probe)
    what = CALLED[name]
    note(f"update/{what}", "ms", [each[0] for each in rounds], floor=floor)
    note(f"update/{what}, in all", "ms", [each[1] for each in rounds], floor=floor)
    note(f"update/{what}, waited", "ms", [each[2] for each in rounds])
    note(f"update/a status meanwhile, {what}", "ms", [longest])
    note(f"update/anonymous memory, {what}", "MiB", [anonymous])
    until_told, in_all, waited = (statistics.median(each[part] for each in rounds) for part in range(3))
    print(
        f"{name:6} {until_told:6.1f} ms of processor time until told, {in_all:6.1f} in all, floor"
        f" {statistics.median(floor):.1f}; {waited:.0f} ms waited; a status waits {longest:.1f} ms at most,"
        f" p99 {p99:.1f}; {anonymous:.0f} MiB anonymous"
    )


async def busy(process: Process, files: Path, kind: Kind) -> None:
    """More updates than folders come free for; then their minute."""
    rounds = [await one_round(process, files, kind, mark) for mark in range(1, 1 + BUSY)]
    note(
        "update/one section of 10,000, in all, more than six a minute",
        "ms",
        [each[1] for each in rounds[-MEASURED_BUSY:]],
    )
    used = process.used_s()
    await trio.sleep(MINUTE_S)
    used = (process.used_s() - used) * 1000
    note("update/the minute after 12 updates of one section of 10,000", "ms", [used])
    words = " ".join(f"{each[1]:.0f}" for each in rounds)
    print(f"busy   {words} ms of processor time in all; {used:.0f} ms in the {MINUTE_S:.0f} s after them")


def floor_of(kind: Kind, folder: Path) -> float:
    """Milliseconds of processor time."""
    whole = {} if not kind.whole else sections(kind.count, kind.size)
    changed = whole or {"routes": section("r00007", kind.size)}
    parts = [json.dumps(each).encode() for each in changed.values()]
    key = Ed25519PrivateKey.generate()
    signature = key.sign(b"".join(hashlib.sha256(part).digest() for part in parts))
    sender, receiver = socket.socketpair()
    with sender, receiver:
        pid = os.fork()
        if not pid:
            for part in parts:
                sender.sendall(part)
            os._exit(0)
        used = time.process_time()
        received = [read_all(receiver, len(part)) for part in parts]
        key.public_key().verify(signature, b"".join(hashlib.sha256(part).digest() for part in received))
        assert all(isinstance(json.loads(part), dict) for part in received)
        with (folder / "floor").open("wb") as file:
            file.write(b"".join(received))
            file.flush()
            os.fsync(file.fileno())
        (folder / "floor").replace(folder / "floor.active")
        used = time.process_time() - used
        os.waitpid(pid, 0)
    return used * 1000


def read_all(receiver: socket.socket, size: int) -> bytes:
    pieces = bytearray()
    while len(pieces) < size:
        pieces += receiver.recv(size - len(pieces))
    return bytes(pieces)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--only", nargs="+", choices=["small", "one", "large"], default=["small", "one", "large"])
    parser.add_argument("--apart", type=float, default=SETTLED_S, help="seconds")
    chosen = parser.parse_args(arguments)
    for name in chosen.only:
        with tempfile.TemporaryDirectory() as folder:
            trio.run(measure, Path(folder), name, chosen.runs, chosen.apart, strict_exception_groups=True)


if __name__ == "__main__":
    main(sys.argv[1:])
