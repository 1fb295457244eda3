"""Agents and a coordinator, over real TLS: every consumer votes before the first node runs a change."""

import re
import tomllib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from agent import run
from agent.config import configuration
from agent.report import heartbeat
from agent.state.node import RunningNode
from coordinator.api import node_api
from coordinator.api.node_api import WHOLE_BYTES
from store.base import pending
from store.base.pending import FLUSH_BYTES
from tests.coordinator.daemon import Running, running
from tests.coordinator.founding import Founded
from tests.coordinator.test_apply_contents import upload
from tests.fakes.binary import random_bytes
from tests.journeys.lab import put_token
from tests.world.fork_server import REPORTS_AFTER_S
from wire.exchange import ClientError
from wire.systemd import SystemdNotifier

ROUTES = "route_policy"
NODES = ("edge-1", "edge-2", "edge-3")
STATE = """
kind: Cluster
id: prod
spec: {coordinators: ["https://localhost:7443"]}
---
{kind: Organization, id: acme}
---
{kind: RolloutPolicy, id: quick, spec: {bake_s: 1, rings: [{nodes: 1}, {percent: 100}]}}
---
kind: Service
id: web
spec:
  organization: acme
  runs_on: {nodes: [core]}
  endpoints: [{name: http, protocol: http, host: localhost, port: 8080, exposed: true}]
---
{kind: Node, id: core, spec: {roles: [egress_service], organizations: [acme], addresses: ["10.0.0.1:7000"]}}
---
{kind: DegradedModePolicy, id: standard, spec: {allow: [continue_services, preserve_routes]}}
---
{kind: Route, id: front, spec: {organization: acme, service: web, match: {hosts: [HOSTS]}}}
"""
NODE = "---\n{kind: Node, id: NAME, spec: {roles: [ingress], organizations: [acme], addresses: ['10.0.0.9:7000']}}\n"
AGENT = """
[node]
cluster_id = "prod"
node_id = "{name}"
state_directory = "{folder}/state"
[coordinator]
urls = ["https://localhost:{fleet}"]
join_urls = ["https://localhost:{join}"]
ca_file = "{ca}"
token_file = "{folder}/join.token"
[local]
socket_path = "{folder}/run/agent.sock"
projection_directory = "{folder}/run"
[intervals]
heartbeat_interval_s = 5
[limits]
map_bytes = 268435456
[[service]]
name = "proxy"
scopes = ["route_policy"]
"""
GEO = """
[[service]]
name = "geo"
scopes = ["config/geo"]
validate = ["/bin/sh", "-c", "echo asked >>{folder}/geo; test -s config/geo/db.bin"]
check = ["/bin/sh", "-c", "! head -c 4 {folder}/run/active/config/geo/db.bin | grep -q DIES"]
check_interval_s = 1
"""
"""Who reads a large file, and does not live with one that begins with DIES."""
GEO_CONFIG = """
kind: Config
id: geo
spec: {organization: acme, to: {roles: [ingress]}, files: {db.bin: {file: db.bin}}}
"""
JUDGE = """validate = ["/bin/sh", "-c", "echo asked >>{log}; ! grep -rqs forbidden.example ."]\n"""


def state(hosts: str) -> str:
    return STATE.replace("HOSTS", hosts) + "".join(NODE.replace("NAME", name) for name in NODES)


class Fleet:
    """A coordinator, its database, and the agents that run in this process."""

    def __init__(self, at: Running, folder: Path) -> None:
        self.at, self.folder = at, folder
        self.nodes: dict[str, RunningNode] = {}

    def log(self, name: str) -> Path:
        return self.folder / name / "asked"

    def asked(self, name: str) -> int:
        return len(self.log(name).read_text().splitlines()) if self.log(name).exists() else 0

    @asynccontextmanager
    async def agent(self, name: str, more: str) -> AsyncIterator[None]:
        folder = self.folder / name
        (folder / "run").mkdir(parents=True)
        await self.at.ask("POST", f"/v1/allowlist/{name}", {"kind": "data"})
        put_token(folder / "join.token", await self.at.token(name))
        ports, ca = self.at.ports, self.at.founded.folder / "ca.pem"
        text = AGENT.format(name=name, folder=folder, fleet=ports.fleet, join=ports.join, ca=ca) + more
        settings = configuration.parse(tomllib.loads(text))
        async with trio.open_nursery() as nursery:
            self.nodes[name] = await nursery.start(partial(run.serve, settings, notifier=SystemdNotifier({})))
            try:
                yield
            finally:
                nursery.cancel_scope.cancel()

    async def until(self, holds: Callable[[], bool]) -> None:
        with trio.fail_after(120):
            while not holds():  # noqa: ASYNC110 - several agents do
                await trio.sleep(0.05)

    async def until_change(self, change: str, *states: str) -> dict[str, object]:
        """Once it is in one of these."""
        with trio.fail_after(120):
            news = await self.at.ask("GET", f"/v1/changes/{change}/wait")
            while news["state"] not in states:
                news = await self.at.ask("GET", f"/v1/changes/{change}/wait?seen={news['mark']}")
        return await self.at.ask("GET", f"/v1/changes/{change}")

    async def apply(self, host: str) -> str:
        """The change that it began."""
        return (await self.at.apply(state(host), message=f"to {host[:20]}"))["change"]

    async def apply_geo(self, data: bytes) -> str:
        contents = {"db.bin": await upload(self.at, data)}
        return (await self.at.apply(f"{state('first.example')}---{GEO_CONFIG}", contents=contents))["change"]

    def geo(self, name: str) -> bytes:
        """As a program reads it."""
        file = self.folder / name / "run" / "active" / "config" / "geo" / "db.bin"
        return file.read_bytes() if file.exists() else b""

    def having_geo(self, data: bytes) -> set[str]:
        return {name for name in self.nodes if self.geo(name) == data}

    def routes(self, name: str) -> bytes:
        held = self.nodes[name].holdings.kept.active.get(ROUTES)
        return b"" if held is None else b"".join(held.read(section) for section in held.sections)

    def run_by(self, host: str) -> set[str]:
        return {name for name in self.nodes if host.encode() in self.routes(name)}

    def fetched(self) -> int:
        """By a request, or with a head."""
        ways = ("documents_asked_for", "documents_came_along")
        return sum(node.counters.all().get(way, 0) for node in self.nodes.values() for way in ways)


@pytest.fixture
async def fleet(tmp_path, monkeypatch):
    """Three nodes that run the first state; the third has no validator, and a service that takes few bytes."""
    monkeypatch.setattr(heartbeat, "SOON_S", REPORTS_AFTER_S)
    founded = Founded(tmp_path, f"sqlite:///{tmp_path}/state.db", settings="joins_per_minute = 1000")
    async with running(founded) as at:
        made = Fleet(at, tmp_path)
        await at.apply(state("first.example"))
        async with (
            made.agent("edge-1", JUDGE.format(log=made.log("edge-1")) + GEO.format(folder=tmp_path / "edge-1")),
            made.agent("edge-2", JUDGE.format(log=made.log("edge-2")) + GEO.format(folder=tmp_path / "edge-2")),
            made.agent("edge-3", "limits = {bytes = 1000}\n" + GEO.format(folder=tmp_path / "edge-3")),
        ):
            await made.until(lambda: made.run_by("first.example") == set(NODES))
            yield made


async def test_a_change_that_all_accept_goes_through_the_rings_without_another_download(fleet):
    change = await fleet.apply("second.example")
    asked = await fleet.until_change(change, "rolling", "done", "halted")
    assert (asked["counts"]["touched"], asked["counts"]["accepted"], asked["counts"]["refused"]) == (3, 3, 0), asked
    fetched = fleet.fetched()
    assert (await fleet.until_change(change, "done", "halted"))["state"] == "done"
    await fleet.until(lambda: fleet.run_by("second.example") == set(NODES))
    assert fleet.fetched() == fetched, "a release is no download"
    assert fleet.asked("edge-1") == fleet.asked("edge-2") == 2, "of the first publication, and of the candidate"


async def test_one_no_halts_it_with_nobody_changed_and_the_next_supersedes_it(fleet):
    change = await fleet.apply("forbidden.example")
    found = await fleet.until_change(change, "done", "halted")
    assert found["state"] == "halted"
    refusals = {(refusal["node_id"], refusal["reason"]) for refusal in found["refusals"]}
    assert set() < refusals <= {("edge-1", "validator_refused"), ("edge-2", "validator_refused")}
    assert fleet.run_by("forbidden.example") == set()
    assert all(node.store.rejections.ring() == [] for node in fleet.nodes.values())
    assert all(node.standing().state == "active" for node in fleet.nodes.values())
    again = await fleet.apply("third.example")
    assert (await fleet.until_change(again, "done", "halted"))["state"] == "done"
    await fleet.until(lambda: fleet.run_by("third.example") == set(NODES))


async def test_a_service_that_cannot_take_it_says_so(fleet):
    """To the operator, once its node has reported what it takes; and to whom means it nevertheless, by its vote."""
    long = state(", ".join(f"h{number}.{'x' * 40}.example" for number in range(20)))
    with trio.fail_after(120):
        while not (found := (await fleet.at.apply(long, dry_run=True))["refusals"]):  # noqa: ASYNC110 - a report does
            await trio.sleep(0.05)
    assert [each["code"] for each in found] == ["too_much_change"]
    with pytest.raises(ClientError) as refused:
        await fleet.at.apply(long)
    assert refused.value.code == "too_much_change"
    allowed = re.search(r"--allow (\S+)", refused.value.remedy)
    assert allowed
    change = (await fleet.at.apply(long, allow=allowed[1], message="as it is"))["change"]
    found = await fleet.until_change(change, "done", "halted")
    assert found["state"] == "halted"
    (refusal,) = found["refusals"]
    assert (refusal["node_id"], refusal["reason"]) == ("edge-3", "blast_radius")
    assert fleet.run_by("h0.") == set()


async def test_a_large_file_that_all_share_goes_the_same_way(fleet, monkeypatch):
    """It is voted on, goes in rings, is taken back by who does not live with it; one document for all of them, of more
    than a coordinator has in memory of one, and than a node judges before it lies on its disk: both are a quarter here
    of what they are (test_node_api.py and test_pending.py go beyond those)
    """
    monkeypatch.setattr(node_api, "WHOLE_BYTES", WHOLE_BYTES // 4)
    monkeypatch.setattr(pending, "FLUSH_BYTES", FLUSH_BYTES // 4)
    first = random_bytes(max(WHOLE_BYTES, FLUSH_BYTES) // 4 + (1 << 18))
    change = await fleet.apply_geo(first)
    assert (await fleet.until_change(change, "done", "halted"))["state"] == "done"
    await fleet.until(lambda: fleet.having_geo(first) == set(NODES))
    ids = {node.holdings.kept.active["config/geo"].envelope.snapshot_id for node in fleet.nodes.values()}
    assert len(ids) == 1, "one document"

    found = await fleet.until_change(await fleet.apply_geo(b"DIES" + first[4:]), "done", "halted")
    assert found["state"] == "halted" and "of ring 1 did not keep it" in found["why"], found["why"]
    await fleet.until(lambda: fleet.having_geo(first) == set(NODES))

    fetched, second = fleet.fetched(), b"GOOD" + first[4:]
    assert (await fleet.until_change(await fleet.apply_geo(second), "done", "halted"))["state"] == "done"
    await fleet.until(lambda: fleet.having_geo(second) == set(NODES))
    asked = [len((fleet.folder / name / "geo").read_text().splitlines()) for name in NODES]
    assert (fleet.fetched() - fetched, asked) == (3, [3, 3, 3]), "each version once"
