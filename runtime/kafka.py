"""Kafka clients with this project's settings: murmur2, idempotent, quiet, committed by hand."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka import KafkaError as Code  # its codes; the name is taken by our own error
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from runtime.config import KafkaConfig
from runtime.errors import KafkaError
from schemas.topics import Topic

_LOG = logging.getLogger("headrace.kafka")

REQUEST_TIMEOUT_S = 15.0
"""For metadata and administration: a broker that is up answers in milliseconds, a starting one in seconds."""

MAX_MESSAGE_BYTES = 4 * 1024**2
"""The largest message that any topic of ours takes (`dead-letters`)."""

SESSION_TIMEOUT_MS = 10_000
"""After this long without a heartbeat a worker's partitions go to another."""

_NOT_YET_LED = {Code.NOT_LEADER_FOR_PARTITION, Code.LEADER_NOT_AVAILABLE, Code.UNKNOWN_TOPIC_OR_PART}
"""What a broker says of a partition for a moment after it was created."""

_LEADER_WAIT_S = 0.05


def client_settings(config: KafkaConfig, **settings: Any) -> dict[str, Any]:
    """Common properties, then those of `settings` (underscores stand for dots), then the operator's own."""
    common: dict[str, Any] = {
        "bootstrap.servers": config.bootstrap_servers,
        "logger": _LOG,
        # A refused connection is an error to librdkafka; that a broker is gone shows in the calls' results.
        "error_cb": lambda error: _LOG.info("%s", error),
    }
    return common | {key.replace("_", "."): value for key, value in settings.items()} | dict(config.client)


def producer(config: KafkaConfig, *, linger_ms: float = 0.5, idempotent: bool = True) -> Producer:
    """Return a producer that puts a key on the same partition as Java clients do (murmur2).

    An idempotent one spends half a second on getting its id: do without for a single message.
    """
    settings = client_settings(
        config,
        partitioner="murmur2_random",
        enable_idempotence=idempotent,
        acks="all",
        linger_ms=linger_ms,
        message_max_bytes=MAX_MESSAGE_BYTES,
    )
    return Producer(settings)


def group_consumer(config: KafkaConfig, group: str, instance: str) -> Consumer:
    """Return a consumer of `group` that starts at the beginning and commits only by hand.

    `instance` makes its membership static: a restarted process takes its partitions back at once, without
    waiting for the dead one's session to end.
    """
    return Consumer(
        client_settings(
            config,
            group_id=group,
            group_instance_id=instance,
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            isolation_level="read_committed",
        )
    )


def reader(config: KafkaConfig) -> Consumer:
    """Return a consumer without a group, to be assigned by hand."""
    return Consumer(
        client_settings(
            config,
            group_id="headrace-reader",  # required by the client, never joined or committed to
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            enable_partition_eof=False,
        )
    )


def existing_topics(client: Consumer | Producer | AdminClient) -> dict[str, int]:
    """Return the partition count of every topic that there is; raise `KafkaError` if the broker does not answer."""
    try:
        topics = client.list_topics(timeout=REQUEST_TIMEOUT_S).topics
    except KafkaException as error:
        raise KafkaError(f"Kafka does not answer: {error}; is it up? (headrace status)") from error
    return {name: len(topic.partitions) for name, topic in topics.items()}


def partitions_of(client: Consumer | Producer, topic: str) -> list[int]:
    """Return the partition numbers of `topic`; raise `KafkaError` if it or the broker is not there."""
    partitions = existing_topics(client).get(topic)
    if not partitions:
        raise KafkaError(f"topic {topic} does not exist; create it with `headrace topics --create`")
    return list(range(partitions))


@dataclass(frozen=True, slots=True)
class Span:
    """What one partition held when it was assigned: reading goes from `start` up to, not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int


def assign_from_beginning(consumer: Consumer, topics: Iterable[str]) -> list[Span]:
    """Assign every partition of `topics` from its first message; return what they hold."""
    return assign_from(consumer, topics, lambda held: held.start)


def assign_at_end(consumer: Consumer, topics: Iterable[str]) -> list[Span]:
    """Assign every partition of `topics` from its next message; return what they hold."""
    return assign_from(consumer, topics, lambda held: held.end)


def assign_from(consumer: Consumer, topics: Iterable[str], start: Callable[[Span], int]) -> list[Span]:
    """Assign every partition of `topics` from `start(held)`, given what it holds; return what is to be read.

    Offsets are asked for before anything is assigned: behind a waiting fetch each question takes half a second.
    """
    held = [
        Span(topic, partition, *watermarks(consumer, topic, partition))
        for topic in topics
        for partition in partitions_of(consumer, topic)
    ]
    spans = [replace(each, start=min(max(each.start, start(each)), each.end)) for each in held]
    consumer.assign([TopicPartition(each.topic, each.partition, each.start) for each in spans])
    return spans


def watermarks(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """Return the first offset that is still there, and the one that the next message will get."""
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while True:
        try:
            offsets = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=REQUEST_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() not in _NOT_YET_LED or time.monotonic() > deadline:
                raise KafkaError(f"no offsets for {topic}[{partition}]: {error}; is Kafka up?") from error
            time.sleep(_LEADER_WAIT_S)
        else:
            if offsets is None:
                raise KafkaError(f"no offsets for {topic}[{partition}] within {REQUEST_TIMEOUT_S:.0f} s; is Kafka up?")
            low, high = offsets
            return low, high


def drain(consumer: Consumer, max_messages: int, wait_s: float) -> list[Message]:
    """Return up to `max_messages`: wait `wait_s` for the first, then take only what has already arrived.

    `consume(n, timeout)` waits out its timeout in some versions of the client; polling once first does not.
    Messages that carry an error are logged and left out: they are events of the client, not of the topic.
    """
    first = consumer.poll(wait_s)
    if first is None:
        return []
    messages = [first, *consumer.consume(max_messages - 1, timeout=0)] if max_messages > 1 else [first]
    return [message for message in messages if _usable(message)]


def _usable(message: Message) -> bool:
    error = message.error()
    if error is None:
        return True
    if error.fatal():
        raise KafkaError(f"the Kafka client cannot go on: {error.str()}")
    _LOG.info("%s", error.str())
    return False


def position_of(message: Message) -> tuple[str, int, int]:
    """Return topic, partition and offset of a message that was read, or that the broker acknowledged."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None  # noqa: PT018
    return topic, partition, offset


def read_to_end(consumer: Consumer, spans: Sequence[Span]) -> Iterator[Message]:
    """Yield every message of `spans`, as `assign_from` returned them, then stop."""
    waiting = {(span.topic, span.partition): span.end for span in spans if span.start < span.end}
    while waiting:
        yield from drain(consumer, 1_000, 0.2)
        # A compacted log has gaps: the position, not the last offset seen, says what is read.
        for position in consumer.position([TopicPartition(topic, part) for topic, part in waiting]):
            if position.offset >= waiting[position.topic, position.partition]:
                del waiting[position.topic, position.partition]


def send(producer_: Producer, topic: str, value: bytes | None, key: bytes | str | None, **rest: Any) -> None:
    """Queue one message; when the queue is full, wait for room instead of failing."""
    while True:
        try:
            producer_.produce(topic, value, key, **rest)
        except BufferError:
            producer_.poll(0.05)
        else:
            producer_.poll(0)
            return


class Deliveries:
    """Counts what the broker has acknowledged and keeps the first failure.

    Pass `on_delivery=deliveries.note` to `send`, then call `confirm`.
    """

    def __init__(self) -> None:
        self.acknowledged = 0
        self._failure: str | None = None

    def note(self, error: Any, message: Message) -> None:
        """Note the outcome of one message; called by the client."""
        if error is None:
            self.acknowledged += 1
        elif self._failure is None:
            self._failure = f"{message.topic()}: {error.str()}"

    def confirm(self, producer_: Producer, timeout_s: float = 60.0) -> None:
        """Wait until everything queued is acknowledged; raise `KafkaError` if something was not."""
        left = producer_.flush(timeout_s)
        if self._failure is not None:
            raise KafkaError(f"a message was not accepted by {self._failure}")
        if left:
            raise KafkaError(f"{left} messages not acknowledged within {timeout_s:.0f} s; is Kafka up?")


def create_topics(config: KafkaConfig, topics: Iterable[Topic]) -> list[str]:
    """Create those of `topics` that are missing, with explicit settings; return the names of the new ones.

    Raises `KafkaError` if one exists with another partition count: all per-user topics must agree.
    """
    admin = AdminClient(client_settings(config))
    existing = existing_topics(admin)
    missing = []
    for topic in topics:
        wanted = config.partitions if topic.partitioned else 1
        if topic.name not in existing:
            missing.append(NewTopic(topic.name, wanted, config.replication_factor, config=topic.settings()))
        elif existing[topic.name] != wanted:
            raise KafkaError(
                f"topic {topic.name} has {existing[topic.name]} partitions, the configuration says {wanted}; "
                "set kafka.partitions to what is there, or start with new topics"
            )
    for name, done in admin.create_topics(missing).items() if missing else ():
        try:
            done.result(REQUEST_TIMEOUT_S)
        except KafkaException as error:
            raise KafkaError(f"topic {name} cannot be created: {error}") from error
    return [topic.topic for topic in missing]
