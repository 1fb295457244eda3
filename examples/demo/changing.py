"""The state changes while it is served: a route comes, a service moves, a key is rolled over."""

from examples.demo.world import EGRESS, INTRANET, PORTAL, World

ARRIVES_S = 60


def a_route_comes(world: World) -> None:
    before, _ = world.ask(PORTAL)
    world.proof.that(f"nobody knows {PORTAL} yet: 404", before == 404, before)
    world.screen.did("holdfastctl apply -f 2-a-route.yaml", world.coordinator.change("2-a-route.yaml"))
    with world.screen.watching(lambda: world.screen.nodes(world.all_nodes)):
        _wait_for(world, PORTAL, "ams-svc-aurora-1")
    world.proof.that(f"the new route is followed: {PORTAL} leads to the intranet", True)


def a_service_moves(world: World) -> None:
    held = world.egress.version("service_assignment")
    printed = world.coordinator.change("3-a-service-moves.yaml", frankfurt=world.frankfurt)
    world.screen.did("holdfastctl apply -f 3-a-service-moves.yaml", printed, lines=9)
    with world.screen.watching(lambda: world.screen.nodes(world.all_nodes)):
        _wait_for(world, INTRANET, "fra-svc-aurora-1")
        world.proof.wait(
            f"{EGRESS} is told",
            lambda: world.egress.version("service_assignment") > held,
            ARRIVES_S,
            lambda: world.egress.status().get("scopes"),
        )
    world.proof.that("the service moved: the intranet answers from Frankfurt", True)
    assigned = world.egress.entries("service_assignment")
    told = assigned.get("aurora-intranet", {})
    world.proof.that(f"{EGRESS} is told to run it: {told.get('workload')}", "workload" in told, assigned)


def a_key_is_rolled_over(world: World) -> None:
    """The signing key of the coordinator: the new one is announced, both sign, the old one signs no more."""
    coordinator, old = world.coordinator, world.ingress.signer("route_policy")
    coordinator.rotate("add", "--new-key-to", coordinator.keys)
    coordinator.reload()
    world.screen.did("holdfastctl rotate add --root-key root-keys; systemctl reload holdfast-coordinator")
    with world.screen.watching(lambda: world.screen.nodes(world.all_nodes)):
        _bundle_arrives(world, 2)
    printed = coordinator.rotate("retire", old, "--early")  # a cluster that goes on waits a day: the demo does not
    name = old.removeprefix("sha256:")[:12]
    world.screen.did(f"holdfastctl rotate retire {name} --early --root-key root-keys", printed)
    with world.screen.watching(lambda: world.screen.nodes(world.all_nodes)):
        _bundle_arrives(world, 3)
    world.proof.that("the signing key was rolled over by two bundles that root keys signed; every node followed", True)
    signs = {key["key_id"]: key["status"] for key in coordinator.ask("rotate", "status")["keys"]}
    world.proof.that("the old key signs no more", signs[old] == "retiring", signs)
    failed = world.stream.failed
    world.proof.that(f"{world.stream.sent} requests meanwhile, none failed", not failed, failed[:3])


def _wait_for(world: World, host: str, where: str) -> None:
    def arrives() -> bool:
        return world.ask(host) == (200, f"the intranet, on {where}")

    world.proof.wait(f"{host} leads to {where}", arrives, ARRIVES_S, lambda: world.ask(host))


def _bundle_arrives(world: World, version: int) -> None:
    def arrived() -> bool:
        return all(node.version("trust_bundle") == version for node in world.all_nodes)

    world.proof.wait(f"trust bundle {version} is everywhere", arrived, ARRIVES_S, world.states)
