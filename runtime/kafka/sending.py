"""Sending: queueing with back-pressure, and knowing that the broker has it."""

import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaException, Message, Producer

from runtime.config import KafkaConfig
from runtime.errors import KafkaError
from runtime.kafka.clients import MAX_MESSAGE_BYTES, producer

FLUSH_S = 0.1


def send(producer_: Producer, topic: str, value: bytes | None, key: bytes | str | None, **rest: Any) -> None:
    """Queue one message; when the queue is full, wait for room instead of failing.

    What became of it is told when `Deliveries.confirm` waits for it, or when the queue is full: looking after each
    message costs as much as sending it.

    Raises `KafkaError` for one that the client refuses, above all one of more than `MAX_MESSAGE_BYTES`.
    """
    while True:
        try:
            producer_.produce(topic, value, key, **rest)
        except BufferError:
            producer_.poll(0.05)
        except KafkaException as error:
            raise KafkaError(
                f"a message of {len(value or b''):,} bytes cannot go to {topic}: {error.args[0].str()}; "
                f"at most {MAX_MESSAGE_BYTES:,} bytes with its key can, send less in one"
            ) from error
        else:
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

    def check(self) -> None:
        """Raise `KafkaError` if a message was refused; never waits."""
        if self._failure is not None:
            raise KafkaError(f"a message was not accepted by {self._failure}")

    def confirm(self, producer_: Producer, timeout_s: float = 60.0) -> None:
        """Wait until everything queued is acknowledged; raise `KafkaError` if something was not."""
        deadline = time.monotonic() + timeout_s
        # In slices: a longer call does not see Ctrl-C.
        while (left := producer_.flush(FLUSH_S)) and time.monotonic() < deadline:
            self.check()
        self.check()
        if left:
            raise KafkaError(f"{left} messages not acknowledged within {timeout_s:.0f} s; is Kafka up?")


def send_all(
    config: KafkaConfig, messages: Iterable[tuple[str, bytes | str | None, bytes | None]], *, linger_ms: float = 0.5
) -> None:
    """Send every (topic, key, value) and return once the broker has all of them; raises `KafkaError` as `send` does."""
    client, deliveries = producer(config, linger_ms=linger_ms), Deliveries()
    for topic, key, value in messages:
        send(client, topic, value, key, on_delivery=deliveries.note)
    deliveries.confirm(client)
