"""Bad updates: forged ones, and what is signed as it should be and is a mistake."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from examples.demo import forgery
from examples.demo.commands import CommandFailed
from examples.demo.coordinator import CLUSTER
from examples.demo.proof import Seen
from examples.demo.screen import now
from examples.demo.world import FABRIC, FRANKFURT, INTRANET, PORTAL, TEAM, World

ARRIVES_S = 180
FORGOTTEN = "routes.yaml"


def forgeries_are_refused(world: World) -> None:
    node = world.ingress
    active = node.status()["scopes"]["route_policy"]["active"]
    version, real_key = active["config_version"] + 1, active["signer_key_id"]
    files = node.entries("route_policy")

    def forged(name: str, in_the_name_of: str | None) -> Path:
        path = world.folder / name
        data = forgery.route_policy(CLUSTER, node.node_id, version, now(), in_the_name_of=in_the_name_of)
        path.write_bytes(data)
        return path

    _is_refused(world, forged("stranger.hfs", None), "unknown_key", "signed by a stranger's key")
    _is_refused(world, forged("forged.hfs", real_key), "bad_signature", "with a wrong signature in the real key's name")
    stayed = node.version("route_policy") == version - 1 and node.entries("route_policy") == files
    world.proof.that("version and files are what they were", stayed, node.entries("route_policy"))
    _traffic_goes_on(world)


def a_mistake_is_refused(world: World) -> None:
    """The coordinator cannot know what nginx thinks of it; the node asks nginx first, and no node runs it."""
    before = _what_is_in_use(world)
    change = _apply(world, "4-a-mistake.yaml")
    with world.screen.watching(lambda: world.screen.nodes(world.all_nodes)):
        _ends(world, change, "halted")
    printed = world.coordinator.show(change)
    world.screen.did(f"holdfastctl changes show {change}", printed, lines=9)
    claim = f"rightly signed, and refused by {world.gateway.what}'s own check before any node ran it"
    world.proof.that(claim, _what_is_in_use(world) == before, _what_is_in_use(world))
    world.proof.that("the operator can read why at the coordinator", "duplicate" in printed, printed)
    _traffic_goes_on(world)


def the_mistake_is_put_right(world: World) -> None:
    node, before = world.ingress, world.ingress.signer("route_policy")
    change = _apply(world, "5-put-right.yaml")
    with world.screen.watching(lambda: world.screen.nodes(world.all_nodes)):
        _wait(world, "the next good one arrives", lambda: world.answers(TEAM, FRANKFURT))
        _ends(world, change, "done")
    after = node.signers("route_policy")
    world.proof.that("the next good version was taken, signed by the new key alone", before not in after, after)


def a_mistake_shows_later(world: World) -> None:
    """The first node runs it, sees that the portal is gone, and goes back; then the coordinator takes it back."""
    held = world.core.version("route_policy")
    change = _apply(world, "6-it-shows-later.yaml")
    with world.screen.watching(lambda: world.screen.nodes(world.all_nodes)):
        _wait(world, "the node goes back by itself", lambda: _went_back(world.ingress.status()))
        _ends(world, change, "reverted")
        _wait(world, "the portal is there again", lambda: world.answers(PORTAL, FRANKFURT))
    printed = world.coordinator.show(change)
    world.screen.did(f"holdfastctl changes show {change}", printed, lines=9)
    world.proof.that("a mistake that shows when it runs was run by one node, which went back by itself", True)
    stayed = world.core.version("route_policy")
    world.proof.that("no other node ever had it", stayed == held, stayed)
    _traffic_goes_on(world)


def too_much_at_once_is_refused(world: World) -> None:
    """The fabric without its routes, as if it were all: gateways would lead nowhere. One guard is told to be silent."""
    before = _what_is_in_use(world)
    files = [path for path in sorted(FABRIC.glob("*.yaml")) if path.name != FORGOTTEN]
    try:
        printed = world.coordinator.prune(*files)
    except CommandFailed as failed:
        printed = failed.said
    world.screen.did("holdfastctl apply -f fabric-without-routes --prune --drop-endpoints", printed)
    refused = "too_much_change" in printed and _what_is_in_use(world) == before
    world.proof.that("what would take all its routes from a gateway is refused: too_much_change", refused, printed)


def _went_back(status: dict[str, Any]) -> bool:
    return status["scopes"]["route_policy"].get("reverted") is not None


def _apply(world: World, name: str) -> str:
    """The id of the change that it begins."""
    printed = world.coordinator.change(name)
    world.screen.did(f"holdfastctl apply -f {name}", printed)
    return printed.rpartition(", by ")[2].split()[0]


def _ends(world: World, change: str, state: str) -> None:
    def stands() -> str:
        changes = world.coordinator.ask("changes", "list")["changes"]
        return next((str(each["state"]) for each in changes if each["change"] == change), "unknown")

    world.proof.wait(f"{change} is {state}", lambda: stands() == state, ARRIVES_S, stands)


def _is_refused(world: World, path: Path, reason: str, what: str) -> None:
    before = world.ingress.counter("documents_rejected")
    try:
        printed = world.ingress.run("import", path)
    except CommandFailed as failed:
        printed = failed.said
    world.screen.did(f"holdfast import {path.name}", printed)
    counted = world.ingress.counter("documents_rejected") == before + 1
    world.proof.that(f"an update {what} is refused: {reason}", reason in printed and counted, printed)


def _what_is_in_use(world: World) -> tuple[int, dict[str, object], str]:
    """The active version, the files that show it, and the gateway's own configuration."""
    node = world.ingress
    return node.version("route_policy"), node.entries("route_policy"), world.gateway.configuration.read_text()


def _traffic_goes_on(world: World) -> None:
    failed = world.stream.failed
    goes_on = world.answers(INTRANET, FRANKFURT) and not failed
    world.proof.that("traffic goes on where it went", goes_on, failed[:3] or world.sample(INTRANET))


def _wait(world: World, what: str, holds: Callable[[], Seen]) -> Seen:
    return world.proof.wait(what, holds, ARRIVES_S, world.ingress.in_words)
