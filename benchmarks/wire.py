"""What wire/ costs: the memory of a held TLS long poll, how fast all of them wake, requests a second on a Unix socket.

    .venv/bin/python -m benchmarks.wire            # all
    .venv/bin/python -m benchmarks.wire unix       # one of: unix, polls

Prints ratios of one run, against the least that trio and h11 can do in the same run. Callers are other processes.
"""

import contextlib
import os
import random
import resource
import select
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import h11
import trio

from wire.certificate import make_identity
from wire.limits import LOCAL, REMOTE
from wire.peer import PinState
from wire.pins import PinTable
from wire.request import Request, Response
from wire.routes import HttpRoute, Routes
from wire.server import Server
from wire.shedding import Concern, Gate
from wire.tls import PinnedTransport
from wire.tls_contexts import TlsIdentity
from wire.unix import UnixTransport, unix_listener

SECTION = b'{"a":"' + b"x" * 1000 + b'"}'
POLLS = (1000, 3000)
NODES = 50


async def section(request: Request) -> Response:
    headers = [
        ("content-type", "application/json"),
        ("etag", '"sha256:0123"'),
        ("holdfast-generation", "7"),
        ("holdfast-grade", "fresh"),
        ("holdfast-version", "3"),
        ("holdfast-epoch", "1"),
        ("holdfast-expires", "2027-01-01T00:00:00Z"),
        ("holdfast-age", "12"),
    ]
    return Response(200, headers, SECTION)


async def empty(request: Request) -> Response:
    return Response()


async def bare(stream: trio.SocketStream) -> None:
    """An empty answer of trio and h11, and nothing more."""
    connection = h11.Connection(h11.SERVER)
    with contextlib.suppress(trio.BrokenResourceError):
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await stream.receive_some(65536))
            elif isinstance(event, h11.ConnectionClosed):
                return
            elif isinstance(event, h11.EndOfMessage):
                answer = connection.send(h11.Response(status_code=200, headers=[("content-length", "0")])) or b""
                await stream.send_all(answer + (connection.send(h11.EndOfMessage()) or b""))
                connection.start_next_cycle()


def ask(path: str, target: str, count: int) -> list[float]:
    """The seconds of each of `count` requests, one after the other on one connection."""
    request = f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
    taken = []
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(path)
        for _ in range(count):
            begun = time.perf_counter()
            caller.sendall(request)
            answer = caller.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200"), answer
            taken.append(time.perf_counter() - begun)
    return taken


def caller_process(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "benchmarks.wire", *arguments], stdout=subprocess.PIPE, text=True)


async def measured(path: Path, target: str, count: int = 6000) -> tuple[float, float, float]:
    """p50 and p99 in ms, and requests a second of the server's own processor time."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    process = caller_process("ask", str(path), target, str(count))
    output = await trio.to_thread.run_sync(process.communicate)
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    p50, p99 = map(float, output[0].split())
    return p50, p99, count / used


async def unix_benchmark() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "ours", Path(folder) / "bare"
        routes = Routes(
            HttpRoute("GET", "/v1/scopes/{scope}/sections/{name}", section),
            HttpRoute("GET", "/empty", empty),
        )
        server = Server("bench", routes, UnixTransport(), LOCAL, hosts=frozenset({"localhost"}))
        least = trio.socket.socket(socket.AF_UNIX)
        await least.bind(str(theirs))
        least.listen(16)
        with unix_listener(ours) as listener:
            async with trio.open_nursery() as nursery:
                await nursery.start(server.serve, listener)
                nursery.start_soon(trio.serve_listeners, bare, [trio.SocketListener(least)])
                rounds = [
                    (
                        await measured(theirs, "/"),
                        await measured(ours, "/empty"),
                        await measured(ours, "/v1/scopes/route_policy%2Fa/sections/routes"),
                    )
                    for _ in range(3)
                ]
                nursery.cancel_scope.cancel()
    for index, name in enumerate(("trio + h11, empty answer", "wire, empty answer", "wire, section of 1 KB")):
        p50, p99, rate = (statistics.median(each[index][part] for each in rounds) for part in range(3))
        ratio = statistics.median(each[index][0] / each[0][0] for each in rounds)
        print(f"{name:28} p50 {p50:.3f} ms ({ratio:.2f} x)  p99 {p99:.3f} ms  {rate:.0f} requests/s of one core")


class Polls:
    """Long polls; `all_held` once there are `count` of them."""

    def __init__(self, count: int) -> None:
        self.news = trio.Event()
        self.all_held = trio.Event()
        self._missing = count

    async def __call__(self, request: Request) -> Response:
        self._missing -= 1
        if not self._missing:
            self.all_held.set()
        with request.waiting():
            await self.news.wait()
        return Response(200, [("content-type", "application/vnd.holdfast.document")], SECTION)


def resident_kib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def write_identities(folder: Path) -> tuple[TlsIdentity, list[bytes]]:
    ders = []
    for name in ["server", *(f"n{index}" for index in range(NODES))]:
        pair = make_identity(name, 1_700_000_000.0, lifetime_s=1e9)
        (folder / f"{name}.crt").write_bytes(pair.certificate_pem)
        (folder / f"{name}.key").write_bytes(pair.key_pem)
        ders.append(pair.der)
    return TlsIdentity(folder / "server.crt", folder / "server.key"), ders[1:]


async def polls_benchmark(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        identity, ders = write_identities(Path(folder))
        table = PinTable()
        for index, der in enumerate(ders):
            table.add(der, f"n{index}", PinState.ACTIVE)
        limits = replace(REMOTE, connections=20_000, connections_each=20_000)
        polls = Polls(count)
        routes = Routes(HttpRoute("GET", "/v1/head", polls, deadline_s=400, concern=Concern.HEAD))
        transport = PinnedTransport(table, identity.read(), limits, connections_each_node=20_000)
        server = Server("bench", routes, transport, limits, gate=Gate(20_000, random.random))
        listener = (await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=1024))[0]
        port = listener.socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            await nursery.start(server.serve, listener)
            before = resident_kib()
            process = caller_process("hold", folder, str(port), str(count))
            await polls.all_held.wait()
            await trio.sleep(0.5)
            each = (resident_kib() - before) / count
            woken = time.monotonic()
            polls.news.set()
            output = await trio.to_thread.run_sync(process.communicate)
            times = sorted(float(line) - woken for line in output[0].split())
            nursery.cancel_scope.cancel()
    p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
    print(
        f"{count} TLS long polls: {each:.1f} KiB each; all woken: p50 {p50:.3f} s, p99 {p99:.3f} s, "
        f"{len(times) / times[-1]:.0f} a second"
    )


def connections(folder: Path, port: int, count: int) -> Iterator[ssl.SSLSocket]:
    contexts = []
    for index in range(NODES):
        context = ssl.create_default_context(cafile=folder / "server.crt")
        context.check_hostname = False
        context.load_cert_chain(folder / f"n{index}.crt", folder / f"n{index}.key")
        contexts.append(context)
    for index in range(count):
        raw = socket.create_connection(("127.0.0.1", port))
        yield contexts[index % NODES].wrap_socket(raw)


def hold(folder: Path, port: int, count: int) -> None:
    """Holds `count` long polls; prints when each had its answer."""
    request = b"GET /v1/head?wait=300 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    held = {}
    ready = select.epoll()
    for caller in connections(folder, port, count):
        caller.sendall(request)
        held[caller.fileno()] = caller
        ready.register(caller.fileno(), select.EPOLLIN)
    while held:
        for descriptor, _ in ready.poll():
            caller = held.pop(descriptor)
            assert caller.recv(16).startswith(b"HTTP/1.1 200")
            print(time.monotonic())
            ready.unregister(descriptor)


def main(arguments: list[str]) -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    match arguments:
        case ["ask", path, target, count]:
            taken = sorted(ask(path, target, int(count)))
            print(statistics.median(taken) * 1e3, taken[int(len(taken) * 0.99)] * 1e3)
        case ["hold", folder, port, count]:
            hold(Path(folder), int(port), int(count))
        case ["one", count]:
            trio.run(polls_benchmark, int(count), strict_exception_groups=True)
        case _:
            if arguments != ["polls"]:
                trio.run(unix_benchmark, strict_exception_groups=True)
            if arguments != ["unix"]:
                for count in POLLS:
                    # A process for each, so that memory freed by one does not hide that of the next.
                    subprocess.run([sys.executable, "-m", "benchmarks.wire", "one", str(count)], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
