"""The steps, in their order. Each is a function of the world that it changes, and says what it has proved."""

from collections.abc import Callable

from examples.demo import attacking, beginning, changing, outage
from examples.demo.world import World

STEPS: tuple[tuple[str, Callable[[World], None]], ...] = (
    ("A cluster", beginning.a_cluster_is_made),
    ("What it is to be: examples/fabric", beginning.the_fabric_is_declared),
    ("A gateway, and services behind it", beginning.services_start),
    ("Three nodes join", beginning.three_nodes_join),
    ("Traffic follows the configuration", beginning.traffic_flows),
    ("A route comes", changing.a_route_comes),
    ("A service moves", changing.a_service_moves),
    ("A key is rolled over", changing.a_key_is_rolled_over),
    ("Forged updates", attacking.forgeries_are_refused),
    ("A mistake, signed as it should be", attacking.a_mistake_is_refused),
    ("The mistake is put right", attacking.the_mistake_is_put_right),
    ("The coordinator is killed", outage.the_coordinator_dies),
    ("What may go on, and until when", outage.bounds_run_out),
    ("An agent is restarted meanwhile", outage.an_agent_is_restarted),
    ("The coordinator comes back", outage.the_coordinator_returns),
    ("What happened meanwhile is told", outage.the_journal_is_delivered),
    ("All is as before", outage.all_is_as_before),
)


def tell(world: World) -> None:
    """All of it; NotProved, CommandFailed or HoldfastError where a step does not hold."""
    for number, (title, step) in enumerate(STEPS, 1):
        world.screen.heading(number, title)
        step(world)
