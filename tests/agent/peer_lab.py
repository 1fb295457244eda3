"""An agent that answers its peers, and those that ask it, each with a certificate of its own, over real TLS."""

import base64
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import trio

from agent.config.configuration import PeersTable
from agent.peers.listener import PeerListener
from agent.sources.peers import SCOPE
from store.relay import digest_of
from tests.agent.bench import Bench, bench
from tests.fakes.cluster import CLUSTER_ID, listing
from tests.fakes.ports import held_port
from tests.journeys.lab import Lab
from tests.wire.lab import write
from wire.certificate import KeyPair, make_identity
from wire.client import Call, ClientError, HttpClient, HttpsConnector, Reply
from wire.endpoint import Endpoint, path
from wire.peers.peer_messages import PeerInventory, PeerStanding
from wire.tls_contexts import TlsIdentity

ACME, GLOBEX = "acme", "globex"
DOCUMENT_BYTES = 64 << 20


@dataclass
class Asker:
    """Another node, and its connection to the agent."""

    node_id: str
    pair: KeyPair
    identity: TlsIdentity
    client: HttpClient[Endpoint]
    to: Endpoint

    async def ask(self, *segments: str, method: str = "GET", body: bytes = b"", **query: object) -> Reply:
        call = Call(method, path("v1", *segments, **query), body=body, limit=DOCUMENT_BYTES)
        return await self.client.fetch(self.to, call)

    async def refusal(self, *segments: str, **query: object) -> tuple[int | None, str]:
        try:
            answer = await self.ask(*segments, **query)
        except ClientError as error:
            return error.status, error.code
        raise AssertionError(f"{segments} was answered: {answer.status}")

    async def inventory(self) -> PeerInventory:
        return PeerInventory.read((await self.ask("inventory")).body)

    async def show(self, head, runtime: bytes | None = None) -> Reply:
        body = PeerStanding(head.to_bytes(), runtime).to_bytes()
        return await self.ask("standing", method="POST", body=body)

    async def head(self, node_id: str, **query: object) -> Reply:
        return await self.ask("heads", digest_of(node_id), **query)


@dataclass
class PeerLab:
    """`bench`: the agent, node-a, of the organization acme in site `ulm`."""

    bench: Bench
    folder: Path
    to: Endpoint
    askers: dict[str, Asker] = field(default_factory=dict)
    entries: dict[str, dict[str, object]] = field(default_factory=dict)

    @property
    def listener(self) -> PeerListener:
        return self.bench.outside.peer_listener

    @property
    def own_der(self) -> bytes:
        pair = self.bench.outside.joining.identity.present()
        assert pair is not None
        return pair.der

    def asker(self, node_id: str, pair: KeyPair | None = None) -> Asker:
        """Not listed yet."""
        pair = pair or make_identity(node_id, time.time())
        identity = write(self.folder, f"{node_id}-{len(self.askers)}", pair)
        client = HttpClient(HttpsConnector.to_node([self.own_der], identity))
        made = self.askers[node_id] = Asker(node_id, pair, identity, client, self.to)
        return made

    async def list(self, **entries: Mapping[str, object]) -> None:
        """The next directory, with these askers in site `ulm` unless told otherwise; `node_b` is `node-b`."""
        for name, members in entries.items():
            self.entries[name.replace("_", "-")] = dict(members)
        peers = {node_id: self.entry(node_id, **members) for node_id, members in self.entries.items()}
        await self.bench.take(self.bench.server.snapshot({"peers": peers}, SCOPE))
        self.bench.node.tell()
        await trio.testing.wait_all_tasks_blocked(0.01)

    def entry(self, node_id: str, **members: object) -> dict[str, object]:
        certificate = base64.b64encode(self.askers[node_id].pair.der).decode()
        url = f"https://{node_id}.example:7447"
        return {"url": url, "certificates": [certificate], "site_id": "ulm", "addresses": []} | members

    def head(self, node_id: str, *documents, **members: object):
        """Of another node, listing these documents."""
        server = self.bench.server
        now = int(server.now())
        times = {"issued_at": now, "valid_from": now, "refresh_after": now + 600, "expires_at": now + 1800}
        scopes = {document.envelope.scope: listing(document) for document in documents}
        return server.cluster.head(scopes, subject_node_id=node_id, **(times | members))

    def document(self, scope: str, node_id: str = "*", sections: object = None, **members: object):
        """Of another node, or shared."""
        role = "ingress" if scope.startswith("service_assignment") else "core_mesh"
        given = {"roles": [role], "subject_node_id": node_id, "organization_ids": [ACME]} | members
        return self.bench.server.cluster.snapshot(sections, scope, **(self.bench.server.times() | given))


@asynccontextmanager
async def peer_lab(one: Lab) -> AsyncIterator[PeerLab]:
    held = held_port()
    port = held.getsockname()[1]
    node = replace(one.settings.node, direct_url=f"https://127.0.0.1:{port}")
    one.settings = replace(one.settings, node=node, peers=PeersTable(listen=f"127.0.0.1:{port}"))
    one.server.snapshot({"node": {"site": "ulm"}}, "node_runtime", organization_ids=[ACME], roles=["core_mesh"])
    one.server.announce()
    async with bench(one) as made:
        await made.settle()
        lab = PeerLab(made, one.folder, Endpoint.parse(f"https://127.0.0.1:{port}", configured=True))
        async with trio.open_nursery() as nursery:
            await made.outside.relay.load()
            nursery.start_soon(lab.listener.run)
            await made.outside.peer_listener.listening.wait()
            try:
                yield lab
            finally:
                for asker in lab.askers.values():
                    await asker.client.aclose()
                nursery.cancel_scope.cancel()
        held.close()


__all__ = ["CLUSTER_ID", "GLOBEX", "Asker", "PeerLab", "peer_lab"]
