"""What the benchmarks share: a stack of their own on free ports, topics filled and emptied, progress timed."""

import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from cli.services import start
from runtime.config import Config, KafkaConfig, load_config
from runtime.kafka.clients import client_settings
from runtime.kafka.topics import create_topics, existing_topics
from schemas.topics import TOPICS, Topic
from stack.control import PARTS_ONLY, down, up
from stack.layout import Layout
from stack.ports import LOOPBACK, free_port

FILL_LINGER_MS = 20.0
"""A backlog goes out in large batches."""

LOOK_EVERY_S = 0.02
STALLED_S = 60.0
"""What stands still for this long has failed or is waiting for something that will not come."""


class Failed(SystemExit):
    """What was to be measured did not come about; ends the benchmark with this message unless it has other parts."""


Process = Callable[[Path], None]
"""Runs with the configuration in a file until it is told to stop."""


@contextmanager
def parts(*names: str, **sections: dict[str, Any]) -> Iterator[Config]:
    """Run some of kafka, redis and flink, with all topics where there is a Kafka, and nothing of ours.

    `sections` are further ones of the configuration.
    """
    with _stack({"parts": list(names)}, sections) as config:
        up(config, PARTS_ONLY)
        if "kafka" in names:
            create_topics(config.kafka, TOPICS)
        yield config


@contextmanager
def pipeline() -> Iterator[Config]:
    """Run everything, as `headrace up` does."""
    with _stack({}, {}) as config:
        start(config)
        yield config


@contextmanager
def _stack(stack: dict[str, Any], sections: dict[str, dict[str, Any]]) -> Iterator[Config]:
    """Make a configuration with free ports, and stop at the end what was started of it."""
    # A stack outlives its client by design: a benchmark that is told to end must end it too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with TemporaryDirectory(prefix="headrace-benchmark-") as folder:
        tree: dict[str, Any] = {
            "state_dir": Path(folder),
            "metrics_port": 0,
            "kafka": {"bootstrap_servers": f"{LOOPBACK}:{free_port()}"},
            "redis": {"url": f"redis://{LOOPBACK}:{free_port()}/0"},
            "flink": {"rest_url": f"http://{LOOPBACK}:{free_port()}"},
            "stack": stack,
        }
        for name, section in sections.items():
            tree[name] = {**tree.get(name, {}), **section}
        config = load_config(overrides=tree)
        try:
            yield config
        finally:
            down(config)


def wait_for(condition: Callable[[], bool], what: str, within_s: float = 60.0) -> None:
    """Return once `condition` holds; end the benchmark, saying `what` did not come true, if that takes too long."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"not within {within_s:.0f} s: {what}")
        time.sleep(0.05)


def empty(config: KafkaConfig, topic: Topic) -> None:
    """Delete all that `topic` holds, if it is there, by deleting it; create it anew."""
    admin = AdminClient(client_settings(config))
    if topic.name in existing_topics(admin):
        admin.delete_topics([topic.name])[topic.name].result(30)
        wait_for(lambda: topic.name not in existing_topics(admin), f"{topic.name} is deleted")
    create_topics(config, [topic])
    wait_for(lambda: topic.name in existing_topics(admin), f"{topic.name} is created")


def forget_group(config: KafkaConfig, group: str) -> None:
    """Delete a consumer group's offsets, if there are any, so that the next run begins with none."""
    admin = AdminClient(client_settings(config))

    def forgotten() -> bool:
        if group not in {each.group_id for each in admin.list_consumer_groups().result(10).valid}:
            return True
        # A process that has ended was a static member, which leaves when its session ends.
        with suppress(KafkaException):
            admin.delete_consumer_groups([group])[group].result(30)
        return False

    wait_for(forgotten, f"group {group} is deleted")


def rate(
    progress: Callable[[], int], rows: int, state: Callable[[], str] = lambda: "", stalled_s: float = STALLED_S
) -> float:
    """Wait until `progress` reaches `rows`; return how much it grew a second since it first did.

    If it stands still for `stalled_s`, the benchmark ends, with what `state` says.
    """
    done, moved_at = 0, time.perf_counter()
    first: tuple[int, float] | None = None
    while done < rows:
        time.sleep(LOOK_EVERY_S)
        before, done = done, progress()
        now = time.perf_counter()
        if done > before:
            moved_at, first = now, first or (done, now)
        elif now - moved_at > stalled_s:
            raise Failed(f"{done:,} of {rows:,} rows after {stalled_s:.0f} s without any more{state()}")
    assert first is not None
    return (done - first[0]) / (moved_at - first[1])


def rate_of(run: Process, config: Config, progress: Callable[[], int], rows: int) -> float:
    """Return the `rate` at which a process of its own makes progress."""
    file = Layout.of(config).config_file
    process = multiprocessing.get_context("spawn").Process(target=run, args=(file,), daemon=True)
    process.start()
    try:
        return rate(progress, rows)
    finally:
        process.terminate()
        process.join()
