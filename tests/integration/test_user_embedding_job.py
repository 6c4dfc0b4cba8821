"""The job `user-embedding` on a real Kafka and Flink: records in, vectors out, encoders taken up while it runs."""

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import psutil
import pytest
from confluent_kafka import Message, TopicPartition

from features.embedding import Encoder
from features.user_record import pack_record
from features.user_vector import parse_vector
from jobs import user_embedding
from jobs.cluster import list_jobs
from models.contract import History, Lineage
from models.item_vectors import ItemVectors
from models.training import publish_models
from runtime.artifact import point_to
from runtime.config import CONFIG_VARIABLE, Config
from runtime.kafka.clients import group_consumer, producer, reader
from runtime.kafka.reading import assign_from_beginning, drain
from runtime.kafka.sending import Deliveries, send
from runtime.kafka.topics import create_topics
from schemas.state import ModelPointer
from schemas.topics import EMBEDDINGS_USER, FEATURES_USER, TOPICS
from stack.control import PARTS_ONLY, down, up
from stack.flink import flink_environment
from stack.layout import Layout
from stack.process import recorded
from tests.builders import NOW_MS, click_of, record_of

pytestmark = pytest.mark.stack

Eventually = Callable[..., None]

HISTORY = History([click_of(user_id, item_id) for user_id, item_id in ("ua", "ub", "va", "vc", "wb", "wc", "xd")])


class Job:
    """The running job with its topic at either end."""

    def __init__(self, config: Config, folder: Path) -> None:
        self.config = config
        self._folder = folder
        self._producer = producer(config.kafka)
        self._consumer = reader(config.kafka)
        assign_from_beginning(self._consumer, [EMBEDDINGS_USER.name])
        self._messages: dict[str, list[Message]] = defaultdict(list)

    def send(self, *records: tuple[str, bytes | None]) -> None:
        deliveries = Deliveries()
        for user_id, record in records:
            send(self._producer, FEATURES_USER.name, record, user_id, on_delivery=deliveries.note)
        deliveries.confirm(self._producer)

    def vectors(self, user_id: str) -> list[bytes | None]:
        """All that was ever written for a user, in order."""
        for message in drain(self._consumer, 10_000, 0.05):
            self._messages[(message.key() or b"").decode()].append(message)
        return [message.value() for message in self._messages[user_id]]

    def encoder(self, version: str) -> ModelPointer:
        """Train and save item vectors, and return the pointer that is not published yet."""
        model = ItemVectors.fit(HISTORY, self.config, 0, Lineage(version, NOW_MS))
        model.save(self._folder / version)
        return point_to(self._folder / version, NOW_MS)

    def publish(self, pointer: ModelPointer) -> None:
        publish_models(self.config.kafka, [pointer])

    def version_in_use(self) -> str:
        """Send a record and return the version of the encoder that made the vector, "" if none came."""
        before = len(self.vectors("probe"))
        self.send(("probe", packed("a")))
        values = self.vectors("probe")[before:]
        return parse_vector(values[-1]).encoder_version if values and values[-1] is not None else ""

    def log(self) -> str:
        return Layout.of(self.config).log_of("taskmanager").read_text()

    def done(self) -> int:
        """How many records the last checkpoint has behind it; those before it have been through the function."""
        consumer = group_consumer(self.config.kafka, user_embedding.JOB_NAME, "test")
        try:
            asked = [TopicPartition(FEATURES_USER.name, each) for each in range(self.config.kafka.partitions)]
            return sum(max(each.offset, 0) for each in consumer.committed(asked, timeout=10))
        finally:
            consumer.close()

    def close(self) -> None:
        self._consumer.close()


def packed(*item_ids: str, position: tuple[int, int] = (0, 0)) -> bytes:
    return pack_record(replace(record_of(*item_ids), position=position))


@pytest.fixture(scope="module")
def job(new_config: Callable[..., Config], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    config = new_config(
        stack={"parts": ["kafka", "flink"]},
        flink={"parallelism": 2, "checkpoint_interval_ms": 500},
        embedding={"size": 8},
    )
    up(config, PARTS_ONLY)
    try:
        create_topics(config.kafka, TOPICS)
        layout = Layout.of(config)
        environment = os.environ | flink_environment(layout) | {CONFIG_VARIABLE: str(layout.config_file)}
        command = [sys.executable, "-m", "jobs.submit", user_embedding.JOB_NAME]
        subprocess.run(command, env=environment, check=True, timeout=300)
        job = Job(config, tmp_path_factory.mktemp("models"))
        yield job
        job.close()
    finally:
        down(config, wipe=True)


def test_encoders_are_taken_up_and_refused_while_the_job_runs(job: Job, eventually: Eventually) -> None:
    job.send(("early", packed("a")))
    eventually(lambda: job.done() == 1, "the record that comes before any encoder is done")
    first = job.encoder("v1")
    job.publish(first)
    eventually(lambda: job.version_in_use() == "v1", "the first encoder is in use")
    assert job.vectors("early") == []

    job.publish(msgspec.structs.replace(first, version="damaged", sha256="0" * 64))
    eventually(lambda: job.version_in_use() == "v1" and "damaged refused" in job.log(), "the second is refused")
    job.publish(job.encoder("v2"))
    eventually(lambda: job.version_in_use() == "v2", "the third encoder is in use")
    (running,) = list_jobs(job.config.flink) or []
    assert running.running


def test_a_vector_is_byte_for_byte_what_the_encoder_makes_of_the_record(job: Job, eventually: Eventually) -> None:
    records = [packed(*item_ids, position=(1, place)) for place, item_ids in enumerate(("a", "ab", "bcd", "axb"))]
    job.send(*((f"same-{place}", record) for place, record in enumerate(records)))
    wanted = Encoder.load(Path(job.encoder("v2-again").path)).encode(records).vectors
    found: list[bytes | None] = []

    def all_there() -> bool:
        found[:] = [value for place in range(len(records)) for value in job.vectors(f"same-{place}")]
        return len(found) == len(records)

    eventually(all_there, "every record has its vector")
    assert [(value or b"").decode().replace("\tv2\t", "\tv2-again\t") for value in found] == wanted


def test_a_user_without_known_items_is_deleted_and_so_is_a_deleted_user(job: Job, eventually: Eventually) -> None:
    job.send(("stranger", packed("unknown")), ("gone", packed("a")), ("gone", None))
    eventually(lambda: job.vectors("stranger") == [None], "the user without known items is deleted")
    eventually(lambda: len(job.vectors("gone")) == 2, "the deletion is passed on")
    assert job.vectors("gone")[1] is None


def test_what_is_no_record_is_passed_over_and_logged(job: Job, eventually: Eventually) -> None:
    job.send(("bad", b"garbage"), ("bad", b"\xff\xfe"), ("bad", b""), ("bad", packed("a")))
    eventually(lambda: job.vectors("bad") != [], "what comes after it is encoded")
    assert [value is not None for value in job.vectors("bad")] == [True]
    assert "records passed over, the first: " in job.log()


def test_two_subtasks_keep_the_order_of_each_user(job: Job, eventually: Eventually) -> None:
    users, each = [f"order-{n}" for n in range(100)], 20
    job.send(*((user, packed("a", "b", position=(0, step))) for step in range(each) for user in users))
    eventually(lambda: all(len(job.vectors(user)) == each for user in users), "every record has its vector")
    for user in users:
        positions = [parse_vector(value).position for value in job.vectors(user) if value is not None]
        assert positions == [(0, step) for step in range(each)]


def python_workers(config: Config) -> list[psutil.Process]:
    taskmanager = recorded(Layout.of(config), "taskmanager")
    family = [] if taskmanager is None else taskmanager.children(recursive=True)
    return [each for each in family if "pyflink.fn_execution.beam.beam_boot" in each.cmdline()]


def is_alive(process: psutil.Process) -> bool:
    # One that nobody has waited for yet is still listed, as a zombie.
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_a_worker_of_python_that_dies_is_replaced_and_nothing_is_lost(job: Job, eventually: Eventually) -> None:
    workers = python_workers(job.config)
    assert len(workers) == 2
    for worker in workers:
        worker.kill()
    job.send(*((f"after-{n}", packed("a")) for n in range(20)))
    eventually(lambda: all(job.vectors(f"after-{n}") for n in range(20)), "the job goes on")


def test_no_worker_of_python_outlives_its_taskmanager(job: Job, eventually: Eventually) -> None:
    workers = python_workers(job.config)
    taskmanager = recorded(Layout.of(job.config), "taskmanager")
    assert workers
    assert taskmanager is not None
    taskmanager.kill()
    eventually(lambda: not any(is_alive(worker) for worker in workers), "the workers have ended")
