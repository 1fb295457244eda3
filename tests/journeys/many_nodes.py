"""Many nodes in one process that follow several coordinators, and an operator who never stops to change something.

A node verifies all that it is given by the product's own verifier, goes by the product's own table of reactions, asks
the next coordinator where one does not answer, and proves what it holds where it is asked to. The ledger is what no
node can see by itself: what was ever said under one number, also to a node that has gone on, and by whom it is said.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import trio

from agent.state.reaction import REACTION, Reaction
from agent.update.head_proof import ASKED
from snapshot.container import ChunkParts
from snapshot.identifiers import HEAD
from snapshot.manifest import Head, ScopeVersion
from snapshot.reasons import Rejected
from snapshot.verify import Verified, verify
from tests.coordinator import reports
from tests.coordinator.daemon import PATIENT, Follower, TlsNode
from tests.holdfast.operator_lab import Lab
from tests.journeys.gateway import WITHIN_S
from tests.world.pauses import pauses
from wire.client import Call, ClientError, HttpClient, Reply, UnixConnector
from wire.endpoint import Endpoint
from wire.messages import TrustList

HELD_S = 20  # of a question
FIRST_PAUSE_S, MOST_PAUSE_S = 0.2, 3.0
BETWEEN_WRITES_S = 0.5


@dataclass
class News:
    """Somebody has come further: whoever waits for something looks again."""

    _event: trio.Event = field(default_factory=trio.Event)

    def tell(self) -> None:
        self._event.set()
        self._event = trio.Event()

    async def until(self, holds: Callable[[], bool], said: Callable[[], object]) -> None:
        """`said` is for the one who reads why it did not come to it."""
        with trio.move_on_after(WITHIN_S):
            while not holds():
                await self._event.wait()
        assert holds(), said()


@dataclass
class Door:
    """A coordinator that is a process, as a node in this one asks for it."""

    lab: Lab
    folder: Path  # for identities, beside the certificate of the cluster
    clients: list[HttpClient]
    now: float = field(default_factory=time.time)

    @property
    def founded(self) -> "Door":
        return self

    @property
    def fleet(self) -> Endpoint:
        return Endpoint("localhost", self.lab.ports["fleet"], configured=True)

    @property
    def joining(self) -> Endpoint:
        return Endpoint("localhost", self.lab.ports["join"], configured=True)


@dataclass
class Ledger:
    """What was said under each number, of whichever coordinator it was heard."""

    said: dict[tuple[str, str, int, int], str] = field(default_factory=dict)

    def note_head(self, node_id: str, head: Verified) -> None:
        self._note(node_id, HEAD, head.mark.version, head.envelope_hash)  # its dates, too
        for scope, listed in _listed(head).scopes.items():
            self._note(node_id, scope, (listed.authority_epoch, listed.config_version), listed.content_hash)

    def _note(self, node_id: str, scope: str, version: tuple[int, int], content_hash: str) -> None:
        before = self.said.setdefault((node_id, scope, *version), content_hash)
        assert before == content_hash, f"{node_id}: two contents of {scope} under {version}"


class WatchedNode(Follower):
    """One that goes on whatever happens to its coordinators; what it may not be given ends the test."""

    def __init__(self, node: TlsNode, doors: Sequence[Door], ledger: Ledger, news: News) -> None:
        super().__init__(node)
        self._doors, self._ledger, self._news = tuple(doors), ledger, news
        self._listed: Head | None = None  # not all of it is held
        self._head = b""
        self.unanswered = 0

    @property
    def epoch(self) -> int:
        return self.holder.marks[HEAD].authority_epoch if self.generation else 0

    @property
    def version(self) -> tuple[int, int]:
        return self.epoch, self.generation

    @property
    def round(self) -> int:
        """Of what it runs: that the operator has written last."""
        if "node_runtime" not in self.holder.active or self._listed is not None:
            return 0
        held = self.holder.active["node_runtime"]
        text = b"".join(held.read(name) for name in held.sections)
        return int(text.partition(b'"round":"r')[2].partition(b'"')[0] or 0)

    @property
    def view_left_s(self) -> float:
        return self.holder.active[HEAD].envelope.expires_at - time.time()

    async def run(self) -> None:
        pause = pauses(FIRST_PAUSE_S, MOST_PAUSE_S)
        while True:
            try:
                await self.follow_once(HELD_S)
                pause = pauses(FIRST_PAUSE_S, MOST_PAUSE_S)
            except ClientError:
                self.unanswered += 1
                self._news.tell()
                self.node.at = self._doors[(self._doors.index(self.node.at) + 1) % len(self._doors)]
                await trio.sleep(next(pause))

    async def follow_once(self, wait_s: int = 0) -> None:
        if self._listed is None:
            answer = await self.node.head(self.generation, self.epoch, wait_s)
            if answer.headers.get(ASKED) == HEAD:
                await self.node.client.fetch(self.node.at.fleet, Call("POST", "/v1/head", (), self._head))
            if answer.status == 204:
                return
            await self._take_head(answer.body)
        before = dict(self.holder.marks)
        first = ("trust_bundle", "node_bootstrap", "node_runtime")
        for scope in sorted(self._listed.scopes, key=lambda name: (name not in first, name)):
            try:
                await self._follow(scope, self._listed.scopes[scope], time.time())
            except ClientError as error:
                if error.code != "not_found":
                    raise
                break  # a newer head has come meanwhile, and lists another one
        self._listed = None
        assert all(self.holder.marks[scope].version >= mark.version for scope, mark in before.items())
        self._news.tell()
        await self.node.report(self._report())

    async def _follow(self, scope: str, listed: ScopeVersion, now: float | None) -> None:
        """A set may be committed between a head and what it lists."""
        try:
            await super()._follow(scope, listed, now)
        except Rejected as refused:
            await self._refresh_trust(refused)
            await super()._follow(scope, listed, now)

    async def _refresh_trust(self, refused: Rejected) -> None:
        """Where that is what an agent does about it."""
        assert REACTION[refused.reason] is Reaction.REFRESH_TRUST, refused
        trust = await self.node.get(f"/v1/trust?from={self.holder.bundle.version}")
        for bundle in TrustList.parse(trust.body).documents:
            self.take(bundle, "snapshot", time.time())

    def _report(self) -> bytes:
        scopes = {
            scope: reports.scope({**reports.mark(version, epoch=epoch), "content_hash": mark.content_hash})
            for scope, mark in self.holder.marks.items()
            if scope not in (HEAD, "trust_bundle")
            for epoch, version in (mark.version,)
        }
        head = {"generation": self.generation, "authority_epoch": self.epoch, "age_s": 0, "grade": "fresh"}
        bundle = self.holder.bundle.version
        return reports.body(self.node.node_id, scopes=scopes, head=head, trust_bundle_version=bundle)

    async def _take_head(self, body: bytes) -> None:
        before = self.version
        try:
            taken = self.take(body, "head", time.time())
        except Rejected as refused:
            await self._refresh_trust(refused)
            taken = self.take(body, "head", time.time())
        assert self.version > before, f"{self.node.node_id}: a step back from {before}"
        self._ledger.note_head(self.node.node_id, taken)
        self._listed, self._head = _listed(taken), body

    async def compare(self, *, all_know_it: bool = True) -> int:
        """What each of them says to one that holds nothing, is what was said before under the same numbers; how many
        said anything. While the database is away, a coordinator knows nothing of a node that has never asked it.
        """
        heard = 0
        for door in self._doors:
            try:
                answer = await self._ask_anew(door) if all_know_it else await replace_at(self.node, door).head()
            except ClientError as error:
                assert not all_know_it and error.status == 503, error
                continue
            if answer.status == 204 and not all_know_it:
                continue
            blank = replace(self.holder, marks={}, active={})
            head = verify(ChunkParts([answer.body]), blank, kind="head", now=time.time(), keep=lambda *_: None)
            assert isinstance(head, Verified)
            self._ledger.note_head(self.node.node_id, head)
            heard += 1
        return heard

    async def _ask_anew(self, door: Door) -> Reply:
        """As one that holds nothing, and tries again where a coordinator has too much to do."""
        pause = pauses(FIRST_PAUSE_S, MOST_PAUSE_S)
        with trio.fail_after(WITHIN_S):
            while True:
                try:
                    return await replace_at(self.node, door).head(wait=10)
                except ClientError as error:
                    if error.code not in ("timed_out", "overloaded"):
                        raise
                    await trio.sleep(next(pause))


def replace_at(node: TlsNode, door: Door) -> TlsNode:
    """The same node, with the connections that it has, before another coordinator."""
    other = object.__new__(TlsNode)
    other.__dict__.update(node.__dict__, at=door)
    return other


@dataclass
class Writer:
    """An operator with each coordinator's socket, who tries again at the next one until a write is acknowledged.

    Each write leaves something of its own, and something that every node is told.
    """

    doors: Sequence[Door]
    node_ids: Sequence[str]
    news: News
    client: HttpClient[Path] = field(default_factory=lambda: HttpClient(UnixConnector(), PATIENT))
    at: int = 0
    acknowledged: list[tuple[int, float]] = field(default_factory=list)  # and when it was begun
    refused: int = 0
    between_s: float = BETWEEN_WRITES_S

    @property
    def last(self) -> int:
        return self.acknowledged[-1][0] if self.acknowledged else 0

    async def run(self) -> None:
        pause: Iterator[float] = pauses(FIRST_PAUSE_S, 1.0)
        while True:
            number, began = self.last + 1, time.monotonic()
            try:
                await self.ask("POST", f"/v1/allowlist/w{number}", {"kind": "data"})
                await self.ask("POST", "/v1/apply", {"files": {"state.yaml": self._declared(number)}})
            except ClientError:
                self.refused += 1
                self.news.tell()
                self.at = (self.at + 1) % len(self.doors)
                await trio.sleep(next(pause))
                continue
            self.acknowledged.append((number, began))
            self.news.tell()
            pause = pauses(FIRST_PAUSE_S, 1.0)
            await trio.sleep(self.between_s)

    async def written_after(self, moment: float) -> float:
        """Until one is acknowledged that was begun after it: how long that took, in seconds."""
        await self.news.until(
            lambda: bool(self.acknowledged) and self.acknowledged[-1][1] >= moment,
            lambda: [each.lab.readiness() for each in self.doors if each.lab.process.poll() is None],
        )
        return time.monotonic() - moment

    async def kept(self) -> set[int]:
        """Which of all writes are in the database."""
        entries = (await self.ask("GET", "/v1/allowlist"))["entries"]
        return {int(each["node_id"][1:]) for each in entries if each["node_id"].startswith("w")}

    async def ask(self, method: str, path: str, body: object = None, *, at: Door | None = None) -> dict:
        """`at`: another one than that which the writer is at."""
        call = Call(method, path, body=b"" if body is None else json.dumps(body).encode(), limit=16 << 20)
        return json.loads((await self.client.fetch((at or self.doors[self.at]).lab.socket, call)).body)

    def _declared(self, number: int) -> str:
        labels = f"labels: {{round: r{number}}}"
        return "\n---\n".join(
            f"{{kind: Node, id: {name}, spec: {{roles: [core_mesh], {labels}}}}}" for name in self.node_ids
        )


def _listed(head: Verified) -> Head:
    assert head.head is not None
    return head.head
