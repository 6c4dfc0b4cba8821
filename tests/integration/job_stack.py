"""Kafka, Flink and the process that keeps the jobs, for the tests of how jobs are operated."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from features.record_batch import parse_record
from features.user_record import UserRecord, record_position
from jobs.cluster import Job, list_jobs
from jobs.job_state import JobRecord
from jobs.submit import records_of
from runtime.config import CONFIG_VARIABLE, Config, write_config
from runtime.kafka.clients import client_settings, producer, reader
from runtime.kafka.reading import assign_from_beginning, read_to_end, watermarks
from runtime.kafka.topics import create_topics
from runtime.lifecycle import READY_VARIABLE
from schemas.click import ACTIONS, Click
from schemas.codec import encode
from schemas.topics import CLICKS_ACCEPTED, FEATURES_USER, TOPICS
from stack.control import PARTS_ONLY, up
from stack.layout import Layout
from stack.process import recorded
from tests.conftest import Eventually

ITEMS = 20
STARTED_TS = 1_700_000_000_000


class JobStack:
    """A running Kafka and Flink and a keeper of their jobs; counts what it put into the log."""

    def __init__(self, config: Config, eventually: Eventually) -> None:
        self.config = config
        self.sent: Counter[str] = Counter()
        self._eventually = eventually
        self._ready_file = Layout.of(config).run / "keeper.ready"

    def up(self) -> None:
        """Start Kafka and Flink, with all topics."""
        up(self.config, PARTS_ONLY)
        create_topics(self.config.kafka, TOPICS)

    @contextmanager
    def kept(self, config: Config | None = None) -> Iterator[None]:
        """Run the keeper, by default of our own configuration, and wait until all jobs that should run do."""
        file = Layout.of(self.config).run / "keeper.toml"
        write_config(config or self.config, file)
        self._ready_file.unlink(missing_ok=True)
        environment = os.environ | {CONFIG_VARIABLE: str(file), READY_VARIABLE: str(self._ready_file)}
        with Layout.of(self.config).log_of("keeper").open("ab") as log:
            keeper = subprocess.Popen([sys.executable, "-m", "cli", "run", "jobs"], env=environment, stderr=log)
        try:
            self._eventually(self._ready_file.is_file, "all jobs run", within_s=300)
            yield
        finally:
            keeper.terminate()
            keeper.wait()

    def log_of_keeper(self) -> str:
        """Everything the keepers have said."""
        return Layout.of(self.config).log_of("keeper").read_text()

    def send(self, users: Sequence[str], events: int, partitions: Sequence[int]) -> None:
        """Append `events` clicks of each user in turn to `clicks.accepted`, each user always in the same partition."""
        client = producer(self.config.kafka)
        for place in range(events * len(users)):
            user_id = users[place % len(users)]
            click = Click(
                event_id=f"{user_id}-{self.sent[user_id]}",
                ts=STARTED_TS + self.sent[user_id],
                user_id=user_id,
                item_id=f"i{self.sent[user_id] % ITEMS}",
                action=ACTIONS[place % len(ACTIONS)],
            )
            self.sent[user_id] += 1
            partition = partitions[hash_of(user_id) % len(partitions)]
            client.produce(CLICKS_ACCEPTED.name, encode(click), user_id, partition)
            client.poll(0)
        assert client.flush(60) == 0

    def drop_log(self) -> None:
        """Delete every message of `clicks.accepted`, as its retention would: no state can be rebuilt from it."""
        admin = AdminClient(client_settings(self.config.kafka))
        consumer = reader(self.config.kafka)
        ends = [
            TopicPartition(CLICKS_ACCEPTED.name, each, watermarks(consumer, CLICKS_ACCEPTED.name, each)[1])
            for each in range(self.config.kafka.partitions)
        ]
        consumer.close()
        for deleted in admin.delete_records(ends).values():
            deleted.result()

    def records(self) -> list[tuple[str, bytes]]:
        """Every (user_id, packed record) of `features.user`, in the order of its partitions."""
        consumer = reader(self.config.kafka)
        try:
            messages = read_to_end(consumer, assign_from_beginning(consumer, [FEATURES_USER.name]))
            return [((each.key() or b"").decode(), each.value() or b"") for each in messages]
        finally:
            consumer.close()

    def newest(self) -> dict[str, UserRecord]:
        """Each user's newest record."""
        newest: dict[str, bytes] = {}
        for user_id, packed in self.records():
            if user_id not in newest or record_position(packed) >= record_position(newest[user_id]):
                newest[user_id] = packed
        return {user_id: parse_record(packed) for user_id, packed in newest.items()}

    def expect_totals(self) -> None:
        """Wait until every user's newest record has counted exactly what was sent."""

        def counted() -> bool:
            return {user_id: record.total_events for user_id, record in self.newest().items()} == self.sent

        self._eventually(counted, "every event is counted once", within_s=300)

    def running(self, name: str) -> Job | None:
        """The job of this name if all its tasks run."""
        found = [job for job in list_jobs(self.config.flink) or () if job.name == name and job.running]
        return found[0] if found else None

    def remembered(self, name: str) -> JobRecord:
        """What is remembered of this job."""
        return records_of(self.config).read(name)

    def signal(self, part: str, number: signal.Signals) -> None:
        """Send a signal to one process of the stack."""
        process = recorded(Layout.of(self.config), part)
        assert process is not None
        os.kill(process.pid, number)


def hash_of(user_id: str) -> int:
    """The number at the end of a user id."""
    return int(user_id.rpartition("-")[2])


def user_ids(prefix: str, count: int) -> list[str]:
    """Return ids that `hash_of` spreads evenly."""
    return [f"{prefix}-{number}" for number in range(count)]


def silent(_what: str) -> None:
    """Nobody watches a test wait."""
