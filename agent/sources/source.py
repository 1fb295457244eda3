"""One source of documents: when it is asked again, and where on it a document is (protocol.md 1; rules X27).

Coordinators answer by the routes of protocol.md 1. Storage, a mirror and the sources of a manual map may as well be a
tree of files, as `holdfastctl publish --to` makes it and any file server serves it: what is not found by its route is
looked for as its file, and the other way round on a source that was found to be a tree. What comes is verified all the
same.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import trio

from agent.state.origins import Giver
from wire.backoff import LEAST_S, BackOff
from wire.client import Call, ClientError, ClientFault, HttpClient, Reply, Streamed
from wire.endpoint import Endpoint, path
from wire.version import PROTOCOL

FILE_SUFFIX = ".hfs"
# Of a file that is not there; an object store says the second to whom it does not let list.
MISSING = (404, 403)

MOST_LACKS = 4  # documents in a row that a peer has not got, and may hold: then it is behind

T = TypeVar("T")


class PeerSet(StrEnum):
    """Of peers, how soon it is asked (peer_sets.py)."""

    ACTIVE = "active"
    WARM = "warm"
    COLD = "cold"


@dataclass(frozen=True)
class PeerPlace:
    """What a source that is a peer is to this node now."""

    node_id: str
    peer_set: PeerSet
    is_near: bool
    is_bootstrap: bool
    is_relay: bool


class Kind(StrEnum):
    COORDINATOR = "coordinator"
    MANUAL = "manual"  # of a manual map
    STORAGE = "storage"
    PEER = "peer"


@dataclass(frozen=True)
class DocumentPlace:
    """The route of protocol.md 1, and the file of a tree."""

    route: str
    file: str | None = None


def head_place(node_id: str, held: tuple[int, int], wait_s: int, inline: int = 0) -> DocumentPlace:
    """`held`: (authority_epoch, generation). `inline`: bytes of documents that are taken beside it."""
    epoch, generation = held
    taken = {"inline": inline} if inline else {}
    route = path("v1", "head", generation=generation, epoch=epoch, wait=wait_s, protocol=PROTOCOL, **taken)
    return DocumentPlace(route, path("heads", _file_name(node_id)))


def document_place(snapshot_id: str) -> DocumentPlace:
    return DocumentPlace(path("v1", "documents", snapshot_id), path("documents", _file_name(snapshot_id)))


def increment_place(scope: str, base: int, target_id: str) -> DocumentPlace:
    """`target_id`: of the document that it leads to."""
    file = path("increments", _file_name(f"{target_id}\n{base}"))
    return DocumentPlace(path("v1", "increments", scope, base=base), file)


def recovery_place(node_id: str, scope: str) -> DocumentPlace:
    return DocumentPlace(path("v1", "recoveries", scope), path("recoveries", _file_name(f"{node_id}\n{scope}")))


def bundle_file(version: int) -> str:
    return path("trust", f"{version}{FILE_SUFFIX}")


def _forget(_good: bool) -> None:
    """Of a source of which nothing is remembered."""


@dataclass
class Source:
    """`not_before`: trio's clock; a source that fails is left alone until then. `poll_again_at`: nor is it asked for a
    head before. `unattended`: what it has may be taken whole without an operator (rules K7). `fault`: what the last
    request ended with. `peer`: of a peer, who it is. `note_outcome`: for whoever remembers whether something good came
    of it.
    """

    kind: Kind
    endpoint: Endpoint
    client: HttpClient[Endpoint]
    back_off: BackOff
    unattended: bool = True
    not_before: float = 0.0
    poll_again_at: float = 0.0
    error: str = ""
    fault: ClientFault | None = None
    worked_at: float = float("-inf")
    failed_at: float = float("-inf")
    polled_at: float = float("-inf")
    asked_for_trust_at: float = float("-inf")
    looked_at: float = float("-inf")  # for trust bundles (second_look.py)
    is_tree: bool = False
    peer: PeerPlace | None = None
    shown_head: tuple[int, int] = (0, 0)  # by which a peer knows what we may have (agent/update/own_standing.py)
    shown_at: float = float("-inf")
    told_bundle: int | None = None  # the trust bundle that a peer has, as it said last
    lacks: int = 0  # documents in a row that it had not, though it may hold them
    note_outcome: Callable[[bool], None] = _forget

    def __str__(self) -> str:
        return str(self.endpoint)

    @property
    def giver(self) -> Giver:
        """As it is noted of what it gives."""
        if self.peer is None:
            return Giver(str(self), str(self.kind))
        return Giver(str(self), "relay" if self.peer.is_relay else str(self.kind), self.peer.node_id)

    # ---- when

    @property
    def is_rested(self) -> bool:
        return trio.current_time() >= self.not_before

    @property
    def may_be_polled(self) -> bool:
        return self.is_rested and trio.current_time() >= self.poll_again_at

    @property
    def again_in_s(self) -> float:
        return max(0.0, self.not_before - trio.current_time())

    @property
    def worked_s_ago(self) -> int | None:
        """Since something good came of it."""
        return None if self.worked_at == float("-inf") else int(trio.current_time() - self.worked_at)

    def note_success(self) -> None:
        self.back_off.note_success()
        self.error, self.fault, self.worked_at = "", None, trio.current_time()
        self.not_before, self.lacks = 0.0, 0
        self.note_outcome(True)

    def note_lack(self) -> None:
        """It has not got a document that it may hold; after a few in a row it is one that is behind."""
        self.lacks += 1
        if self.lacks >= MOST_LACKS:
            self.note_failure(f"is behind: it has none of the last {self.lacks} documents that it was asked for")
            self.lacks = 0

    def note_failure(self, error: ClientError | str) -> None:
        """Nothing good came of it: it is asked again after its back-off, or later where it says so."""
        retry_after_s = error.retry_after_s if isinstance(error, ClientError) else None
        self.error = str(error)[:256]
        self.fault = error.reason if isinstance(error, ClientError) else None
        self.failed_at = trio.current_time()
        self.not_before = self.failed_at + self.back_off.note_failure(retry_after_s)
        self.note_outcome(False)

    def poll_in(self, seconds: float) -> None:
        """It holds no request, or has nothing new: the next head is asked for then; documents may be meanwhile."""
        self.polled_at = trio.current_time()
        self.poll_again_at = self.polled_at + max(LEAST_S, seconds)

    def wake(self) -> None:
        """It may be asked now, or as soon as the floor lets (rules P14)."""
        self.not_before = min(self.not_before, self.failed_at + LEAST_S)
        self.poll_again_at = min(self.poll_again_at, self.polled_at + LEAST_S)

    # ---- where

    async def fetch(self, place: DocumentPlace, *, wait_s: float = 0.0, limit: int) -> Reply:
        """The whole answer. ClientError."""

        async def whole(answer: Streamed) -> Reply:
            body = b"".join([piece async for piece in answer.chunks()])
            return Reply(answer.status, answer.headers, answer.server, body)

        return await self.ask(place, whole, wait_s=wait_s, limit=limit)

    async def ask(
        self, place: DocumentPlace, use: Callable[[Streamed], Awaitable[T]], *, wait_s: float = 0.0, limit: int
    ) -> T:
        """What `use` makes of the answer, its body still to come. ClientError, of the last place that was tried."""
        targets = self._targets(place)
        for target in targets:
            try:
                async with self.client.stream(self.endpoint, Call("GET", target, wait_s=wait_s, limit=limit)) as answer:
                    self.is_tree = self.is_tree if place.file is None else target == place.file
                    return await use(answer)
            except ClientError as error:
                if error.status not in MISSING or target == targets[-1]:
                    raise
        raise AssertionError("there is always a route")

    def _targets(self, place: DocumentPlace) -> Sequence[str]:
        if self.kind is Kind.COORDINATOR or place.file is None:
            return (place.route,)
        return (place.file, place.route) if self.is_tree else (place.route, place.file)


def _file_name(identifier: str) -> str:
    """A hash, so that a listing tells nobody who the nodes are."""
    return hashlib.sha256(identifier.encode()).hexdigest() + FILE_SUFFIX
