"""On which terms new content of a scope is on probation: as the change says, or as this node's services do. Pure.

Losing the coordinators fails a probation (`way`) where the scope says where they are (`node_bootstrap`), or where a
service says that the way to them depends on it (`check_coordinator`), and one of them had answered a minute before.
A change of anything else cannot cut the node off, and an outage of the coordinators, which is a matter of every day,
would take back every change that happened to be on probation, and put its content in quarantine, in the whole fleet.

Rejected: to take any silence after any activation for its consequence; and to ask other addresses whether the network
is there, since a node has no business with them, and they may be out of reach by design.
"""

from collections.abc import Sequence

from agent.config.configuration import ServiceTable
from agent.config.patterns import matches
from agent.state.held_state import BOOTSTRAP
from store.base.records import ProbationTerms

ANSWERED_S = 60.0


def probation_terms(
    scope: str, listed_s: int | None, services: Sequence[ServiceTable], answered_s_ago: float
) -> ProbationTerms | None:
    """None for what is not on probation. `listed_s`: of the head's entry; the longest counts where services differ."""
    concerned = [service for service in services if matches(service.scopes, scope)]
    asked_for = [service.probation_s if service.probation_s is not None else listed_s or 0 for service in concerned]
    lasts_s = max(asked_for, default=listed_s or 0)
    if lasts_s == 0:
        return None
    leads_out = scope == BOOTSTRAP or any(service.check_coordinator for service in concerned)
    return ProbationTerms(float(lasts_s), way=leads_out and answered_s_ago <= ANSWERED_S)
