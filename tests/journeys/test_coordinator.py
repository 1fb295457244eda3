"""A coordinator from its configuration file to nodes that hold what was declared, over real TLS and a real socket."""

from pathlib import Path

import pytest

from tests.coordinator.daemon import Follower, running
from tests.coordinator.founding import Founded

STATE = """
kind: Cluster
id: prod
spec: {coordinators: ["https://localhost:7443"]}
---
kind: Organization
id: acme
---
kind: Node
id: node-a
spec: {roles: [core_mesh, egress_service], organizations: [acme], addresses: ["10.0.0.1:7000"]}
---
kind: Service
id: web
spec:
  organization: acme
  runs_on: {nodes: [node-a]}
  endpoints: [{name: http, protocol: http, host: localhost, port: 8080}]
---
kind: Route
id: front
spec: {organization: acme, service: web, match: {hosts: [www.example]}}
---
kind: DegradedModePolicy
id: standard
spec: {allow: [continue_services, preserve_routes]}
"""


@pytest.fixture
def founded(tmp_path: Path) -> Founded:
    return Founded(tmp_path, f"sqlite:///{tmp_path}/state.db")


async def test_from_a_declaration_to_a_node_that_holds_it(founded: Founded) -> None:
    """rules S69, S71, J10, K20"""
    async with running(founded) as at:
        node = await at.admit("node-a")
        follower = Follower(node)
        assert await follower.sync()
        assert set(follower.holder.active) >= {"node_bootstrap", "node_runtime", "degraded_mode_policy"}
        await at.apply(STATE)
        assert await follower.sync(wait=10)
        routes = [
            follower.holder.active["route_policy"].read(name)
            for name in follower.holder.active["route_policy"].sections
        ]
        assert b"www.example" in routes[0]
        assert not await follower.sync()
