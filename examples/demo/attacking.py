"""Bad updates: forged ones, and one that is signed as it should be and that nginx cannot live with."""

from collections.abc import Callable
from pathlib import Path

from examples.demo import forgery
from examples.demo.commands import CommandFailed
from examples.demo.coordinator import CLUSTER
from examples.demo.proof import Seen
from examples.demo.screen import now
from examples.demo.world import INTRANET, TEAM, World

ARRIVES_S = 60


def forgeries_are_refused(world: World) -> None:
    node = world.ingress
    active = node.status()["scopes"]["route_policy"]["active"]
    version, real_key = active["config_version"] + 1, active["signer_key_id"]

    def forged(name: str, in_the_name_of: str | None) -> Path:
        path = world.folder / name
        data = forgery.route_policy(CLUSTER, node.node_id, version, now(), in_the_name_of=in_the_name_of)
        path.write_bytes(data)
        return path

    _is_refused(world, forged("stranger.hfs", None), "unknown_key", "signed by a stranger's key")
    _is_refused(world, forged("forged.hfs", real_key), "bad_signature", "with a wrong signature in the real key's name")
    world.proof.that("the active version stayed", node.version("route_policy") == version - 1)


def a_mistake_is_refused(world: World) -> None:
    """The coordinator cannot know what nginx thinks of it; the node asks nginx first."""
    node = world.ingress
    before = node.version("route_policy")
    world.screen.did("holdfastctl apply -f 4-a-mistake.yaml", world.coordinator.change("4-a-mistake.yaml"))
    with world.screen.watching(lambda: world.screen.nodes(world.all_nodes)):
        _wait(world, "the mistake is refused", lambda: node.refused("route_policy") == "validator_refused")
    claim = f"rightly signed, and refused by {world.gateway.what}'s own check before it became active"
    world.proof.that(claim, node.version("route_policy") == before, node.version("route_policy"))
    said = _wait(world, "the coordinator is told why", lambda: _what_the_gateway_said(world))
    world.screen.did(f"holdfastctl nodes events {node.node_id}", said[0])
    world.proof.that("the operator can read why at the coordinator", "duplicate" in said[0], said)
    _traffic_went_on(world)


def the_mistake_is_put_right(world: World) -> None:
    before = world.ingress.signer("route_policy")
    world.screen.did("holdfastctl apply -f 5-put-right.yaml", world.coordinator.change("5-put-right.yaml"))
    with world.screen.watching(lambda: world.screen.nodes(world.all_nodes)):
        _wait(world, "the next good one arrives", lambda: world.ask(TEAM)[0] == 200)
    after = world.ingress.signer("route_policy")
    world.proof.that("the next good version was taken at once, signed by the new key", before != after, after)


def _is_refused(world: World, path: Path, reason: str, what: str) -> None:
    before = world.ingress.counter("documents_rejected")
    try:
        printed = world.ingress.run("import", path)
    except CommandFailed as failed:
        printed = failed.said
    world.screen.did(f"holdfast import {path.name}", printed)
    counted = world.ingress.counter("documents_rejected") == before + 1
    world.proof.that(f"an update {what} is refused: {reason}", reason in printed and counted, printed)
    status, body = world.ask(INTRANET)
    world.proof.that("traffic goes where it went", (status, body) == (200, "the intranet, on fra-svc-aurora-1"), body)


def _what_the_gateway_said(world: World) -> list[str]:
    events = world.coordinator.ask("nodes", "events", world.ingress.node_id, "--most", 5)["events"]
    return [str(each["detail"]) for each in events if "validator_refused" in each["detail"]]


def _traffic_went_on(world: World) -> None:
    sent, failed = world.stream.sent, world.stream.failed
    world.proof.that(f"traffic goes on: {sent} requests, none failed", not failed, failed[:3])


def _wait(world: World, what: str, holds: Callable[[], Seen]) -> Seen:
    return world.proof.wait(what, holds, ARRIVES_S, lambda: world.ingress.status().get("scopes"))
