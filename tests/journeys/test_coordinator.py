"""A coordinator from its configuration file to nodes that hold what was declared, over real TLS and a real socket."""

from pathlib import Path

import trio

from tests.coordinator.daemon import Follower, running
from tests.coordinator.founding import Founded

STATE = """
kind: Cluster
id: prod
spec: {coordinators: ["https://localhost:7443"]}
---
{kind: Organization, id: acme}
---
{kind: Organization, id: wayne}
---
kind: Node
id: core
spec: {roles: [core_mesh, egress_service], organizations: [acme], addresses: ["10.0.0.1:7000"]}
---
kind: Node
id: edge
spec: {roles: [ingress], organizations: [acme], addresses: ["10.0.0.2:7000"]}
---
kind: Node
id: small
spec: {roles: [thin], organizations: [wayne]}
---
kind: Service
id: web
spec:
  organization: acme
  runs_on: {nodes: [core]}
  settings: {password: {secret_ref: "vault:web/password"}}
  endpoints: [{name: http, protocol: http, host: localhost, port: 8080, exposed: true}]
---
{kind: Route, id: front, spec: {organization: acme, service: web, match: {hosts: [www.example]}}}
---
{kind: DegradedModePolicy, id: standard, spec: {allow: [continue_services, preserve_routes]}}
"""


async def until(follower: Follower, role: str) -> None:
    with trio.fail_after(120):
        while role not in follower.holder.roles:
            await follower.sync(wait=10)


async def test_from_a_declaration_to_nodes_that_hold_it(tmp_path: Path) -> None:
    """rules S69, S71, J18, J19, J10, K20, K1: three members join, each is told what is for it and no more."""
    founded = Founded(tmp_path, f"sqlite:///{tmp_path}/state.db", settings="joins_per_minute = 1000")
    async with running(founded) as at:
        nodes = {name: Follower(await at.admit(name)) for name in ("core", "edge", "small")}
        for follower in nodes.values():
            await follower.sync()
            assert follower.holder.roles == frozenset()
        await at.declare(STATE)
        for name, role in (("core", "core_mesh"), ("edge", "ingress"), ("small", "thin")):
            await until(nodes[name], role)
        assert b"vault:web/password" in text(nodes["core"], "service_assignment/web")
        assert b"vault" not in text(nodes["edge"], "service_assignment/web")
        assert b"www.example" in text(nodes["edge"], "route_policy")
        assert b"www.example" not in text(nodes["small"], "route_policy")
        assert "peer_directory" not in nodes["edge"].holder.active
        for follower in nodes.values():
            assert not await follower.sync()
        fleet = await at.ask("GET", "/v1/fleet")
        assert (fleet["members"], fleet["baseline_shortfall"]) == (3, 0)


def text(follower: Follower, scope: str) -> bytes:
    held = follower.holder.active[scope]
    return b"".join(held.read(name) for name in held.sections)
