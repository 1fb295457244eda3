"""From a change to active over the long poll: a real coordinator, and nodes that hold their polls over TLS.

    python -m benchmarks.agent_fleet [NODES]

A change that concerns every node is applied. Each node verifies its new head, and whole the document that it lists,
which comes beside the head or is fetched, as an agent does, and keeps it in memory; what a store costs is in
`benchmarks.store`. The nodes are one other process, so that on two cores it shares the machine with the coordinator
alone. Nodes of a fleet verify side by side, and here one after the other: so what has arrived is read before anything
is verified, and a node is active its own time of verifying after its answer came. Were the others' verifying counted
as well, a change would take as long as one processor verifies for all, however soon they are answered.

Each node has nine scopes, and one of them changes for all, by a policy of one ring and no vote: what those add is
measured by `benchmarks.changes`. Prints the seconds until active: from the operator's request, which is what people
wait for; and from each node's own publication, when its document and its head are written.
"""

import json
import random
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from select import EPOLLIN, epoll

import trio
from sqlalchemy import func, select

from benchmarks import coordinator_daemon as daemon
from benchmarks.documents import verified_anew
from benchmarks.figures import note
from coordinator.base import interpreter
from coordinator.database import schema
from coordinator.database.database import Database
from snapshot import envelope
from snapshot.container import ChunkParts
from snapshot.envelope import SNAPSHOT
from snapshot.identifiers import HEAD, format_time
from snapshot.verifier_state import VerifierState
from snapshot.verify import Verified
from tests.coordinator.bundles import roots_of
from tests.coordinator.daemon import running
from tests.coordinator.founding import CLUSTER, Founded
from tests.fakes.node import accepted
from wire.messages import INLINE_BYTES, HeadAnswer, TrustList

SCOPE = "degraded_mode_policy"
AT_ONCE = """
---
kind: RolloutPolicy
id: at-once
spec: {prepare: none, rings: [{percent: 100}], bake_s: 0}
"""
TAKEN = ("node_bootstrap", SCOPE)  # the first says which roles it has
POLICY = """
kind: DegradedModePolicy
id: standard
spec: {{allow: [continue_services], max_duration_s: {seconds}}}
"""


ROUNDS = 2


@dataclass
class Round:
    """Seconds of each node, from the request and from its own publication; the coordinator's processor, a node."""

    whole: list[float]
    own: list[float]
    used_ms: float
    shed: int


@dataclass
class Node:
    """A poll that is held, and what was verified of its answer."""

    node_id: str
    line: ssl.SSLSocket
    holder: VerifierState
    generation: int = 0
    held: dict[str, str] = field(default_factory=dict)  # ids, by scope
    fetched: str = ""  # the scope that is asked for
    buffer: bytearray = field(default_factory=bytearray)
    media_type: str = ""  # of the last answer
    arrived_at: float = 0.0  # the last answer, whole
    begun: float = 0.0  # to verify it, by a clock of intervals
    active_at: float = 0.0  # when it had verified the next version of the scope, if nobody else had been before it
    listed: dict[str, str] = field(default_factory=dict)
    asked: str = ""
    again_at: float | None = None

    def ask(self, target: str) -> None:
        self.asked, self.again_at = target, None
        self.line.sendall(f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())

    def poll(self) -> None:
        self.ask(
            f"/v1/head?generation={self.generation}&epoch={int(self.generation > 0)}&wait=300&inline={INLINE_BYTES}"
        )

    def answer(self) -> bytes | None:
        """A whole body, once it is there."""
        self.buffer += self.line.recv(1 << 20)
        while self.line.pending():
            self.buffer += self.line.recv(1 << 20)
        head, mark, body = bytes(self.buffer).partition(b"\r\n\r\n")
        if not mark:
            return None
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        if len(body) < int(headers["content-length"]):
            return None
        self.buffer.clear()
        if " 503 " in first:  # shed: it comes again as it is told to, and spread, as an agent does
            self.again_at = time.time() + int(headers["retry-after"]) + random.uniform(0, 1)
            return None
        assert " 200 " in first, head
        self.media_type, self.arrived_at = headers["content-type"], time.time()
        return body

    def follow(self, body: bytes) -> None:
        self.begun = time.perf_counter()
        if self.fetched:
            self.take_document(body)
            self.ask_for_next()
        else:
            self.follow_head(body)

    def take(self, body: bytes, kind: str) -> Verified:
        kept: dict[str, bytes] = {}
        verdict = verified_anew(ChunkParts([body]), self.holder, kind=kind, now=time.time(), keep=kept.__setitem__)
        assert isinstance(verdict, Verified), verdict
        self.holder = accepted(self.holder, verdict, kept)
        return verdict

    def take_document(self, body: bytes) -> None:
        taken = self.take(body, SNAPSHOT).envelope
        self.held[taken.scope] = taken.snapshot_id
        if taken.scope == SCOPE:
            self.active_at = self.arrived_at + time.perf_counter() - self.begun

    def follow_head(self, body: bytes) -> None:
        said = HeadAnswer.parse(self.media_type, body)
        head = self.take(said.head, HEAD)
        self.generation = head.envelope.config_version
        self.listed = {scope: head.head.scopes[scope].snapshot_id for scope in TAKEN if scope in head.head.scopes}
        beside = {claimed_id(document): document for document in said.documents}
        for id_ in self.listed.values():
            if id_ in beside:
                self.take_document(beside[id_])
        self.ask_for_next()

    def ask_for_next(self) -> None:
        self.fetched = next((scope for scope, id_ in self.listed.items() if self.held.get(scope) != id_), "")
        if self.fetched:
            self.ask(f"/v1/documents/{self.listed[self.fetched]}")
        else:
            self.poll()


def claimed_id(document: bytes) -> str:
    return envelope.parse(ChunkParts([document]).opening().envelope, SNAPSHOT).snapshot_id


def nodes_of(folder: Path, port: int, count: int) -> list[Node]:
    daemon.NODES = count  # a certificate for each
    lines = daemon.connections(folder, port, count)
    made = [Node(f"n{number}", line, VerifierState(CLUSTER, f"n{number}")) for number, line in enumerate(lines)]
    first = made[0]
    first.ask("/v1/trust?from=0")
    while (body := first.answer()) is None:
        pass
    bundle = TrustList.parse(body).documents[0]
    first.holder = VerifierState(CLUSTER, first.node_id, roots=roots_of(bundle))
    first.take(bundle, SNAPSHOT)
    for node in made:
        node.holder = VerifierState(CLUSTER, node.node_id, roots=first.holder.roots, bundle=first.holder.bundle)
    return made


def follow(nodes: list[Node]) -> tuple[dict[str, float], int]:
    """When each node had verified the next version of the scope, and how many requests were shed meanwhile; the polls
    are held again afterwards.
    """
    ready, by_line, shed = epoll(), {node.line.fileno(): node for node in nodes}, 0
    times: dict[str, float] = {}
    arrived: deque[tuple[Node, bytes]] = deque()
    turned_away: set[str] = set()
    for number in by_line:
        ready.register(number, EPOLLIN)
    for node in nodes:
        node.active_at = 0.0
    while len(times) < len(nodes) or arrived:
        for node in nodes if turned_away else ():
            if node.again_at is not None and node.again_at <= time.time():
                turned_away.discard(node.node_id)
                shed += 1
                node.ask(node.asked)
        readable = ready.poll(0 if arrived else 0.05)
        for number, _ in readable:
            node = by_line[number]
            body = node.answer()
            if body is not None:
                arrived.append((node, body))
            elif node.again_at is not None:
                turned_away.add(node.node_id)
        if arrived and not readable:
            node, body = arrived.popleft()
            node.follow(body)
            if node.active_at:
                times[node.node_id] = node.active_at
    ready.close()
    return times, shed


def hold(folder: Path, port: int, count: int) -> None:
    nodes = nodes_of(folder, port, count)
    for node in nodes:  # who was never heard of is waited for; one after the other, so that no report is shed
        daemon.each_once([node.line], [daemon.report_of(node.node_id, {}, format_time(time.time()))])
    for node in nodes:
        node.poll()
    for _ in range(2):  # what there is; the change
        print(json.JSONEncoder().encode(follow(nodes)), flush=True)
    sys.stdin.read()  # they stay while who has started them does: how they leave is none of what is measured


def holding(folder: str, port: int, count: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks.agent_fleet", "--hold", folder, str(port), str(count)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def publication(count: int) -> Round:
    with tempfile.TemporaryDirectory() as folder:
        founded = Founded(Path(folder), f"sqlite:///{folder}/state.db", settings=daemon.SETTINGS)
        daemon.with_members(founded, count)
        async with running(founded) as at:
            await at.declare(daemon.state(count) + AT_ONCE)
            await daemon.all_published(at, count)
            process = holding(folder, at.ports.fleet, count)
            await trio.to_thread.run_sync(process.stdout.readline)
            await daemon.until(lambda: at.daemon.coordinator.board.waiting >= count)
            used, asked = daemon.used_s(), time.time()
            await at.apply(POLICY.format(seconds=7200))
            times, shed = json.loads(await trio.to_thread.run_sync(process.stdout.readline))
            used = daemon.used_s() - used
            published = published_at(at.daemon.coordinator.database)
            process.kill()
            process.wait()
    whole, own = [each - asked for each in times.values()], [times[node_id] - published[node_id] for node_id in times]
    return Round(whole, own, used / count * 1000, shed)


def measure(count: int) -> None:
    """The first change of a fleet that has done nothing yet, each time: the next one would wait for reports."""
    rounds = [trio.run(publication, count) for _ in range(ROUNDS)]
    note("fleet/until active, of a hundred nodes all but one", "s", [p99(each.whole) for each in rounds])
    note("fleet/of the coordinator for each node", "ms", [each.used_ms for each in rounds])
    for each in rounds:
        print(f"{count} nodes, from the operator's request to active: {spread(each.whole)} [p99 <= 1]")
        print(
            f"    from each one's publication: {spread(each.own)}; {each.shed} requests shed; {each.used_ms:.1f} ms of"
            " the coordinator for each node"
        )


def published_at(database: Database) -> dict[str, float]:
    """When the newest version of the scope was written for each node."""
    table = schema.published
    newest = select(table.c.node_id, func.max(table.c.published_at).label("at")).where(table.c.scope == SCOPE)
    with database.read() as transaction:
        return {row.node_id: row.at for row in transaction.rows(newest.group_by(table.c.node_id))}


def spread(seconds: Iterable[float]) -> str:
    ordered = sorted(seconds)
    return f"p50 {ordered[len(ordered) // 2]:.2f} s, p99 {p99(ordered):.2f} s"


def p99(seconds: Iterable[float]) -> float:
    ordered = sorted(seconds)
    return ordered[int(len(ordered) * 0.99)]


def main(arguments: list[str]) -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    interpreter.set_up()
    match arguments:
        case ["--hold", folder, port, count]:
            hold(Path(folder), int(port), int(count))
        case []:
            measure(1000)
        case [count]:
            measure(int(count))


if __name__ == "__main__":
    main(sys.argv[1:])
