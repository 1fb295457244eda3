"""The fleet in the words of Prometheus; the numbers are fleet_figures.py's."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from coordinator.declared.kinds import NODE_KINDS
from coordinator.fleet.fleet import REVOKED, SILENT, UNSEEN
from coordinator.fleet.provenance import UNKNOWN
from coordinator.runtime.fleet_figures import FleetFigures
from wire.messages import GRADES, MODES, STATES, WAYS

STANDINGS = (*STATES, UNSEEN, SILENT)
REASONS = (UNSEEN, SILENT, "node_behind", "late")


def families(found: FleetFigures) -> Iterator[Metric]:
    """What may be zero is there as zero, so that an alert sees it come."""
    states = dict.fromkeys([*STANDINGS, REVOKED], 0) | dict(found.states)
    yield _by(
        "nodes", "Members by their state; unseen, silent and revoked are the coordinator's words", "state", states
    )
    kinds = dict.fromkeys(NODE_KINDS, 0) | dict(found.kinds)
    yield _by("members", "Members that are not revoked, by kind", "kind", kinds)
    yield _by("modes", "Members by the mode that they report", "mode", dict.fromkeys(MODES, 0) | dict(found.modes))
    grades = dict.fromkeys(GRADES, 0) | dict(found.grades)
    yield _by("heads", "Members by how old they report their head to be", "grade", grades)
    yield _by("agents", "Members by the version of their agent", "version", found.agents)
    late = dict.fromkeys(REASONS, 0) | dict(found.stragglers)
    yield _by("stragglers", "Members that do not hold what they should, by why", "reason", late)
    behind = "Members that do not have active what is published, by scope type"
    yield _by("scope_behind_nodes", behind, "scope_type", found.behind)
    lag = "Versions that scopes of members are behind, by share"
    yield _by("lag_versions", lag, "quantile", found.lag_versions)
    came = dict.fromkeys((*WAYS, UNKNOWN), 0) | dict(found.versions)
    yield _by("versions", "Active versions of members, by whom they came, as they say it", "way", came)
    about = "Members that fetch for their neighbours as the relay of their site"
    yield GaugeMetricFamily("holdfast_fleet_relays", about, value=found.relays)
    about = "Data members that are missing to the baseline"
    yield GaugeMetricFamily("holdfast_fleet_baseline_shortfall", about, value=found.baseline_shortfall)
    about = "Members whose root keys are those of a first use that nobody has compared"
    yield GaugeMetricFamily("holdfast_fleet_roots_unconfirmed", about, value=found.roots_unconfirmed)
    about = "Members that an operator is taking out, whatever their state"
    yield GaugeMetricFamily("holdfast_fleet_draining", about, value=found.draining)
    refused = CounterMetricFamily("holdfast_fleet_joins_refused", "Joins refused, by code", labels=["code"])
    for code, times in sorted(found.joins_refused.items()):
        refused.add_metric([code], times)
    yield refused
    yield from _heads(found)


def _heads(found: FleetFigures) -> Iterator[Metric]:
    """In time each head is renewed before the first, and well before the second."""
    for name, about, at in (
        ("head_refresh", "When the head that is longest overdue was to be renewed", found.oldest_head_refresh_after),
        ("head_expiry", "When the first head of a member expires", found.first_head_expires_at),
    ):
        family = GaugeMetricFamily(f"holdfast_fleet_{name}_timestamp_seconds", about)
        if at is not None:
            family.add_metric([], at)
        yield family


def _by(name: str, about: str, label: str, counted: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"holdfast_fleet_{name}", about, labels=[label])
    for word, number in sorted(counted.items()):
        family.add_metric([word], number)
    return family
