"""One of our processes in a thread of the test's, and what it sends to its topics."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

from confluent_kafka import Message

from runtime.clock import SystemClock
from runtime.config import Config
from runtime.kafka.clients import reader
from runtime.kafka.reading import assign_at_end, drain, position_of
from runtime.kafka.sending import send_all
from runtime.lifecycle import StopSignal

CLOCK = SystemClock()


class Tail:
    """What comes to some topics from now on."""

    def __init__(self, config: Config, *topics: str) -> None:
        self._consumer = reader(config.kafka)
        assign_at_end(self._consumer, topics)
        self.messages: dict[str, list[Message]] = defaultdict(list)

    def read(self) -> "Tail":
        for message in drain(self._consumer, 10_000, 0.05):
            self.messages[position_of(message)[0]].append(message)
        return self

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def running(process: Callable[[StopSignal], None]) -> Iterator[None]:
    """Run a process's loop in a thread until the end of the block; its failure is the test's."""
    stop, failures = StopSignal(), list[BaseException]()

    def run() -> None:
        try:
            process(stop)
        except BaseException as error:
            failures.append(error)

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.stop()
        thread.join()
    if failures:
        raise failures[0]


def publish(config: Config, topic: str, *messages: tuple[bytes | str | None, bytes | None]) -> None:
    send_all(config.kafka, ((topic, key, value) for key, value in messages))
