"""A change over a whole coordinator with simulated nodes, over real TLS: the vote, the rings, and what publishing pays.

    .venv/bin/python -m benchmarks.changes rollout [--nodes 1000] [--bake 5]     # apply, vote, three rings, done
    .venv/bin/python -m benchmarks.changes publishing [--nodes 1000]             # with and without a change, in one run

The coordinator is a process of its own, and so are the nodes: each holds a poll, fetches what is coming, votes, and
reports what its head lists as active, at once. Their validators take no time. Prints seconds of one run, and the load.
"""

import argparse
import asyncio
import json
import os
import random
import re
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import trio

from benchmarks.coordinator_daemon import EACH_ADDRESS, context_of, with_members
from coordinator.changes import records
from coordinator.changes.states import ChangeState, Step
from coordinator.database import cluster_state
from coordinator.database.database import Database
from coordinator.publishing import declarations
from snapshot.container import ChunkParts
from snapshot.identifiers import format_time
from snapshot.manifest import Head, ScopeVersion, parse_head
from tests.coordinator import reports
from tests.coordinator.daemon import PATIENT
from tests.coordinator.founding import Founded
from tests.coordinator.publishing import Press
from wire.client import Call, HttpClient, UnixConnector

NODE = "kind: Node\nid: n{number}\nspec: {{roles: [egress_service], organizations: [acme]}}"
STATE = """
kind: Cluster
id: prod
spec: {{coordinators: ['https://localhost:7443']}}
---
{{kind: Organization, id: acme}}
---
kind: RolloutPolicy
id: standard
spec: {{rings: [{{nodes: 1}}, {{percent: 10}}, {{percent: 100}}], bake_s: {bake}}}
---
kind: Service
id: web
spec: {{organization: acme, runs_on: {{roles: [egress_service]}}, settings: {{workers: {workers}}}}}
"""
PROGRAM = "from coordinator.command import main; main()"
AGAIN_S = 0.5, 1.5  # after "too much to do at the moment"
SETTINGS = "joins_per_minute = 10000"


def state(nodes: int, workers: int, bake: int) -> str:
    return "\n---\n".join(
        [STATE.format(workers=workers, bake=bake), *(NODE.format(number=number) for number in range(nodes))]
    )


def load() -> str:
    return "load " + " ".join(f"{each:.1f}" for each in os.getloadavg())


# ---- nodes, in a process of their own


def request(method: str, path: str, body: bytes = b"") -> bytes:
    length = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n{length}\r\n".encode() + body


class Simulated:
    """One node that takes whatever it is told, and says so."""

    def __init__(self, node_id: str, context: ssl.SSLContext, port: int, address: str, now: float) -> None:
        self.node_id, self.now = node_id, now
        self.place = {"host": "127.0.0.1", "port": port, "local_addr": (address, 0)}
        self.tls = {"ssl": context, "server_hostname": "localhost"}
        self.generation = 0
        self.fetched: set[str] = set()

    async def run(self, said: Callable[[], None]) -> None:
        """A coordinator that has much to do lets go of some, who come again."""
        while True:
            await self.connect()
            try:
                await self.live(said)
            except (ConnectionError, asyncio.IncompleteReadError):
                await asyncio.sleep(random.uniform(*AGAIN_S))

    async def live(self, said: Callable[[], None]) -> None:
        while True:
            status, body = await self.ask("GET", f"/v1/head?generation={self.generation}&epoch=1&wait=50")
            if status == 200:
                await self.follow(parse_head(_manifest(body)))
                said()
            elif status != 204:
                await asyncio.sleep(random.uniform(*AGAIN_S))

    async def connect(self) -> None:
        """A coordinator that many come to at once takes some of them later."""
        while True:
            try:
                self.reader, self.writer = await asyncio.open_connection(**self.place, **self.tls, limit=1 << 22)
            except ConnectionError:
                await asyncio.sleep(random.uniform(*AGAIN_S))
            else:
                return

    async def follow(self, head: Head) -> None:
        self.generation = head.generation
        for listed in head.candidates.values():
            if listed.snapshot_id not in self.fetched:
                self.fetched.add(listed.snapshot_id)
                await self.ask("GET", f"/v1/documents/{quote(listed.snapshot_id)}")
        scopes = {scope: reports.scope(_mark(listed)) for scope, listed in head.scopes.items()}
        votes = [
            reports.vote(scope, snapshot_id=listed.snapshot_id, content_hash=listed.content_hash)
            for scope, listed in head.candidates.items()
        ]
        said = {"sent_at": format_time(int(self.now)), "votes": votes}
        report = reports.body(self.node_id, scopes=scopes, **said)
        while (status := (await self.ask("POST", "/v1/heartbeat", report))[0]) != 200:
            assert status == 503, status
            await asyncio.sleep(random.uniform(*AGAIN_S))

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        self.writer.write(request(method, path, body))
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        if length is None and b"chunked" in head.lower():
            return int(head.split()[1]), await self._chunks()
        return int(head.split()[1]), await self.reader.readexactly(int(length[1]) if length else 0)

    async def _chunks(self) -> bytes:
        found = b""
        while size := int(await self.reader.readline(), 16):
            found += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        await self.reader.readline()
        return found


def _mark(listed: ScopeVersion) -> dict[str, object]:
    return {**reports.mark(listed.config_version), "content_hash": listed.content_hash}


def _manifest(document: bytes) -> bytes:
    parts = ChunkParts([document])
    parts.opening()
    return parts.manifest()


async def nodes(folder: Path, port: int, count: int) -> None:
    """Says "ready" once all have reported."""
    reported: set[int] = set()

    def note(number: int) -> None:
        if number not in reported:
            reported.add(number)
            if len(reported) == count:
                print("ready", flush=True)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            address = f"127.0.1.{1 + number // EACH_ADDRESS}"
            one = Simulated(f"n{number}", context_of(folder, f"n{number}"), port, address, time.time())
            group.create_task(one.run(lambda number=number: note(number)))


# ---- a rollout


@contextmanager
def processes(folder: Path, founded: Founded, count: int) -> Iterator[int]:
    """The process id of a coordinator, and as many nodes that have reported to it."""
    (folder / "coordinator.toml").write_text(founded.text())
    log = folder / "log"
    with log.open("wb") as file:
        daemon = subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder / "coordinator.toml")], stderr=file)
    simulated = None
    try:
        while (serving := re.search(r'"fleet": (\d+)', log.read_text())) is None:
            assert daemon.poll() is None, log.read_text()
            time.sleep(0.1)
        asked = ["nodes", folder, serving[1], count]
        command = [sys.executable, "-m", "benchmarks.changes", *map(str, asked)]
        simulated = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert simulated.stdout.readline() == "ready\n"
        yield daemon.pid
    finally:
        for each in (simulated, daemon):
            if each is not None:
                each.kill()
                each.wait()


class Operator:
    def __init__(self, socket: Path) -> None:
        self.socket, self.client = socket, HttpClient(UnixConnector(), PATIENT)

    async def ask(self, method: str, path: str, body: object = None) -> dict:
        data = b"" if body is None else json.dumps(body).encode()
        answer = await self.client.fetch(self.socket, Call(method, path, body=data, limit=64 << 20, wait_s=120))
        return json.loads(answer.body)


class Used:
    """How much processor the coordinator has had, looked at while it runs: on a machine that has other work, the wall
    clock says little.
    """

    def __init__(self, pid: int) -> None:
        self.stat = Path(f"/proc/{pid}/stat")
        self.seen: list[tuple[float, float]] = []

    async def watch(self) -> None:
        tick, stat = os.sysconf("SC_CLK_TCK"), self.stat
        while True:
            fields = stat.read_text().rpartition(")")[2].split()
            self.seen.append((time.time(), (int(fields[11]) + int(fields[12])) / tick))
            await trio.sleep(0.05)

    def until(self, moment: float) -> float:
        """Seconds since the first look."""
        return max((used for at, used in self.seen if at <= moment), default=0.0) - self.seen[0][1]


async def measured(operator: Operator, pid: int, count: int, workers: int, bake: int) -> None:
    async with trio.open_nursery() as nursery:
        used = Used(pid)
        nursery.start_soon(used.watch)
        await trio.sleep(1)
        await carried_out(operator, used, count, workers, bake)
        nursery.cancel_scope.cancel()


async def carried_out(operator: Operator, used: Used, count: int, workers: int, bake: int) -> None:
    begun = time.time()
    files = {"fleet.yaml": state(count, workers, bake)}
    change = (await operator.ask("POST", "/v1/apply", {"files": files, "message": "measured"}))["change"]
    applied = time.time() - begun
    news = await operator.ask("GET", f"/v1/changes/{change}/wait")
    while news["state"] not in ("done", "halted", "reverted"):
        news = await operator.ask("GET", f"/v1/changes/{change}/wait?seen={news['mark']}")
    found = await operator.ask("GET", f"/v1/changes/{change}")
    assert found["state"] == "done" and found["counts"]["active"] == count, (found["state"], found["why"])
    at = [(each["what"], each["at"]) for each in found["timeline"]]
    left = next(moment for what, moment in at if what == "given")
    print(
        f"{count} nodes, {load()}: apply answered in {applied:.2f} s; it leaves `preparing` {left - begun:.2f} s after"
        f" the request, {left - found['at']:.2f} s after the apply; done after {at[-1][1] - begun:.2f} s, which is"
        f" {at[-1][1] - begun - 3 * bake:.2f} s beside three bakes of {bake} s; from apply to active"
        f" p50 {found['took']['p50']:.2f} s, p99 {found['took']['p99']:.2f} s"
    )
    idle = used.until(begun)
    vote, whole = used.until(left) - idle, used.until(at[-1][1]) - idle
    print(f"  of a processor the coordinator had {vote:.2f} s until then, {whole:.2f} s in all; {load()}")
    print("  " + ", ".join(f"{what} {moment - begun:.2f}" for what, moment in at))


def rollout(count: int, bake: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        founded = Founded(folder, f"sqlite:///{folder}/state.db", settings=SETTINGS)
        with_members(founded, count)
        database = Database(founded.url)
        declarations.apply(database, {"fleet.yaml": state(count, 1, bake)}, actor="benchmark", now=founded.now)
        database.close()
        with processes(folder, founded, count) as pid:
            trio.run(measured, Operator(founded.socket), pid, count, 2, bake)


# ---- publishing


def publishing(count: int) -> None:
    """Each of the same nodes, in one database: what a head costs that says nothing of a change, and one that does."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        founded = Founded(folder, f"sqlite:///{folder}/state.db")
        with_members(founded, count)
        press = Press(Database(founded.url), bundles=founded.bundles, now=founded.now)
        press.apply(state(count, 1, 5))
        timed("the first of all scopes", press, count)
        for round_ in range(2):
            press.apply(state(count, 10 + round_, 5))
            timed("applied without a change", press, count)
            change = press.change(state(count, 20 + round_, 5)).record.change_id
            touch(press, count)
            timed("held back by a change, heads anew", press, count)
            press.move(change, Step.OFFERED)
            timed("offered by a change", press, count)
            press.move(change, Step.RELEASED)
            timed("released by a change", press, count)
            end(press, change)
            touch(press, count)
            timed("without a change, heads anew", press, count)


def timed(what: str, press: Press, count: int) -> None:
    begun, heads = time.perf_counter(), 0
    while drafts := press.publish().drafts:
        heads += len(drafts)
    taken = time.perf_counter() - begun
    assert heads == count, heads
    print(f"  {what}: {heads} heads in {taken:.2f} s, {heads / taken:.0f}/s")


def touch(press: Press, count: int) -> None:
    """All are to get new heads, of the same content."""
    with press.database.change(actor="benchmark", now=press.now) as transaction:
        cluster_state.raise_generations(transaction, [f"n{number}" for number in range(count)])
        transaction.audit("benchmark", "heads")


def end(press: Press, change_id: int) -> None:
    press.become(change_id, ChangeState.DONE)
    with press.database.change(actor="benchmark", now=press.now) as transaction:
        records.let_go(transaction, records.get(transaction, change_id), ())
        transaction.audit("benchmark", "end")


def main() -> None:
    if sys.argv[1:2] == ["nodes"]:
        _, _, folder, port, count = sys.argv
        asyncio.run(nodes(Path(folder), int(port), int(count)))
        return
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("what", choices=["rollout", "publishing"])
    options.add_argument("--nodes", type=int, default=1_000)
    options.add_argument("--bake", type=int, default=5)
    chosen = options.parse_args()
    if chosen.what == "rollout":
        rollout(chosen.nodes, chosen.bake)
    else:
        print(f"{chosen.nodes} nodes, {load()}")
        publishing(chosen.nodes)


if __name__ == "__main__":
    main()
