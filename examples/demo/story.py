"""The steps, in their order. Each is a function of the world that it changes, and says what it has proved."""

from collections.abc import Callable
from dataclasses import dataclass

from examples.demo import attacking, beginning, changing, outage
from examples.demo.world import World


@dataclass(frozen=True)
class Step:
    """`about`: what somebody who sees it for the first time has to know."""

    title: str
    about: str
    tell: Callable[[World], None]


STEPS: tuple[Step, ...] = (
    Step(
        "A cluster",
        "Root keys sign who is trusted, and are kept elsewhere. The coordinator's config key signs what nodes do.",
        beginning.a_cluster_is_made,
    ),
    Step(
        "What it is to be: examples/fabric",
        "Forty nodes, their services, routes and bounds, declared in files. Three of the nodes will be real.",
        beginning.the_fabric_is_declared,
    ),
    Step(
        "A gateway, and services behind it",
        "What will listen to its node's agent; and one application, at the two places where it may run.",
        beginning.services_start,
    ),
    Step(
        "Three nodes join",
        "A token is good for one node, once. From then on a node is known by its own certificate, and by nothing else.",
        beginning.three_nodes_join,
    ),
    Step(
        "Traffic follows the configuration",
        "The agent lays verified scopes out as files; a small script makes the gateway's configuration of them.",
        beginning.traffic_flows,
    ),
    Step(
        "A route comes",
        "One change. The nodes that it concerns get a new version of one scope; the others get nothing.",
        changing.a_route_comes,
    ),
    Step(
        "A service moves",
        "From Amsterdam to Frankfurt. The gateway's upstream changes, and no request is lost.",
        changing.a_service_moves,
    ),
    Step(
        "A key is rolled over",
        "The coordinator gets a new signing key. Root keys say so in trust bundles, one after the other.",
        changing.a_key_is_rolled_over,
    ),
    Step(
        "Forged updates",
        "Somebody wants the intranet's traffic: documents in perfect form, newer than what is active, brought by hand.",
        attacking.forgeries_are_refused,
    ),
    Step(
        "A mistake, signed as it should be",
        "Two routes take the same place. All nodes judge a change before the first one runs it.",
        attacking.a_mistake_is_refused,
    ),
    Step(
        "The mistake is put right",
        "What was refused does not stand in the way of what is good.",
        attacking.the_mistake_is_put_right,
    ),
    Step(
        "A mistake that only shows when it runs",
        "The gateway takes it; its visitors do not. One node has it first, on probation: its service is asked.",
        attacking.a_mistake_shows_later,
    ),
    Step(
        "Too much at once",
        "A slip of a hand: --prune takes away what is not in the files, and one of them was forgotten.",
        attacking.too_much_at_once_is_refused,
    ),
    Step(
        "The coordinator is killed",
        "Its word that all is as it should be, the head, is good for 10 s here (half an hour as a rule). It runs out.",
        outage.the_coordinator_dies,
    ),
    Step(
        "What may go on, and until when",
        "Services ask the agent: `holdfast may`. A policy, signed before, says what may go on, and for how long.",
        outage.bounds_count_down,
    ),
    Step(
        "An agent is restarted meanwhile",
        "As after a power cut: killed, and what it had in memory and under /run is gone. There is nobody to ask.",
        outage.an_agent_is_restarted,
    ),
    Step(
        "A bound is reached",
        "Sessions have the shortest one.",
        outage.a_bound_is_reached,
    ),
    Step(
        "The coordinator comes back",
        "Nodes find it by themselves, each in its own time, so as not to come all at once.",
        outage.the_coordinator_returns,
    ),
    Step(
        "What happened meanwhile is told",
        "What a node did by itself stands in its journal, on its disk.",
        outage.the_journal_is_delivered,
    ),
    Step(
        "All is as before",
        "One more change, to every node that it concerns.",
        outage.all_is_as_before,
    ),
)


def tell(world: World) -> None:
    """All of it; NotProved, CommandFailed or HoldfastError where a step does not hold."""
    for number, step in enumerate(STEPS, 1):
        world.proof.begin(f"{number}  {step.title}")
        world.screen.heading(f"{number}  {step.title}", step.about)
        step.tell(world)
