"""The first look at `models`, when the broker is away."""

from collections.abc import Iterator
from typing import Any

import pytest

from jobs import encoder_follower
from jobs.encoder_follower import EncoderFollower
from runtime.config import load_config
from runtime.errors import KafkaError


class Reader:
    """Counts how often it was closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_a_first_look_that_failed_is_made_again_from_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    readers = [Reader(), Reader()]
    made = iter(readers)
    looks: list[str] = []

    def assign(consumer: Any, _topics: list[str]) -> list[Any]:
        if consumer is readers[0]:
            raise KafkaError("the broker is away")
        return []

    def read(*_arguments: Any) -> Iterator[Any]:
        looks.append("from the beginning")
        return iter(())

    def drain(*_arguments: Any) -> list[Any]:
        looks.append("what has arrived")
        return []

    monkeypatch.setattr(encoder_follower, "reader", lambda _config: next(made))
    monkeypatch.setattr(encoder_follower, "assign_from_beginning", assign)
    monkeypatch.setattr(encoder_follower, "read_to_end", read)
    monkeypatch.setattr(encoder_follower, "drain", drain)
    follower = EncoderFollower(load_config().kafka)
    with pytest.raises(KafkaError):
        follower.current()
    assert [follower.current(), follower.current()] == [None, None]
    assert looks == ["from the beginning", "what has arrived"]
    assert [each.closed for each in readers] == [1, 0]
