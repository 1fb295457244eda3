"""A running coordinator and those who speak to it: the operator on the Unix socket, nodes over TLS."""

import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import quote

import trio
import trio.testing

from coordinator import run
from coordinator.database import uploads
from coordinator.database.database import Database
from coordinator.declared import resources, value_shapes
from coordinator.declared.contents import UploadedFile
from coordinator.publishing import declarations, file_contents, proposals
from coordinator.run import Daemon
from coordinator.setup.ports import Ports
from snapshot.container import ChunkParts
from snapshot.manifest import ScopeVersion
from snapshot.verifier_state import VerifierState
from snapshot.verify import Verified, verify
from tests.coordinator.bundles import roots_of
from tests.coordinator.founding import CLUSTER, Founded
from tests.fakes.node import accepted
from wire.certificate import KeyPair, fingerprint, make_identity, prove
from wire.client import Call, ClientError, Deadlines, HttpClient, HttpsConnector, Reply, UnixConnector
from wire.endpoint import Endpoint
from wire.messages import JoinGrant, JoinNonce, JoinRequest, TrustList
from wire.tls_contexts import TlsIdentity

# What a client gives up on is told of it in tests/wire; here nobody does because the machine is busy.
PATIENT = Deadlines(connect_s=60, first_byte_s=60, silence_s=120, rate_from_s=120)


@dataclass
class Running:
    """One daemon in this process."""

    founded: Founded
    daemon: Daemon
    ports: Ports
    operator: HttpClient[Path] = field(default_factory=lambda: HttpClient(UnixConnector(), PATIENT))
    clients: list[HttpClient[Endpoint]] = field(default_factory=list)

    @property
    def fleet(self) -> Endpoint:
        return Endpoint("localhost", self.ports.fleet, configured=True)

    @property
    def joining(self) -> Endpoint:
        return Endpoint("localhost", self.ports.join, configured=True)

    async def ask(self, method: str, path: str, body: object = None) -> dict:
        """The operator's request; ClientError with the code for a refusal."""
        data = b"" if body is None else json.dumps(body).encode()
        answer = await self.operator.fetch(self.founded.socket, Call(method, path, body=data, limit=16 << 20))
        return json.loads(answer.body)

    async def apply(self, text: str, **flags: object) -> dict:
        return await self.ask("POST", "/v1/apply", {"files": {"state.yaml": text}, **flags})

    async def declare(self, text: str, contents: Mapping[str, UploadedFile] | None = None) -> None:
        """As it stands once its change is done: nodes that report nothing would be waited for."""
        coordinator = self.daemon.coordinator
        await trio.to_thread.run_sync(partial(_declare, coordinator.database, text, contents or {}, coordinator.now()))
        coordinator.publisher.wake()

    async def token(self, node_id: str | None = None) -> str:
        body = {} if node_id is None else {"node_id": node_id}
        return (await self.ask("POST", "/v1/tokens", body))["token"]

    async def polls_held(self, count: int) -> None:
        """Until so many head requests wait: looked at each time the loop has nothing else to do."""
        board = self.daemon.coordinator.board
        with trio.fail_after(60):
            while board.waiting < count:
                await trio.testing.wait_all_tasks_blocked(0.01)

    async def probe(self, path: str) -> tuple[int, bytes]:
        async with await trio.open_tcp_stream("127.0.0.1", self.ports.probes) as stream:
            await stream.send_all(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
            data = b"".join([piece async for piece in stream])
        return int(data.split()[1]), data.partition(b"\r\n\r\n")[2]

    async def admit(self, node_id: str, kind: str = "data") -> "TlsNode":
        """Allowed, with a token, joined."""
        await self.ask("POST", f"/v1/allowlist/{node_id}", {"kind": kind})
        node = TlsNode(self, node_id, kind)
        grant = await node.join(await self.token(node_id))
        assert grant.outcome == "admitted"
        return node


def _declare(database: Database, text: str, files: Mapping[str, UploadedFile], now: float) -> None:
    settled = file_contents.settle(database, resources.read({"state.yaml": text}), files, value_shapes.shipped_shapes())
    uploads.add_all(database, settled.parts.values(), now=now)
    declarations.carry_out(database, proposals.propose(database, settled.declared), actor="root", now=now)


@asynccontextmanager
async def running(founded: Founded, **options: object) -> AsyncIterator[Running]:
    daemon = run.build(founded.configuration(), **options)
    try:
        async with trio.open_nursery() as nursery:
            ports = await nursery.start(daemon.serve)
            at = Running(founded, daemon, ports)
            try:
                yield at
            finally:
                with trio.CancelScope(shield=True):
                    for client in (at.operator, *at.clients):
                        await client.aclose()
                nursery.cancel_scope.cancel()
    finally:
        daemon.coordinator.database.close()


@dataclass
class TlsNode:
    """A node that speaks the protocol by the product's own client, and keeps nothing."""

    at: Running
    node_id: str
    kind: str = "data"
    pair: KeyPair = None
    grant: JoinGrant | None = None

    def __post_init__(self) -> None:
        self.pair = self.pair or make_identity(self.node_id, self.at.founded.now)
        folder = self.at.founded.folder / f"node-{self.node_id}-{fingerprint(self.pair.der)[7:15]}"
        folder.mkdir(exist_ok=True)
        self.identity = TlsIdentity(folder / "node.crt", folder / "node.key")
        self.identity.certificate.write_bytes(self.pair.certificate_pem)
        self.identity.key.write_bytes(self.pair.key_pem)
        authority = self.at.founded.folder / "ca.pem"
        self.stranger = HttpClient(HttpsConnector.to_authority(authority), PATIENT)
        self.client = HttpClient(HttpsConnector.to_authority(authority, self.identity), PATIENT)
        self.at.clients += [self.stranger, self.client]

    async def join(self, token: str | None, *, over: "TlsNode | None" = None, **other: object) -> JoinGrant:
        """`over`: the node whose connection is used, for a renewal."""
        client = self.stranger if over is None else over.client
        place = self.at.joining if over is None else self.at.fleet
        answer = await client.fetch(place, Call("GET", "/v1/join/nonce"))
        members = {
            "cluster_id": CLUSTER,
            "node_id": self.node_id,
            "kind": self.kind,
            "certificate": self.pair.der,
            "incarnation": "i-1",
            "nonce": JoinNonce.parse(answer.body).nonce,
            "server": answer.server,
            "token_sha256": None if token is None else "sha256:" + hashlib.sha256(token.encode()).hexdigest(),
        }
        body = JoinRequest(**{**members, **other}).to_bytes()
        headers = [("holdfast-proof", prove(self.pair.key_pem, body)), ("content-type", "application/json")]
        headers += [] if token is None else [("authorization", f"Bearer {token}")]
        given = await client.fetch(place, Call("POST", "/v1/join", headers, body, wait_s=20, limit=16 << 20))
        self.grant = JoinGrant.parse(given.body)
        return self.grant

    async def head(self, generation: int = 0, epoch: int = 0, wait: int = 0) -> Reply:
        target = f"/v1/head?generation={generation}&epoch={epoch}&wait={wait}"
        return await self.get(target, wait_s=wait)

    async def get(self, target: str, wait_s: float = 0, headers: tuple = ()) -> Reply:
        return await self.client.fetch(self.at.fleet, Call("GET", target, headers, wait_s=wait_s, limit=64 << 20))

    async def increment(self, scope: str, base: int) -> Reply:
        return await self.get(f"/v1/increments/{quote(scope, safe='')}?base={base}")

    async def report(self, body: bytes) -> dict:
        headers = [("content-type", "application/json")]
        answer = await self.client.fetch(self.at.fleet, Call("POST", "/v1/heartbeat", headers, body))
        return json.loads(answer.body)


class Follower:
    """A node that verifies and holds what it is given, in memory, as an agent would; `now` defaults to the founding."""

    def __init__(self, node: TlsNode) -> None:
        self.node = node
        self.holder = VerifierState(CLUSTER, node.node_id, roots=roots_of(node.grant.documents[0]))
        self.fetched: list[tuple[str, str]] = []  # (kind, scope) of what was taken
        for bundle in node.grant.documents[:-1]:
            self.take(bundle, "snapshot")

    @property
    def generation(self) -> int:
        mark = self.holder.marks.get("head")
        return mark.config_version if mark else 0

    def take(self, data: bytes, kind: str, now: float | None = None) -> Verified:
        kept: dict[str, bytes] = {}
        now = self.node.at.founded.now + 1 if now is None else now
        verdict = verify(ChunkParts([data]), self.holder, kind=kind, now=now, keep=kept.__setitem__)
        assert isinstance(verdict, Verified), verdict
        self.holder = accepted(self.holder, verdict, kept)
        self.fetched.append((kind, verdict.scope))
        return verdict

    async def sync(self, wait: int = 0, now: float | None = None) -> bool:
        """Follow the next head, if there is one; every scope that it lists is then held."""
        epoch = self.holder.marks["head"].authority_epoch if self.generation else 0
        until = trio.current_time() + wait
        answer = await self.node.head(self.generation, epoch, wait)
        if answer.status == 204:
            await self._rest((epoch, self.generation), until)
            return False
        self.fetched = []
        head = self.take(answer.body, "head", now).head
        first = ("trust_bundle", "node_bootstrap", "node_runtime")
        for scope in sorted(head.scopes, key=lambda name: (name not in first, name)):
            await self._follow(scope, head.scopes[scope], now)
        return True

    async def _rest(self, held: tuple[int, int], until: float) -> None:
        """Who holds more than is on record is answered at once: it would ask and ask until there is another head."""
        board, node_id = self.node.at.daemon.coordinator.board, self.node.node_id
        news = board.latest(node_id)
        if trio.current_time() < until and (news is None or news.pair <= held):
            await board.wait(node_id, until)

    async def _follow(self, scope: str, listed: ScopeVersion, now: float | None) -> None:
        held = self.holder.marks.get(scope)
        if held is not None and held.version == (listed.authority_epoch, listed.config_version):
            assert held.content_hash == listed.content_hash
            return
        if scope == "trust_bundle":
            answer = await self.node.get(f"/v1/trust?from={self.holder.bundle.version}")
            for bundle in TrustList.parse(answer.body).documents:
                self.take(bundle, "snapshot", now)
            return
        if held is not None:
            try:
                self.take((await self.node.increment(scope, held.config_version)).body, "increment", now)
                return
            except ClientError as error:
                if error.code != "not_found":
                    raise
        self.take((await self.node.get(f"/v1/documents/{listed.snapshot_id}")).body, "snapshot", now)

    def section(self, scope: str, name: str) -> object:
        return json.loads(self.holder.active[scope].read(name))


async def refusal(awaitable) -> str:
    """The code of the refusal that must come."""
    try:
        await awaitable
    except ClientError as error:
        return error.code or error.reason.value
    raise AssertionError("not refused")
