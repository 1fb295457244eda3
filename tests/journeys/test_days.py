"""Days without a coordinator, for the program as it is shipped. It has no switch that moves its clock, so libfaketime
moves all of its clocks together, as they go on in a suspended machine: under a running process, or while it is down.
"""

import os
import subprocess
import time
import warnings
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from snapshot import canonical
from tests.citations import ROOT
from tests.fakes.cluster import DAY, HOUR, NOW, Cluster
from tests.fakes.coordinator_server import CoordinatorServer
from tests.journeys.interpreter import AGENT_PYTHON
from tests.journeys.lab import POLICY, ROUTES, agent_toml, put_token
from wire.client import Call, ClientError, HttpClient, UnixConnector
from wire.endpoint import path

WITHIN_S = 120.0
POLICY_SCOPE = "degraded_mode_policy"
GOES_ON = POLICY | {"max_duration_s": 7 * DAY, "allow_unconfirmed_start": True}


def library() -> Path | None:
    return next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


@pytest.fixture(scope="module")
def faketime() -> Path:
    """Debian's libfaketime, where it is installed."""
    found = library()
    if found is None:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("NO DAYS PASS FOR THE SHIPPED AGENT: libfaketime is not installed", stacklevel=1)
        pytest.skip("NO DAYS PASS FOR THE SHIPPED AGENT: libfaketime is not installed")
    return found


@dataclass
class Shipped:
    """`holdfast-agent` on one disk, and the coordinator of its cluster, whose time goes with it."""

    folder: Path
    library: Path
    server: CoordinatorServer
    days: float = 0.0

    @property
    def now(self) -> float:
        return time.time() + (NOW - self._begun) + self.days * DAY

    def __post_init__(self) -> None:
        self._notified = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_DGRAM)
        self._begun = time.time()
        self.server.now = lambda: self.now

    def go_on_to(self, days: float) -> None:
        """So many days after the beginning; by a rename, since the process may be reading."""
        self.days = days
        (self.folder / "next").write_text(f"{self.now - time.time():+.0f}s")
        (self.folder / "next").rename(self.folder / "clock")

    @asynccontextmanager
    async def running(self, days: float = 0.0) -> AsyncIterator[None]:
        """The process, from its first answer on that day to its end."""
        self.go_on_to(days)
        process = self._started()
        try:
            await self.until(lambda status: status is not None)
            yield
        finally:
            process.terminate()
            process.wait(60)

    def _started(self) -> "subprocess.Popen[bytes]":
        environment = {
            "LD_PRELOAD": str(self.library),
            "FAKETIME_TIMESTAMP_FILE": str(self.folder / "clock"),
            "FAKETIME_NO_CACHE": "1",
            "NOTIFY_SOCKET": str(self.folder / "notify"),
        }
        program = [AGENT_PYTHON, "-m", "agent.command", "--config", str(self.folder / "agent.toml")]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(program, cwd=ROOT, env={**os.environ, **environment}, stdout=log, stderr=log)

    async def ask(self, call: Call) -> object:
        client = HttpClient(UnixConnector())
        try:
            answer = await client.fetch(self.folder / "run" / "agent.sock", call)
        finally:
            await client.aclose()
        return canonical.loads(answer.body)

    async def status(self) -> dict | None:
        """None while nobody answers."""
        try:
            return await self.ask(Call("GET", "/v1/status"))
        except ClientError as error:
            if error.status is not None:
                raise
            return None

    async def until(self, holds) -> None:
        """It tells systemd that it is ready, and each change of its state."""
        with trio.fail_after(WITHIN_S):
            while not holds(await self.status()):
                await self._notified.recv(4096)

    async def listen(self) -> None:
        await self._notified.bind(str(self.folder / "notify"))

    def close(self) -> None:
        self._notified.close()

    async def until_state(self, state: str, cause: str = "") -> None:
        await self.until(lambda status: status and (status["state"], status["cause"]) == (state, cause))

    async def may(self, action: str, **members: object) -> tuple[bool, str]:
        found = await self.ask(Call("POST", "/v1/may", body=canonical.dumps({"action": action, **members})))
        return found["allowed"], found["reason"]

    async def routes(self, **query: object) -> object:
        """What a service reads; a refusal's code otherwise."""
        try:
            return await self.ask(Call("GET", path("v1", "scopes", ROUTES, "sections", "routes", **query)))
        except ClientError as error:
            return error.status

    async def grade(self) -> str:
        status = await self.status()
        return status["scopes"][ROUTES]["active"]["grade"]


@pytest.fixture
async def shipped(tmp_path, faketime) -> AsyncIterator[Shipped]:
    """Nothing is published yet."""
    server = CoordinatorServer(Cluster(), tmp_path, lambda: NOW)
    (tmp_path / "run").mkdir()
    put_token(tmp_path / "join.token")
    shipped = Shipped(tmp_path, faketime, server)
    await shipped.listen()
    yield shipped
    shipped.close()


@asynccontextmanager
async def enrolled(shipped: Shipped, section: object = None, **policy: object) -> AsyncIterator[None]:
    """A member with routes that runs, and whose coordinator is gone. `section`: the policy, `policy`: its envelope."""
    server = shipped.server
    server.snapshot({"node": {}}, "node_bootstrap")
    server.snapshot({"routes": {"north": {"via": "a"}}}, ROUTES)
    if section is not None:
        server.snapshot({"policy": section}, POLICY_SCOPE, **policy)
    server.announce()
    async with AsyncExitStack() as stack:
        async with server.running():
            (shipped.folder / "agent.toml").write_text(agent_toml(shipped.folder, server))
            await stack.enter_async_context(shipped.running())
            await shipped.until_state("active")
        yield


NORTH = {"scope": ROUTES, "resource": "north"}


async def test_days_with_a_policy(shipped):
    """rules S75, S83, S55, S57, S29, A6, X25: it goes on in what it is allowed, and what expires does so at its use"""
    async with enrolled(shipped, GOES_ON):
        shipped.go_on_to(days=3)
        assert await shipped.may("report_degraded") == (True, "ok")
        assert await shipped.may("open_route", **NORTH) == (False, "not_in_policy")
        assert await shipped.may("approve_enrolment") == (False, "forbidden_in_degraded")
        await shipped.until_state("degraded", "head_expired")
        assert await shipped.grade() == "stale"
        assert await shipped.routes() == {"north": {"via": "a"}}
        shipped.go_on_to(days=8)  # snapshots live for seven
        assert (await shipped.may("preserve_routes", **NORTH))[0] is False
        assert await shipped.routes() == 410
        assert await shipped.grade() == "expired"
        await shipped.until_state("fenced", "scope_expired")


async def test_days_without_a_policy(shipped):
    """rules S58, A8, J41: nothing new, and what is there can be read; the same after a start on that day"""
    async with enrolled(shipped):
        shipped.go_on_to(days=1)
        await denied_for_want_of_a_policy(shipped)
    async with shipped.running(days=2):
        await denied_for_want_of_a_policy(shipped)


async def denied_for_want_of_a_policy(shipped: Shipped) -> None:
    for action in ("continue_services", "preserve_routes", "open_session", "resolve_secret"):
        assert await shipped.may(action, **NORTH) == (False, "no_degraded_policy")
    assert await shipped.may("issue_certificate") == (False, "forbidden_in_degraded")
    await shipped.until_state("fenced", "no_degraded_policy")
    assert await shipped.routes() == {"north": {"via": "a"}}


async def test_a_policy_that_ends_in_the_middle(shipped):
    """rules S57, S58: by its own expiry"""
    async with enrolled(shipped, GOES_ON, refresh_after=NOW + DAY, expires_at=NOW + 2 * DAY):
        shipped.go_on_to(days=1.9)
        await shipped.until_state("degraded", "head_expired")
        assert await shipped.may("report_degraded") == (True, "ok")
        shipped.go_on_to(days=2)
        assert await shipped.may("report_degraded") == (False, "no_degraded_policy")
        await shipped.until_state("fenced", "no_degraded_policy")


async def test_the_time_that_a_policy_allows_ends_in_the_middle(shipped):
    """rules S57, J38, A13, A15, J41, P1: the time that the agent was down counts; what happened meanwhile is delivered
    when the coordinator is back"""
    async with enrolled(shipped, GOES_ON | {"max_duration_s": 30 * HOUR}):
        shipped.go_on_to(days=1)
        await shipped.until_state("degraded", "head_expired")
    async with shipped.running(days=1.5):
        assert await shipped.may("report_degraded") == (False, "degraded_limit")
        await shipped.until_state("fenced", "degraded_limit")
        shipped.server.announce()
        async with shipped.server.running():
            await shipped.until_state("active")
            with trio.fail_after(WITHIN_S):
                while "fenced -> active" not in told(shipped):  # the report that says active may be before its event
                    await shipped.server.wait_heartbeat()
    assert "started -> fenced: degraded_limit" in told(shipped)


def told(shipped: Shipped) -> list[str]:
    """Every event that was delivered."""
    return [event.detail for report in shipped.server.heartbeats for event in report.journal]
