"""The stores that this coordinator keeps up, in numbers; each is one coordinator's, unless it is a directory."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from coordinator.storage.storages import StorageKeeper

_PREFIX = "holdfast_coordinator_storage"


def families(storages: StorageKeeper) -> Iterator[Metric]:
    labels, now = ["storage"], storages.now()
    files = GaugeMetricFamily(f"{_PREFIX}_files", "Files known to lie at a store", labels=labels)
    behind = GaugeMetricFamily(f"{_PREFIX}_behind_files", "Files that a store lacks", labels=labels)
    lag = GaugeMetricFamily(f"{_PREFIX}_lag_seconds", "For how long a store has lacked something", labels=labels)
    failing = GaugeMetricFamily(f"{_PREFIX}_failing", "Why a store is not up to date", labels=["storage", "reason"])
    failures = CounterMetricFamily(f"{_PREFIX}_failures", "Rounds that came to nothing", labels=labels)
    written = CounterMetricFamily(f"{_PREFIX}_written_files", "Files put at a store", labels=labels)
    for name, report in sorted(storages.reports.items()):
        files.add_metric([name], report.files)
        behind.add_metric([name], report.behind)
        lag.add_metric([name], max(0.0, now - report.behind_since) if report.behind_since is not None else 0.0)
        written.add_metric([name], report.written)
        failures.add_metric([name], storages.failures.get(name, 0))
        if report.fault:
            failing.add_metric([name, report.fault], 1)
    yield from (files, behind, lag, failing, failures, written)
