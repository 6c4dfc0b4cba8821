"""What the rows share: a stack of their own on free ports, a topic filled, a process timed."""

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from cli.services import start
from runtime.config import Config, load_config
from runtime.kafka.clients import producer
from runtime.kafka.sending import Deliveries, send
from runtime.kafka.topics import create_topics
from schemas.topics import TOPICS
from stack.control import PARTS_ONLY, down, up
from stack.layout import Layout
from stack.ports import LOOPBACK, free_port

LOOK_EVERY_S = 0.02
STALLED_S = 60.0

Process = Callable[[Path], None]
"""Runs with the configuration in a file until it is told to stop."""


@contextmanager
def parts(*names: str) -> Iterator[Config]:
    """Run some of kafka, redis and flink, with all topics where there is a Kafka, and nothing of ours."""
    with TemporaryDirectory(prefix="headrace-benchmark-") as folder:
        config = _config(Path(folder), names)
        up(config, PARTS_ONLY)
        try:
            if "kafka" in names:
                create_topics(config.kafka, TOPICS)
            yield config
        finally:
            down(config)


@contextmanager
def pipeline() -> Iterator[Config]:
    """Run everything, as `headrace up` does."""
    with TemporaryDirectory(prefix="headrace-benchmark-") as folder:
        config = _config(Path(folder), ("kafka", "redis", "flink"))
        start(config)
        try:
            yield config
        finally:
            down(config)


def publish(config: Config, topic: str, messages: Iterable[tuple[str, bytes]]) -> None:
    """Send (key, value) pairs to `topic` and return when the broker has them."""
    out, deliveries = producer(config.kafka, linger_ms=20), Deliveries()
    for key, value in messages:
        send(out, topic, value, key, on_delivery=deliveries.note)
    deliveries.confirm(out)


def rate_of(run: Process, config: Config, done: Callable[[], int], rows: int) -> float:
    """Run a process until `done()` reaches `rows`; return how much it grew a second since it first did."""
    file = Layout.of(config).config_file
    process = multiprocessing.get_context("spawn").Process(target=run, args=(file,), daemon=True)
    process.start()
    try:
        first: tuple[int, float] | None = None
        count, moved_at = 0, time.perf_counter()
        while count < rows:
            time.sleep(LOOK_EVERY_S)
            before, count, now = count, done(), time.perf_counter()
            if count > before:
                moved_at, first = now, first or (count, now)
            elif now - moved_at > STALLED_S:
                raise SystemExit(f"{count:,} of {rows:,} after {STALLED_S:.0f} s without any more")
        assert first is not None
        return (count - first[0]) / (moved_at - first[1])
    finally:
        process.terminate()
        process.join()


def _config(folder: Path, names: Iterable[str]) -> Config:
    return load_config(
        overrides={
            "state_dir": folder,
            "metrics_port": 0,
            "kafka": {"bootstrap_servers": f"{LOOPBACK}:{free_port()}"},
            "redis": {"url": f"redis://{LOOPBACK}:{free_port()}/0"},
            "flink": {"rest_url": f"http://{LOOPBACK}:{free_port()}"},
            "stack": {"parts": list(names)},
        }
    )
