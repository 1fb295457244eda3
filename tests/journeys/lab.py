"""A node in process beside a coordinator over real TLS: real store, real sockets, time that a test moves."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from agent import run
from agent.base.threads import Threads
from agent.config import configuration
from agent.config.configuration import AgentSettings
from agent.state.node import RunningNode
from snapshot import canonical
from tests.fakes.clock import FakeClock, threads
from tests.fakes.cluster import CLUSTER_ID, HOUR, NODE_ID, Cluster
from tests.fakes.coordinator_server import TOKEN, CoordinatorServer
from wire.client import Call, HttpClient, UnixConnector
from wire.endpoint import path
from wire.systemd import SystemdNotifier

ROUTES = "route_policy"
POLICY = {
    "allow": ["continue_services", "preserve_routes", "report_degraded"],
    "max_duration_s": 2 * HOUR,
    "route_ttl_s": HOUR,
    "session_ttl_s": 900,
    "allow_unconfirmed_start": False,
}
SELDOM = "\n[intervals]\npoll_wait_s = 300\nheartbeat_interval_s = 300\n"
"""More of agent.toml, where hours go by: each question and each report is work."""
SELDOM_LOOKED = (
    "agent.services.publishing.LOOK_EVERY_S",
    "agent.services.services.LOOK_EVERY_S",
)


@dataclass
class Lab:
    """One cluster, its coordinator, one node's disk. `agent()` runs the node for a block.

    `for_hours`: the node works without threads, and looks once a minute at what only somebody else could have changed.
    In a simulated hour it turns to them thousands of times, and each time costs more than what is done there.
    """

    folder: Path
    clock: FakeClock
    mock: MockClock
    server: CoordinatorServer
    settings: AgentSettings
    node: RunningNode | None = None
    extra: Mapping[str, object] = field(default_factory=dict)
    for_hours: bool = False

    @property
    def cluster(self) -> Cluster:
        return self.server.cluster

    @property
    def state(self) -> str:
        return self.node.standing().state

    @property
    def cause(self) -> str:
        return self.node.standing().cause

    def threads(self) -> Threads:
        return threads(self.mock, inline=self.for_hours)

    @asynccontextmanager
    async def agent(self, **settings: object) -> AsyncIterator[RunningNode]:
        """The agent, from its start on this disk to its end; `settings` in place of the lab's."""
        given = replace(self.settings, **settings)
        async with trio.open_nursery() as nursery:
            notifier = SystemdNotifier({})
            task = partial(run.serve, given, clock=self.clock, threads=self.threads(), notifier=notifier)
            self.node = await nursery.start(task)
            try:
                yield self.node
            finally:
                nursery.cancel_scope.cancel()

    async def until(self, holds: Callable[[], bool], within_s: float = HOUR) -> None:
        """Until it holds, as the node's changes go by."""
        with trio.fail_after(within_s):
            while not holds():
                seen = self.node.changed.value
                with trio.move_on_after(5):
                    await self.node.changed.wait_above(seen)

    async def settled(self) -> None:
        """A member, active, with version 1 of everything."""
        await self.until_active(ROUTES, 1)
        await self.until(lambda: self.state == "active")

    async def until_active(self, scope: str, version: int | None) -> None:
        await self.until(lambda: self.version(scope) == version)

    def version(self, scope: str) -> int | None:
        held = self.node.holdings.kept.active.get(scope)
        return held.envelope.config_version if held else None

    def mark(self, scope: str) -> tuple[int, int]:
        return self.node.holdings.kept.marks[scope].version

    def rejected(self, scope: str) -> str:
        found = self.node.store.rejections.last(scope)
        return found.reason if found else ""

    async def get(self, *segments: str, **query: object) -> object:
        """An answer of the local API, JSON."""
        client = HttpClient(UnixConnector())
        try:
            answer = await client.fetch(self.settings.local.socket_path, Call("GET", path(*segments, **query)))
        finally:
            await client.aclose()
        return canonical.loads(answer.body)

    async def may(self, action: str, **members: object) -> dict[str, object]:
        client = HttpClient(UnixConnector())
        body = canonical.dumps({"action": action, **members})
        try:
            answer = await client.fetch(self.settings.local.socket_path, Call("POST", "/v1/may", body=body))
        finally:
            await client.aclose()
        found = canonical.loads(answer.body)
        assert isinstance(found, dict)
        return found

    async def clear_quarantine(self, scope: str) -> object:
        client = HttpClient(UnixConnector())
        body = canonical.dumps({"scope": scope})
        try:
            call = Call("POST", "/v1/quarantine/clear", body=body)
            answer = await client.fetch(self.settings.local.socket_path, call)
        finally:
            await client.aclose()
        return canonical.loads(answer.body)

    async def status(self) -> dict[str, object]:
        found = await self.get("v1", "status")
        assert isinstance(found, dict)
        return found


def put_token(file: Path, token: str = TOKEN) -> None:
    """For the agent's account alone, as `holdfast join` leaves it."""
    file.touch(0o600)
    file.write_text(token)


def first_documents(server: CoordinatorServer) -> None:
    server.snapshot({"node": {"site": "default"}}, "node_bootstrap")
    server.snapshot({"policy": POLICY}, "degraded_mode_policy")
    server.snapshot({"routes": {"north": {"via": "a"}}}, ROUTES)


@asynccontextmanager
async def lab(
    folder: Path, mock: MockClock, *, cluster: Cluster | None = None, text: str = "", for_hours: bool = False
) -> AsyncIterator[Lab]:
    """The coordinator runs for the block, with a first head; the agent does not yet. `text`: more of agent.toml."""
    clock = FakeClock(mock)
    server = CoordinatorServer(cluster or Cluster(), folder, lambda: clock.true)
    first_documents(server)
    server.announce()
    (folder / "run").mkdir(exist_ok=True)
    put_token(folder / "join.token")
    with pytest.MonkeyPatch.context() as patched:
        for name in SELDOM_LOOKED if for_hours else ():
            patched.setattr(name, 60.0)
        async with server.running():
            yield Lab(folder, clock, mock, server, settings_for(folder, server, text), for_hours=for_hours)


def settings_for(folder: Path, server: CoordinatorServer, text: str = "") -> AgentSettings:
    import tomllib

    return configuration.parse(tomllib.loads(agent_toml(folder, server) + text))


def agent_toml(folder: Path, server: CoordinatorServer) -> str:
    return f"""
[node]
cluster_id = "{CLUSTER_ID}"
node_id = "{NODE_ID}"
state_directory = "{folder / "state"}"
[coordinator]
urls = ["https://127.0.0.1:{server.fleet_port}"]
join_urls = ["https://127.0.0.1:{server.join_port}"]
ca_file = "{server.ca_file}"
token_file = "{folder / "join.token"}"
[local]
socket_path = "{folder / "run" / "agent.sock"}"
projection_directory = "{folder / "run"}"
[limits]
map_bytes = {256 << 20}
"""
