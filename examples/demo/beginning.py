"""From nothing to three nodes that serve: the cluster, its declared state, the gateway, the joins."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from examples.demo import stranger
from examples.demo.coordinator import NAME as COORDINATOR
from examples.demo.node import Node
from examples.demo.processes import Processes
from examples.demo.screen import now
from examples.demo.world import AMSTERDAM, CORE, EGRESS, FABRIC, FRANKFURT, INGRESS, INTRANET, World

START_S = 180
JOIN_S = 180
# Of degraded mode on the ingress node: short enough to be seen running out.
BOUNDS_S = {"max_duration_s": 600, "route_ttl_s": 300, "session_ttl_s": 15}
EVERY_NODE = {"degraded_mode_policy", "node_bootstrap", "node_runtime", "trust_bundle"}
SCOPE_TYPES = {  # what the one role of each lets it hold
    INGRESS: EVERY_NODE | {"route_policy", "service_assignment", "storage_directory"},
    EGRESS: EVERY_NODE | {"route_policy", "service_assignment", "storage_directory"},
    CORE: EVERY_NODE | {"route_policy", "qos_policy", "peer_directory", "storage_directory"},
}


def a_cluster_is_made(world: World) -> None:
    coordinator = world.coordinator
    printed = coordinator.init()
    world.screen.did(f"holdfastctl init fabric --url {coordinator.url} --root-keys-to ...", printed, lines=12)
    coordinator.start()
    world.screen.did("holdfast-coordinator --config coordinator.toml &")
    _until_it_answers(world)
    members = len(coordinator.ask("nodes", "list")["nodes"])
    world.proof.that("a cluster was made, with no members yet", members == 0, members)
    kept_in = coordinator.database.read_bytes()[:15]
    world.proof.that("its coordinator keeps it in SQLite", kept_in == b"SQLite format 3", kept_in)


def the_fabric_is_declared(world: World) -> None:
    coordinator, screen = world.coordinator, world.screen
    printed = coordinator.apply(FABRIC)
    screen.did("holdfastctl apply -f examples/fabric", printed)
    again = coordinator.ask("apply", "-f", FABRIC, "--dry-run")
    nodes, sites = printed.count("+ Node "), printed.count("+ Site ")
    world.proof.that(f"{nodes} nodes at {sites} sites are declared", (nodes, sites) == (40, 3), printed)
    world.proof.that("applied again, the same files would change nothing", not again["changes"], again["changes"])
    values = {"coordinator": coordinator.url, "amsterdam": world.amsterdam, **BOUNDS_S}
    screen.did("holdfastctl apply -f 1-this-machine.yaml", coordinator.change("1-this-machine.yaml", **values))


def services_start(world: World) -> None:
    """Two places where the intranet may run, and the gateway, without routes yet."""
    _start_workload(world.processes, "intranet-amsterdam", world.amsterdam, AMSTERDAM)
    _start_workload(world.processes, "intranet-frankfurt", world.frankfurt, FRANKFURT)
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
    held = {node.node_id: node.scope_types() for node in nodes}
    claim = "ingress, egress_service and core_mesh joined; each holds the scopes of its role, and no others"
    world.proof.that(claim, held == SCOPE_TYPES, held)
    _only_members_are_let_in(world)


def traffic_flows(world: World) -> None:
    world.proof.comes_true(
        f"{world.gateway.what} serves by what the agent activated: the intranet answers from Amsterdam",
        lambda: world.answers(INTRANET, AMSTERDAM), START_S, lambda: world.sample(INTRANET),
    )  # fmt: skip
    world.stream.expected = AMSTERDAM
    world.stream.start()
    claim = f"every request of a second is answered by {AMSTERDAM}"
    world.proof.wait(claim, lambda: world.stream.is_steady(AMSTERDAM), START_S, lambda: world.stream.last)
    world.stream.count_anew()
    world.screen.say("From here on twenty requests a second go through it, until the end.")


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
    active = all(node.status().get("state") == "active" for node in world.all_nodes)
    return active and all(world.nodes[name].scope_types() >= types for name, types in SCOPE_TYPES.items())


def _only_members_are_let_in(world: World) -> None:
    """Mutual TLS: the same request with a member's certificate, with a forged one of the same name, and with none."""
    port, ca_file = world.coordinator.fleet_port, world.coordinator.ca_file
    forged = stranger.make_certificate(world.folder / "forged.pem", INGRESS, now())
    member = stranger.knocks(port, ca_file, world.ingress.identity)
    others = stranger.knocks(port, ca_file), stranger.knocks(port, ca_file, forged)
    claim = "mutual TLS: a member's certificate is answered; none, or a forged one in its name, is not"
    world.proof.that(claim, member.startswith("HTTP/1.1") and not any(others), (member, *others))
    members = len(world.coordinator.ask("nodes", "list")["nodes"])
    world.proof.that(f"the coordinator has {members} members", members == len(world.nodes), members)
