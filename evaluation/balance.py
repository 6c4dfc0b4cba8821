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


@dataclass(frozen=True, slots=True)
class Balance:
    """What stands in the topics; `duplicates` are final answers beyond the first of their request."""

    answers: int
    duplicates: int
    dead_letters: Mapping[str, int]


class RecordCounter:
    """Counts how many events have their user record, reading on from where it was."""

    def __init__(self, config: KafkaConfig) -> None:
        self._consumer = reader(config)
        assign_from_beginning(self._consumer, [FEATURES_USER.name])
        self._positions: set[tuple[int, int]] = set()

    def wait_for(self, events: int, timeout_s: float, clock: Clock, progress: Callable[[int], None]) -> int:
        """Read until `events` records are there or none came for `timeout_s`; return how many are."""
        last_news_ms = clock.monotonic_ms()
        while len(self._positions) < events and clock.monotonic_ms() - last_news_ms < timeout_s * 1000:
            before = len(self._positions)
            for message in drain(self._consumer, 5_000, 0.2):
                value = message.value()
                if value is not None:
                    self._positions.add(record_position(value))
            if len(self._positions) > before:
                last_news_ms = clock.monotonic_ms()
            progress(len(self._positions))
        return len(self._positions)

    def close(self) -> None:
        """Leave the topic."""
        self._consumer.close()


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
