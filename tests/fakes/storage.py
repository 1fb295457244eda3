"""Sources beside the coordinator, at an address that a signed list may name: never a loopback (threats D-47).

own_address()        such an address of this machine; the test is skipped, and says so, where there is none
StorageServer        answers by the routes of protocol.md 1, as storage or, with a node's identity, as a peer
serving_files(...)   a tree of files, as any file server serves it
write_tree(...)      what `holdfastctl publish --to` leaves
"""

import ipaddress
import os
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from agent.sources.source import bundle_file, document_place, head_place, increment_place, recovery_place
from tests.fakes.cluster import CLUSTER_ID
from tests.fakes.coordinator_server import CoordinatorServer
from wire.certificate import KeyPair, issue_server
from wire.limits import REMOTE
from wire.peers.peer_messages import PeerInventory, PeerStanding
from wire.request import HttpError, Request, Response
from wire.routes import HttpRoute, Routes
from wire.server import Server
from wire.tls import PinnedTransport, ServerAuthTransport

ADDED = "198.18.77.1"  # of the range for tests (RFC 2544); put on the loopback device where there is no other


def own_address() -> str:
    found = _routed_address()
    if found is not None:
        return found
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs an address that is no loopback: a network interface, or root and iproute2")
    subprocess.run(["ip", "address", "replace", f"{ADDED}/32", "dev", "lo"], check=True)
    return ADDED


def _routed_address() -> str | None:
    """By which this machine would speak to others. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("198.51.100.1", 9))
        except OSError:
            return None
        address = str(asking.getsockname()[0])
    return None if ipaddress.ip_address(address).is_loopback else address


class StorageServer:
    """What a coordinator has, at `url`, with faults of its own. `identity`: a node's, for a peer."""

    def __init__(self, coordinator: CoordinatorServer, folder: Path, identity: KeyPair | None = None) -> None:
        self.host = own_address()
        folder.mkdir()
        self.server = coordinator.another(folder)
        self._authority = coordinator.authority
        self._is_peer = identity is not None
        self._shown = identity or issue_server(self._authority, [self.host], time.time())
        self.url = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator["StorageServer"]:
        transport = PinnedTransport(self.server.pins, self._shown, REMOTE)
        routes = self.server._fleet_routes()
        if self._is_peer:
            for route in _peer_routes():
                routes._add(route)
        server = Server("storage", routes, transport, REMOTE)
        async with _listening(server, self.host) as self.url:
            yield self


def _peer_routes() -> list[HttpRoute]:
    """Of one that has nothing but documents."""

    async def inventory(_: Request) -> Response:
        return Response.json(PeerInventory(CLUSTER_ID, 0, {}).to_value())

    async def standing(_: Request) -> Response:
        return Response(204)

    shown = HttpRoute("POST", "/v1/standing", standing, body_bytes=PeerStanding.MOST_BYTES)
    return [HttpRoute("GET", "/v1/inventory", inventory), shown]


@asynccontextmanager
async def serving_files(
    folder: Path, authority: KeyPair, host: str, shown: KeyPair | None = None
) -> AsyncIterator[str]:
    """The URL. No client certificate is asked for, no route is known but the files' own. `shown`: in place of a
    certificate of that CA.
    """

    async def file(request: Request) -> Response:
        wanted = folder / request.parameters["folder"] / request.parameters["name"]
        try:
            return Response(200, [("content-type", "application/octet-stream")], wanted.read_bytes())
        except OSError:
            raise HttpError(404, "not_found", "no such file") from None

    shown = shown or issue_server(authority, [host], time.time())
    routes = Routes(HttpRoute("GET", "/{folder}/{name}", file))
    async with _listening(Server("files", routes, ServerAuthTransport(shown, REMOTE), REMOTE), host) as url:
        yield url


def write_tree(server: CoordinatorServer, folder: Path, node_id: str) -> None:
    """All that the coordinator has for one node now."""
    files = {bundle_file(number): data for number, data in enumerate(server.bundles, 1)}
    files |= {document_place(name).file: data for name, data in server.documents.items()}
    for (scope, base), data in server.increments.items():
        files[increment_place(scope, base, server.cluster.published[scope].envelope.snapshot_id).file] = data
    files |= {recovery_place(node_id, scope).file: data for scope, data in server.recoveries.items()}
    files[head_place(node_id, (0, 0), 0).file] = server.head
    for name, data in files.items():
        path = folder / name.removeprefix("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@asynccontextmanager
async def _listening(server: Server, host: str) -> AsyncIterator[str]:
    listener = (await trio.open_tcp_listeners(0, host=host))[0]
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listener)
        yield f"https://{host}:{listener.socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()
