"""Changes in the words of Prometheus; the numbers are rollout/change_figures.py's, and what was counted since the start
is the rollout's own. Every label is one of few words: what nodes and operators choose names no series.
"""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from coordinator.rollout.change_figures import ChangeFigures
from coordinator.rollout.rollout import REVERTED_BY, STATES, VERDICTS, RolloutHealth


def families(found: ChangeFigures) -> Iterator[Metric]:
    """What may be zero is there as zero, so that an alert sees it come."""
    changes = GaugeMetricFamily("holdfast_coordinator_changes", "Changes that are kept, by state", labels=["state"])
    for state, count in sorted((dict.fromkeys(STATES, 0) | dict(found.states)).items()):
        changes.add_metric([state], count)
    yield changes
    about = "When the oldest change that is not over was applied, by state"
    oldest = GaugeMetricFamily("holdfast_coordinator_change_oldest_timestamp_seconds", about, labels=["state"])
    for state, at in sorted(found.oldest.items()):
        oldest.add_metric([state], at)
    yield oldest
    about = "When the change that is longest overdue was to go on to its next step"
    due = GaugeMetricFamily("holdfast_coordinator_change_due_timestamp_seconds", about)
    if found.due_at is not None:
        due.add_metric([], found.due_at)
    yield due
    about = "Nodes that have not been given a change that is not over"
    yield GaugeMetricFamily("holdfast_coordinator_change_held_nodes", about, value=found.held_nodes)
    about = "Nodes of which a halted change, or one that comes after it, is held back"
    yield GaugeMetricFamily("holdfast_coordinator_change_halted_nodes", about, value=found.nodes_behind_halted)


def counters(health: RolloutHealth) -> Iterator[Metric]:
    """Since this replica's start."""
    votes = dict.fromkeys(VERDICTS, 0) | dict(health.votes)
    yield _by("change_votes", "Votes of nodes on what is coming; ignored: on what was not asked", "verdict", votes)
    yield _by("change_refusals", "Votes that refuse what is coming, by reason", "reason", health.refusals)
    reverts = dict.fromkeys(REVERTED_BY, 0) | dict(health.reverts)
    yield _by("change_reverts", "Changes taken back by operators and coordinators, contents by nodes", "by", reverts)
    faults = "Looks at changes that the database has failed"
    yield CounterMetricFamily("holdfast_coordinator_change_faults", faults, value=health.database_faults)


def _by(name: str, about: str, label: str, counted: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"holdfast_coordinator_{name}", about, labels=[label])
    for word, times in sorted(counted.items()):
        family.add_metric([word], times)
    return family
