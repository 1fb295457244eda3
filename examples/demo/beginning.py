"""From nothing to three nodes that serve: the cluster, its declared state, the gateway, the joins."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from examples.demo.coordinator import NAME as COORDINATOR
from examples.demo.node import Node
from examples.demo.processes import Processes
from examples.demo.world import CORE, EGRESS, FABRIC, INGRESS, INTRANET, World

START_S = 60
JOIN_S = 60
SESSION_TTL_S = 7


def a_cluster_is_made(world: World) -> None:
    coordinator = world.coordinator
    printed = coordinator.init()
    world.screen.did(f"holdfastctl init fabric --url {coordinator.url} --root-keys-to ...", printed, lines=12)
    coordinator.start()
    world.screen.did("holdfast-coordinator --config coordinator.toml &")
    _until_it_answers(world)
    world.proof.that("a cluster was made, and its coordinator serves from SQLite", True)


def the_fabric_is_declared(world: World) -> None:
    coordinator, screen = world.coordinator, world.screen
    printed = coordinator.apply(FABRIC)
    screen.did("holdfastctl apply -f examples/fabric", printed)
    again = coordinator.ask("apply", "-f", FABRIC, "--dry-run")
    nodes, sites = printed.count("+ Node "), printed.count("+ Site ")
    world.proof.that(f"{nodes} nodes at {sites} sites are declared", (nodes, sites) == (40, 3), printed)
    world.proof.that("applied again, the same files would change nothing", not again["changes"], again["changes"])
    values = {"coordinator": coordinator.url, "amsterdam": world.amsterdam, "session_ttl_s": SESSION_TTL_S}
    screen.did("holdfastctl apply -f 1-this-machine.yaml", coordinator.change("1-this-machine.yaml", **values))


def services_start(world: World) -> None:
    """Two places where the intranet may run, and the gateway, without routes yet."""
    _start_workload(world.processes, "intranet-amsterdam", world.amsterdam, "the intranet, on ams-svc-aurora-1")
    _start_workload(world.processes, "intranet-frankfurt", world.frankfurt, "the intranet, on fra-svc-aurora-1")
    world.gateway.start(world.processes)
    world.proof.wait("the gateway answers", lambda: world.ask(INTRANET)[0], START_S, lambda: world.ask(INTRANET))
    status, _ = world.ask(INTRANET)
    world.proof.that(f"without configuration {world.gateway.what} lets nobody in: 404", status == 404, status)


def three_nodes_join(world: World) -> None:
    """Each by itself, and all at once, as three operators would."""
    nodes = list(world.all_nodes)
    for node in nodes:
        node.configure(world.coordinator, world.gateway.service_table() if node is world.ingress else "")
        node.start()
    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(lambda node: _joins(world, node), nodes))
    world.screen.did(f"holdfastctl allow add {INGRESS}")
    world.screen.did(f"holdfastctl tokens create --node {INGRESS} --out join.token")
    world.screen.did("holdfast join --token-file join.token      # on the node; and so the others")
    with world.screen.watching(lambda: world.screen.nodes(world.all_nodes)):
        world.proof.wait("three nodes are active", lambda: _hold_their_scopes(world), JOIN_S, world.states)
    world.proof.that("ingress, egress_service and core_mesh joined over mutual TLS, each with its own scopes", True)


def traffic_flows(world: World) -> None:
    def arrives() -> bool:
        return world.ask(INTRANET) == (200, "the intranet, on ams-svc-aurora-1")

    world.proof.comes_true(
        f"{world.gateway.what} serves by what the agent activated: the intranet answers from Amsterdam",
        arrives, START_S, lambda: world.ask(INTRANET),
    )  # fmt: skip
    world.stream.start()


def _until_it_answers(world: World) -> None:
    answers = world.coordinator.answers
    world.proof.wait("the coordinator answers", answers, START_S, lambda: world.processes.last_words(COORDINATOR))


def _start_workload(processes: Processes, name: str, port: int, answer: str) -> None:
    processes.start(name, [sys.executable, Path(__file__).with_name("workload.py"), port, answer])


def _joins(world: World, node: Node) -> None:
    token = world.folder / f"{node.node_id}.token"
    world.coordinator.invite(node.node_id, token)
    world.proof.wait(f"{node.node_id} answers", node.status, START_S, lambda: world.processes.last_words(node.node_id))
    node.join(token)


def _hold_their_scopes(world: World) -> bool:
    wanted = {INGRESS: "route_policy", EGRESS: "service_assignment", CORE: "peer_directory"}
    active = all(node.status().get("state") == "active" for node in world.all_nodes)
    return active and all(world.nodes[name].version(scope) for name, scope in wanted.items())
