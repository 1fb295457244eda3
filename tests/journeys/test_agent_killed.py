"""SIGKILL at any moment, again and again: what is active is whole, marks never go down, and the newest arrives."""

import os
import random
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from snapshot import canonical
from store.fsck.check import check
from tests.fakes.cluster import CLUSTER_ID, NOW, Cluster
from tests.fakes.coordinator_server import CoordinatorServer
from tests.fakes.watched import until_changed
from tests.journeys import agent_process
from tests.journeys.lab import ROUTES, agent_toml, first_documents, put_token
from tests.world.programs import Process
from wire.client import Call, ClientError, HttpClient, Reply, UnixConnector
from wire.endpoint import path

KILLS, MANY = 8, int(os.environ.get("HOLDFAST_AGENT_KILLS", "300"))
WITHIN_S = 120.0
EVERY_S = 0.4
"""A version is published this often while the agent lives."""

SERVICE = """
[[service]]
name = "web"
scopes = ["route_policy"]
notify = "command"
command = ["/bin/sh", "-c", "cp {active}/route_policy/routes.json {told}/$$.new && mv {told}/$$.new {told}/$$.json"]
[intervals]
heartbeat_interval_s = 5
"""


@dataclass
class Victim:
    """The agent of one disk, and what its coordinator has published; `socket` answers while it lives."""

    folder: Path
    server: CoordinatorServer
    offset: float
    published: dict[int, object] = field(default_factory=dict)
    reached: int = 0

    @property
    def socket(self) -> Path:
        return self.folder / "run" / "agent.sock"

    @property
    def told(self) -> list[object]:
        """What the service read from the files, each time that it was told and was let come to its end."""
        return [canonical.loads(path.read_bytes()) for path in (self.folder / "told").glob("*.json")]

    def start(self) -> Process | subprocess.Popen:
        return agent_process.start(self.folder, self.offset)

    def publish(self) -> None:
        number = self.server.cluster.versions[ROUTES] + 1
        self.published[number] = {f"r{number}": {"padding": "x" * 50_000}}
        self.server.snapshot({"routes": self.published[number]}, ROUTES)
        self.server.announce()

    async def publish_for(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            while True:
                self.publish()
                await trio.sleep(EVERY_S)
                await self.look()

    async def look(self) -> int | None:
        """The version that is served, whole, and not below one that was served; None while nobody answers."""
        answer = await self.ask("v1", "scopes", ROUTES, "sections", "routes")
        if answer is None:
            return None
        version = int(answer.headers["holdfast-version"])
        assert canonical.loads(answer.body) == self.published[version], "neither old nor new"
        assert version >= self.reached, "a version that was active came back lower"
        self.reached = version
        return version

    def answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as caller:
            return caller.connect_ex(str(self.socket)) == 0

    async def ask(self, *segments: str, wait_s: int = 0, **query: int) -> Reply | None:
        """None while nobody answers, or not with this."""
        client = HttpClient(UnixConnector())
        try:
            return await client.fetch(self.socket, Call("GET", path(*segments, **query), wait_s=wait_s))
        except ClientError:
            return None
        finally:
            await client.aclose()

    async def until_at(self, least: int) -> None:
        """The agent says when it has another generation; the kernel, when there is a new socket."""
        with trio.fail_after(WITHIN_S):
            while True:
                await until_changed(self.socket.parent, self.answers, WITHIN_S)
                seen = await self.ask("v1", "scopes")
                if (await self.look() or 0) >= least:
                    return
                if seen is not None:
                    generation = int(seen.headers["holdfast-generation"])
                    await self.ask("v1", "watch", after=generation, wait=60, wait_s=60)

    async def killed_after(self, seconds: float) -> None:
        process = self.start()
        try:
            await self.publish_for(seconds)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        if (self.folder / "state" / "clusters" / CLUSTER_ID / "store").exists():
            assert list(check(self.folder / "state", CLUSTER_ID)) == []

    async def lives_until(self, holds) -> None:
        """It is started, and ended in order once it is at the newest version and that holds."""
        process = self.start()
        try:
            await self.until_at(self.server.cluster.versions[ROUTES])
            await until_changed(self.folder / "told", holds, WITHIN_S)
        finally:
            process.terminate()
            assert process.wait(60) in (0, -signal.SIGTERM)

    def service_knows(self) -> bool:
        """It was told, also of what became active just before a kill."""
        return self.published[self.server.cluster.versions[ROUTES]] in self.told

    def journal(self) -> set[int]:
        """The numbers of the events that were delivered."""
        return {event.sequence for report in self.server.heartbeats for event in report.journal}


def whole(numbers: set[int]) -> bool:
    return numbers == set(range(1, len(numbers) + 1))


async def killed_again_and_again(folder: Path, kills: int) -> Victim:
    offset = NOW - time.time()
    server = CoordinatorServer(Cluster(), folder, lambda: time.time() + offset)
    first_documents(server)
    server.announce()
    (folder / "run").mkdir()
    (folder / "told").mkdir()
    put_token(folder / "join.token")
    victim, chance = Victim(folder, server, offset, {1: {"north": {"via": "a"}}}), random.Random(7)
    async with server.running():
        service = SERVICE.format(active=folder / "run" / "active", told=folder / "told")
        (folder / "agent.toml").write_text(agent_toml(folder, server) + service)
        begun = time.monotonic()
        await victim.lives_until(lambda: True)
        life_s = time.monotonic() - begun
        for number in range(kills):
            await victim.killed_after(chance.uniform(0, 2 * life_s))
            if number % KILLS == KILLS - 1:
                await victim.lives_until(victim.service_knows)
        victim.publish()
        await victim.lives_until(victim.service_knows)
        last = await delivered(victim)
    assert whole(last), "the journal has gaps"
    assert list(check(folder / "state", CLUSTER_ID)) == []
    assert all(told in victim.published.values() for told in victim.told)
    return victim


async def delivered(victim: Victim) -> set[int]:
    """What has been delivered once a report had nothing more to deliver than the one before."""
    reports = victim.server.heartbeats

    def all_is() -> bool:
        return len(reports) > 2 and not reports[-1].journal

    process = victim.start()
    try:
        with trio.fail_after(WITHIN_S):
            while not all_is():
                await victim.server.wait_heartbeat()
    finally:
        process.terminate()
        process.wait(60)
    return victim.journal()


async def test_the_agent_is_killed_again_and_again(tmp_path):
    """rules P7, J47, S84, L26, S68: eight kills while versions arrive"""
    await killed_again_and_again(tmp_path, KILLS)


@pytest.mark.slow
async def test_the_agent_is_killed_hundreds_of_times(tmp_path):
    """rules P7, J47, S84, L26, S68: three hundred; old or new, services told, the journal without a gap"""
    victim = await killed_again_and_again(tmp_path, MANY)
    print(
        f"{MANY} kills, {len(victim.published)} versions published, {len(victim.told)} notifications,"
        f" {len(victim.journal())} events delivered"
    )
