"""The gate: a valid click goes to `clicks.accepted`, keyed by its user; anything else becomes a dead letter.

It holds the only truth about validity, so no job behind it has to defend itself.
"""

import logging
from collections import Counter
from typing import Any

import msgspec
from confluent_kafka import Consumer, Message, TopicPartition

from jobs.gate_progress import OUTPUTS, GateProgress, with_source
from jobs.recent_events import RecentEvents
from runtime.clock import Clock
from runtime.config import Config
from runtime.dead_letters import dead_letter, send_dead_letter
from runtime.kafka.clients import group_consumer, producer
from runtime.kafka.reading import drain, position_of
from runtime.kafka.sending import Deliveries, send
from runtime.kafka.topics import partitions_of
from runtime.lifecycle import StopSignal, say_ready
from schemas.click import Click
from schemas.codec import check_not_in_future, decode, encode_bounded
from schemas.dead_letter import DeadLetter
from schemas.errors import DuplicateEvent, MessageError
from schemas.topics import CLICKS, CLICKS_ACCEPTED

GROUP = "gate"
MAX_BATCH = 10_000
"""Clicks per turn at most: enough to keep the producer busy, and a few megabytes."""

IDLE_WAIT_S = 0.1
PATIENCE_MS = 3
"""Every batch wakes each job behind the gate: clicks that are taken together spare the broker most of its requests."""

COMMIT_INTERVAL_MS = 100
"""Between two times of waiting for the broker, which else works on what was sent while the next batch is judged. What
lies between two commits is read back after a crash."""

_LOG = logging.getLogger("headrace.gate")


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """A valid click as it goes to `clicks.accepted`: `value` is its JSON without what the schema does not know."""

    user_id: str
    event_id: str
    value: bytes


def judge(message: Message, now_ms: int, future_tolerance_ms: int) -> Accepted | DeadLetter:
    """Return the click that `message` holds, or the dead letter that says why there is none."""
    try:
        click = decode(message.value(), Click)
        check_not_in_future(click.ts, now_ms, future_tolerance_ms)
        return Accepted(click.user_id, click.event_id, encode_bounded(click))
    except MessageError as error:
        return dead_letter(message, error, now_ms)


class _Gate(Deliveries):
    """One turn after the other: judge a batch and send it; from time to time wait for the broker and commit."""

    def __init__(self, config: Config, clock: Clock) -> None:
        super().__init__()
        self.outcomes: Counter[str] = Counter()
        self._tolerance_ms = config.gate.future_tolerance_ms
        self._clock = clock
        self._producer = producer(config.kafka)
        self._recent = RecentEvents(config.gate.dedup_window_events)
        self._progress = GateProgress(config, self._recent)
        self._sent: dict[int, int] = {}
        """The last offset of each partition whose outcome is sent, since the last commit."""
        self._committed_at_ms = clock.monotonic_ms()

    def note(self, error: Any, message: Message) -> None:
        if error is None:
            self._progress.acknowledged(message)
        else:
            super().note(error, message)

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._progress.take_over(consumer, partitions)
        say_ready()

    def on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._settle(consumer, asynchronous=False)
        self._progress.give_up(partitions)

    def on_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        _LOG.warning("partitions %s are another gate's by now", [each.partition for each in partitions])
        self._sent.clear()
        self._progress.give_up(partitions)

    def turn(self, consumer: Consumer) -> None:
        messages = drain(consumer, MAX_BATCH, IDLE_WAIT_S)
        now_ms = self._clock.now_ms()
        for message in messages:
            _, partition, offset = position_of(message)
            if not self._progress.has(partition):
                continue  # taken away while this batch was collected
            if not self._progress.is_done(partition, offset):
                self._write(self._outcome(message, partition, now_ms), partition, offset)
            self._sent[partition] = offset
        if self._clock.monotonic_ms() - self._committed_at_ms >= COMMIT_INTERVAL_MS:
            self._settle(consumer, asynchronous=True)

    def _settle(self, consumer: Consumer, *, asynchronous: bool) -> None:
        """Wait until the broker has all that was sent, then commit its sources."""
        self.confirm(self._producer)
        for partition, offset in self._sent.items():
            self._progress.passed(partition, offset)
        self._sent.clear()
        self._progress.commit(consumer, asynchronous=asynchronous)
        self._committed_at_ms = self._clock.monotonic_ms()

    def _outcome(self, message: Message, partition: int, now_ms: int) -> Accepted | DeadLetter:
        outcome = judge(message, now_ms, self._tolerance_ms)
        if isinstance(outcome, Accepted):
            try:
                self._recent.add(partition, outcome.event_id)
            except DuplicateEvent as error:
                return dead_letter(message, error, now_ms)
        return outcome

    def _write(self, outcome: Accepted | DeadLetter, partition: int, offset: int) -> None:
        if isinstance(outcome, Accepted):
            self.outcomes["accepted"] += 1
            value = with_source(outcome.value, partition, offset)
            send(self._producer, CLICKS_ACCEPTED.name, value, outcome.user_id, on_delivery=self.note)
        else:
            self.outcomes[outcome.code] += 1
            send_dead_letter(self._producer, outcome, on_delivery=self.note)


def run_gate(config: Config, clock: Clock, stop: StopSignal, instance: str = "gate") -> None:
    """Judge clicks until `stop`; `instance` names this process among several gates.

    Raises `KafkaError` if a topic is missing or the broker does not take what was sent.
    """
    gate = _Gate(config, clock)
    consumer = group_consumer(config.kafka, GROUP, instance, patience_ms=PATIENCE_MS)
    try:
        for topic in (CLICKS.name, *OUTPUTS):
            partitions_of(consumer, topic)
        consumer.subscribe([CLICKS.name], on_assign=gate.on_assign, on_revoke=gate.on_revoke, on_lost=gate.on_lost)
        while not stop.stopping:
            gate.turn(consumer)
    finally:
        consumer.close()
        _LOG.info("outcomes: %s", dict(gate.outcomes))
