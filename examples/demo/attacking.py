"""Bad updates: forged ones, and one that is signed as it should be and that nginx cannot live with."""

from collections.abc import Callable
from pathlib import Path

from examples.demo import forgery
from examples.demo.commands import CommandFailed
from examples.demo.coordinator import CLUSTER
from examples.demo.proof import Seen
from examples.demo.screen import now
from examples.demo.world import FRANKFURT, INTRANET, TEAM, World

ARRIVES_S = 180


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
    """The coordinator cannot know what nginx thinks of it; the node asks nginx first."""
    node = world.ingress
    before = _what_is_in_use(world)
    world.screen.did("holdfastctl apply -f 4-a-mistake.yaml", world.coordinator.change("4-a-mistake.yaml"))
    with world.screen.watching(lambda: world.screen.nodes(world.all_nodes)):
        _wait(world, "the mistake is refused", lambda: node.refused("route_policy") == "validator_refused")
    claim = f"rightly signed, and refused by {world.gateway.what}'s own check before anything changed"
    world.proof.that(claim, _what_is_in_use(world) == before, _what_is_in_use(world))
    said = _wait(world, "the coordinator is told why", lambda: _what_the_gateway_said(world))
    world.screen.did(f"holdfastctl nodes events {node.node_id}", said[0])
    world.proof.that("the operator can read why at the coordinator", "duplicate" in said[0], said)
    _traffic_goes_on(world)


def the_mistake_is_put_right(world: World) -> None:
    node, before = world.ingress, world.ingress.signer("route_policy")
    world.screen.did("holdfastctl apply -f 5-put-right.yaml", world.coordinator.change("5-put-right.yaml"))
    with world.screen.watching(lambda: world.screen.nodes(world.all_nodes)):
        _wait(world, "the next good one arrives", lambda: world.answers(TEAM, FRANKFURT))
    after = node.signers("route_policy")
    world.proof.that("the next good version was taken, signed by the new key alone", before not in after, after)


def _is_refused(world: World, path: Path, reason: str, what: str) -> None:
    before = world.ingress.counter("documents_rejected")
    try:
        printed = world.ingress.run("import", path)
    except CommandFailed as failed:
        printed = failed.said
    world.screen.did(f"holdfast import {path.name}", printed)
    counted = world.ingress.counter("documents_rejected") == before + 1
    world.proof.that(f"an update {what} is refused: {reason}", reason in printed and counted, printed)


def _what_the_gateway_said(world: World) -> list[str]:
    events = world.coordinator.ask("nodes", "events", world.ingress.node_id, "--most", 100)["events"]
    return [str(each["detail"]) for each in events if "validator_refused" in each["detail"]]


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
