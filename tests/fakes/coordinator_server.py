"""A coordinator for one node over real TLS: it answers with documents of a `Cluster`, and does as badly as it is told.

server.publish(document)     it can be fetched
server.announce()            the next head lists what was published last; waiting polls are answered
server.propose(...)          a document that heads list as coming, and not to be run; server.release(scope): to be run
server.running()             for a block, and again on the same ports after it; `connects`: when the fleet connected
server.spoil                 what becomes of an answer's bytes; `refuse`: the code of every refusal
server.instead               what is answered in place of a document
"""

import base64
import time
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import trio

from coordinator.keys.signer import SignedDocument
from snapshot import canonical
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.manifest import ScopeVersion
from tests.fakes.cluster import HOUR, Cluster, State, key, listing
from tests.fakes.ports import held_port
from wire.certificate import KeyPair, fingerprint, is_proven, issue_server, make_authority
from wire.limits import REMOTE, ListenerLimits
from wire.messages import (
    HEARTBEAT_BYTES,
    Heartbeat,
    HeartbeatAnswer,
    JoinGrant,
    JoinNonce,
    JoinRequest,
    Recorded,
    TrustList,
)
from wire.peer import PinState
from wire.pins import PinTable
from wire.request import HttpError, Request, Response
from wire.routes import HttpRoute, Routes
from wire.server import Server
from wire.tls import PinnedTransport, ServerAuthTransport

DAY = 24 * HOUR


def token_naming(roots: Sequence[str], threshold: int = 2, signature: str = "c2ln") -> str:
    """A join token in form, as an operator makes it; `signature`: another one is another token."""
    claims = {"root_key_ids": [key(name).key_id for name in roots], "root_threshold": threshold}
    return f"e30.{base64.urlsafe_b64encode(canonical.dumps(claims)).decode().rstrip('=')}.{signature}"


TOKEN = token_naming(["root-1", "root-2", "root-3"])
BARE_TOKEN = "a-join-token"  # which names no root keys
GOOD = tuple(f"Bearer {token}" for token in (TOKEN, BARE_TOKEN))
EVERYONE = frozenset(PinState)
Spoil = Callable[[str, bytes], bytes]


@dataclass
class CoordinatorServer:
    """`now` tells the time, for heads. Requests are remembered, by method and path."""

    cluster: Cluster
    folder: Path
    now: Callable[[], float]
    head_lifetime_s: int = HOUR // 6  # a third of what a coordinator gives: an outage is seen the sooner
    documents: dict[str, bytes] = field(default_factory=dict)
    increments: dict[tuple[str, int], bytes] = field(default_factory=dict)
    recoveries: dict[str, bytes] = field(default_factory=dict)
    bundles: list[bytes] = field(default_factory=list)
    head: bytes = b""
    coming: dict[str, ScopeVersion] = field(default_factory=dict)  # what heads list under `candidates`
    heartbeats: list[Heartbeat] = field(default_factory=list)
    recorded: dict[str, Recorded] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    connects: list[float] = field(default_factory=list)  # by trio's clock
    joins: int = 0
    refuse: str = ""
    down: bool = False
    proves: bool = False  # a node that is ahead is asked for its head
    proofs: list[bytes] = field(default_factory=list)
    proof_code: str = ""  # the refusal of every proof; `not_ready` is a 503
    hang: str = ""  # a document's path, or "GET /v1/head", "POST /v1/head", is not answered while it stands here
    spoil: Spoil = lambda _, data: data
    beside: Callable[[bytes], tuple[str, bytes]] | None = None  # type and bytes of a head's answer, where asked for
    instead: Callable[[str, bytes], Response] | None = None
    authority: KeyPair | None = None
    pins: PinTable = field(default_factory=PinTable)
    limits: ListenerLimits = REMOTE

    def __post_init__(self) -> None:
        made_at = time.time()
        self.authority = authority = self.authority or make_authority("test CA", made_at)
        self.shown = issue_server(authority, ["127.0.0.1", "localhost", "coordinator.invalid"], made_at)
        self.ca_file = self.folder / "ca.pem"
        self.ca_file.write_bytes(authority.certificate_pem)
        self.fingerprint = fingerprint(self.shown.der)
        self.fleet_port = self.join_port = 0
        if not self.bundles:
            self.publish(self.cluster.first_bundle)
        self._proposed: dict[str, tuple[SignedDocument, State]] = {}
        self._news = trio.Event()
        self._heard = trio.Event()

    def another(self, folder: Path) -> "CoordinatorServer":
        """Another one of the same cluster and CA: the same documents and pins, and a head and faults of its own."""
        return CoordinatorServer(
            self.cluster,
            folder,
            self.now,
            documents=self.documents,
            increments=self.increments,
            recoveries=self.recoveries,
            bundles=self.bundles,
            pins=self.pins,
            authority=self.authority,
        )

    # ---- what a test does

    def publish(self, *documents: SignedDocument) -> None:
        for document in documents:
            one = document.envelope
            if one.kind == "increment":
                self.increments[one.scope, one.base_config_version] = document.to_bytes()
            elif one.kind == "recovery":
                self.recoveries[one.scope] = document.to_bytes()
            elif one.scope_type == TRUST_BUNDLE:
                self.bundles.append(document.to_bytes())
            else:
                self.documents[one.snapshot_id] = document.to_bytes()

    def publish_increment(self, scope: str, **changes: object) -> SignedDocument:
        """An increment, and the full document of the same version; each has an id of its own."""
        named = {"snapshot_id": f"increment-to-{self.cluster.versions.get(scope, 0) + 1}"}
        made = self.cluster.increment(scope, **(named | changes), **self.times())
        version = made.envelope.config_version
        state = self.cluster.states[scope]
        whole = self.cluster.snapshot(
            state.sections,
            scope,
            config_version=version,
            **self.audience(scope),
            **self.times(),
        )
        self.publish(made, whole)
        return made

    def announce(self, **members: object) -> SignedDocument:
        """A new head, valid from now."""
        now = int(self.now())
        members = {
            "candidates": self.coming,
            "issued_at": now,
            "valid_from": now,
            "refresh_after": now + self.head_lifetime_s // 2,
            "expires_at": now + self.head_lifetime_s,
        } | members
        made = self.cluster.head(**members)
        self.say(made)
        return made

    def say(self, head: SignedDocument) -> None:
        self.head = head.to_bytes()
        self._generation = head.envelope.version
        self.wake()

    def wake(self) -> None:
        self._news.set()
        self._news = trio.Event()

    def snapshot(self, sections: object = None, scope: str = "route_policy", **members: object) -> SignedDocument:
        """A document of now, published."""
        made = self.cluster.snapshot(sections, scope, **(self.times() | self.audience(scope) | members))
        self.publish(made)
        return made

    def propose(
        self, sections: object = None, scope: str = "route_policy", *, listed: object = None, **members: object
    ) -> SignedDocument:
        """A document of now that heads list as coming; `listed`: how, beside what it is. Nothing else lists it."""
        runs, state = self.cluster.published.get(scope), self.cluster.states.get(scope)
        made = self.snapshot(sections, scope, **members)
        self._proposed[scope] = made, self.cluster.states[scope]
        self.coming[scope] = replace(listing(made), **(listed or {"change": "c-1"}))
        for table, before in ((self.cluster.published, runs), (self.cluster.states, state)):
            if before is None:
                del table[scope]
            else:
                table[scope] = before
        return made

    def release(self, *scopes: str) -> None:
        """What was coming is listed to be run from the next head on."""
        for scope in scopes:
            self.cluster.published[scope], self.cluster.states[scope] = self._proposed.pop(scope)
            del self.coming[scope]

    def times(self) -> dict[str, int]:
        now = int(self.now())
        return {"issued_at": now, "valid_from": now, "refresh_after": now + DAY, "expires_at": now + 7 * DAY}

    @staticmethod
    def audience(scope: str) -> dict[str, object]:
        establishing = scope in ("node_bootstrap", "node_runtime")
        return {"roles": ["core_mesh"]} if establishing else {}

    async def wait_heartbeat(self, accepts: Callable[[Heartbeat], bool] = lambda _: True) -> Heartbeat:
        """The first report from now on that is as wanted."""
        seen = len(self.heartbeats)
        with trio.fail_after(24 * HOUR):
            while True:
                for one in self.heartbeats[seen:]:
                    if accepts(one):
                        return one
                seen = len(self.heartbeats)
                await self._heard.wait()

    # ---- what it answers

    @asynccontextmanager
    async def running(self) -> AsyncIterator["CoordinatorServer"]:
        limits = self.limits
        pinned, open_to_all = PinnedTransport(self.pins, self.shown, limits), ServerAuthTransport(self.shown, limits)
        self._transports = pinned, open_to_all
        fleet = Server("fleet", self._fleet_routes(), pinned, limits)
        join = Server("join", self._join_routes(), open_to_all, limits)
        async with trio.open_nursery() as nursery:
            self.fleet_port = self.fleet_port or self._port()
            self.join_port = self.join_port or self._port()
            await _listen(nursery, fleet, self.fleet_port, self.connects)
            await _listen(nursery, join, self.join_port, [])
            yield self
            nursery.cancel_scope.cancel()

    async def show_certificate_of(self, authority: KeyPair) -> None:
        """From the next handshakes on."""
        self.shown = issue_server(authority, ["127.0.0.1", "localhost", "coordinator.invalid"], time.time())
        self.fingerprint = fingerprint(self.shown.der)
        pinned, open_to_all = self._transports
        open_to_all.show(self.shown)
        pinned.show(self.shown)
        await pinned.wait_settled()

    def _port(self) -> int:
        """Ours also while nobody listens there."""
        held = held_port()
        weakref.finalize(self, held.close)
        return int(held.getsockname()[1])

    def _join_routes(self) -> Routes:
        return Routes(HttpRoute("GET", "/v1/join/nonce", self._nonce), HttpRoute("POST", "/v1/join", self._join))

    def _fleet_routes(self) -> Routes:
        return Routes(
            HttpRoute("GET", "/v1/head", self._head, deadline_s=400, states=EVERYONE),
            HttpRoute("POST", "/v1/head", self._proof, body_bytes=5 << 20),
            HttpRoute("GET", "/v1/documents/{id}", self._document),
            HttpRoute("GET", "/v1/increments/{scope}", self._increment),
            HttpRoute("GET", "/v1/recoveries/{scope}", self._recovery),
            HttpRoute("GET", "/v1/trust", self._trust, states=EVERYONE),
            HttpRoute("POST", "/v1/heartbeat", self._heartbeat, body_bytes=HEARTBEAT_BYTES),
            HttpRoute("POST", "/v1/join", self._join),
            HttpRoute("GET", "/v1/join/nonce", self._nonce),
        )

    def _met(self, request: Request) -> None:
        self.requests.append(f"{request.method} {request.path}")
        if self.down:
            raise HttpError(503, "unavailable", "down")
        if self.refuse:
            raise HttpError(403, self.refuse, "no")

    def _answer(self, request: Request, data: bytes | None) -> Response:
        if data is None:
            raise HttpError(404, "not_found", "there is none")
        return Response(200, (), self.spoil(request.path, data))

    async def _nonce(self, request: Request) -> Response:
        self._met(request)
        return Response.json(JoinNonce("nonce-1").to_value())

    async def _join(self, request: Request) -> Response:
        self._met(request)
        body = await request.body()
        asked = JoinRequest.parse(body)
        assert is_proven(asked.certificate, body, request.header("holdfast-proof") or "")
        assert asked.server == self.fingerprint
        known = self.pins.find(asked.certificate) is not None
        renewal = "fleet" if request.header("authorization") is None else ""
        if (
            not known
            and not renewal
            and request.header("authorization") not in (f"Bearer {TOKEN}", f"Bearer {BARE_TOKEN}")
        ):
            raise HttpError(403, "bad_token", "no")
        self.joins += 1
        self.pins.add(asked.certificate, asked.node_id, PinState.ACTIVE)
        outcome = "already_member" if known or renewal else "admitted"
        bootstrap = [data for name, data in self.documents.items() if name.startswith("node_bootstrap")]
        grant = JoinGrant(outcome, "coord-1", (*self.bundles, *bootstrap[-1:]))
        return Response(200, [("content-type", "application/json")], self.spoil("/v1/join", grant.to_bytes()))

    async def _head(self, request: Request) -> Response:
        self._met(request)
        held = (request.query_integer("epoch", 0, 0, 2**53), request.query_integer("generation", 0, 0, 2**53))
        if self.proves and self.head and held > self._generation:
            return Response(204, [("holdfast-prove", "head")])
        while self.hang == "GET /v1/head":  # noqa: ASYNC110 - the test changes it
            await trio.sleep(0.5)
        with request.waiting(), trio.move_on_after(request.query_integer("wait", 0, 0, 300)):
            while not self.head or self._generation <= held:
                await self._news.wait()
        self._met(request)
        if not self.head or self._generation <= held:
            return Response(204)
        if self.beside is not None and request.query_integer("inline", 0, 0, 2**53):
            media_type, data = self.beside(self.head)
            return Response(200, [("content-type", media_type)], data)
        return self._answer(request, self.head)

    async def _proof(self, request: Request) -> Response:
        self._met(request)
        self.proofs.append(await request.body())
        while self.hang == "POST /v1/head":  # noqa: ASYNC110 - the test changes it
            await trio.sleep(0.5)
        if self.proof_code:
            raise HttpError(503 if self.proof_code == "not_ready" else 403, self.proof_code, "no")
        return Response(204)

    async def _document(self, request: Request) -> Response:
        self._met(request)
        while request.path == self.hang:  # noqa: ASYNC110 - the test changes it
            await trio.sleep(0.5)
        found = self.documents.get(request.parameters["id"])
        if self.instead is not None and found is not None:
            return self.instead(request.path, found)
        return self._answer(request, found)

    async def _increment(self, request: Request) -> Response:
        self._met(request)
        key = request.parameters["scope"], request.query_integer("base", 0, 0, 2**53)
        return self._answer(request, self.increments.get(key))

    async def _recovery(self, request: Request) -> Response:
        self._met(request)
        return self._answer(request, self.recoveries.get(request.parameters["scope"]))

    async def _trust(self, request: Request) -> Response:
        self._met(request)
        after = request.query_integer("from", 0, 0, 2**53)
        found = TrustList(tuple(self.bundles[after:]))
        return Response(200, [("content-type", "application/json")], found.to_bytes())

    async def _heartbeat(self, request: Request) -> Response:
        self._met(request)
        report = Heartbeat.parse(await request.body())
        self.heartbeats.append(report)
        self._heard.set()
        self._heard = trio.Event()
        reached = max((event.sequence for event in report.journal), default=0)
        answer = HeartbeatAnswer(0, reached, self.recorded, ())
        return Response(200, [("content-type", "application/json")], answer.to_bytes())


class Counting(trio.abc.Listener[trio.SocketStream]):
    """A listener that remembers when somebody connected."""

    def __init__(self, inner: trio.SocketListener, times: list[float]) -> None:
        self._inner, self._times = inner, times

    async def accept(self) -> trio.SocketStream:
        stream = await self._inner.accept()
        self._times.append(trio.current_time())
        return stream

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _listen(nursery: trio.Nursery, server: Server, port: int, times: list[float]) -> None:
    listener = (await trio.open_tcp_listeners(port, host="127.0.0.1", backlog=1024))[0]
    await nursery.start(server.serve, Counting(listener, times))
