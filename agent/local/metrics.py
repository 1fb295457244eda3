"""`GET /metrics`: what the node is like now, read when it is asked for."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.services.notifiers import NOT_RUNNING
from agent.services.services import Notified
from agent.state.view import Grade, View
from snapshot.degraded import Mode
from snapshot.ending import Urgency
from snapshot.identifiers import parse_time
from wire.endings import EndingThing
from wire.messages import VERDICTS

_DUE: Mapping[str, int] = {Urgency.SOON: 1, Urgency.ENDED: 2}
_FROM_ZERO = ("documents_rejected", "heartbeats_failed")  # there before the first, so that an alert sees it come
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
    ends: Sequence[EndingThing] = ()
    refused: Mapping[str, str] = field(default_factory=dict)  # scope -> why the listed version is not active
    roots_confirmed: bool = True
    candidates: Mapping[str, str] = field(default_factory=dict)  # scope -> what this node makes of what is to come
    relayed_bytes: int = 0  # kept for neighbours
    relayed_files: int = 0
    handed_bytes: int = 0  # to other nodes, since the start
    waiting_answers: int = 0
    sees: Callable[[str], bool] = lambda _: True  # of a scope: whether its name is for who asks


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
    yield _one("holdfast_relayed_bytes", "What is kept for neighbours, heads and documents", sample.relayed_bytes)
    yield _one("holdfast_relayed_files", "As many heads and documents", sample.relayed_files)
    yield CounterMetricFamily("holdfast_peer_bytes_handed", "Bytes given to other nodes", value=sample.handed_bytes)
    about = "Answers to other nodes that wait for [peers] relay_bytes_per_second"
    yield _one("holdfast_peer_answers_waiting", about, sample.waiting_answers)
    unconfirmed = "1 where the root keys are those of the first answer, and no operator has named them"
    yield _one("holdfast_roots_unconfirmed", unconfirmed, not sample.roots_confirmed)
    yield from _states(sample)
    yield from _head(sample)
    yield from _scopes(sample)
    yield from _refusal_metrics(sample)
    yield _candidates(sample)
    yield from _services(sample)
    yield from _ends(sample)
    for name, value in sorted((dict.fromkeys(_FROM_ZERO, 0) | dict(sample.counters)).items()):
        family = CounterMetricFamily(f"holdfast_{name}", f"Counted by the agent since its start: {name}")
        family.add_metric([], value)
        yield family


def _states(sample: Sample) -> Iterator[Metric]:
    state = GaugeMetricFamily("holdfast_state", "1 for the state of the node", labels=["state"])
    state.add_metric([sample.state], 1)
    yield state
    mode = GaugeMetricFamily("holdfast_mode", "1 for the mode that the node is in", labels=["mode"])
    for possible in Mode:
        mode.add_metric([possible], possible is sample.mode)
    yield mode


def _head(sample: Sample) -> Iterator[Metric]:
    head = sample.view.head
    if head is None:
        return
    envelope = head.document.envelope
    yield _one("holdfast_head_generation", "The generation of the accepted head", envelope.config_version)
    yield _one("holdfast_head_age_seconds", "Seconds since the head was made", head.age_s(sample.now))
    yield _one("holdfast_head_expires_in_seconds", "Seconds until the head expires", head.expires_at - sample.now)


def _scopes(sample: Sample) -> Iterator[Metric]:
    version = GaugeMetricFamily("holdfast_scope_version", "The active version of a scope", labels=["scope"])
    expires = GaugeMetricFamily("holdfast_scope_expires_in_seconds", "Seconds until it expires", labels=["scope"])
    grade = GaugeMetricFamily("holdfast_scope_grade", "1 for the grade of a scope", labels=["scope", "grade"])
    for name, scope in sorted(sample.view.scopes.items()):
        if not sample.sees(name):
            continue
        version.add_metric([name], scope.document.envelope.config_version)
        expires.add_metric([name], scope.expires_at - sample.now)
        for possible in Grade:
            grade.add_metric([name, possible], sample.view.grade_of(scope, sample.now) is possible)
    yield from (version, expires, grade)
    yield from _counts(sample)


def _counts(sample: Sample) -> Iterator[Metric]:
    """Of all scopes, without a name: for who asks where nobody is known."""
    grades = [sample.view.grade_of(scope, sample.now) for scope in sample.view.scopes.values()]
    counts = GaugeMetricFamily("holdfast_scopes", "Active scopes, also those that are not named here", labels=["grade"])
    for possible in Grade:
        counts.add_metric([possible], grades.count(possible))
    yield counts
    if grades:
        ends = min(scope.expires_at for scope in sample.view.scopes.values())
        yield _one("holdfast_scopes_expire_in_seconds", "Seconds until the first of them expires", ends - sample.now)
    yield _one("holdfast_scopes_refused", "Scopes of which the listed version was refused", len(sample.refused))
    names = sample.view.scopes.keys() | sample.refused.keys()
    hidden = sum(not sample.sees(name) for name in names)
    yield _one("holdfast_scopes_hidden", "Scopes that are not named here, since [access] is there", hidden)


def _refusal_metrics(sample: Sample) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        "holdfast_scope_refused", "1 where the listed version of a scope was refused", labels=["scope", "reason"]
    )
    for name, reason in sorted(sample.refused.items()):
        if sample.sees(name):
            family.add_metric([name, reason], 1)
    yield family


def _candidates(sample: Sample) -> Metric:
    """Of all scopes, without a name."""
    text = "What the head lists as coming, by what this node makes of it"
    family = GaugeMetricFamily("holdfast_candidates", text, labels=["verdict"])
    verdicts = list(sample.candidates.values())
    for possible in ("awaited", *VERDICTS):
        family.add_metric([possible], verdicts.count(possible))
    return family


def _services(sample: Sample) -> Iterator[Metric]:
    ok = GaugeMetricFamily("holdfast_service_told", "1 if the service took what it was told last", labels=["service"])
    generation = GaugeMetricFamily(
        "holdfast_service_generation", "The generation that the service was told last", labels=["service"]
    )
    stopped = GaugeMetricFamily(
        "holdfast_service_not_running", "1 if the service's unit did not run when it was told last", labels=["service"]
    )
    for name, told in sorted(sample.services.items()):
        ok.add_metric([name], told.ok)
        stopped.add_metric([name], told.outcome == NOT_RUNNING)
        generation.add_metric([name], told.generation)
    yield from (ok, generation, stopped)


def _ends(sample: Sample) -> Iterator[Metric]:
    labels = ["what", "name"]
    expires = GaugeMetricFamily("holdfast_expires_timestamp_seconds", "When it ends", labels=labels)
    urgent = GaugeMetricFamily("holdfast_due", "1: ends soon, 2: has ended", labels=labels)
    for end in sample.ends:
        expires.add_metric([end.what, end.name], parse_time(end.ends))
        urgent.add_metric([end.what, end.name], _DUE.get(end.urgency, 0))
    yield from (expires, urgent)


def _one(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
