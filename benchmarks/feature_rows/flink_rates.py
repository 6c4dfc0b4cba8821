"""Rows a second of Flink programs over a backlog of clicks: one after the other, alone on a stack of their own."""

import os
import random
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer

from benchmarks.running import FILL_LINGER_MS, empty, parts, rate, wait_for
from jobs.cluster import cancel
from jobs.flink_environment import (
    CLICK_COLUMNS,
    CLICKS_TABLE,
    PRODUCER_OPTIONS,
    create_clicks_table,
    options,
    table_environment,
)
from jobs.programs import Define
from runtime.config import CONFIG_VARIABLE, Config, load_config
from runtime.kafka.clients import reader
from runtime.kafka.reading import watermarks
from runtime.kafka.sending import send_all
from schemas.click import ACTIONS, Click
from schemas.codec import encode
from schemas.ddl import columns
from schemas.topics import CLICKS_ACCEPTED, Topic
from stack.flink import flink_environment, flink_overview
from stack.layout import Layout

if TYPE_CHECKING:
    from pyflink.table import TableEnvironment

PASS_THROUGH = Topic("benchmark.pass-through", "user_id", "the clicks as they came", None)
START_MS = 1_700_000_000_000
STEP_MS = 50
STALLED_S = 120.0
"""A job may be silent for longer than a process: it starts, and takes checkpoints."""

ACTION_WEIGHTS = (50, 25, 15, 4, 2, 3, 1)
"""Of the actions in the order of `ACTIONS`: mostly impressions, as on a real site."""


@dataclass(frozen=True, slots=True)
class FlinkStack:
    """A running Kafka and Flink, and the process that submits jobs to it."""

    config: Config
    _client: ProcessPoolExecutor
    _reader: Consumer

    def fill(self, clicks: Iterable[Click]) -> None:
        """Write `clicks` to `clicks.accepted` as the gate does."""
        messages = ((CLICKS_ACCEPTED.name, click.user_id, encode(click)) for click in clicks)
        send_all(self.config.kafka, messages, linger_ms=FILL_LINGER_MS)

    def records_in(self, topic: Topic) -> int:
        """Return how many records `topic` has been given since it was created."""
        partitions = range(self.config.kafka.partitions if topic.partitioned else 1)
        return sum(watermarks(self._reader, topic.name, partition)[1] for partition in partitions)

    def submit(self, name: str, define: Define, settings: Mapping[str, str] | None = None) -> str:
        """Start a program as one job called `name`; return its id. `settings` are Flink's own.

        `define` is a function of a module, or a partial of one: it is called in another process.
        """
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
        empty(self.config.kafka, sink)
        job_id = self.submit(name, define, settings)
        try:
            return rate(
                lambda: self.records_in(sink), rows, lambda: f"; the job is {self.job(job_id)['state']}", STALLED_S
            )
        finally:
            self.cancel(job_id)


@contextmanager
def flink_stack(**sections: dict[str, Any]) -> Iterator[FlinkStack]:
    """Run Kafka and Flink on free ports with all topics; `sections` are those of the configuration."""
    with parts("kafka", "flink", **sections) as config:
        layout = Layout.of(config)
        environment = flink_environment(layout) | {CONFIG_VARIABLE: str(layout.config_file)}
        # PyFlink starts its JVM once per process and with that process's environment.
        with ProcessPoolExecutor(1, get_context("spawn"), _enter, (environment,)) as client:
            yield FlinkStack(config, client, reader(config.kafka))


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
