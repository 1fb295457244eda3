"""Fourteen days with a validator that says no: the agent and the coordinator as they are shipped, over real TLS, in one
process and on one clock that leaps whenever nothing happens. Requests, runs and writes are counted.
"""

import math
import os
import signal
import time
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from agent import run
from agent.config import configuration
from agent.services import validators
from agent.state.node import RunningNode
from agent.state.plan import plan
from snapshot import canonical
from snapshot.identifiers import parse_time
from tests.coordinator.daemon import Running, running
from tests.coordinator.founding import Founded
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import DAY, HOUR
from wire.client import Call, HttpClient, UnixConnector
from wire.endpoint import path
from wire.systemd import SystemdNotifier

WEB, MAIL = "service_assignment/web", "service_assignment/mail"
DAYS = 14
QUIET_S = 700.0  # between two looks; a head is renewed after 900 s, and lives for 1,800
LOOKS_S, SETTLES_S = 2.0, 5.0

STATE = """
kind: Cluster
id: prod
spec: {{coordinators: ["https://localhost:7443"]}}
---
{{kind: Organization, id: acme}}
---
kind: Node
id: node-a
spec: {{roles: [egress_service], organizations: [acme]}}
---
kind: Service
id: web
spec:
  organization: acme
  runs_on: {{nodes: [node-a]}}
  settings: {{workers: {workers}, about: "{about}"}}
---
kind: Service
id: mail
spec: {{organization: acme, runs_on: {{nodes: [node-a]}}, settings: {{workers: 2}}}}
---
kind: DegradedModePolicy
id: standard
spec: {{allow: [continue_services]}}
"""
LONG = "a text that does not change, so that an increment is smaller than the whole " * 40

AGENT = """
[node]
cluster_id = "prod"
node_id = "node-a"
state_directory = "{folder}/state"
[coordinator]
urls = ["https://localhost:{fleet}"]
join_urls = ["https://localhost:{join}"]
ca_file = "{folder}/ca.pem"
token_file = "{folder}/join.token"
[local]
socket_path = "{folder}/run/agent.sock"
projection_directory = "{folder}/run"
[limits]
map_bytes = 268435456
[[service]]
name = "web"
scopes = ["service_assignment/web"]
validate = ["/bin/sh", "-c", "echo x >> {folder}/asked; test -e {folder}/mended || ! grep -q s.:9 */services.json"]
[[service]]
name = "mail"
scopes = ["service_assignment/mail"]
validate = ["/bin/true"]
"""


class Still:
    """The clock stands still while a thread or a process works: what it does takes no time."""

    def __init__(self, clock: MockClock) -> None:
        self._clock, self._working = clock, 0

    def holding(self, call):
        async def held(*arguments, **named):
            self._working += 1
            self._clock.autojump_threshold = math.inf
            try:
                return await call(*arguments, **named)
            finally:
                self._working -= 1
                if not self._working:
                    self._clock.autojump_threshold = 0.0

        return held


@pytest.fixture
def clock(mock_clock, monkeypatch) -> FakeClock:
    still = Still(mock_clock)
    monkeypatch.setattr(trio.to_thread, "run_sync", still.holding(trio.to_thread.run_sync))
    monkeypatch.setattr(validators, "run_command", still.holding(validators.run_command))
    mock_clock.autojump_threshold = 0.0
    return FakeClock(mock_clock, base=time.time())  # by which TLS looks at certificates


@dataclass
class Settled(Founded):
    """A coordinator that begins anew where it was."""

    places: tuple[int, int] = (0, 0)

    def text(self) -> str:
        text = super().text()
        for name, port in zip(("fleet", "join"), self.places, strict=True):
            text = text.replace(f'{name} = "127.0.0.1:0"', f'{name} = "127.0.0.1:{port}"')
        return text


@dataclass
class Fortnight:
    """One node's disk, one coordinator's files; either may be stopped and started again."""

    folder: Path
    clock: FakeClock
    founded: Settled
    at: Running | None = None
    node: RunningNode | None = None

    @asynccontextmanager
    async def coordinator(self) -> AsyncIterator[None]:
        async with running(self.founded, now=lambda: self.clock.true) as self.at:
            self.founded.places = self.at.ports.fleet, self.at.ports.join
            yield

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[None]:
        ports = self.at.ports
        text = AGENT.format(folder=self.folder, fleet=ports.fleet, join=ports.join)
        settings = configuration.parse(tomllib.loads(text))
        async with trio.open_nursery() as nursery:
            self.node = await nursery.start(
                partial(run.serve, settings, clock=self.clock, notifier=SystemdNotifier({}))
            )
            yield
            nursery.cancel_scope.cancel()

    async def ask(self, call: Call) -> dict:
        client = HttpClient(UnixConnector())
        try:
            answer = await client.fetch(self.folder / "run" / "agent.sock", call)
        finally:
            await client.aclose()
        return canonical.loads(answer.body)

    async def status(self) -> dict:
        return await self.ask(Call("GET", "/v1/status"))

    async def may(self, service: str) -> bool:
        body = canonical.dumps({"action": "continue_services", "resource": service})
        return (await self.ask(Call("POST", "/v1/may", body=body)))["allowed"]

    async def workers(self, service: str) -> int:
        scope = f"service_assignment/{service}"
        found = await self.ask(Call("GET", path("v1", "scopes", scope, "sections", "services")))
        return found[service]["settings"]["workers"]

    def version(self, scope: str) -> int:
        held = self.node.holdings.kept.active.get(scope)
        return held.envelope.config_version if held else 0

    def refused(self) -> set[str]:
        """What the head lists, and is not active."""
        return {one.scope for one in plan(self.node.holdings).wanted}

    def counted(self) -> tuple[int, int, int]:
        """Runs of web's validator, requests that nodes were answered, transactions of the node's store."""
        answered = sum(self.at.daemon.servers[name].statistics().answered for name in ("fleet", "join"))
        return self.runs(), answered, self.node.store.commit_number

    def runs(self) -> int:
        asked = self.folder / "asked"
        return len(asked.read_text().split()) if asked.exists() else 0

    def fetched(self) -> int:
        counted = self.node.counters.all()
        return counted.get("documents_asked_for", 0) + counted.get("documents_came_along", 0)

    async def until(self, holds) -> None:
        with trio.fail_after(HOUR):
            while not holds():
                seen = self.node.changed.value
                with trio.move_on_after(5):
                    await self.node.changed.wait_above(seen)


@pytest.fixture
async def fortnight(tmp_path, clock) -> Fortnight:
    founded = Settled(tmp_path, f"sqlite:///{tmp_path}/state.db", now=clock.true)
    (tmp_path / "run").mkdir()
    return Fortnight(tmp_path, clock, founded)


async def joins(it: Fortnight) -> None:
    """A member whose two services run on their first versions."""
    await it.at.apply(STATE.format(workers=4, about=LONG))
    await it.at.ask("POST", "/v1/allowlist/node-a", {"kind": "data"})
    token = it.folder / "join.token"
    token.touch(0o600)
    token.write_text(await it.at.token("node-a"))
    async with it.agent():
        await it.until(lambda: it.version(WEB) and it.version(MAIL))


async def refuses(it: Fortnight) -> str:
    """A change that web cannot live with; since when it is refused."""
    await trio.sleep(SETTLES_S)
    began, fetched = it.runs(), it.fetched()
    await it.at.apply(STATE.format(workers=9, about=LONG))
    await it.until(lambda: it.runs() > began)
    await trio.sleep(SETTLES_S)
    assert it.runs() - began == 1
    assert it.fetched() - fetched == 1, "the increment or the whole, and not both"
    return (await it.status())["refused"][WEB]["since"]


async def goes_by(it: Fortnight, days: int, since: str) -> None:
    """A quarter of an hour at a time: a leap, and what follows from it. What is counted is counted each day."""
    for _ in range(days):
        before = it.counted()
        for quarter in range(int(DAY / (QUIET_S + LOOKS_S))):
            it.clock.mock.jump(QUIET_S)
            await trio.sleep(LOOKS_S)
            if quarter % 4 == 0:
                assert await it.may("web") and await it.may("mail")
        await trio.sleep(SETTLES_S)
        await look(it, since)
        runs, requests, writes = (after - count for after, count in zip(it.counted(), before, strict=True))
        assert runs <= 2, "what is declared is offered once a day"
        assert requests < 100 * 24 and writes < 100 * 24


async def look(it: Fortnight, since: str) -> None:
    """Nothing has expired, and both sides say what is refused, since when, and until when it goes on."""
    assert (await it.workers("web"), await it.workers("mail")) == (4, 2)
    status, now = await it.status(), it.clock.true
    assert (status["state"], status["expired"]) == ("active", [])
    left = {name: parse_time(one["active"]["expires_at"]) - now for name, one in status["scopes"].items()}
    assert min(left.values()) > 5 * DAY
    one, told = status["refused"][WEB], (await it.at.ask("GET", "/v1/fleet"))["refusals"]
    assert (one["reason"], one["source"], one["since"], one["soon"]) == ("validator_refused", "web", since, False)
    assert [(each["node_id"], each["scope"], each["reason"], each["withheld"]) for each in told] == [
        ("node-a", WEB, "validator_refused", "")
    ]
    assert (told[0]["runs"], told[0]["refused"]) == (one["runs"], one["refused"])
    assert told[0]["good_until"] == parse_time(one["expires_at"])


async def by_the_second(it: Fortnight, seconds: float) -> None:
    """Without a leap: every timer counts."""
    before = it.counted()
    await trio.sleep(seconds)
    runs, requests, writes = (after - count for after, count in zip(it.counted(), before, strict=True))
    assert runs == 0
    assert requests <= 2 * (seconds / 30 + seconds / 55), "reports, and held requests for a head"
    assert writes <= 3 * seconds / 30, "what was acknowledged, and how far the clock has come"


@pytest.mark.slow
async def test_fourteen_days_of_no(fortnight, mock_clock):
    """rules S29, S67, X27, J42: an increment that web's validator refuses; all else is well all the time"""
    it = fortnight
    async with it.coordinator():
        await joins(it)
        async with it.agent():
            since = await refuses(it)
            await by_the_second(it, 600.0)
            await goes_by(it, DAYS // 2, since)
    async with it.coordinator(), it.agent():  # both begin anew
        await trio.sleep(SETTLES_S)
        await goes_by(it, DAYS // 2, since)
        (it.folder / "mended").touch()
        os.kill(os.getpid(), signal.SIGHUP)  # as `systemctl reload` does
        await it.until(lambda: WEB not in it.refused())
        assert await it.workers("web") == 9
        await trio.sleep(SETTLES_S)
        assert (await it.at.ask("GET", "/v1/fleet"))["refusals"] == []
        assert (await it.status())["refused"] == {}
        for action in ("refusal.begin", "refusal.end"):
            (act,) = (await it.at.ask("GET", f"/v1/audit?action={action}"))["entries"]
            assert act["subject"] == f"node-a {WEB}"
