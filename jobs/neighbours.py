"""The process around the item-item learner: follows the accepted clicks, publishes the lists that change.

It has no offsets and no state on disk: the log is the truth, and a restart learns it again.
"""

import logging
from collections.abc import Iterable

from confluent_kafka import Message, Producer

from features.activity import POSITIVE_ACTIONS
from features.co_occurrence import CoOccurrence
from runtime.clock import Clock
from runtime.config import Config, NeighboursConfig
from runtime.kafka.clients import producer, reader
from runtime.kafka.reading import assign_from_beginning, drain, read_to_end
from runtime.kafka.sending import Deliveries, send
from runtime.kafka.topics import partitions_of
from runtime.lifecycle import StopSignal, say_ready
from schemas.click import Click
from schemas.codec import decode, encode
from schemas.topics import CLICKS_ACCEPTED, NEIGHBOURS

MAX_BATCH = 1_000
IDLE_WAIT_S = 0.05
"""How late a list may be that became due while nothing happened."""

PATIENCE_MS = 50
"""How long clicks may wait for others: a list is of many clicks, and not this one's only."""

_LOG = logging.getLogger("headrace.neighbours")


class PublishingSchedule:
    """Says which changed items are due: at once, but each at most once per interval.

    A change within the interval is not lost: the item is due again at its end.
    """

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._published_ms: dict[str, float] = {}  # within the last interval, longest ago first
        self._waiting: set[str] = set()

    def due(self, changed: Iterable[str], now_ms: float) -> list[str]:
        """Return the items to publish now, those of `changed` among them that were not published lately."""
        due: list[str] = []
        while self._published_ms:
            item_id = next(iter(self._published_ms))
            if now_ms - self._published_ms[item_id] < self._interval_ms:
                break
            del self._published_ms[item_id]
            if item_id in self._waiting:
                self._waiting.remove(item_id)
                due.append(item_id)
        again = set(due)
        for item_id in changed:
            if item_id in self._published_ms:
                self._waiting.add(item_id)
            elif item_id not in again:
                due.append(item_id)
        self._published_ms.update(dict.fromkeys(due, now_ms))
        return due


class _Learner:
    """The learner with its topic at either end."""

    def __init__(self, config: NeighboursConfig, clock: Clock, sink: Producer) -> None:
        self._size = config.size
        self._counts = CoOccurrence(config)
        self._schedule = PublishingSchedule(config.interval_ms)
        self._clock = clock
        self._sink = sink
        self._deliveries = Deliveries()

    def learn(self, message: Message) -> None:
        click = decode(message.value(), Click)
        if click.action in POSITIVE_ACTIONS:
            self._counts.observe(click.user_id, click.item_id, click.ts)

    def publish(self) -> int:
        due = self._schedule.due(self._counts.take_changed(), self._clock.monotonic_ms())
        for item_id in due:
            value = encode(self._counts.neighbours(item_id, self._size))
            send(self._sink, NEIGHBOURS.name, value, item_id, on_delivery=self._deliveries.note)
        self._deliveries.confirm(self._sink)
        return len(due)


def run_neighbours(config: Config, clock: Clock, stop: StopSignal) -> None:
    """Learn and publish until `stop`; nothing is published before the log so far is learned.

    It says that it is ready when it has found its topics and begins to read: the log may take longer than anybody
    waits for a start, and whoever needs the lists has the topic.

    Raises `KafkaError` if a topic is missing or the broker does not take what was sent.
    """
    learner = _Learner(config.neighbours, clock, producer(config.kafka))
    consumer = reader(config.kafka, patience_ms=PATIENCE_MS)
    try:
        partitions_of(consumer, NEIGHBOURS.name)
        spans = assign_from_beginning(consumer, [CLICKS_ACCEPTED.name])
        _LOG.info("learning from %d clicks", sum(span.end - span.start for span in spans))
        say_ready()
        for message in read_to_end(consumer, spans):
            learner.learn(message)
            if stop.stopping:
                return
        _LOG.info("caught up; %d lists published", learner.publish())
        while not stop.stopping:
            for message in drain(consumer, MAX_BATCH, IDLE_WAIT_S):
                learner.learn(message)
            learner.publish()
    finally:
        consumer.close()
