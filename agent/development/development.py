"""`holdfast dev`: a folder of plain files, served as a node's agent serves what is active (docs/local-api.md).

    serve(place, ready)    until cancelled

Answers, notices, waits and projected files are the agent's own code, over a PlainStore. Every answer bears
`Holdfast-Source: development`, so that nobody takes one for configuration that somebody has signed. There is no
verification, no outage, and nothing to join: what the files name may be used.

The folder is looked at every `LOOK_EVERY_S`: one walk of names and times, and the files are read only once they differ.
inotify was rejected: it says nothing on network and container mounts, where such folders often lie.
"""

import random
from collections.abc import AsyncIterable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from agent.access.access import Access
from agent.base.clock import Clock
from agent.base.generation import Generation, following
from agent.base.threads import Threads
from agent.development.plain_files import PlainFileError, Sections, Stamp, read, stamp_of
from agent.development.plain_store import NAME, YEAR_S, PlainStore
from agent.files.file_access import FileAccess
from agent.files.generations import Generations, Permissions
from agent.files.projection import Projection
from agent.local.local_api import LocalApi
from agent.local.watching import Watching
from agent.services.publishing import Publishing
from agent.services.services import Services
from agent.state.view import Views
from snapshot.degraded import GateAnswer, GateFacts, HeldScope, Question
from snapshot.grants import read_grants
from snapshot.identifiers import parse_scope
from snapshot.manifest import ScopeVersion
from snapshot.roles import ROLES
from store.base.records import FailedContent
from wire.limits import LOCAL
from wire.local.local_answers import ConfirmedRoots, TakenDocument
from wire.local.node_status import NodeClock, NodeReport, StoreCondition
from wire.logs import log
from wire.request import HttpError
from wire.server import Server
from wire.unix import UnixTransport, unix_listener
from wire.version import VERSION

LOOK_EVERY_S = 0.5
MARK = ("holdfast-source", NAME)
GENERATIONS_S = 5.0  # of files that were replaced: who develops changes them often


@dataclass(frozen=True)
class Place:
    """`folder` has the plain files. Socket and projected files are made anew; `files` is the link to them."""

    folder: Path
    socket: Path
    files: Path


@dataclass
class PlainNode:
    """The node as the local API asks for it: one whose head is fresh, and whose roots nobody doubts."""

    views: Views
    now: Callable[[], float]
    folder: Path
    looks: int = 0
    fault: str = ""

    def changes(self) -> int:
        return self.looks

    def gate_facts(self) -> GateFacts:
        view = self.views.at_hand() or self.views.all()
        scopes = {
            name: HeldScope(
                scope.expires_at,
                1,
                grants=read_grants(
                    parse_scope(name).type,
                    [(section, scope.document.read(section)) for section in scope.document.sections],
                ),
            )
            for name, scope in view.scopes.items()
        }
        expires_at = None if view.head is None else view.head.expires_at
        return GateFacts(head_expires_at=expires_at, scopes=scopes, node_id=NAME, roles=frozenset(ROLES))

    async def known_running(self, _question: Question, _facts: GateFacts) -> frozenset[str]:
        """Of nothing that goes on through an outage: there is none here."""
        return frozenset()

    def listed_scopes(self) -> Collection[str]:
        view = self.views.at_hand() or self.views.all()
        return view.scopes.keys()

    def wanted_scopes(self) -> Mapping[str, ScopeVersion]:
        return {}

    def note_decision(self, question: Question, answer: GateAnswer, uid: int, now: float) -> None:
        log.debug("decided", action=question.action, allowed=answer.allowed, uid=uid, at=now)

    def report(self) -> NodeReport:
        """As an agent's (local_backend.py). `looks` counts how often the folder has been looked at."""
        return NodeReport(
            node_id=NAME,
            cluster_id=NAME,
            agent_version=VERSION,
            incarnation=NAME,
            state="active",
            cause="",
            join=None,
            degraded_since=None,
            rollback_check="confirmed",
            roles=tuple(sorted(map(str, ROLES))),
            roots=None,
            trust_bundle_version=1,
            clock=NodeClock(synchronised=None, offset_floor_s=0, regressed=False),
            sources=(),
            awaited={},
            candidates={},
            origins={},
            recovering=(),
            refresh_required=(),
            passed_over=(),
            store=StoreCondition(self.fault, floor_lost=False),
            relay=None,
            storage=None,
            ends=(),
            counters={"looks": self.looks},
        )

    async def confirm_roots(self, named: Collection[str], threshold: int) -> ConfirmedRoots:
        raise HttpError(
            409,
            "development",
            f"no root keys of {len(named)} to confirm, nor any threshold of {threshold}: these are plain files",
        )

    async def list_quarantine(self) -> Sequence[FailedContent]:
        return ()

    async def clear_quarantine(self, scope: str, by: str) -> Sequence[FailedContent]:
        raise HttpError(409, "development", f"nothing of {scope} is in quarantine for {by}: these are plain files")

    async def take(self, document: AsyncIterable[bytes]) -> TakenDocument:
        async for _ in document:
            break
        raise HttpError(409, "development", f"nothing is imported here: change the files in {self.folder}")


class NoTable:
    """Whom was told what is remembered for no restart."""

    def items(self) -> dict[str, object]:
        return {}

    def put(self, key: str, value: object) -> None:
        """Nobody asks for it again."""


@dataclass
class PlainFolder:
    """Follows the plain files. A fault is said once, and what was there before stays."""

    folder: Path
    store: PlainStore
    node: PlainNode
    threads: Threads
    now: Callable[[], float]
    _seen: Stamp | None = None

    async def look(self) -> None:
        """PlainFileError."""
        stamp = await self.threads.read(stamp_of, self.folder)
        if stamp != self._seen:
            self._seen = stamp
            await self.threads.read(self._take_up)
            self.node.fault = ""

    async def follow(self) -> None:
        """Until cancelled."""
        while True:
            await trio.sleep(LOOK_EVERY_S)
            try:
                await self.look()
            except PlainFileError as error:
                self.node.fault = str(error)
                log.error("not taken up", remedy=str(error))  # noqa: TRY400 - no trace needed
            self.node.looks += 1

    def _take_up(self) -> None:
        self.store.replace(_add_required(read(self.folder)), self.now())


@dataclass
class Served:
    """The parts, and how they are run together."""

    place: Place
    clock: Clock
    threads: Threads = field(default_factory=Threads)

    def __post_init__(self) -> None:
        self.store = PlainStore()
        self.views = Views(self.store, YEAR_S)
        self.node = PlainNode(self.views, self.now, self.place.folder)
        self.folder = PlainFolder(self.place.folder, self.store, self.node, self.threads, self.now)
        self.active, self.published = Generation(), Generation()
        self.watching = Watching(self.views, self.threads, self.active)
        own = Access(())
        whose = FileAccess.from_configuration(None, Permissions(), own)
        files = Generations(self.place.files.parent, self.place.files.name, whose.top, GENERATIONS_S)
        self.publishing = Publishing(
            self.views,
            Projection(files, whose),
            self.threads,
            self.active,
            self.published,
            self.now,
            lambda: False,
        )
        nobody = Services((), self.views, NoTable(), self.threads, self.published, self.now, random.uniform)
        api = LocalApi(self.node, self.views, self.threads, own, nobody, self.publishing, self.watching, self.now)
        self.server = Server("development", api.routes(), UnixTransport(), LOCAL, headers=(MARK,))

    def now(self) -> float:
        return self.clock.read().wall

    async def run(self, ready: Callable[[], None]) -> None:
        """Until cancelled. `ready` is called once the files are there and the socket answers."""
        await self.folder.look()
        with unix_listener(self.place.socket) as listener, following(self.store.watch, self.active):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.publishing.run)
                nursery.start_soon(self.watching.run)
                await self.published.wait_above(0)
                await self.watching.seen.wait_above(0)
                nursery.start_soon(self.folder.follow)
                await nursery.start(self.server.serve, listener)
                ready()


def _add_required(contents: dict[str, Sections]) -> dict[str, Sections]:
    """What a node cannot be without."""
    return {"node_bootstrap": {"node": b'{"node_id":"development"}'}, "trust_bundle": {}, **contents}
