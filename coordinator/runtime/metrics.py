"""Probes and metrics on a listener of their own (rules J46, H19, H20; X13: liveness is the event loop, and no more)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.threads import in_library
from coordinator.database.database import Database
from coordinator.reports import refusals
from coordinator.reports.refusals import Figures
from coordinator.rollout import change_figures
from coordinator.rollout.change_figures import ChangeFigures
from coordinator.runtime import change_metrics, expiries, fleet_metrics, storage_metrics
from coordinator.runtime.context import Coordinator
from coordinator.runtime.fleet_figures import FleetFigures, Lately
from coordinator.runtime.reminder import Reminder
from snapshot.ending import Urgency
from wire.request import HttpError, Request, Response
from wire.routes import HttpRoute, Routes
from wire.server import Server

_DUE = {Urgency.SOON: 1, Urgency.ENDED: 2}
Read = TypeVar("Read")
TEXT = ("content-type", "text/plain; version=0.0.4; charset=utf-8")


@dataclass
class Readiness:
    """`started`: all listeners serve. `reason`: why this replica is not ready, or nothing."""

    started: bool = False
    reason: str = "starting"


class ProbeRoutes:
    def __init__(
        self,
        coordinator: Coordinator,
        readiness: Readiness,
        reminder: Reminder,
        lately: Lately,
        servers: dict[str, Server],
    ) -> None:
        self._readiness = readiness
        self._coordinator = coordinator
        self._reminder = reminder
        self._lately = lately
        self._registry = CollectorRegistry()
        self._collected = _Collected(coordinator, readiness, reminder, servers)
        self._registry.register(self._collected)

    def routes(self) -> Routes:
        return Routes(
            HttpRoute("GET", "/probe/startup", self.startup),
            HttpRoute("GET", "/probe/liveness", self.liveness),
            HttpRoute("GET", "/probe/readiness", self.readiness),
            HttpRoute("GET", "/metrics", self.metrics),
        )

    async def startup(self, _request: Request) -> Response:
        return _probe(None if self._readiness.started else "starting")

    async def liveness(self, _request: Request) -> Response:
        return _probe(None)

    async def readiness(self, _request: Request) -> Response:
        """What ends is told beside it, and makes no replica unready: it serves as long as it can (rules H20)."""
        _probe(self._readiness.reason or self._coordinator.fault or None)
        now = self._coordinator.now()
        return Response.json({"ok": True, "due": [thing.sentence(now) for thing in self._reminder.due()]})

    async def metrics(self, _request: Request) -> Response:
        self._collected.refusing = await self._read(refusals.figures)
        self._collected.changes = await self._read(change_figures.figures)
        self._collected.fleet = await self._lately.look()
        return Response(200, [TEXT], generate_latest(self._registry))

    async def _read(self, figures: Callable[[Database], Read]) -> Read | None:
        """None where the database does not answer: that it does not is counted elsewhere."""
        try:
            return await in_library(figures, self._coordinator.database)
        except SQLAlchemyError:
            return None


@dataclass(eq=False)
class _Collected(Collector):
    """Read when it is asked for: nothing counts twice. `refusing`, `changes`: as the database said last."""

    coordinator: Coordinator
    readiness: Readiness
    reminder: Reminder
    servers: dict[str, Server] = field(default_factory=dict)
    refusing: Figures | None = None
    changes: ChangeFigures | None = None
    fleet: FleetFigures | None = None

    def collect(self) -> Iterator[Metric]:
        yield from self._publishing()
        yield from self._ends()
        yield from self._listeners()
        yield from self._refusals()
        yield from storage_metrics.families(self.coordinator.storages)
        yield from change_metrics.families(self.changes) if self.changes is not None else ()
        yield from change_metrics.counters(self.coordinator.rollouts.health)
        yield from fleet_metrics.families(self.fleet) if self.fleet is not None else ()

    def _refusals(self) -> Iterator[Metric]:
        found = self.refusing
        if found is None:
            return
        yield _gauge("refusing_nodes", "Nodes that have refused what is declared for them", found.nodes)
        yield _gauge("refused_scopes", "Scopes of nodes of which they have refused what is declared", found.scopes)
        about = "Seconds until the first of what nodes run in place of something refused expires"
        left = GaugeMetricFamily("holdfast_coordinator_refusing_expires_in_seconds", about)
        if found.expires_at is not None:
            left.add_metric([], found.expires_at - self.coordinator.now())
        yield left

    def _publishing(self) -> Iterator[Metric]:
        at, health = self.coordinator, self.coordinator.publisher.health
        yield _gauge("ready", "Whether this replica is ready", not (self.readiness.reason or at.fault))
        yield _gauge("held_polls", "Head requests that wait for news", at.board.waiting)
        yield _gauge("pinned_certificates", "Certificates that TLS knows", len(at.pins.table))
        expires = at.shown.certificate.not_after
        yield _gauge("certificate_expiry_timestamp_seconds", "When the certificate that is shown expires", expires)
        yield _gauge("publication_behind_nodes", "Nodes whose next head is due", health.behind)
        yield _gauge("unpublishable_nodes", "Nodes of which a scope or the head could not be made", len(health.failed))
        yield _counter("published_heads", "Heads given out", health.published_heads)
        yield _counter("published_documents", "Snapshots and increments given out", health.published_documents)
        yield _counter("publication_conflicts", "Publications that came second", health.conflicts)
        yield _counter("newer_reports", "Reports with members that a later release has added", at.collector.newer)
        yield _counter("database_faults", "Transactions that the database has failed", at.database.faults)
        unable = GaugeMetricFamily("holdfast_coordinator_unpublishable", "Nothing can be published", labels=["reason"])
        if health.reason:
            unable.add_metric([health.reason.partition(":")[0]], 1)
        yield unable
        alarms = CounterMetricFamily("holdfast_coordinator_alarms", "What an operator should look at", labels=["name"])
        for name, times in sorted(at.alarms.items()):
            alarms.add_metric([name], times)
        yield alarms

    def _ends(self) -> Iterator[Metric]:
        labels, now = ["what", "name"], self.coordinator.now()
        expires = GaugeMetricFamily("holdfast_coordinator_expires_timestamp_seconds", "When it ends", labels=labels)
        due = GaugeMetricFamily("holdfast_coordinator_due", "1: ends soon, 2: has ended", labels=labels)
        for thing in expiries.in_short(self.reminder.things):
            expires.add_metric([thing.what, thing.name], thing.ends)
            due.add_metric([thing.what, thing.name], _DUE.get(thing.urgency(now), 0))
        yield from (expires, due)

    def _listeners(self) -> Iterator[Metric]:
        names = ["listener"]
        connections = GaugeMetricFamily("holdfast_coordinator_connections", "Open connections", labels=names)
        answered = CounterMetricFamily("holdfast_coordinator_answered", "Requests answered", labels=names)
        refused = CounterMetricFamily(
            "holdfast_coordinator_refused", "Requests refused, by code", labels=["listener", "code"]
        )
        failed = CounterMetricFamily("holdfast_coordinator_handshakes_failed", "Callers not let in", labels=names)
        for name, server in sorted(self.servers.items()):
            counts = server.statistics()
            connections.add_metric([name], server.connections)
            answered.add_metric([name], counts.answered)
            failed.add_metric([name], counts.handshakes_failed)
            for code, times in sorted(counts.refused.items()):
                refused.add_metric([name, code], times)
        yield from (connections, answered, refused, failed)


def _probe(reason: str | None) -> Response:
    if reason is not None:
        raise HttpError(503, "not_ready", reason)
    return Response.json({"ok": True})


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(f"holdfast_coordinator_{name}", about, value=value)


def _counter(name: str, about: str, value: float) -> Metric:
    return CounterMetricFamily(f"holdfast_coordinator_{name}", about, value=value)
