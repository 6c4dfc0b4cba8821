"""The job `user-record` on a real Kafka and Flink: its records are those of a replay of the log, byte for byte."""

import os
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import msgspec
import pytest

from features.user_record import RecordBuilder, pack_record
from jobs.cluster import cancel, list_jobs
from jobs.submit import records_of
from jobs.user_record import JOB_NAME
from runtime.config import CONFIG_VARIABLE, Config, write_config
from runtime.kafka.clients import producer, reader
from runtime.kafka.reading import assign_from_beginning, position_of, read_to_end
from runtime.kafka.sending import Deliveries, send
from runtime.kafka.topics import create_topics
from schemas.click import ACTIONS, Click
from schemas.codec import decode, encode
from schemas.topics import CLICKS_ACCEPTED, FEATURES_USER, TOPICS
from stack.control import PARTS_ONLY, down, up
from stack.flink import flink_environment
from stack.layout import Layout

pytestmark = pytest.mark.stack

Eventually = Callable[..., None]

LONG_AGO_MS = 1_420_070_400_000
"""The first day of 2015: retention must not eat what is old by event time."""
VALUES = (None, None, 4.5, 0.0, -1.5, 1e7, 1e-5, 1e-3, 123456789.125, 1 / 3)
ITEM_IDS = ("1", "👩‍🚀", "a|b", "a b", "line\u2028end", "日本", "$1", "item-12345", "i" * 200)
"""Ids that a regular expression, a count of bytes or a separator could stumble over."""


class RecordJob:
    """A running Kafka and Flink, and what went into and came out of the job."""

    def __init__(self, config: Config, eventually: Eventually) -> None:
        self.config = config
        self._eventually = eventually

    def write(self, clicks: Sequence[Click], partition: int | None = None) -> None:
        """Append `clicks` to the log, each where its user belongs, or all of them to one partition."""
        out, deliveries = producer(self.config.kafka), Deliveries()
        where = {} if partition is None else {"partition": partition}
        for click in clicks:
            send(out, CLICKS_ACCEPTED.name, encode(click), click.user_id, on_delivery=deliveries.note, **where)
        deliveries.confirm(out)

    def records(self) -> list[tuple[str, bytes]]:
        """Every (user_id, packed record) that was ever published, each user's in order."""
        return [(key.decode(), value) for key, value, _ in self._read(FEATURES_USER.name)]

    def replayed(self, record_events: int) -> dict[str, list[bytes]]:
        """The records that the log asks for, by user."""
        builders = defaultdict[str, RecordBuilder](lambda: RecordBuilder(record_events))
        records = defaultdict[str, list[bytes]](list)
        for _, value, position in self._read(CLICKS_ACCEPTED.name):
            click = decode(value, Click)
            records[click.user_id].append(pack_record(builders[click.user_id].add(click, position)))
        return records

    def run(self, parallelism: int, record_events: int) -> dict[str, list[bytes]]:
        """Start the job without any state; return, by user, what it makes of the log until now, and end it."""
        before, expected = len(self.records()), len(list(self._read(CLICKS_ACCEPTED.name)))
        records_of(self.config).update(JOB_NAME, lambda known: msgspec.structs.replace(known, wish="rebuild"))
        self._submit(parallelism, record_events)
        try:
            self._eventually(lambda: len(self.records()) == before + expected, "every event has its record")
        finally:
            for job in list_jobs(self.config.flink) or ():
                cancel(self.config.flink, job.jid)
        self._eventually(lambda: list_jobs(self.config.flink) == [], "the job has ended")
        published = defaultdict[str, list[bytes]](list)
        for user_id, record in self.records():
            published[user_id].append(record)
        kept = {user_id: len(records) for user_id, records in self.replayed(record_events).items()}
        return {user_id: records[-kept[user_id] :] for user_id, records in published.items()}

    def _submit(self, parallelism: int, record_events: int) -> None:
        layout = Layout.of(self.config)
        update = {
            "flink": self.config.flink.model_copy(update={"parallelism": parallelism}),
            "features": self.config.features.model_copy(update={"record_events": record_events}),
        }
        file = layout.run / "submitted.toml"
        write_config(self.config.model_copy(update=update), file)
        environment = os.environ | flink_environment(layout) | {CONFIG_VARIABLE: str(file)}
        subprocess.run([sys.executable, "-m", "jobs.submit", JOB_NAME], env=environment, check=True, timeout=180)

    def _read(self, topic: str) -> Iterator[tuple[bytes, bytes, tuple[int, int]]]:
        consumer = reader(self.config.kafka)
        try:
            for message in read_to_end(consumer, assign_from_beginning(consumer, [topic])):
                key, value = message.key(), message.value()
                assert key is not None
                assert value is not None
                yield key, value, position_of(message)[1:]
        finally:
            consumer.close()


def clicks_of(count: int, users: int, seed: int) -> list[Click]:
    """Return clicks of which every third is that of one user, and of whose times one in ten runs backwards."""
    chance = random.Random(seed)
    return [
        Click(
            event_id=f"{seed}-{place}",
            ts=LONG_AGO_MS + place * 1_000 - chance.choice((0,) * 9 + (5_000_000,)),
            user_id=f"u{chance.randrange(users)}" if place % 3 else "always the same",
            item_id=chance.choice(ITEM_IDS),
            action=chance.choice(ACTIONS),
            value=chance.choice(VALUES),
        )
        for place in range(count)
    ]


@pytest.fixture
def job(
    new_config: Callable[..., Config], eventually: Eventually, request: pytest.FixtureRequest
) -> Iterator[RecordJob]:
    config = new_config(
        kafka={"partitions": request.param},
        flink={"parallelism": 4},
        stack={"parts": ["kafka", "flink"], "taskmanager_memory_mb": 1_400},
    )
    up(config, PARTS_ONLY)
    try:
        create_topics(config.kafka, TOPICS)
        yield RecordJob(config, eventually)
    finally:
        down(config, wipe=True)


@pytest.mark.parametrize("job", [2], indirect=True)
def test_records_are_those_of_a_replay_byte_for_byte(job: RecordJob) -> None:
    job.write(clicks_of(2_000, users=60, seed=1))
    # Fewer subtasks than partitions, as many, more; the usual length, the largest, and one without a divisor.
    for parallelism, record_events in ((1, 32), (2, 256), (4, 7)):
        published = job.run(parallelism, record_events)
        assert published == job.replayed(record_events), f"parallelism {parallelism}, {record_events} events"


@pytest.mark.parametrize("job", [4], indirect=True)
def test_one_partition_with_all_users_does_not_stop_a_parallel_job(job: RecordJob) -> None:
    job.write(clicks_of(500, users=20, seed=2), partition=2)
    assert job.run(4, 32) == job.replayed(32)
