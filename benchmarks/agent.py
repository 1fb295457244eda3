"""The agent as a process, holding a document of 100 MiB; prints ratios against a floor of the same run (goals in
brackets).

    python -m benchmarks.agent [--mib 100] [--runs 5] [--only start reads idle activation files] [DIRECTORY]

start        to the first answer, without a network, against the imports of the libraries that it needs and no more
reads        status and a section over the socket, against an empty answer of trio and h11 in a process of its own
idle         memory, and the processor time of a poll without news, against a bare TLS client that asks the same; what
             the agent does anyway (timers, sections hashed in rounds) is measured apart
activation   another 100 MiB: memory meanwhile, and the longest that a status request waits, against the bare server's
files        a Config of 200 MiB in 300 files, and then another one in the place of it: memory meanwhile

Coordinator and node are real, over real TLS; the node's wall clock is ahead by so much that the fake's documents are
of now. Callers are processes of their own, so that they wait for the agent alone.
"""

import argparse
import http.client
import os
import select
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import trio

from benchmarks import documents, wire
from benchmarks.figures import note
from tests.citations import ROOT
from tests.fakes.cluster import CLUSTER_ID, NOW, ORGANIZATIONS, Cluster
from tests.fakes.config_document import FileContent, config_sections
from tests.fakes.coordinator_server import CoordinatorServer
from tests.journeys.lab import ROUTES, agent_toml, first_documents, put_token

MIB = 1 << 20
SECTION = MIB - 65536
STATUS = "/v1/status"
READ = f"/v1/scopes/{ROUTES}/sections/routes.00000"
REQUESTS, POLLS = 4000, 20
CONFIG, FILES_MIB, FILES = "config/web", 200, 300
NO_TEXT = bytes(number | 0x80 for number in range(256))  # random bytes say a URL with a password sooner or later
OFFSET = NOW - time.time()


@dataclass
class Process:
    """The agent, from its start."""

    popen: "subprocess.Popen[bytes]"
    socket: Path

    def kib(self, name: str) -> int:
        """A row of /proc/PID/status."""
        rows = Path(f"/proc/{self.popen.pid}/status").read_text().splitlines()
        return next(int(row.split()[1]) for row in rows if row.startswith(f"{name}:"))

    def used_s(self) -> float:
        return processor_s(self.popen.pid)

    def answer(self, target: str = STATUS) -> bytes | None:
        """One answer over a connection of its own; None while nobody listens."""
        with socket.socket(socket.AF_UNIX) as caller:
            try:
                caller.connect(str(self.socket))
                caller.sendall(f"GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
                return b"".join(iter(lambda: caller.recv(65536), b""))
            except OSError:
                return None


def processor_s(pid: int) -> float:
    """Of all its threads, also of those that have ended: clock_getcpuclockid(3), which Python does not have."""
    return time.clock_gettime(~pid << 3 | 2)


@contextmanager
def agent(folder: Path) -> Iterator[Process]:
    arguments = [sys.executable, "-m", "tests.journeys.agent_process", str(folder / "agent.toml"), str(OFFSET)]
    environment = {**os.environ, "NOTIFY_SOCKET": ""}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a package that is installed has its bytecode
    with (folder / "agent.log").open("ab") as log:
        popen = subprocess.Popen(arguments, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        yield Process(popen, folder / "run" / "agent.sock")
    finally:
        popen.terminate()
        popen.wait(30)


@contextmanager
def bare_server(folder: Path) -> Iterator["tuple[Path, subprocess.Popen[str]]"]:
    path = folder / "bare.sock"
    popen = myself("bare", str(path))
    try:
        assert popen.stdout is not None
        popen.stdout.readline()
        yield path, popen
    finally:
        popen.kill()
        popen.wait()
        path.unlink()


def myself(*arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks.agent", "--part", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def output_of(popen: "subprocess.Popen[str]") -> list[float]:
    return [float(word) for word in (await trio.to_thread.run_sync(popen.communicate))[0].split()]


# ---- what is held


def large(server: CoordinatorServer, mib: int) -> int:
    """The next version of the routes, every section of it new; `mib` MiB."""
    version = server.cluster.versions.get(ROUTES, 0) + 1
    template = documents.routes(0, SECTION)
    count = mib * MIB // len(template)
    sections = {
        f"routes.{index:05}": template.replace(b'"route-0000', b'"route-%02d%02d' % (version % 100, index % 100))
        .replace(b'"branch ', b'"branch %d-%d ' % (version, index)) for index in range(count)
    }  # fmt: skip
    server.snapshot(sections, ROUTES, organization_ids=list(ORGANIZATIONS))
    server.announce()
    return version


@asynccontextmanager
async def coordinator(folder: Path) -> AsyncIterator[CoordinatorServer]:
    server = CoordinatorServer(Cluster(), folder, lambda: time.time() + OFFSET)
    first_documents(server)
    server.snapshot({"node": {}}, "node_bootstrap", organization_ids=list(ORGANIZATIONS))
    (folder / "run").mkdir()
    put_token(folder / "join.token")
    async with server.running():
        (folder / "agent.toml").write_text(agent_toml(folder, server).replace(f"map_bytes = {256 << 20}", ""))
        yield server


async def until_held(process: Process, version: int) -> None:
    """Until it is active, and the files show it."""
    wanted = f'"config_version":{version}'.encode()
    index = process.socket.parent / "active" / "index.json"
    while True:
        found = await trio.to_thread.run_sync(process.answer, "/v1/scopes")
        assert process.popen.poll() is None
        if found and b"200" in found[:12] and wanted in found.split(b'"route_policy"')[-1][:400] and index.exists():
            return
        await trio.sleep(0.05)


# ---- start


LIBRARIES = """
import argparse, ctypes, datetime, hashlib, ipaddress, json, logging, ssl, subprocess, tempfile, tomllib, urllib.parse
import cryptography.hazmat.primitives.asymmetric.ed25519, cryptography.hazmat.primitives.serialization
import h11, lmdb, msgpack, trio
"""


def start(folder: Path, runs: int) -> None:
    """Without a network: the coordinator does not run. The libraries are those without which nothing can be answered:
    whatever else is loaded before the first answer counts as ours.
    """
    waited, used = [], []
    for _ in range(runs):
        bare_s, bare_used_s = load_libraries()
        begun = time.perf_counter()
        with agent(folder) as process:
            while (answer := process.answer()) is None:
                time.sleep(0.001)
            waited.append((time.perf_counter() - begun, bare_s))
            used.append((process.used_s(), bare_used_s))
            assert answer.startswith(b"HTTP/1.1 200"), answer[:300]
    for name, pairs in (("start to the first answer", waited), ("its processor time", used)):
        ours, bare = (tuple(each) for each in zip(*pairs, strict=True))
        note(f"agent/{name}", "s", ours, floor=bare)
        ours, bare = statistics.median(ours), statistics.median(bare)
        ratio = statistics.median(one / other for one, other in pairs)
        print(f"{name} {ours * 1000:.0f} ms, the libraries alone {bare * 1000:.0f} ms: {ratio:.2f} [<= 2.2]")


def load_libraries() -> tuple[float, float]:
    """Seconds on the wall, and of processor time."""
    begun = time.perf_counter()
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", LIBRARIES], os.environ)
    _, status, used = os.wait4(pid, 0)
    assert status == 0
    return time.perf_counter() - begun, used.ru_utime + used.ru_stime


# ---- reads


async def reads(folder: Path, runs: int) -> None:
    with agent(folder) as process, bare_server(folder) as (bare, popen):
        while process.answer() is None:  # noqa: ASYNC110 - another process
            await trio.sleep(0.01)
        await trio.sleep(5)  # what is loaded after the first answer is loaded
        rounds = [
            [
                await measured(bare, "/", popen.pid),
                await measured(process.socket, STATUS, process.popen.pid),
                await measured(process.socket, f"{READ.rpartition('/')[0]}/small", process.popen.pid),
            ]
            for _ in range(runs)
        ]
    for number, name in enumerate(("trio + h11, empty answer", "status", "section of 1 KB")):
        note(f"agent/{name}, waited", "ms", [each[number][0] for each in rounds], floor=[each[0][0] for each in rounds])
        note(f"agent/{name}, a second of one core", "1/s", [each[number][2] for each in rounds])
        p50, p99, rate = (statistics.median(each[number][part] for each in rounds) for part in range(3))
        ratio = statistics.median(each[number][0] / each[0][0] for each in rounds)
        print(
            f"{name:26} p50 {p50:.3f} ms, {ratio:.2f} x [<= 1.5]; p99 {p99:.3f} ms [<= 2];"
            f" {rate:.0f} a second of one core [>= 3000]"
        )


async def measured(path: Path, target: str, pid: int) -> tuple[float, float, float]:
    """p50 and p99 in ms, and requests a second of the server's processor time."""
    used = processor_s(pid)
    p50, p99 = await output_of(myself("ask", str(path), target))
    return p50, p99, REQUESTS / (processor_s(pid) - used)


# ---- idle


async def idle(folder: Path, server: CoordinatorServer) -> None:
    """Polls are held for a second here, so that there are some; then for a minute, to see what else there is."""
    toml = folder / "agent.toml"
    text = toml.read_text()
    rates = []
    try:
        for wait_s in (1, 60):
            toml.write_text(text + f"[intervals]\npoll_wait_s = {wait_s}\nheartbeat_interval_s = 300\n")
            with agent(folder) as process:
                await polls_from(server, 1)
                await trio.sleep(5)
                anonymous = process.kib("RssAnon") / 1024
                rates.append(await polls_and_use(server, process))
    finally:
        toml.write_text(text)
    (polls, used), (_, anyway) = rates
    bare = (await output_of(myself("poll", str(folder), str(server.fleet_port), CLUSTER_ID)))[0]
    each, a_minute = (used - anyway) / polls, anyway / POLLS * 60
    note("agent/anonymous memory, idle", "MiB", [anonymous])
    note("agent/a poll without news", "ms", [each * 1000], floor=[bare * 1000])
    print(f"idle: {anonymous:.1f} MiB of anonymous memory [<= 40]; {a_minute * 1000:.0f} ms of processor time a minute")
    print(f"a poll without news: {each * 1000:.1f} ms of processor time, a bare client {bare * 1000:.1f} ms")


async def polls_and_use(server: CoordinatorServer, process: Process) -> tuple[float, float]:
    """The polls of some seconds, and the processor time."""
    begun, used = len(server.requests), process.used_s()
    await trio.sleep(POLLS)
    return server.requests[begun:].count("GET /v1/head") / 2, process.used_s() - used  # each is met twice


async def polls_from(server: CoordinatorServer, count: int) -> int:
    begun = len(server.requests)
    while server.requests[begun:].count("GET /v1/head") < 2 * count:  # noqa: ASYNC110 - each is met twice
        await trio.sleep(0.02)
    return count


def poll(folder: Path, port: int) -> float:
    """The processor time of a poll for the least that asks over TLS and keeps its connection."""
    (pem,) = folder.glob("state/clusters/*/identity/node.pem")
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    context.load_cert_chain(pem)
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context)
    target = f"/v1/head?generation={2**40}&epoch={2**40}&wait=1"
    connection.request("GET", target)
    connection.getresponse().read()
    used = time.process_time()
    for _ in range(POLLS):
        connection.request("GET", target)
        assert connection.getresponse().read() == b""
    return (time.process_time() - used) / POLLS


# ---- activation


async def activation(folder: Path, server: CoordinatorServer, mib: int) -> None:
    with agent(folder) as process, bare_server(folder) as (bare, _):
        await until_held(process, server.cluster.versions[ROUTES])
        await trio.sleep(5)
        before = process.kib("RssAnon")
        probes = [myself("probe", str(process.socket), STATUS), myself("probe", str(bare), "/")]
        await trio.sleep(1)
        begun, used = time.perf_counter(), process.used_s()
        peaks: list[int] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch_memory, process, peaks)
            await until_held(process, large(server, mib))
            nursery.cancel_scope.cancel()
        taken, used = time.perf_counter() - begun, process.used_s() - used
        (ours, ours_p99, _), (theirs, theirs_p99, _) = [await output_of(each) for each in probes]
    print(f"{mib} MiB downloaded, verified, active and in files: {taken:.1f} s, {used:.1f} s of processor time")
    print(f"anonymous memory grows by {(max(peaks) - before) / 1024:.1f} MiB meanwhile [<= 24]")
    print(
        f"a status waits {ours:.1f} ms at most [<= 50], p99 {ours_p99:.1f} ms;"
        f" a bare answer of the same moments {theirs:.1f} ms, p99 {theirs_p99:.1f} ms"
    )


async def files(folder: Path, server: CoordinatorServer) -> None:
    """Into an empty folder, and then others in their place, while the former stay for readers."""
    with agent(folder) as process:
        await until_held(process, server.cluster.versions[ROUTES])
        await trio.sleep(5)
        for what in ("at first", "all others"):
            before, peaks = process.kib("RssAnon"), list[int]()
            declared = many_files(server)
            begun, used = time.perf_counter(), process.used_s()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch_memory, process, peaks)
                await until_there(folder / "run/active/config/web", declared)
                nursery.cancel_scope.cancel()
            taken, used = time.perf_counter() - begun, process.used_s() - used
            print(f"{FILES_MIB} MiB in {FILES} files, {what}: {taken:.1f} s, {used:.1f} s of processor time")
            print(f"anonymous memory grows by {(max(peaks) - before) / 1024:.1f} MiB meanwhile [<= 24]")


def many_files(server: CoordinatorServer) -> bytes:
    """The next version, every byte of it new, announced; what its last file says."""
    size = FILES_MIB * MIB // FILES
    mark = os.urandom(16)
    data = [mark + os.urandom(size - 16).translate(NO_TEXT) for _ in range(FILES)]
    declared = {f"part/{number:03}.bin": FileContent(each) for number, each in enumerate(data)}
    made = config_sections(declared)
    server.snapshot(made.sections, CONFIG, raw=made.raw, subject_node_id="*", roles=())
    server.announce()
    return mark


async def until_there(place: Path, mark: bytes) -> None:
    """The last file shows that it is of this version, and the generation is whole."""
    while True:
        with suppress(OSError), (place / f"part/{FILES - 1:03}.bin").open("rb") as file:
            if file.read(len(mark)) == mark:
                return
        await trio.sleep(0.05)


async def watch_memory(process: Process, peaks: list[int]) -> None:
    while True:
        peaks.append(process.kib("RssAnon"))
        await trio.sleep(0.02)


def probe(path: str, target: str) -> tuple[float, float, int]:
    """Asks every few ms until its input ends: the longest wait and the 99th percentile in ms, and how many."""
    waits = []
    while not select.select([sys.stdin], [], [], 0.004)[0]:
        waits.append(wire.ask(path, target, 1)[0] * 1000)
    waits.sort()
    return waits[-1], waits[int(len(waits) * 0.99)], len(waits)


# ---- parts that are processes of their own


async def serve_bare(path: str) -> None:
    least = trio.socket.socket(socket.AF_UNIX)
    await least.bind(path)
    least.listen(16)
    print("ready", flush=True)
    await trio.serve_listeners(wire.bare, [trio.SocketListener(least)])


def part(arguments: list[str]) -> None:
    match arguments:
        case ["bare", path]:
            trio.run(serve_bare, path)
        case ["ask", path, target]:
            wire.ask(path, target, 100)
            taken = sorted(wire.ask(path, target, REQUESTS))
            print(statistics.median(taken) * 1e3, taken[int(len(taken) * 0.99)] * 1e3)
        case ["probe", path, target]:
            print(*probe(path, target))
        case ["poll", folder, port, _]:
            print(poll(Path(folder), int(port)))


async def measure(folder: Path, chosen: argparse.Namespace) -> None:
    async with coordinator(folder) as server:
        small = documents.routes(0, 1000)
        server.snapshot({"small": small}, ROUTES, organization_ids=list(ORGANIZATIONS))
        server.announce()
        with agent(folder) as process:
            await until_held(process, server.cluster.versions[ROUTES])
        if "reads" in chosen.only:
            await reads(folder, chosen.runs)
        with agent(folder) as process:
            await until_held(process, large(server, chosen.mib))
        if "idle" in chosen.only:
            await idle(folder, server)
        if "activation" in chosen.only:
            await activation(folder, server, chosen.mib)
        if "files" in chosen.only:
            await files(folder, server)
    if "start" in chosen.only:
        await trio.to_thread.run_sync(start, folder, chosen.runs)


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--part"]:
        part(arguments[1:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ["start", "reads", "idle", "activation", "files"]
    parser.add_argument("--mib", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("directory", nargs="?", type=Path, help="on the disk to measure; default: a temporary one")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=chosen.directory) as name:
        trio.run(measure, Path(name), chosen, strict_exception_groups=True)


if __name__ == "__main__":
    main(sys.argv[1:])
