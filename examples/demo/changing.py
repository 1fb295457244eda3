"""The state changes while it is served: a route comes, a service moves, a key is rolled over."""

from functools import partial

from examples.demo.coordinator import Coordinator
from examples.demo.world import AMSTERDAM, CORE, EGRESS, FRANKFURT, INGRESS, INTRANET, PORTAL, World

ARRIVES_S = 180
SERVICE = "service_assignment/aurora-intranet"


def a_route_comes(world: World) -> None:
    held = {node.node_id: node.version("route_policy") for node in world.all_nodes}
    before, _ = world.ask(PORTAL)
    world.proof.that(f"nobody knows {PORTAL} yet: 404", before == 404, before)
    world.screen.did("holdfastctl apply -f 2-a-route.yaml", world.coordinator.change("2-a-route.yaml"))
    with world.screen.watching(lambda: world.screen.nodes(world.all_nodes)):
        _wait_for(world, PORTAL, AMSTERDAM)
        _wait_for_version(world, CORE, "route_policy", held[CORE])
    world.proof.that(f"the new route is followed: {PORTAL} leads to the intranet", True)
    changed = {name for name in held if world.nodes[name].version("route_policy") > held[name]}
    world.proof.that("the two nodes that it concerns were told, the third was not", changed == {INGRESS, CORE}, changed)


def a_service_moves(world: World) -> None:
    held = world.egress.version(SERVICE)
    world.stream.expected = None
    printed = world.coordinator.change("3-a-service-moves.yaml", frankfurt=world.frankfurt)
    world.screen.did("holdfastctl apply -f 3-a-service-moves.yaml", printed, lines=9)
    with world.screen.watching(lambda: world.screen.nodes(world.all_nodes)):
        _wait_for(world, INTRANET, FRANKFURT)
        claim = f"every request of a second is answered by {FRANKFURT}"
        world.proof.wait(claim, lambda: world.stream.is_steady(FRANKFURT), ARRIVES_S, lambda: world.stream.last)
        world.stream.expected = FRANKFURT
        _wait_for_version(world, EGRESS, SERVICE, held)
    world.proof.that("the service moved: the intranet answers from Frankfurt", True)
    assigned = world.egress.entries(SERVICE)
    told = assigned.get("aurora-intranet", {})
    world.proof.that(f"{EGRESS} is told to run it: {told.get('workload')}", "workload" in told, assigned)


def a_key_is_rolled_over(world: World) -> None:
    """The signing key of the coordinator: the new one is announced, both sign, the old one signs no more."""
    coordinator, old = world.coordinator, world.ingress.signer("route_policy")
    first = world.ingress.version("trust_bundle")
    coordinator.rotate("add", "--new-key-to", coordinator.keys)
    coordinator.reload()
    held = partial(_held, coordinator)
    world.proof.wait("the coordinator has both keys", lambda: len(held()) > 1, ARRIVES_S, held)
    world.screen.did("holdfastctl rotate add --root-key root-keys; systemctl reload holdfast-coordinator")
    with world.screen.watching(lambda: world.screen.nodes(world.all_nodes)):
        _bundle_arrives(world, first + 1)
    printed = coordinator.rotate("retire", old, "--early")  # a cluster that goes on waits a day: the demo does not
    name = old.removeprefix("sha256:")[:12]
    world.screen.did(f"holdfastctl rotate retire {name} --early --root-key root-keys", printed)
    with world.screen.watching(lambda: world.screen.nodes(world.all_nodes)):
        _bundle_arrives(world, first + 2)
    keys = {key["key_id"]: key for key in coordinator.ask("rotate", "status")["keys"]}
    signers = {keys[node.signer("trust_bundle")]["purpose"] for node in world.all_nodes}
    claim = "every node took the two trust bundles that brought the new key and sent the old one away, signed by a root"
    world.proof.that(claim, signers == {"root"}, signers)
    world.proof.that("the old key is retired", keys[old]["status"] == "retiring", keys[old])
    sent, failed = world.stream.sent, world.stream.failed
    world.proof.that(f"{sent} requests since traffic began, each answered from the right place", not failed, failed[:3])


def _wait_for(world: World, host: str, body: str) -> None:
    """Every request, not only one: nobody answers by the former configuration any more."""
    what = f"all requests for {host} are answered by {body}"
    world.proof.wait(what, lambda: world.answers(host, body), ARRIVES_S, lambda: world.sample(host))


def _wait_for_version(world: World, node_id: str, scope: str, above: int) -> None:
    node = world.nodes[node_id]
    what = f"{node_id} has a newer {scope} than version {above}"
    world.proof.wait(what, lambda: node.version(scope) > above, ARRIVES_S, node.in_words)


def _held(coordinator: Coordinator) -> list[str]:
    """The keys that it could sign with."""
    return [key["key_id"] for key in coordinator.ask("rotate", "status")["held"]]


def _bundle_arrives(world: World, version: int) -> None:
    def held() -> dict[str, int]:
        return {node.node_id: node.version("trust_bundle") for node in world.all_nodes}

    what = f"trust bundle {version} is everywhere"
    world.proof.wait(what, lambda: set(held().values()) == {version}, ARRIVES_S, held)
