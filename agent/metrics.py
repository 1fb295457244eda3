"""`GET /metrics`: what the node is like now, read when it is asked for."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.degraded import Mode
from agent.services import Notified
from agent.view import Grade, View

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Sample:
    """One moment of the node. `counters` are the node's own, by name; they only rise."""

    view: View
    now: float
    state: str
    mode: Mode
    filled: float
    services: Mapping[str, Notified] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)


def exposition(sample: Sample) -> bytes:
    """In the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(_Collector(lambda: _families(sample)))
    return generate_latest(registry)


class _Collector(Collector):
    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families()


def _families(sample: Sample) -> Iterator[Metric]:
    yield _one("holdfast_generation", "Activations and withdrawals of the store", sample.view.generation)
    yield _one("holdfast_store_filled_ratio", "The share of the store's map in use", sample.filled)
    yield from _states(sample)
    yield from _head(sample)
    yield from _scopes(sample)
    yield from _services(sample)
    for name, value in sorted(sample.counters.items()):
        family = CounterMetricFamily(f"holdfast_{name}", f"Counted by the agent since its start: {name}")
        family.add_metric([], value)
        yield family


def _states(sample: Sample) -> Iterator[Metric]:
    state = GaugeMetricFamily("holdfast_state", "1 for the state of the node", labels=["state"])
    state.add_metric([sample.state], 1)
    yield state
    mode = GaugeMetricFamily("holdfast_mode", "1 for the mode that the node is in", labels=["mode"])
    for one in Mode:
        mode.add_metric([one], one is sample.mode)
    yield mode


def _head(sample: Sample) -> Iterator[Metric]:
    head = sample.view.head
    if head is None:
        return
    envelope = head.document.envelope
    yield _one("holdfast_head_generation", "The generation of the accepted head", envelope.config_version)
    yield _one("holdfast_head_age_seconds", "Seconds since the head was issued", sample.now - envelope.issued_at)
    yield _one("holdfast_head_expires_in_seconds", "Seconds until the head expires", head.expires_at - sample.now)


def _scopes(sample: Sample) -> Iterator[Metric]:
    version = GaugeMetricFamily("holdfast_scope_version", "The active version of a scope", labels=["scope"])
    expires = GaugeMetricFamily("holdfast_scope_expires_in_seconds", "Seconds until it expires", labels=["scope"])
    grade = GaugeMetricFamily("holdfast_scope_grade", "1 for the grade of a scope", labels=["scope", "grade"])
    for name, scope in sorted(sample.view.scopes.items()):
        version.add_metric([name], scope.document.envelope.config_version)
        expires.add_metric([name], scope.expires_at - sample.now)
        for one in Grade:
            grade.add_metric([name, one], sample.view.grade_of(scope, sample.now) is one)
    yield from (version, expires, grade)


def _services(sample: Sample) -> Iterator[Metric]:
    ok = GaugeMetricFamily("holdfast_service_told", "1 if the service took what it was told last", labels=["service"])
    generation = GaugeMetricFamily(
        "holdfast_service_generation", "The generation that the service was told last", labels=["service"]
    )
    for name, told in sorted(sample.services.items()):
        ok.add_metric([name], told.ok)
        generation.add_metric([name], told.generation)
    yield from (ok, generation)


def _one(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
