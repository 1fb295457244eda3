"""An agent, as a process, whose coordinator's name nobody resolves: it has reached it before."""

import time

from agent.state.health_rows import ADDRESSES_ROW
from store.base.layout import Root
from store.base.tables import Name
from store.store import Store
from tests.fakes.cluster import CLUSTER_ID, NOW, Cluster
from tests.fakes.coordinator_server import CoordinatorServer
from tests.journeys.lab import agent_toml, first_documents, put_token
from tests.journeys.test_agent_killed import Victim

NAME = "coordinator.invalid"  # of no DNS (RFC 6761)


def remember(folder, place, address):
    """As an agent has that reached it there."""
    root = Root.open(folder / "state")
    store = Store.open(root, CLUSTER_ID, now=NOW)
    store.table(Name.ROUTES).put(ADDRESSES_ROW, {place: {"address": address, "worked_at": int(NOW)}})
    store.close()
    root.close()


async def test_a_start_without_dns_comes_to_the_newest_version(tmp_path):
    """rules K50, L14: over TLS for that name"""
    offset = NOW - time.time()
    server = CoordinatorServer(Cluster(), tmp_path, lambda: time.time() + offset)
    first_documents(server)
    server.announce()
    (tmp_path / "run").mkdir()
    (tmp_path / "told").mkdir()
    put_token(tmp_path / "join.token")
    victim = Victim(tmp_path, server, offset, {1: {"north": {"via": "a"}}})
    async with server.running():
        (tmp_path / "agent.toml").write_text(agent_toml(tmp_path, server))
        await victim.lives_until(lambda: True)
        by_name = f"https://{NAME}:{server.fleet_port}"
        written = agent_toml(tmp_path, server).replace(f"https://127.0.0.1:{server.fleet_port}", by_name)
        (tmp_path / "agent.toml").write_text(written)
        remember(tmp_path, by_name, "127.0.0.1")
        victim.publish()
        await victim.lives_until(lambda: True)
