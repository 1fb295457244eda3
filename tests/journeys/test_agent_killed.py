"""SIGKILL at any moment, again and again: what is active is whole, marks never go down, and the newest arrives."""

import os
import random
import signal
import subprocess
import time

import trio

from snapshot import canonical
from store.check import check
from tests.citations import ROOT
from tests.fakes.cluster import CLUSTER_ID, NOW, Cluster
from tests.fakes.coordinator_server import CoordinatorServer
from tests.journeys.interpreter import AGENT_PYTHON
from tests.journeys.lab import agent_toml, first_documents, put_token
from wire.client import Call, Client, ClientError, UnixConnector

ROUTES = "route_policy"
KILLS = 12
WITHIN_S = 60.0


def started(folder, offset):
    arguments = [AGENT_PYTHON, "-m", "tests.journeys.agent_process", str(folder / "agent.toml"), str(offset)]
    return subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.DEVNULL, env={**os.environ, "NOTIFY_SOCKET": ""})


async def active_version(socket):
    """What the local socket says is active; None while nobody answers."""
    client = Client(UnixConnector())
    try:
        answer = await client.fetch(socket, Call("GET", "/v1/scopes"))
    except ClientError:
        return None
    finally:
        await client.aclose()
    scopes = canonical.loads(answer.body)["scopes"]
    return scopes[ROUTES]["config_version"] if ROUTES in scopes else None


async def wait_for_version(socket, least):
    with trio.fail_after(WITHIN_S):
        while (found := await active_version(socket)) is None or found < least:  # noqa: ASYNC110 - another process
            await trio.sleep(0.05)
    return found


async def test_the_agent_is_killed_again_and_again(tmp_path):
    """rules P7, J47, S84, L26, S68: twelve kills while versions arrive"""
    offset = NOW - time.time()
    server = CoordinatorServer(Cluster(), tmp_path, lambda: time.time() + offset)
    first_documents(server)
    server.announce()
    (tmp_path / "run").mkdir()
    put_token(tmp_path / "join.token")
    chance, reached = random.Random(7), 0
    async with server.running():
        (tmp_path / "agent.toml").write_text(agent_toml(tmp_path, server))
        socket = tmp_path / "run" / "agent.sock"
        for number in range(KILLS):
            process = started(tmp_path, offset)
            try:
                if number % 3 == 0:
                    found = await wait_for_version(socket, max(1, reached))
                    assert found >= reached, "a version that was active came back lower"
                    reached = found
                server.snapshot({"routes": {f"r{number}": {"padding": "x" * 50_000}}}, ROUTES)
                server.announce()
                await trio.sleep(chance.uniform(0, 0.8))
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait()
            if (tmp_path / "state" / "clusters" / CLUSTER_ID / "store").exists():
                assert list(check(tmp_path / "state", CLUSTER_ID)) == []
        process = started(tmp_path, offset)
        try:
            newest = server.cluster.versions[ROUTES]
            assert await wait_for_version(socket, newest) == newest
        finally:
            process.terminate()
            assert process.wait(20) in (0, -signal.SIGTERM)
    assert list(check(tmp_path / "state", CLUSTER_ID)) == []
