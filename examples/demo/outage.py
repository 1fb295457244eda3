"""The coordinator is killed: what a node may go on doing, for how long, also after a restart; and its return."""

from datetime import datetime
from functools import partial
from typing import Any

from rich.console import Group, RenderableType

from examples.demo import journal
from examples.demo.beginning import BOUNDS_S
from examples.demo.coordinator import HEAD_LIFETIME_S
from examples.demo.node import Node
from examples.demo.screen import answers, now
from examples.demo.world import FRANKFURT, HELPDESK, INGRESS, INTRANET, World
from holdfast.client import Permission

RETURNS_S = 180
RESTARTS_S = 60  # from its own disk, with nobody to wait for
MORE_S = 60  # than it takes: a machine that has other work
GOES_BY_S = 3  # enough to see that what is left becomes less
CLOCK_S = 2  # seconds are counted in whole ones; less than GOES_BY_S
SERVICE, ROUTE = "aurora-intranet", "aurora-portal"
SCOPES = ("route_policy", f"service_assignment/{SERVICE}")
QUESTIONS: tuple[tuple[str, str], ...] = (
    ("continue_services", SERVICE),
    ("preserve_routes", ROUTE),
    ("open_session", SERVICE),
    ("start_service", SERVICE),
    ("open_route", ROUTE),
    ("approve_enrolment", ""),
)
# Which bound of the policy ends what goes on, and why the rest is refused.
GOES_ON = {"continue_services": "max_duration_s", "preserve_routes": "route_ttl_s", "open_session": "session_ttl_s"}
REFUSED = {
    "start_service": "not_in_policy",
    "open_route": "not_in_policy",
    "approve_enrolment": "forbidden_in_degraded",
}
LONGER = ("continue_services", "preserve_routes")  # those that do not end while the story is told


def the_coordinator_dies(world: World) -> None:
    """From here on nobody confirms anything; the head that was issued last runs out."""
    what = "the node may do whatever is new, and approve nobody"
    world.proof.wait(what, lambda: _may_all(world), MORE_S, lambda: _ask_all(world))
    world.proof.that("while the coordinator confirms it, the node may start services and open routes", True)
    world.began = now()
    world.coordinator.kill()
    world.screen.did("kill -9 holdfast-coordinator")
    with world.screen.watching(lambda: _degraded_screen(world)):
        world.proof.wait("the node is degraded", lambda: _is_degraded(world), HEAD_LIFETIME_S + MORE_S, world.states)
    world.proof.that("without a fresh head the node is degraded, by the policy that it holds", True)


def bounds_count_down(world: World) -> None:
    """What ran before the outage may go on until the head's end plus the policy's bound; nothing new begins."""
    first, seen_at = _ask_all(world), now()
    head_ended = datetime.fromisoformat(world.ingress.status()["head"]["expires_at"]).timestamp()
    for action, bound in GOES_ON.items():
        ends = head_ended + BOUNDS_S[bound]
        claim = f"{action}: yes, for what ran before, until {bound} = {BOUNDS_S[bound]} s after the head's end"
        world.proof.that(claim, _is_until(first[action], ends), first[action])
    for action, reason in REFUSED.items():
        refused = not first[action].allowed and first[action].reason == reason
        world.proof.that(f"{action}: no, {reason}", refused, first[action])
    with world.screen.watching(lambda: _degraded_screen(world)):
        world.proof.wait("some seconds go by", lambda: now() - seen_at > GOES_BY_S, GOES_BY_S + MORE_S, now)
    later = _ends(world)
    same = all(_is_until(first[action], later[action]) for action in LONGER)
    world.proof.that(f"{GOES_BY_S} s later the ends are the same moments: the time counts down", same, (first, later))
    for action, *about in (("continue_services", "--resource", SERVICE), ("start_service", "--resource", SERVICE)):
        printed = world.ingress.what_may_prints(action, *about)
        world.screen.did(f"holdfast may {action} {' '.join(about)}", printed)


def an_agent_is_restarted(world: World) -> None:
    node = world.ingress
    before, ends = _what_is_served(node), _ends(world)
    node.kill()
    node.lose_what_was_in_memory()
    world.screen.did(f"kill -9 holdfast-agent; rm -r /run/holdfast      # on {INGRESS}")
    goes_on = world.answers(INTRANET, FRANKFURT)
    world.proof.that(f"{world.gateway.what} goes on without the agent", goes_on, world.sample(INTRANET))
    node.start()
    with world.screen.watching(lambda: _degraded_screen(world)):
        world.proof.wait("the agent is back", lambda: _is_degraded(world), RESTARTS_S, world.states)
        world.proof.wait("its files are back", lambda: node.entries(SCOPES[0]), RESTARTS_S, node.files_shown)
    after = _what_is_served(node)
    claim = (
        "restarted without a coordinator it serves from its store, by its socket and as files, what it served before"
    )
    world.proof.that(claim, after == before, after)
    late = {action: end for action, end in _ends(world).items() if abs(end - ends[action]) > CLOCK_S}
    world.proof.that("a restart gives no more time: everything ends when it would have ended", not late, late)


def a_bound_is_reached(world: World) -> None:
    with world.screen.watching(lambda: _degraded_screen(world)):
        world.proof.wait(
            "the sessions' time is over",
            lambda: not _may(world, "open_session").allowed,
            BOUNDS_S["session_ttl_s"] + MORE_S,
            lambda: _may(world, "open_session"),
        )
    why = _may(world, "open_session").reason
    world.proof.that(f"session_ttl_s has run out: open_session is refused, {why}", why == "degraded_limit", why)
    goes_on = _may(world, "continue_services").allowed and world.answers(INTRANET, FRANKFURT)
    world.proof.that("the service itself goes on: its bound is a longer one", goes_on)


def the_coordinator_returns(world: World) -> None:
    """The node that was restarted asks soon; the others wait a little longer, so as not to come all at once."""
    node, held = world.ingress, world.ingress.versions()
    head = node.status()["head"]["generation"]
    world.ended = now()
    world.coordinator.start()
    world.screen.did("holdfast-coordinator --config coordinator.toml &")
    with world.screen.watching(lambda: world.screen.nodes([node])):
        world.proof.wait("the node is active again", lambda: _is_active(node), RETURNS_S, world.states)
    confirmed = node.status()["head"]["generation"] > head and node.versions() == held
    claim = "the coordinator is back; a newer head confirms what the node held all the while"
    world.proof.that(claim, confirmed, node.in_words())
    world.proof.wait("new things may begin again", lambda: _may_all(world), RETURNS_S, lambda: _ask_all(world))
    world.proof.that("services may start and routes may open again", True)


def the_journal_is_delivered(world: World) -> None:
    def told() -> list[dict[str, Any]]:
        events = world.coordinator.ask("nodes", "events", INGRESS, "--most", 100)["events"]
        return journal.of_the_outage(events, world.began, world.ended)

    def complete() -> bool:
        return journal.missing(told(), SERVICE) == []

    with world.screen.watching(lambda: world.screen.nodes([world.ingress])):
        world.proof.wait("the journal arrives", complete, RETURNS_S, lambda: journal.missing(told(), SERVICE))
    world.screen.did(f"holdfastctl nodes events {INGRESS}", journal.as_lines(told()), lines=16)
    claim = f"{len(told())} events from the outage reached the coordinator after it: how it began, what was asked,"
    world.proof.that(f"{claim} the restart, the bound", complete())


def all_is_as_before(world: World) -> None:
    held = {node.node_id: node.version("route_policy") for node in world.all_nodes}

    def arrived() -> bool:
        return all(_is_active(node) and node.version("route_policy") > held[node.node_id] for node in world.all_nodes)

    printed = world.coordinator.change("7-after-the-outage.yaml")
    world.screen.did("holdfastctl apply -f 7-after-the-outage.yaml", printed)
    with world.screen.watching(lambda: world.screen.nodes(world.all_nodes)):
        seen = partial(world.sample, HELPDESK)
        world.proof.wait("the change is followed", lambda: world.answers(HELPDESK, FRANKFURT), RETURNS_S, seen)
        world.proof.wait("all are active and have it", arrived, RETURNS_S, world.states)
    world.proof.that("all three nodes are active and have the change, and traffic follows it", True)
    sent, failed = world.stream.sent, world.stream.failed
    claim = f"{sent} requests through the gateway in all, each answered, and from the right place"
    world.proof.that(claim, not failed, failed[:3])


def _is_degraded(world: World) -> bool:
    return world.ingress.status().get("state") == "degraded"


def _is_active(node: Node) -> bool:
    return node.status().get("state") == "active"


def _may(world: World, action: str) -> Permission:
    """Of what has been there since before the outage, but for what would be new."""
    resource = dict(QUESTIONS)[action]
    about: dict[str, Any] = {"resource": resource} if resource else {}
    if action in GOES_ON and world.began:
        about["running_since"] = world.began
    return world.ingress.may(action, **about)


def _ask_all(world: World) -> dict[str, Permission]:
    return {action: _may(world, action) for action, _ in QUESTIONS}


def _may_all(world: World) -> bool:
    """All but what no node ever may."""
    return {action for action, answer in _ask_all(world).items() if not answer.allowed} == {"approve_enrolment"}


def _is_until(answer: Permission, moment: float) -> bool:
    return answer.allowed and answer.until is not None and abs(answer.until - moment) <= CLOCK_S


def _ends(world: World) -> dict[str, int]:
    return {action: _may(world, action).until or 0 for action in LONGER}


def _what_is_served(node: Node) -> dict[str, object]:
    """Versions, and the content as the agent answers it and as it stands in the files."""
    contents = {scope: (node.served(scope), node.entries(scope)) for scope in SCOPES}
    return {"versions": node.versions(), **contents}


def _degraded_screen(world: World) -> RenderableType:
    table = world.screen.nodes([world.ingress])
    if not world.ingress.status():
        return table
    rows = []
    for action, answer in _ask_all(world).items():
        rows.append((f"{action} {dict(QUESTIONS)[action]}", answer.allowed, answer.reason, answer.until))
    return Group(table, "", answers(rows))
