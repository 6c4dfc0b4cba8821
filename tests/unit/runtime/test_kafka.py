import logging
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from runtime.kafka.clients import commit


class OneMember:
    """A consumer that has partition 0 of `t`, and notes what it is asked to commit."""

    def __init__(self, failure: KafkaError | None = None) -> None:
        self._failure = failure
        self.committed: list[tuple[int, int]] = []

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("t", 0)]

    def commit(self, offsets: list[TopicPartition], **_rest: Any) -> list[TopicPartition]:
        if self._failure is not None:
            raise KafkaException(self._failure)
        self.committed += [(each.partition, each.offset) for each in offsets]
        return offsets


@pytest.mark.parametrize("asynchronous", [True, False])
def test_only_what_the_consumer_still_has_is_committed(asynchronous: bool) -> None:
    consumer = OneMember()
    commit(consumer, [TopicPartition("t", 0, 5), TopicPartition("t", 1, 7)], asynchronous=asynchronous)  # type: ignore[arg-type]
    commit(consumer, [TopicPartition("t", 1, 8)], asynchronous=asynchronous)  # type: ignore[arg-type]
    assert consumer.committed == [(0, 5)]


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_commit_that_comes_too_late_is_logged_and_stops_nothing(
    asynchronous: bool, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = OneMember(KafkaError(KafkaError.ILLEGAL_GENERATION))
    with caplog.at_level(logging.WARNING, "headrace.kafka"):
        commit(consumer, [TopicPartition("t", 0, 5)], asynchronous=asynchronous)  # type: ignore[arg-type]
    assert "t[0]: offset 5 is not committed" in caplog.text
