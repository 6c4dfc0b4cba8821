"""What the worker counts and times, for Prometheus."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server

from runtime.errors import ConfigError
from schemas.recommendation import Recommendation
from serving.stages import Stages

_STAGE_BUCKETS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class ServingMetrics:
    """The worker's metrics in a registry of their own, so that tests and several workers do not share them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._answers = Counter(
            "headrace_answers", "Final answers.", ("tier", "model", "error"), registry=self.registry
        )
        self._degradations = Counter(
            "headrace_degradations", "Answers that were degraded, by how.", ("kind",), registry=self.registry
        )
        self._removed = Counter(
            "headrace_candidates_removed", "Candidates taken out, by filter.", ("reason",), registry=self.registry
        )
        self._refused = Counter(
            "headrace_requests_refused", "Requests without an answer.", ("reason",), registry=self.registry
        )
        self._let_through = Counter(
            "headrace_stage_let_through",
            "Requests, candidates or items that a stage passed on.",
            ("stage",),
            registry=self.registry,
        )
        self._stages = Histogram(
            "headrace_stage_seconds",
            "Time of one micro-batch in each stage.",
            ("stage",),
            buckets=_STAGE_BUCKETS,
            registry=self.registry,
        )

    def serve(self, port: int) -> None:
        """Answer scrapes on the loopback interface; port 0 means not at all. Raises `ConfigError` for a taken port."""
        if not port:
            return
        try:
            start_http_server(port, addr="127.0.0.1", registry=self.registry)
        except OSError as error:
            raise ConfigError(
                f"metrics_port = {port} cannot be listened on: {error}; each worker on a machine needs its own, choose "
                "one with --set metrics_port=PORT, or 0 for no metrics"
            ) from error

    def refused(self, reason: str) -> None:
        """Count a request that gets no answer: a dead letter or a repetition."""
        self._refused.labels(reason).inc()

    def batch(self, answers: Iterable[Recommendation], stages: Stages) -> None:
        """Count one micro-batch and book its stages."""
        for stage, elapsed_ms in stages.elapsed_ms.items():
            self._stages.labels(stage).observe(elapsed_ms / 1000)
            self._let_through.labels(stage).inc(stages.let_through[stage])
        for answer in answers:
            self._answers.labels(answer.tier, answer.model, answer.error.code if answer.error else "").inc()
            for kind in answer.degradations:
                self._degradations.labels(kind).inc()
            for reason, count in answer.removed.items():
                self._removed.labels(reason).inc(count)
