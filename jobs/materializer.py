"""The materializer: what the compacted topics say, Redis holds.

It takes whatever has arrived and writes it in one round trip; there is no delay to fill a batch.
"""

import logging
from collections.abc import Iterable

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from features.store import FeatureStore, Write
from features.topic_writes import STORED_TOPICS, write_of
from runtime.clock import Clock
from runtime.config import Config
from runtime.dead_letters import dead_letter, send_dead_letter
from runtime.errors import StoreUnavailable
from runtime.kafka.clients import commit, group_consumer, producer
from runtime.kafka.reading import drain, position_of
from runtime.kafka.sending import Deliveries
from runtime.kafka.topics import partitions_of
from runtime.lifecycle import StopSignal, say_ready
from schemas.dead_letter import DeadLetter
from schemas.errors import MessageError
from schemas.topics import DEAD_LETTERS

GROUP = "materializer"
MAX_BATCH = 2_000
"""Messages per turn at most: a few megabytes in one pipeline."""

IDLE_WAIT_S = 0.1
RETRY_WAIT_S = 0.25
COMMIT_INTERVAL_MS = 100
"""What lies between two commits is written again after a crash, which the store's guard makes harmless."""

_LOG = logging.getLogger("headrace.materializer")


def judge(message: Message, now_ms: int) -> Write | DeadLetter:
    """Return the write that `message` asks for, or the dead letter that says why it asks for none."""
    topic, partition, offset = position_of(message)
    try:
        return write_of(topic, message.key(), message.value(), partition, offset)
    except MessageError as error:
        return dead_letter(message, error, now_ms)


def latest(writes: Iterable[Write]) -> list[Write]:
    """Return only the write of each key that takes effect last, so that a hot key costs one write a batch."""
    kept: dict[str, Write] = {}
    for write in writes:
        held = kept.get(write.key)
        if held is None or write.supersedes(held):
            kept[write.key] = write
    return list(kept.values())


class _Materializer:
    """One turn after the other: write a batch, whatever time that takes, then move the offsets."""

    def __init__(self, store: FeatureStore, clock: Clock, stop: StopSignal, letters: Producer) -> None:
        self._store = store
        self._clock = clock
        self._stop = stop
        self._letters = letters
        self._deliveries = Deliveries()
        self._uncommitted: dict[tuple[str, int], int] = {}
        self._committed_at_ms = clock.monotonic_ms()
        self._store_is_away = False

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.assign(partitions)
        if self._store_is_away:
            consumer.pause(partitions)
        say_ready()

    def on_revoke(self, consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        commit(consumer, self._take_offsets(), asynchronous=False)

    def on_lost(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        _LOG.warning("the partitions are another's by now")
        self._uncommitted.clear()

    def turn(self, consumer: Consumer) -> None:
        messages = drain(consumer, MAX_BATCH, IDLE_WAIT_S)
        now_ms = self._clock.now_ms()
        outcomes = [judge(message, now_ms) for message in messages]
        writes = latest(outcome for outcome in outcomes if isinstance(outcome, Write))
        if not self._written(consumer, writes):
            return
        for outcome in outcomes:
            if isinstance(outcome, DeadLetter):
                _LOG.warning("%s[%d]@%d refused: %s", *_source(outcome), outcome.detail)
                send_dead_letter(self._letters, outcome, on_delivery=self._deliveries.note)
        self._deliveries.confirm(self._letters)
        for message in messages:
            topic, partition, offset = position_of(message)
            self._uncommitted[topic, partition] = offset + 1
        if self._uncommitted and self._clock.monotonic_ms() - self._committed_at_ms >= COMMIT_INTERVAL_MS:
            commit(consumer, self._take_offsets(), asynchronous=True)
            self._committed_at_ms = self._clock.monotonic_ms()

    def _written(self, consumer: Consumer, writes: list[Write]) -> bool:
        """Write until it succeeds; return False if told to stop before that."""
        while not self._stop.stopping:
            try:
                self._store.put_many(writes)
            except StoreUnavailable as error:
                if not self._store_is_away:
                    _LOG.warning("waiting: %s", error)
                    self._store_is_away = True
                    consumer.pause(consumer.assignment())
                # Nothing comes from paused partitions, but without a poll the group would take them away.
                drain(consumer, 1, RETRY_WAIT_S)
            else:
                if self._store_is_away:
                    _LOG.info("the store is back")
                    self._store_is_away = False
                    consumer.resume(consumer.assignment())
                return True
        return False

    def _take_offsets(self) -> list[TopicPartition]:
        offsets = [TopicPartition(topic, part, next_) for (topic, part), next_ in self._uncommitted.items()]
        self._uncommitted.clear()
        return offsets


def _source(letter: DeadLetter) -> tuple[str, int, int]:
    return letter.source_topic, letter.source_partition, letter.source_offset


def run_materializer(
    config: Config, store: FeatureStore, clock: Clock, stop: StopSignal, instance: str = "materializer"
) -> None:
    """Write to `store` until `stop`, waiting for it whenever it is away.

    Raises `KafkaError` if a topic is missing or the broker does not take a dead letter.
    """
    job = _Materializer(store, clock, stop, producer(config.kafka))
    consumer = group_consumer(config.kafka, GROUP, instance)
    try:
        for topic in (*STORED_TOPICS, DEAD_LETTERS.name):
            partitions_of(consumer, topic)
        consumer.subscribe(list(STORED_TOPICS), on_assign=job.on_assign, on_revoke=job.on_revoke, on_lost=job.on_lost)
        while not stop.stopping:
            job.turn(consumer)
    finally:
        consumer.close()
