"""What the tests of the agent's periphery share: a real store, and the local API on a real socket over it."""

from collections.abc import AsyncIterable, AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from agent.access.access import Access
from agent.base.generation import Generation, following
from agent.base.threads import Threads
from agent.files.file_access import FileAccess
from agent.files.generations import Generations, Permissions
from agent.files.projection import Projection
from agent.local.local_api import LocalApi
from agent.local.watching import Watching
from agent.services.publishing import Publishing
from agent.services.services import LocalService, Services
from agent.state.view import Views
from snapshot.container import ChunkParts
from snapshot.degraded import GateAnswer, GateFacts, HeldScope, Question
from snapshot.manifest import ScopeVersion
from snapshot.verify import verify
from store.base.records import FailedContent
from store.base.tables import Name
from tests.store.cluster import NOW, SCOPE, Cluster, Node
from tests.wire.lab import LIMITS, once, running
from wire.local.local_answers import ConfirmedRoots, TakenDocument
from wire.local.node_status import (
    AskedSource,
    AwaitedVersion,
    CandidateState,
    JoinTrouble,
    NodeClock,
    NodeReport,
    StorageCondition,
    StoreCondition,
)
from wire.messages import DocumentOrigin, RelayCondition
from wire.request import HttpError
from wire.server import Server
from wire.unix import UnixTransport, unix_listener

DAY = 86_400


@dataclass
class Periphery:
    """A node's local side. `at` is the time; `facts` what the gate goes by; both may be changed by a test."""

    node: Node
    folder: Path
    at: float = NOW
    state: str = "active"
    cause: str = ""
    sources: list[AskedSource] = field(default_factory=list)
    join: JoinTrouble | None = None
    awaited: dict[str, AwaitedVersion] = field(default_factory=dict)
    candidates: dict[str, CandidateState] = field(default_factory=dict)
    origins: dict[str, DocumentOrigin] = field(default_factory=dict)
    relay: RelayCondition | None = None
    storage: StorageCondition | None = None
    refresh_required: list[str] = field(default_factory=list)
    rollback_check: str = "confirmed"
    counters: dict[str, int] = field(default_factory=lambda: {"updates_total": 3})
    given: GateFacts = field(default_factory=lambda: GateFacts(head_expires_at=NOW + 1800))
    revoked: bool = False
    of_head: Collection[str] | None = None
    of_head_wanted: Mapping[str, ScopeVersion] = field(default_factory=dict)
    access: Access = field(default_factory=lambda: Access.of_group(0))
    files_for: str | None = None
    services: tuple[LocalService, ...] = ()
    settle_s: float = 0.0
    taken: list[bytes] = field(default_factory=list)
    quarantine: list[FailedContent] = field(default_factory=list)
    cleared: list[tuple[str, str]] = field(default_factory=list)
    roots: set[str] = field(default_factory=set)
    threads: Threads = field(default_factory=Threads)

    def __post_init__(self) -> None:
        self.views = Views(self.node.store)
        self.active, self.published = Generation(), Generation()
        self.files = self.folder / "active"
        self.socket = self.folder / "agent.sock"
        whose = FileAccess.from_configuration(self.files_for, Permissions(), self.access)
        generations = Generations(self.folder, "active", whose.top)
        self.publishing = Publishing(
            self.views,
            Projection(generations, whose),
            self.threads,
            self.active,
            self.published,
            self.now,
            lambda: self.revoked,
        )
        self.watching = Watching(self.views, self.threads, self.active)
        self.telling = Services(
            self.services, self.views, self.node.store.table(Name.WATERMARKS), self.threads, self.published,
            self.now, lambda low, high: high, self.settle_s, self._told,
        )  # fmt: skip
        self._recorded = trio.Event()
        self._looked = 0
        self.api = LocalApi(
            self, self.views, self.threads, self.access, self.telling, self.publishing, self.watching, self.now
        )

    def now(self) -> float:
        return self.at

    def _told(self, service: str) -> None:
        self._recorded.set()
        self._recorded = trio.Event()

    async def recorded(self, service: str, *, ok: bool) -> Mapping[str, object]:
        """What the store remembers of it, once it is of that kind."""
        table = self.node.store.table(Name.WATERMARKS)
        with trio.fail_after(60):
            while (found := table.get(service)) is None or found["ok"] != ok:
                await self._recorded.wait()
        return found

    # agent.local.local_api.Node

    def changes(self) -> int:
        """A test changes what it likes, and tells nobody."""
        self._looked += 1
        return self._looked

    def gate_facts(self) -> GateFacts:
        return self.given

    def listed_scopes(self) -> Collection[str] | None:
        return self.of_head

    def wanted_scopes(self) -> Mapping[str, ScopeVersion]:
        return self.of_head_wanted

    async def known_running(self, question: Question, facts: GateFacts) -> frozenset[str]:
        """`test_running` has how that is known."""
        return facts.running

    def note_decision(self, question: Question, answer: GateAnswer, uid: int, now: float) -> None:
        """`test_decisions` has what becomes of it."""

    def report(self) -> NodeReport:
        return NodeReport(
            node_id="node-1",
            cluster_id="blue",
            agent_version="0.1.0",
            incarnation="i-1",
            state=self.state,
            cause=str(self.cause or self.given.cause or ""),
            join=self.join,
            degraded_since=None,
            rollback_check=self.rollback_check,
            roles=(),
            roots=None,
            trust_bundle_version=1,
            clock=NodeClock(synchronised=True, offset_floor_s=0, regressed=False),
            sources=tuple(self.sources),
            awaited=self.awaited,
            candidates=self.candidates,
            origins=self.origins,
            recovering=(),
            refresh_required=tuple(self.refresh_required),
            passed_over=(),
            store=StoreCondition("", floor_lost=False),
            relay=self.relay,
            storage=self.storage,
            ends=(),
            counters=dict(self.counters),
        )

    async def confirm_roots(self, named: Collection[str], threshold: int) -> ConfirmedRoots:
        """`test_joining` has what is kept of it."""
        if set(named) != self.roots:
            raise HttpError(409, "other_roots", "the root keys that this node holds are others")
        return ConfirmedRoots("confirmed", tuple(sorted(named)), threshold)

    async def list_quarantine(self) -> Sequence[FailedContent]:
        return self.quarantine

    async def clear_quarantine(self, scope: str, by: str) -> Sequence[FailedContent]:
        self.cleared.append((scope, by))
        held = [entry for entry in self.quarantine if entry.scope == scope]
        self.quarantine = [entry for entry in self.quarantine if entry.scope != scope]
        return held

    async def take(self, document: AsyncIterable[bytes]) -> TakenDocument:
        data = b"".join([piece async for piece in document])
        self.taken.append(data)
        verdict = verify(ChunkParts(iter([data])), self.node.holder(), kind="snapshot", now=self.at)
        return TakenDocument(type(verdict).__name__, verdict.envelope.scope, *verdict.envelope.version)

    # the store

    def apply(self, document: object, **more: float) -> None:
        self.node.apply(document, **more)

    def route(self, version: int, sections: Mapping[str, object], **changes: object) -> None:
        self.apply(self.node.cluster.snapshot(version, sections, **changes))


def asked_source(kind: str = "coordinator", url: str = "https://c:1", **changes: object) -> AskedSource:
    """One that is well, but for what is said otherwise."""
    well = {"named_by": "agent.toml", "error": "", "failures": 0, "again_in_s": 0}
    return AskedSource(kind=kind, url=url, **well | changes)


@asynccontextmanager
async def serving(periphery: Periphery) -> AsyncIterator[Periphery]:
    """The socket and the tasks beside it."""
    server = Server("local", periphery.api.routes(), UnixTransport(), LIMITS)
    with unix_listener(periphery.socket) as listener, following(periphery.node.store.watch, periphery.active):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(periphery.publishing.run)
            nursery.start_soon(periphery.watching.run)
            nursery.start_soon(periphery.telling.run)
            await periphery.published.wait_above(-1)
            await periphery.watching.seen.wait_above(-1)
            async with running(server, listener):
                yield periphery
            nursery.cancel_scope.cancel()


@dataclass(frozen=True)
class GateAnswer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def parse(cls, raw: bytes) -> "GateAnswer":
        head, _, body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        if headers.get("transfer-encoding") == "chunked":
            body = whole(body)
        return cls(int(first.split()[1]), headers, body)


def whole(chunks: bytes) -> bytes:
    """A chunked body, which must have its end."""
    found = b""
    while chunks != b"0\r\n\r\n":
        size, _, rest = chunks.partition(b"\r\n")
        found += rest[: int(size, 16)]
        chunks = rest[int(size, 16) + 2 :]
    return found


async def ask(periphery: Periphery, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> GateAnswer:
    """One answer, over a connection of its own."""
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return GateAnswer.parse(await once(periphery.socket, "\r\n".join([*lines, "", ""]).encode() + body))


def held(expires_at: int = NOW + DAY, epoch: int = 1, **more: object) -> HeldScope:
    return HeldScope(expires_at, epoch, **more)


__all__ = ["DAY", "NOW", "SCOPE", "Cluster", "GateAnswer", "Node", "Periphery", "ask", "held", "serving"]
