"""Reading: what a partition holds, where to start, and taking what has arrived."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from confluent_kafka import Consumer, Message, TopicPartition

from runtime.errors import KafkaError
from runtime.kafka.asking import ask
from runtime.kafka.topics import partitions_of

_LOG = logging.getLogger("headrace.kafka")

POLL_S = 0.1
"""The client looks for Ctrl-C by itself in longer polls, but loses it when its error callback runs meanwhile."""


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
    return ask(
        lambda timeout_s: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=timeout_s),
        f"no offsets for {topic}[{partition}]",
    )


def drain(consumer: Consumer, max_messages: int, wait_s: float) -> list[Message]:
    """Return up to `max_messages`: wait `wait_s` for the first, then take only what has already arrived.

    `consume(n, timeout)` waits out its timeout in some versions of the client; polling once first does not.
    Messages that carry an error are logged and left out: they are events of the client, not of the topic.
    """
    first = _poll(consumer, wait_s)
    if first is None:
        return []
    messages = [first, *consumer.consume(max_messages - 1, timeout=0)] if max_messages > 1 else [first]
    return [message for message in messages if _usable(message)]


def _poll(consumer: Consumer, wait_s: float) -> Message | None:
    until = time.monotonic() + wait_s
    while (message := consumer.poll(min(wait_s, POLL_S))) is None and (wait_s := until - time.monotonic()) > 0:
        pass
    return message


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
