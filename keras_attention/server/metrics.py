"""Metrics of the server in the format of Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64)


class ServerMetrics:
    """Metrics for Prometheus: counts requests and token sequences.

    Args:
        paths: collection of str, routes with their own label; all others count as "other".
    """

    def __init__(self, paths):
        self._paths = frozenset(paths)
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter("requests", "Requests answered", ["path", "status"], registry=self._registry)
        self._seconds = Histogram(
            "request_seconds", "Time from headers to answer", ["path"], buckets=SECONDS, registry=self._registry
        )
        self._open = Gauge("requests_in_progress", "Requests being answered", registry=self._registry)
        self._rows = Histogram(
            "rows_together", "Batch size of each sequence", ["model"], buckets=BATCH_SIZES, registry=self._registry
        )

    def watch(self, budget):
        """Shows the state of the MemoryBudget of the answers in progress."""
        limit = Gauge(
            "memory_budget_bytes",
            "Most bytes of key/value caches and activations of the answers in progress; more work waits",
            registry=self._registry,
        )
        limit.set(budget.most)
        in_use = Gauge("memory_in_use_bytes", "Bytes of this budget that are in use", registry=self._registry)
        in_use.set_function(lambda: budget.in_use)

    def accepted(self):
        """A context in which a request counts as in progress."""
        return self._open.track_inprogress()

    def answered(self, path, status, seconds):
        """Counts an answer."""
        path = path if path in self._paths else "other"
        self._requests.labels(path, status).inc()
        self._seconds.labels(path).observe(seconds)

    def computed(self, model, rows_together):
        """Counts a sequence of a model with the size of its batch."""
        self._rows.labels(model).observe(rows_together)

    def answers_by_path(self):
        """Dict from path to the number of answered requests."""
        counts = {}
        for sample in next(iter(self._requests.collect())).samples:
            if sample.name == "requests_total":
                path = sample.labels["path"]
                counts[path] = counts.get(path, 0) + int(sample.value)
        return counts

    def text(self):
        """All metrics in the Prometheus format, bytes."""
        return generate_latest(self._registry)
