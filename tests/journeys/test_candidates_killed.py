"""SIGKILL while a candidate comes in, is judged, reported or released: the vote comes all the same, from the slot."""

import random
import signal
import time
from contextlib import contextmanager

import trio

from store.fsck.check import check
from tests.fakes.cluster import CLUSTER_ID, NOW, Cluster
from tests.fakes.coordinator_server import CoordinatorServer
from tests.journeys.lab import ROUTES, agent_toml, first_documents, put_token
from tests.journeys.test_agent_killed import WITHIN_S, Victim

ROUNDS = 3
SERVICE = """
[[service]]
name = "web"
scopes = ["route_policy"]
validate = ["/bin/sh", "-c", "sleep 0.2; ! grep -q forbidden route_policy/routes.json"]
[intervals]
heartbeat_interval_s = 5
"""


class Voter(Victim):
    """`asked`: how often a candidate was fetched."""

    def propose(self, name: str):
        number = self.server.cluster.versions[ROUTES] + 1
        self.published[number] = {name: {"padding": "x" * 60_000, "n": number}}
        document = self.server.propose({"routes": self.published[number]}, ROUTES)
        self.server.announce()
        return document

    def asked(self, document) -> int:
        return self.server.requests.count(f"GET /v1/documents/{document.envelope.snapshot_id}")

    @contextmanager
    def living(self):
        process = self.start()
        try:
            yield
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()

    async def votes_on(self, document) -> str:
        """What the next report says of it."""
        with trio.fail_after(WITHIN_S):
            name = document.envelope.snapshot_id
            said = await self.server.wait_heartbeat(
                lambda report: any(vote.snapshot_id == name for vote in report.votes or ())
            )
        assert said.scopes[ROUTES].active.config_version == self.reached
        return next(vote.verdict for vote in said.votes)

    def is_sound(self) -> bool:
        return list(check(self.folder / "state", CLUSTER_ID)) == []


async def test_the_agent_is_killed_while_it_prepares_and_votes(tmp_path):
    """rules P7, L26: nothing of it runs before it is listed to, nothing is fetched twice once it lies there"""
    offset, chance = NOW - time.time(), random.Random(11)
    server = CoordinatorServer(Cluster(), tmp_path, lambda: time.time() + offset)
    first_documents(server)
    server.announce()
    (tmp_path / "run").mkdir()
    (tmp_path / "told").mkdir()
    put_token(tmp_path / "join.token")
    voter = Voter(tmp_path, server, offset, {1: {"north": {"via": "a"}}})
    async with server.running():
        (tmp_path / "agent.toml").write_text(agent_toml(tmp_path, server) + SERVICE)
        begun = time.monotonic()
        await voter.lives_until(lambda: True)
        life_s = time.monotonic() - begun
        for number in range(ROUNDS):
            is_good = number % 2 == 0
            document = voter.propose("south" if is_good else "forbidden")
            with voter.living():
                await trio.sleep(chance.uniform(0, 1.5 * life_s))
            assert voter.is_sound()
            with voter.living():
                assert await voter.votes_on(document) == ("accepted" if is_good else "refused")
                asked = voter.asked(document)
            with voter.living():
                assert await voter.votes_on(document) == ("accepted" if is_good else "refused")
                assert await voter.look() == voter.reached
            assert asked == voter.asked(document) <= 2
            if is_good:
                server.release(ROUTES)
                server.announce()
                with voter.living():
                    await trio.sleep(chance.uniform(0, life_s))
                with voter.living():
                    await voter.until_at(document.envelope.config_version)
                assert voter.asked(document) == asked, "a release is no download, however often it is begun"
            assert voter.is_sound()
