"""What an application does with the pipeline: produce, ask, and read what is on a topic."""

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from confluent_kafka import Message

from runtime.clock import SystemClock
from runtime.config import KafkaConfig
from runtime.kafka.clients import producer, reader
from runtime.kafka.reading import assign_from_beginning, position_of, read_to_end
from runtime.kafka.sending import Deliveries, send
from schemas.click import Action, Click
from schemas.codec import encode
from schemas.recommendation import Recommendation
from schemas.request import Request
from schemas.topics import CLICKS
from serving.client import RecommendationClient

ANSWER_WITHIN_MS = 60_000

Position = tuple[int, int]
"""Partition and offset."""


class Application:
    """One client of the pipeline. `new` makes ids that no other test has."""

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config
        self._clock = SystemClock()
        self._producer = producer(config)
        self._client = RecommendationClient(config, self._clock)

    def now_ms(self) -> int:
        return self._clock.now_ms()

    @staticmethod
    def new(name: str) -> str:
        return f"{name}-{uuid.uuid4().hex[:8]}"

    def produce(self, topic: str, messages: Sequence[tuple[bytes | str | None, bytes | None]]) -> list[Position]:
        """Send (key, value) pairs and return where the broker put them, in the same order."""
        deliveries = Deliveries()
        positions: dict[int, Position] = {}

        def note(place: int, error: Any, message: Message) -> None:
            deliveries.note(error, message)
            _, *position = position_of(message)
            positions[place] = (position[0], position[1])

        for place, (key, value) in enumerate(messages):
            send(self._producer, topic, value, key, on_delivery=partial(note, place))
        deliveries.confirm(self._producer)
        return [positions[place] for place in range(len(messages))]

    def click(self, user_id: str, *item_ids: str, action: Action = "click") -> None:
        """Let this user come to these items, in this order."""
        clicks = [
            Click(event_id=self.new("e"), ts=self.now_ms(), user_id=user_id, item_id=item_id, action=action)
            for item_id in item_ids
        ]
        self.produce(CLICKS.name, [(user_id, encode(click)) for click in clicks])

    def ask(self, user_id: str, **rest: Any) -> Recommendation:
        """Send a valid request and return its answer."""
        fields = {"k": 10, "timeout_ms": 10_000} | rest
        request = Request(request_id=self.new("r"), ts=self.now_ms(), user_id=user_id, **fields)
        answer = self._client.ask(request, ANSWER_WITHIN_MS)
        assert answer is not None, f"no answer to {request}"
        return answer

    def answers(self, request_ids: list[str]) -> dict[str, Recommendation]:
        """Wait for the answers to these requests; fail if one stays out."""
        found: dict[str, Recommendation] = {}
        until_ms = self._clock.monotonic_ms() + ANSWER_WITHIN_MS
        while len(found) < len(request_ids):
            assert self._clock.monotonic_ms() < until_ms, f"no answer to {set(request_ids) - set(found)}"
            answers = self._client.receive(0.1)
            found |= {answer.request_id: answer for answer in answers if answer.request_id in request_ids}
        return found

    def read(self, topic: str, wanted: Callable[[Message], bool] = lambda _message: True) -> list[Message]:
        """Return every message of the topic, from its beginning to its present end, that is `wanted`."""
        consumer = reader(self._config)
        try:
            return [each for each in read_to_end(consumer, assign_from_beginning(consumer, [topic])) if wanted(each)]
        finally:
            consumer.close()
