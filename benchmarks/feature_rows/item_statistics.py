"""Item statistics and leaderboards, each alone and both at once, against a pass-through of the same clicks.

What the windows cost depends on how many items are active in one, so on how far apart the clicks are by event time: the
backlog is one of a thousand clicks a second.
"""

import random
import statistics
import time
from collections.abc import Iterable, Iterator

import msgspec
from confluent_kafka import Consumer, TopicPartition

from benchmarks.feature_rows import Rows, row
from benchmarks.feature_rows.flink_rates import (
    PASS_THROUGH,
    START_MS,
    FlinkStack,
    flink_stack,
    pass_through,
    zipf_clicks,
)
from benchmarks.harness import Options
from benchmarks.running import empty, forget_group
from jobs import item_statistics, leaderboards
from jobs.programs import Define
from runtime.config import Config
from runtime.kafka.clients import client_settings
from runtime.kafka.sending import send_all
from runtime.kafka.topics import partitions_of
from schemas.click import Click
from schemas.codec import encode
from schemas.item import Item
from schemas.topics import CLICKS_ACCEPTED, FEATURES_ITEM, ITEMS, LEADERBOARDS

USERS, ITEM_COUNT, CATEGORIES = 20_000, 5_000, 20
SURFACES = ("home", "search", "detail", "mail")
JOBS: dict[str, Define] = {item_statistics.JOB_NAME: item_statistics.define, leaderboards.JOB_NAME: leaderboards.define}
LOOK_EVERY_S = 0.05
CHECKPOINT_INTERVAL_MS = 2_000
"""Short, because progress is seen only as often."""


def measure(options: Options) -> Rows:
    """Measure on a stack of its own; per turn one run each of the pass-through, of either job and of both."""
    clicks, turns = (200_000, 1) if options.quick else (1_000_000, 3)
    copied: list[float] = []
    alone: dict[str, list[float]] = {name: [] for name in JOBS}
    together: dict[str, list[float]] = {name: [] for name in JOBS}
    with flink_stack(flink={"checkpoint_interval_ms": CHECKPOINT_INTERVAL_MS}) as stack:
        stack.fill(_placed(zipf_clicks(clicks, USERS, ITEM_COUNT, options.seed), options.seed))
        _fill_catalogue(stack)
        for _ in range(turns):
            copied.append(stack.rows_per_s("pass-through", pass_through, PASS_THROUGH, clicks))
            for name in JOBS:
                alone[name].append(_run(stack, [name], clicks)[name])
            for name, rate in _run(stack, JOBS, clicks).items():
                together[name].append(rate)
    passed = statistics.median(copied)
    return Rows(
        [
            row("pass-through of clicks with a context", passed, "rows/s"),
            *(row(name, statistics.median(rates), "rows/s") for name, rates in alone.items()),
            *(row(f"{name}, beside the other", statistics.median(rates), "rows/s") for name, rates in together.items()),
        ],
        {
            "item_vs_passthrough": _slower(alone) / passed,
            "item_vs_passthrough_together": _slower(together) / passed,
        },
    )


def _placed(clicks: Iterator[Click], seed: int) -> Iterator[Click]:
    """Give each click the context that the surfaces' boards are made of, and its time in a backlog of 1,000/s."""
    chance = random.Random(seed)  # noqa: S311 - a sequence to repeat, not a secret
    for place, click in enumerate(clicks):
        yield msgspec.structs.replace(click, ts=START_MS + place, context={"surface": chance.choice(SURFACES)})


def _fill_catalogue(stack: FlinkStack) -> None:
    items = (
        Item(item_id=f"item-{number}", ts=START_MS, category=f"category-{number % CATEGORIES}")
        for number in range(1, ITEM_COUNT + 1)
    )
    send_all(stack.config.kafka, ((ITEMS.name, item.item_id, encode(item)) for item in items))


def _slower(rates: dict[str, list[float]]) -> float:
    return min(map(statistics.median, rates.values()))


def _run(stack: FlinkStack, jobs: Iterable[str], clicks: int) -> dict[str, float]:
    """Run `jobs` at once; return for each how many clicks a second it has dealt with, from its first to its last.

    A job has dealt with what the last completed checkpoint covers, whose offsets its source commits: until then every
    operator has been through all of it.
    """
    for topic in (FEATURES_ITEM, LEADERBOARDS):
        empty(stack.config.kafka, topic)
    job_ids = [stack.submit(name, JOBS[name]) for name in jobs]
    progress = {name: Progress(stack.config, name) for name in jobs}
    try:
        while any(each.done < clicks for each in progress.values()):
            time.sleep(LOOK_EVERY_S)
            for each in progress.values():
                each.look()
    finally:
        for job_id in job_ids:
            stack.cancel(job_id)
        for each in progress.values():
            each.forget()
    return {name: each.rate for name, each in progress.items()}


class Progress:
    """Follows the offsets that one consumer group has committed."""

    def __init__(self, config: Config, group: str) -> None:
        self.done = 0
        self._group = group
        self._config = config.kafka
        self._consumer = Consumer(client_settings(config.kafka, group_id=group))
        partitions = partitions_of(self._consumer, CLICKS_ACCEPTED.name)
        self._partitions = [TopicPartition(CLICKS_ACCEPTED.name, each) for each in partitions]
        self._seen: list[tuple[float, int]] = []

    def look(self) -> None:
        """Ask the broker once."""
        committed = self._consumer.committed(self._partitions, timeout=10)
        done = sum(max(each.offset, 0) for each in committed)
        if done > self.done:
            self._seen.append((time.perf_counter(), done))
            self.done = done

    @property
    def rate(self) -> float:
        """Rows a second between the first and the last look that found more."""
        (began, first), *_, (ended, last) = self._seen
        return (last - first) / (ended - began)

    def forget(self) -> None:
        """Delete the group's offsets, so that the next run begins with none."""
        self._consumer.close()
        forget_group(self._config, self._group)
