"""A whole coordinator under load, over real TLS with pinned certificates; its callers are other processes.

    .venv/bin/python -m benchmarks.coordinator_daemon polls 1000      # memory of each held poll, time to answer all
    .venv/bin/python -m benchmarks.coordinator_daemon joins 300 [1000]    # of declared nodes, into so many
    .venv/bin/python -m benchmarks.coordinator_daemon heartbeats 200  # each answered after its commit; also PostgreSQL
    .venv/bin/python -m benchmarks.coordinator_daemon documents 200   # each node asks for all that it should hold
    .venv/bin/python -m benchmarks.coordinator_daemon waits 1000      # of others, while all nodes are declared anew

Prints ratios of one run. Members of the polls and heartbeats are put into the database with real certificates.
"""

import json
import os
import re
import resource
import select
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import trio
from sqlalchemy import insert

from benchmarks.coordinator import state
from benchmarks.figures import note
from coordinator.base import interpreter
from coordinator.database import cluster_state, documents, schema
from coordinator.database.database import Database
from coordinator.publishing import declarations
from coordinator.publishing.board import News
from snapshot import canonical
from snapshot.identifiers import format_time
from tests.coordinator import postgresql, reports
from tests.coordinator.daemon import Running, TlsNode, running
from tests.coordinator.founding import Founded
from wire.certificate import fingerprint, make_identity
from wire.endpoint import Endpoint

NODES = 400
KIB = 1024
EACH_ADDRESS = 200  # connections; a listener takes 256 from one
QUIET_S = 5.0  # others are told of newcomers once nobody has joined for a while
SETTINGS = "joins_per_minute = 10000"


def resident_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def used_s() -> float:
    mine = resource.getrusage(resource.RUSAGE_SELF)
    return mine.ru_utime + mine.ru_stime


def with_members(founded: Founded, count: int) -> None:
    database = Database(founded.url)
    rows = []
    for number in range(count):
        pair = make_identity(f"n{number}", founded.now)
        (founded.folder / f"n{number}.crt").write_bytes(pair.certificate_pem)
        (founded.folder / f"n{number}.key").write_bytes(pair.key_pem)
        rows.append(
            {
                "node_id": f"n{number}", "kind": "data", "site_id": "default", "certificate": pair.der,
                "certificate_sha256": fingerprint(pair.der), "incarnation": "i-1", "first_seen": founded.now,
                "generation": 1,
            }
        )  # fmt: skip
    with database.change(actor="benchmark", now=founded.now) as transaction:
        transaction.run(insert(schema.nodes), rows)
        transaction.audit("benchmark", "members")
        cluster_state.raise_revision(transaction)
    database.close()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - what is measured should not have to tell us
        await trio.sleep(0.05)


async def all_published(at: Running, count: int) -> None:
    health = at.daemon.coordinator.publisher.health
    await until(lambda: health.published_heads >= count)


def caller(*arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks.coordinator_daemon", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def output_of(process: "subprocess.Popen[str]") -> str:
    return (await trio.to_thread.run_sync(process.communicate))[0]


# ---- polls

HEADS = "heads.json"  # of each node (epoch, generation), from which it asks
HELD_WITHIN_S = 60


async def polls(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        founded = Founded(Path(folder), f"sqlite:///{folder}/state.db", settings=SETTINGS)
        with_members(founded, NODES)
        async with running(founded) as at:
            await all_published(at, NODES)
            board = at.daemon.coordinator.board
            before = resident_kib()
            heads = [board.nodes()[f"n{index}"] for index in range(NODES)]
            (Path(folder) / HEADS).write_text(json.dumps(heads))
            process = caller("hold", folder, at.ports.fleet, count)
            with trio.fail_after(HELD_WITHIN_S):
                await until(lambda: board.waiting >= count)
            await trio.sleep(1)
            each = (resident_kib() - before) / count
            begun, used = time.monotonic(), used_s()
            for node_id, pair in board.nodes().items():
                board.announce(node_id, News((pair[0], pair[1] + 1), board.latest(node_id).container))
            times = sorted(float(line) - begun for line in (await output_of(process)).split())
            used = used_s() - used
    p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
    note("polls/memory of one that is held", "KiB", [each])
    note("polls/all woken at once, of a hundred all but one", "s", [p99])
    note("polls/answers a second of one core", "1/s", [count / used])
    print(
        f"{count} TLS polls held: {each:.1f} KiB each; all woken at once: p50 {p50:.2f} s, p99 {p99:.2f} s,"
        f" {count / used:.0f} answers a second of one core"
    )


def connections(folder: Path, port: int, count: int) -> Iterator[ssl.SSLSocket]:
    contexts = [context_of(folder, f"n{index}") for index in range(min(NODES, count))]
    for index in range(count):
        raw = socket.create_connection(("127.0.0.1", port), source_address=(f"127.0.1.{1 + index // EACH_ADDRESS}", 0))
        yield contexts[index % len(contexts)].wrap_socket(raw, server_hostname="localhost")


def context_of(folder: Path, name: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    context.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
    return context


def hold(folder: Path, port: int, count: int) -> None:
    """Holds polls for what comes after the present head; prints when each had its answer."""
    held = {}
    ready = select.epoll()
    heads = json.loads((Path(folder) / HEADS).read_text())
    for index, each in enumerate(connections(folder, port, count)):
        epoch, generation = heads[index % len(heads)]
        each.sendall(
            f"GET /v1/head?generation={generation}&epoch={epoch}&wait=300 HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
        )
        held[each.fileno()] = each
        ready.register(each.fileno(), select.EPOLLIN)
    while held:
        for descriptor, _ in ready.poll():
            each = held.pop(descriptor)
            assert each.recv(16).startswith(b"HTTP/1.1 200")
            print(time.monotonic())
            ready.unregister(descriptor)


# ---- heartbeats


async def heartbeats(name: str, url: str, folder: Path, count: int) -> None:
    """Of nodes with nine scopes."""
    founded = Founded(folder, url, settings=SETTINGS)
    with_members(founded, count)
    database = Database(url)
    declarations.apply(database, {"fleet.yaml": state(count, services=1)}, actor="benchmark", now=founded.now)
    database.close()
    async with running(founded) as at:
        await all_published(at, count)
        await until(lambda: at.daemon.coordinator.publisher.health.behind == 0)
        _write_listings(folder, at.daemon.coordinator.database)
        process = caller("report", folder, at.ports.fleet, count, int(founded.now))
        # The first round opens the connections and inserts; the second is measured by its callers.
        begun = float(await trio.to_thread.run_sync(process.stdout.readline))
        used = used_s()
        ended = float((await output_of(process)).split()[0])
        used = used_s() - used
    note(f"heartbeats/{name}, a second of one core", "1/s", [count * ROUNDS / used])
    note(f"heartbeats/{name}, a second", "1/s", [count * ROUNDS / (ended - begun)])
    print(
        f"{name}: heartbeats over TLS {count * ROUNDS / (ended - begun):.0f}/s,"
        f" {count * ROUNDS / used:.0f}/s of one core of the coordinator"
    )


LISTINGS = "listings.json"


def _write_listings(folder: Path, database: Database) -> None:
    """What was published for each node, which is what an honest one reports to hold."""
    with database.read() as transaction:
        found = documents.listings(transaction)
    marks = {
        node_id: {scope: [one.config_version, one.content_hash] for scope, one in listing.items()}
        for node_id, listing in found.items()
    }
    (folder / LISTINGS).write_bytes(canonical.dumps(marks))


def _held(listing: dict[str, tuple[int, str]]) -> dict[str, object]:
    return {
        scope: reports.scope({**reports.mark(version), "content_hash": content_hash})
        for scope, (version, content_hash) in listing.items()
    }


ROUNDS = 30  # so many that the ends of the connections, which are counted too, hardly count


def report(folder: Path, port: int, count: int, now: int) -> None:
    """Every node reports once, then `ROUNDS` times more, all of them at once."""
    sent_at = format_time(now)
    listings = json.loads((folder / LISTINGS).read_text())
    requests = [report_of(f"n{number}", _held(listings[f"n{number}"]), sent_at) for number in range(count)]
    callers = []
    for number in range(count):
        source = (f"127.0.1.{1 + number // EACH_ADDRESS}", 0)
        raw = socket.create_connection(("127.0.0.1", port), source_address=source)
        callers.append(context_of(folder, f"n{number}").wrap_socket(raw, server_hostname="localhost"))
    each_once(callers, requests)
    print(time.monotonic(), flush=True)
    for number in range(1, ROUNDS + 1):
        each_once(callers, [_later(request, sent_at, number, now) for request in requests])
    print(time.monotonic())


def _later(request: bytes, sent_at: str, seconds: int, now: int) -> bytes:
    """What a node at rest says a little later, in as many bytes."""
    later = request.replace(sent_at.encode(), format_time(now + seconds).encode())
    return later.replace(b'"uptime_s":12', b'"uptime_s":%d' % (12 + seconds)).replace(
        b'"age_s":3', b'"age_s":%d' % (seconds % 10)
    )


def report_of(node_id: str, scopes: dict[str, object], sent_at: str) -> bytes:
    body = reports.body(node_id, scopes=scopes, sent_at=sent_at)
    head = (
        "POST /v1/heartbeat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n"
    )
    return head.format(len(body)).encode() + body


def each_once(callers: list[ssl.SSLSocket], requests: list[bytes]) -> None:
    for each, request in zip(callers, requests, strict=True):
        each.sendall(request)
    for each in callers:
        answer = each.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200"), answer


# ---- documents


async def documents_asked_for(count: int) -> None:
    """Each node asks for all that its head lists, small documents of its own and shared ones, again and again."""
    with tempfile.TemporaryDirectory() as folder:
        founded = Founded(Path(folder), f"sqlite:///{folder}/state.db", settings=SETTINGS)
        with_members(founded, count)
        database = Database(founded.url)
        declarations.apply(database, {"fleet.yaml": state(count)}, actor="benchmark", now=founded.now)
        database.close()
        async with running(founded) as at:
            await all_published(at, count)
            with at.daemon.coordinator.database.read() as transaction:
                found = documents.listings(transaction)
            named = {node_id: [entry.snapshot_id for entry in listing.values()] for node_id, listing in found.items()}
            (Path(folder) / LISTINGS).write_bytes(canonical.dumps(named))
            process = caller("take", folder, at.ports.fleet, count)
            begun = float(await trio.to_thread.run_sync(process.stdout.readline))
            used = used_s()
            ended, taken, size = map(float, (await output_of(process)).split())
            used = used_s() - used
    each, of_wall, of_core = size / taken / KIB, taken / (ended - begun), taken / used
    note("documents/handed out, a second of one core", "1/s", [of_core])
    note("documents/their size", "KiB", [each])
    print(f"documents of {each:.1f} KiB over TLS {of_wall:.0f}/s, {of_core:.0f}/s of one core of the coordinator")


def take(folder: Path, port: int, count: int) -> None:
    """All nodes at once, one document after the other, `ROUNDS` times over."""
    named = json.loads((folder / LISTINGS).read_text())
    callers = list(connections(folder, port, count))
    request = "GET /v1/documents/{} HTTP/1.1\r\nhost: localhost\r\n\r\n"
    print(time.monotonic(), flush=True)
    taken = size = 0
    for _ in range(ROUNDS // 10):
        for place in range(min(map(len, named.values()))):
            for number, each in enumerate(callers):
                each.sendall(request.format(named[f"n{number}"][place]).encode())
            for each in callers:
                size += _whole_answer(each)
                taken += 1
    print(time.monotonic(), taken, size)


def _whole_answer(stream: ssl.SSLSocket) -> int:
    """The bytes of its body."""
    head, _, body = stream.recv(65536).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    length = int(re.findall(rb"(?i)content-length: (\d+)", head)[0])
    while len(body) < length:
        body += stream.recv(65536)
    return length


# ---- waits


async def waits(count: int) -> None:
    """Of a node's report, of its head, and of an operator's change, while a first apply and one of all nodes run, and
    until all of it is published.
    """
    with tempfile.TemporaryDirectory() as folder:
        founded = Founded(Path(folder), f"sqlite:///{folder}/state.db", settings=SETTINGS)
        with_members(founded, count)
        async with running(founded) as at:
            await all_published(at, count)
            _write_listings(Path(folder), at.daemon.coordinator.database)
            watching = caller("watch", folder, at.ports.fleet, founded.socket, int(founded.now))
            await trio.sleep(QUIET_S)
            health = at.daemon.coordinator.publisher.health
            for address in ("10.0.0.1", "10.0.0.2"):
                heads, used = health.published_heads, used_s()
                said = (await output_of(caller("declare", founded.socket, count, address))).strip()
                print(f"all nodes declared at {address}: {said}; {used_s() - used:.1f} s of a processor", flush=True)
                begun, used = time.monotonic(), used_s()
                with trio.move_on_after(MOST_PUBLISHING_S):  # of the second, nodes that say nothing are waited for
                    await until(lambda before=heads: health.published_heads >= before + count and health.behind == 0)
                taken, used = time.monotonic() - begun, used_s() - used
                print(
                    f"{health.published_heads - heads} heads in {taken:.1f} s, {used:.1f} s of a processor", flush=True
                )
            (Path(folder) / "over").touch()
            print(await output_of(watching), end="")


WATCHING = 40  # nodes, one after the other: one alone may not report as often
PACE_S = 0.025
MOST_PUBLISHING_S = 60.0


def declare(socket_path: Path, count: int, address: str) -> None:
    """What is more than a change usually does is meant."""
    begun, files = time.monotonic(), {"fleet.yaml": state(count).replace("10.0.0.1", address)}
    asked: dict[str, object] = {"files": files, "now_reason": "measured"}
    status, answer = _over_unix(socket_path, "POST", "/v1/apply", json.dumps(asked).encode())
    if status == 409:
        print(f"refused after {time.monotonic() - begun:.1f} s", end=", ")
        asked["allow"] = re.findall(r"--allow (sha256:[0-9a-f]+)", answer.decode())[0]
        status, answer = _over_unix(socket_path, "POST", "/v1/apply", json.dumps(asked).encode())
    assert status == 200, answer
    print(f"applied after {time.monotonic() - begun:.1f} s")


def _over_unix(path: Path, method: str, target: str, body: bytes) -> tuple[int, bytes]:
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(str(path))
        head = f"{method} {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        raw.sendall(f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    return int(answer.split(None, 2)[1]), answer.partition(b"\r\n\r\n")[2]


def watch(folder: Path, port: int, socket_path: Path, now: int) -> None:
    """Asks until it is told to stop; prints how long the answers took."""
    found: dict[str, list[tuple[float, float]]] = {}
    ways = (_reports(folder, port, now), _heads(folder, port), _changes(socket_path), _readings(socket_path))
    threads = [
        threading.Thread(target=_watch_one, args=(ask, folder / "over", found.setdefault(what, [])))
        for what, ask in zip(("a report", "a head", "an operator's change", "an operator's look"), ways, strict=True)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for what, times in found.items():
        waited = sorted(took for _, took in times)
        long = [took for took in waited if took > 0.2]
        worst = ", ".join(f"{took:.2f}" for took in waited[-5:])
        note(f"waits/{what} at most", "ms", [waited[-1] * 1e3])
        note(f"waits/{what}, of a hundred all but one", "ms", [waited[int(len(waited) * 0.99)] * 1e3])
        print(
            f"{what} waits {waited[len(waited) // 2] * 1e3:.0f} ms, p99 {waited[int(len(waited) * 0.99)] * 1e3:.0f} ms,"
            f" at most {worst} s; {len(long)} of {len(waited)} over 200 ms"
        )


def _watch_one(ask: Callable[[int], None], over: Path, times: list[tuple[float, float]]) -> None:
    number = 0
    while not over.exists():
        begun = time.monotonic()
        ask(number)
        times.append((begun, time.monotonic() - begun))
        number += 1
        time.sleep(PACE_S)


def _reports(folder: Path, port: int, now: int) -> Callable[[int], None]:
    listings = json.loads((folder / LISTINGS).read_text())
    callers = list(connections(folder, port, WATCHING))
    requests = [report_of(f"n{number}", _held(listings[f"n{number}"]), format_time(now)) for number in range(WATCHING)]
    return lambda number: each_once([callers[number % WATCHING]], [requests[number % WATCHING]])


def _heads(folder: Path, port: int) -> Callable[[int], None]:
    callers = list(connections(folder, port, WATCHING))
    request = b"GET /v1/head?generation=0&epoch=0&wait=0 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    return lambda number: each_once([callers[number % WATCHING]], [request])


def _changes(socket_path: Path) -> Callable[[int], None]:
    def ask(number: int) -> None:
        status, answer = _over_unix(socket_path, "POST", f"/v1/allowlist/later{number}", b"{}")
        assert status == 200, answer

    return ask


def _readings(socket_path: Path) -> Callable[[int], None]:
    def ask(_: int) -> None:
        status, answer = _over_unix(socket_path, "GET", "/v1/nodes/n1/events", b"")
        assert status == 200, answer

    return ask


# ---- joins


async def joins(count: int, members: int) -> None:
    """Of declared nodes, into so many members: how many, and how many heads are made for one, at once and in all."""
    with tempfile.TemporaryDirectory() as folder:
        founded = Founded(Path(folder), f"sqlite:///{folder}/state.db", settings=SETTINGS)
        with_members(founded, members)
        database = Database(founded.url)
        texts = {"fleet.yaml": state(members + count)}
        declarations.apply(database, texts, actor="benchmark", now=founded.now)
        database.close()
        async with running(founded) as at:
            await all_published(at, members)
            health = at.daemon.coordinator.publisher.health
            await allow(at, range(members, members + count))
            used, heads = used_s(), health.published_heads
            taken = float(await output_of(caller("join", folder, at.ports.join, members, count)))
            used, at_once = used_s() - used, health.published_heads - heads
            await trio.sleep(QUIET_S)
            await until(lambda: health.behind == 0)
            in_all = health.published_heads - heads
    note("joins/joins a second of one core", "1/s", [count / used])
    note("joins/heads of others and its own a join", "heads", [at_once / count])
    print(
        f"joins over TLS into {members} members: {count / taken:.0f}/s, {count / used:.0f}/s of one core of the"
        f" coordinator; {at_once / count:.1f} heads a join meanwhile, {in_all / count:.1f} in all"
    )


async def allow(at: Running, numbers: range) -> None:
    begun, used = time.monotonic(), used_s()
    for number in numbers:
        await at.ask("POST", f"/v1/allowlist/n{number}", {})
    taken, used = time.monotonic() - begun, used_s() - used
    count = len(numbers)
    note("joins/names allowed a second of one core", "1/s", [count / used])
    print(
        f"names allowed: {count / taken:.0f}/s one after the other, {count / used:.0f}/s of one core of the coordinator"
    )
    tokens = [await at.token() for _ in numbers]
    (at.founded.folder / "tokens.json").write_text(json.dumps(tokens))


async def join(folder: Path, port: int, members: int, count: int) -> None:
    """From several tasks at once, as after a power failure."""
    there = SimpleNamespace(folder=folder, now=time.time())
    at = SimpleNamespace(clients=[], joining=Endpoint("localhost", port, configured=True), founded=there)
    nodes = [TlsNode(at, f"n{number}") for number in range(members, members + count)]
    tokens = json.loads((folder / "tokens.json").read_text())
    limit = trio.Semaphore(16)

    async def one(number: int) -> None:
        async with limit:
            grant = await nodes[number].join(tokens[number])
            assert grant.outcome == "admitted"
            await nodes[number].stranger.aclose()

    begun = time.monotonic()
    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(one, number)
    print(time.monotonic() - begun)


@contextmanager
def urls(folder: Path) -> Iterator[dict[str, str]]:
    with postgresql.server(folder, durable=True) as url:
        yield {"SQLite": f"sqlite:///{folder}/state.db", "PostgreSQL": url.format("postgres")}


def main(arguments: list[str]) -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    interpreter.set_up()
    match arguments:
        case ["hold", folder, port, count]:
            hold(Path(folder), int(port), int(count))
        case ["report", folder, port, count, now]:
            report(Path(folder), int(port), int(count), int(now))
        case ["join", folder, port, members, count]:
            trio.run(join, Path(folder), int(port), int(members), int(count))
        case ["declare", place, count, address]:
            declare(Path(place), int(count), address)
        case ["watch", folder, port, place, now]:
            watch(Path(folder), int(port), Path(place), int(now))
        case ["take", folder, port, count]:
            take(Path(folder), int(port), int(count))
        case ["polls" | "documents" | "waits" as what, count]:
            trio.run({"polls": polls, "documents": documents_asked_for, "waits": waits}[what], int(count))
        case ["joins", count, *members]:
            trio.run(joins, int(count), int(members[0]) if members else 1_000)
        case ["heartbeats", count]:
            with tempfile.TemporaryDirectory() as directory, urls(Path(directory)) as found:
                for name, url in found.items():
                    (folder := Path(directory) / name).mkdir()
                    trio.run(heartbeats, name, url, folder, int(count))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
