"""The coordinator is killed: what a node may go on doing, for how long, also after a restart; and its return."""

from functools import partial
from typing import Any

from rich.console import Group, RenderableType

from examples.demo.beginning import SESSION_TTL_S
from examples.demo.coordinator import HEAD_LIFETIME_S
from examples.demo.node import Node
from examples.demo.screen import answers, now
from examples.demo.world import HELPDESK, INGRESS, INTRANET, World
from holdfast.client import Permission

RETURNS_S = 90
SERVICE, ROUTE = "aurora-intranet", "aurora-portal"
QUESTIONS: tuple[tuple[str, str], ...] = (
    ("continue_services", SERVICE),
    ("preserve_routes", ROUTE),
    ("open_session", SERVICE),
    ("start_service", SERVICE),
    ("open_route", ROUTE),
    ("approve_enrolment", ""),
)


def the_coordinator_dies(world: World) -> None:
    """From here on nobody confirms anything; the head that was issued last runs out."""
    world.began = now()
    world.coordinator.kill()
    world.screen.did("kill -9 holdfast-coordinator")
    with world.screen.watching(lambda: _degraded_screen(world)):
        world.proof.wait("the node is degraded", lambda: _is_degraded(world), HEAD_LIFETIME_S + 15, world.states)
    world.proof.that("without a fresh head the node is degraded, by the policy that it holds", True)


def bounds_run_out(world: World) -> None:
    """A session that was there before the outage may stay for as long as the policy says."""
    may = {action: _may(world, action, resource) for action, resource in QUESTIONS}
    for action in ("continue_services", "preserve_routes", "open_session"):
        world.proof.that(f"{action}: yes, for what ran before, until a time", may[action].allowed, may[action])
    for action in ("start_service", "open_route", "approve_enrolment"):
        world.proof.that(f"{action}: no, {may[action].reason}", not may[action].allowed, may[action])


def an_agent_is_restarted(world: World) -> None:
    node = world.ingress
    before = {name: node.version(name) for name in ("route_policy", "service_assignment")}
    node.kill()
    world.screen.did(f"kill -9 holdfast-agent      # on {INGRESS}")
    status, _ = world.ask(INTRANET)
    world.proof.that(f"{world.gateway.what} goes on without the agent", status == 200, status)
    node.start()
    with world.screen.watching(lambda: _degraded_screen(world)):
        world.proof.wait("the agent is back", lambda: _is_degraded(world), RETURNS_S, world.states)
    after = {name: node.version(name) for name in before}
    world.proof.that("restarted without a coordinator, it serves from its store what it served before", after == before)
    with world.screen.watching(lambda: _degraded_screen(world)):
        world.proof.wait(
            "the sessions' time is over",
            lambda: not _may(world, "open_session", SERVICE).allowed,
            SESSION_TTL_S + 10,
            lambda: _may(world, "open_session", SERVICE),
        )
    why = _may(world, "open_session", SERVICE).reason
    world.proof.that(f"session_ttl_s has run out: open_session is refused, {why}", why == "degraded_limit", why)
    goes_on = _may(world, "continue_services", SERVICE).allowed
    world.proof.that("the service itself goes on: its bound is a longer one", goes_on)


def the_coordinator_returns(world: World) -> None:
    """The node that was restarted asks soon; the others wait a little longer, so as not to come all at once."""
    world.ended = now()
    world.coordinator.start()
    world.screen.did("holdfast-coordinator --config coordinator.toml &")
    with world.screen.watching(lambda: world.screen.nodes([world.ingress])):
        world.proof.wait("the node is active again", lambda: _is_active(world.ingress), RETURNS_S, world.states)
    world.proof.that("the coordinator is back, and has confirmed what the node held all the while", True)


def the_journal_is_delivered(world: World) -> None:
    def told() -> list[Any]:
        events = world.coordinator.ask("nodes", "events", INGRESS)["events"]
        return [each for each in reversed(events) if each["received_at"] > world.ended]

    def delivered() -> list[Any]:
        found = told()
        return found if any("degraded" in each["detail"] for each in found) else []

    found = world.proof.wait("the journal arrives", delivered, RETURNS_S, told)
    lines = (f"{each['at']}  {each['event']:18} {each['scope']:20} {each['detail']}" for each in found)
    world.screen.did(f"holdfastctl nodes events {INGRESS}", "\n".join(lines), lines=10)
    world.proof.that("the node's journal of the outage was delivered to the coordinator", True)


def all_is_as_before(world: World) -> None:
    printed = world.coordinator.change("6-after-the-outage.yaml")
    world.screen.did("holdfastctl apply -f 6-after-the-outage.yaml", printed)
    with world.screen.watching(lambda: world.screen.nodes(world.all_nodes)):
        seen = partial(world.ask, HELPDESK)
        world.proof.wait("the change arrives", lambda: seen()[0] == 200, RETURNS_S, seen)
        world.proof.wait("all are active again", lambda: all(map(_is_active, world.all_nodes)), RETURNS_S, world.states)
    world.proof.that("every node is active again, and a change arrives as before", True)
    sent, failed = world.stream.sent, world.stream.failed
    world.proof.that(f"{sent} requests through the gateway in all, none failed", not failed, failed[:3])


def _is_degraded(world: World) -> bool:
    return world.ingress.status().get("state") == "degraded"


def _is_active(node: Node) -> bool:
    return node.status().get("state") == "active"


def _may(world: World, action: str, resource: str) -> Permission:
    """Of what has been there since before the outage, but for what would be new."""
    about: dict[str, Any] = {"resource": resource} if resource else {}
    if action in ("continue_services", "preserve_routes", "open_session"):
        about["running_since"] = world.began
    return world.ingress.may(action, **about)


def _degraded_screen(world: World) -> RenderableType:
    table = world.screen.nodes([world.ingress])
    if not world.ingress.status():
        return table
    rows = []
    for action, resource in QUESTIONS:
        answer = _may(world, action, resource)
        rows.append((f"{action} {resource}", answer.allowed, answer.reason, answer.mode, answer.until))
    return Group(table, "", answers(rows))
