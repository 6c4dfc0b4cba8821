import logging
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

import runtime.errors
from runtime.config import load_config
from runtime.kafka.asking import SLICE_S, ask
from runtime.kafka.clients import MAX_MESSAGE_BYTES, commit, producer
from runtime.kafka.reading import POLL_S, drain
from runtime.kafka.sending import send
from runtime.kafka.topics import partitions_of


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


class Broker:
    """Answers a question once it has failed with each of `failures`; None stands for no answer in time."""

    def __init__(self, *failures: int | None) -> None:
        self._failures = list(failures)
        self.slices: list[float] = []

    def answer(self, timeout_s: float) -> str | None:
        self.slices.append(timeout_s)
        if not self._failures:
            return "answer"
        failure = self._failures.pop(0)
        if failure is None:
            return None
        raise KafkaException(KafkaError(failure))


def test_a_question_is_asked_again_in_slices_until_what_passes_has_passed() -> None:
    broker = Broker(KafkaError._TRANSPORT, KafkaError._UNKNOWN_PARTITION, None, KafkaError.LEADER_NOT_AVAILABLE)
    assert ask(broker.answer, "no answer") == "answer"
    assert len(broker.slices) == 5
    assert max(broker.slices) <= SLICE_S


def test_what_does_not_pass_by_itself_is_an_error_at_once() -> None:
    broker = Broker(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(runtime.errors.KafkaError, match=r"^no offsets of t: .*authorization failed.*; is Kafka up\?"):
        ask(broker.answer, "no offsets of t")
    assert len(broker.slices) == 1


@pytest.mark.parametrize("failure", [KafkaError._TRANSPORT, None])
def test_a_broker_that_stays_away_is_given_up(failure: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.kafka.asking.REQUEST_TIMEOUT_S", 0.0)
    with pytest.raises(runtime.errors.KafkaError, match="Kafka does not answer: "):
        ask(Broker(*[failure] * 100).answer, "Kafka does not answer")


@pytest.fixture
def sink() -> Producer:
    """A producer whose broker is the client library's own simulation."""
    config = load_config(overrides={"kafka": {"client": {"test.mock.num.brokers": 1}}})
    return producer(config.kafka, idempotent=False)


def test_a_message_that_is_too_large_is_refused_with_its_size_and_topic(sink: Producer) -> None:
    with pytest.raises(runtime.errors.KafkaError, match=r"5,000,000 bytes cannot go to clicks: .*at most 4,194,304"):
        send(sink, "clicks", b"x" * 5_000_000, "u")
    assert MAX_MESSAGE_BYTES == 4_194_304


@pytest.mark.parametrize(
    ("topic", "remedy"),
    [("clicks", "create it with `headrace topics --create`"), ("nonsense", "there are clicks, clicks.accepted, items")],
)
def test_a_topic_that_is_not_there_is_named_with_what_helps(topic: str, remedy: str) -> None:
    class NoTopics:
        def list_topics(self, timeout: float) -> Any:
            return SimpleNamespace(topics={})

    with pytest.raises(runtime.errors.KafkaError, match=f"topic {topic} does not exist; {remedy}"):
        partitions_of(NoTopics(), topic)  # type: ignore[arg-type]


def test_a_long_wait_for_messages_is_made_of_short_polls() -> None:
    waits: list[float] = []

    class Quiet:
        def poll(self, timeout: float) -> Any:
            waits.append(timeout)

    assert drain(Quiet(), 10, 0.25) == []  # type: ignore[arg-type]
    assert len(waits) > 1
    assert max(waits) <= POLL_S
