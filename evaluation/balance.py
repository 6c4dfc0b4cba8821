"""The books of a run, read from the topics themselves: nothing lost, nothing twice."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from confluent_kafka import Message

from features.user_record import record_position
from runtime.clock import Clock
from runtime.config import KafkaConfig
from runtime.dead_letters import read_dead_letter
from runtime.kafka.clients import reader
from runtime.kafka.reading import assign_from_beginning, drain, read_to_end
from schemas.codec import decode
from schemas.recommendation import Recommendation
from schemas.topics import DEAD_LETTERS, FEATURES_USER, RECOMMENDATIONS

RECORDS_SILENT_MS = 30_000
"""No record for this long means that no more will come: a restarted TaskManager is back within half of it."""


@dataclass(frozen=True, slots=True)
class Balance:
    """What stands in the topics; `duplicates` are final answers beyond the first of their request."""

    answers: int
    duplicates: int
    dead_letters: Mapping[str, int]


def wait_for_records(config: KafkaConfig, events: int, clock: Clock, progress: Callable[[int], None]) -> int:
    """Read `features.user` until `events` events have their record, or no more come; return how many have."""
    consumer = reader(config)
    positions: set[tuple[int, int]] = set()
    try:
        assign_from_beginning(consumer, [FEATURES_USER.name])
        last_news_ms = clock.monotonic_ms()
        while len(positions) < events and clock.monotonic_ms() - last_news_ms < RECORDS_SILENT_MS:
            before = len(positions)
            values = (message.value() for message in drain(consumer, 5_000, 0.2))
            positions.update(record_position(value) for value in values if value is not None)
            if len(positions) > before:
                last_news_ms = clock.monotonic_ms()
            progress(len(positions))
    finally:
        consumer.close()
    return len(positions)


def take_balance(config: KafkaConfig) -> Balance:
    """Count everything that the topics hold now."""
    finals: Counter[str] = Counter()
    for message in _messages(config, RECOMMENDATIONS.name):
        answer = decode(message.value(), Recommendation)
        finals[answer.request_id] += answer.final
    return Balance(
        answers=len(finals),
        duplicates=finals.total() - len(finals),
        dead_letters=Counter(read_dead_letter(message).code for message in _messages(config, DEAD_LETTERS.name)),
    )


def _messages(config: KafkaConfig, topic: str) -> Iterator[Message]:
    consumer = reader(config)
    try:
        yield from read_to_end(consumer, assign_from_beginning(consumer, [topic]))
    finally:
        consumer.close()
