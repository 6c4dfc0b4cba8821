"""Rows a second of Flink programs over a backlog of clicks: one after the other, alone on a stack of their own."""

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from jobs.cluster import cancel
from jobs.flink_environment import (
    CLICK_COLUMNS,
    CLICKS_TABLE,
    PRODUCER_OPTIONS,
    create_clicks_table,
    options,
    table_environment,
)
from runtime.config import CONFIG_VARIABLE, Config, load_config
from runtime.kafka.clients import client_settings, producer, reader
from runtime.kafka.reading import watermarks
from runtime.kafka.sending import Deliveries, send
from runtime.kafka.topics import create_topics, existing_topics
from schemas.click import ACTIONS, Click
from schemas.codec import encode
from schemas.ddl import columns
from schemas.topics import CLICKS_ACCEPTED, TOPICS, Topic
from stack.control import PARTS_ONLY, down, up
from stack.flink import flink_environment, flink_overview
from stack.layout import Layout
from stack.ports import LOOPBACK, free_port

if TYPE_CHECKING:
    from pyflink.table import TableEnvironment

Define = Callable[["TableEnvironment", Config, int], list[str]]
"""What every program of `jobs` exports: creates its tables and returns its INSERT statements. A function of a module,
or a partial of one: it is called in another process."""

PASS_THROUGH = Topic("benchmark.pass-through", "user_id", "the clicks as they came", None)
START_MS = 1_700_000_000_000
STEP_MS = 50
ACTION_WEIGHTS = (50, 25, 15, 4, 2, 3, 1)
"""Of the actions in the order of `ACTIONS`: mostly impressions, as on a real site."""

LOOK_EVERY_S = 0.02
STALLED_S = 120.0
"""A job whose progress stands still for this long has failed or is waiting for something that will not come."""


@dataclass(frozen=True, slots=True)
class FlinkStack:
    """A running Kafka and Flink, and the process that submits jobs to it."""

    config: Config
    _client: ProcessPoolExecutor
    _reader: Consumer

    def fill(self, clicks: Iterable[Click]) -> int:
        """Write `clicks` to `clicks.accepted` as the gate does; return how many there were."""
        out, deliveries = producer(self.config.kafka, linger_ms=20), Deliveries()
        for click in clicks:
            send(out, CLICKS_ACCEPTED.name, encode(click), click.user_id, on_delivery=deliveries.note)
        deliveries.confirm(out)
        return deliveries.acknowledged

    def empty(self, topic: Topic) -> None:
        """Delete all that `topic` holds, by deleting it and creating it anew."""
        admin = AdminClient(client_settings(self.config.kafka))
        if topic.name in existing_topics(admin):
            admin.delete_topics([topic.name])[topic.name].result(30)
            wait_for(lambda: topic.name not in existing_topics(admin), f"{topic.name} is deleted")
        create_topics(self.config.kafka, [topic])
        wait_for(lambda: topic.name in existing_topics(admin), f"{topic.name} is created")

    def records_in(self, topic: Topic) -> int:
        """Return how many records `topic` has been given since it was created."""
        partitions = range(self.config.kafka.partitions if topic.partitioned else 1)
        return sum(watermarks(self._reader, topic.name, partition)[1] for partition in partitions)

    def submit(self, name: str, define: Define, settings: Mapping[str, str] | None = None) -> str:
        """Start the program `define` as one job called `name`; return its id. `settings` are Flink's own."""
        return self._client.submit(_execute, name, define, dict(settings or {})).result()

    def cancel(self, job_id: str) -> None:
        """End a job and wait until it is gone."""
        cancel(self.config.flink, job_id)
        wait_for(lambda: self.job(job_id)["state"] == "CANCELED", f"job {job_id} is cancelled")

    def job(self, job_id: str, path: str = "") -> Any:
        """Return what the JobManager says about a job: `/jobs/JOB_ID` and `path`."""
        return flink_overview(self.config.flink, f"/jobs/{job_id}{path}") or {"state": "unknown"}

    def rows_per_s(
        self,
        name: str,
        define: Define,
        sink: Topic,
        rows: int,
        settings: Mapping[str, str] | None = None,
    ) -> float:
        """Run the program until it has written `rows` records to `sink`; return the rate from first to last.

        The sink is emptied before and the job is cancelled after, so that runs are alike. Submission and start-up
        count for nothing.
        """
        self.empty(sink)
        return self.rate(name, define, lambda: self.records_in(sink), rows, settings)

    def rate(
        self,
        name: str,
        define: Define,
        progress: Callable[[], int],
        rows: int,
        settings: Mapping[str, str] | None = None,
    ) -> float:
        """Run the program until `progress` reaches `rows`; return the growth of `progress` a second meanwhile.

        For programs that write fewer rows than they read: `progress` says how many of the backlog's are done.
        """
        job_id = self.submit(name, define, settings)
        try:
            return _rate(progress, rows, lambda: str(self.job(job_id)["state"]))
        finally:
            self.cancel(job_id)


@contextmanager
def flink_stack(**sections: dict[str, Any]) -> Iterator[FlinkStack]:
    """Run Kafka and Flink on free ports with all topics; `sections` are those of the configuration."""
    # The stack outlives its client by design: a benchmark that is told to end must end it too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with TemporaryDirectory(prefix="headrace-benchmark-") as folder:
        tree: dict[str, Any] = {
            "state_dir": Path(folder),
            "kafka": {"bootstrap_servers": f"{LOOPBACK}:{free_port()}"},
            "flink": {"rest_url": f"http://{LOOPBACK}:{free_port()}"},
            "stack": {"parts": ["kafka", "flink"]},
        }
        for name, section in sections.items():
            tree[name] = {**tree.get(name, {}), **section}
        config = load_config(overrides=tree)
        layout = Layout.of(config)
        environment = flink_environment(layout) | {CONFIG_VARIABLE: str(layout.config_file)}
        # PyFlink starts its JVM once per process and with that process's environment.
        client = ProcessPoolExecutor(1, get_context("spawn"), _enter, (environment,))
        try:
            up(config, PARTS_ONLY)
            create_topics(config.kafka, TOPICS)
            yield FlinkStack(config, client, reader(config.kafka))
        finally:
            client.shutdown()
            down(config)


def zipf_clicks(count: int, users: int, items: int, seed: int) -> Iterator[Click]:
    """Yield `count` clicks: users uniform, items by Zipf's law with exponent 1, one every `STEP_MS` of event time.

    Ratings and purchases have a value.
    """
    chance = random.Random(seed)  # noqa: S311 - a sequence to repeat, not a secret
    names = [f"item-{n}" for n in range(1, items + 1)]
    weights = list(accumulate(1 / n for n in range(1, items + 1)))
    chosen = zip(
        chance.choices(names, cum_weights=weights, k=count),
        chance.choices(ACTIONS, ACTION_WEIGHTS, k=count),
        strict=True,
    )
    for place, (item_id, action) in enumerate(chosen):
        value = {"rating": float(chance.randint(1, 5)), "purchase": chance.randint(100, 9_999) / 100}.get(action)
        yield Click(
            event_id=f"e{place}",
            ts=START_MS + place * STEP_MS,
            user_id=f"user-{chance.randrange(users)}",
            item_id=item_id,
            action=action,
            value=value,
        )


def pass_through(environment: "TableEnvironment", config: Config, _now_ms: int) -> list[str]:
    """Copy the clicks' columns from JSON to JSON, keyed by user: what any job over them costs at least."""
    create_clicks_table(environment, config, "benchmark-pass-through")
    sink = {
        "connector": "kafka",
        "topic": PASS_THROUGH.name,
        "key.format": "raw",
        "key.fields": "user_id",
        "value.format": "json",
    }
    environment.execute_sql(f"""
        CREATE TABLE clicks_copied ({columns(Click, CLICK_COLUMNS)})
        WITH ({options(config, sink | PRODUCER_OPTIONS)})""")
    names = ", ".join(f"`{name}`" for name in CLICK_COLUMNS)
    return [f"INSERT INTO clicks_copied SELECT {names} FROM {CLICKS_TABLE}"]


def _enter(environment: dict[str, str]) -> None:
    os.environ.update(environment)


def _execute(name: str, define: Define, settings: dict[str, str]) -> str:
    """Run in the client's process: submit the statements of `define` as one job and return its id."""
    config = load_config()
    environment = table_environment(config, name)
    for key, value in settings.items():
        environment.get_config().set(key, value)
    statements = environment.create_statement_set()
    for statement in define(environment, config, START_MS):
        statements.add_insert_sql(statement)
    job = statements.execute().get_job_client()
    assert job is not None
    return str(job.get_job_id())


def _rate(progress: Callable[[], int], rows: int, state: Callable[[], str]) -> float:
    done, moved_at = 0, time.perf_counter()
    first: tuple[int, float] | None = None
    while done < rows:
        time.sleep(LOOK_EVERY_S)
        before, done = done, progress()
        now = time.perf_counter()
        if done > before:
            moved_at = now
            first = first or (done, now)
        elif now - moved_at > STALLED_S:
            raise SystemExit(f"{done:,} of {rows:,} rows after {STALLED_S:.0f} s without any; the job is {state()}")
    assert first is not None
    return (done - first[0]) / (moved_at - first[1])


def wait_for(condition: Callable[[], bool], what: str, within_s: float = 60.0) -> None:
    """Return once `condition` holds; end the benchmark, saying `what` did not come true, if that takes too long."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {within_s:.0f} s: {what}")
        time.sleep(0.05)
