"""The other end of the request path: what an application does to ask and to be answered."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.clock import Clock
from runtime.config import KafkaConfig
from runtime.kafka.clients import producer, reader
from runtime.kafka.reading import assign_at_end, drain
from runtime.kafka.sending import Deliveries, send
from schemas.codec import decode, encode
from schemas.errors import MessageError
from schemas.recommendation import Recommendation
from schemas.request import Request
from schemas.topics import RECOMMENDATIONS, REQUESTS

_LOG = logging.getLogger("headrace.client")

ASK_SLICE_MS = 50.0
"""How long one wait for an answer takes before it is looked whether the request was refused."""


class RecommendationClient:
    """Sends requests and receives every answer that comes from now on, also those to others.

    It reads all partitions from their ends, which are known before the first request is sent, so no answer is missed.
    """

    def __init__(self, config: KafkaConfig, clock: Clock, *, idempotent: bool = True) -> None:
        self._clock = clock
        self._deliveries = Deliveries()
        self._producer = producer(config, idempotent=idempotent)
        self._replies = reader(config)
        assign_at_end(self._replies, [RECOMMENDATIONS.name])

    def send(self, request: Request) -> None:
        """Queue one request."""
        send(self._producer, REQUESTS.name, encode(request), request.user_id, on_delivery=self._deliveries.note)

    def receive(self, wait_s: float) -> list[Recommendation]:
        """Return the answers that have come, after waiting up to `wait_s` for the first; what is none is left out."""
        answers = []
        for message in drain(self._replies, 500, wait_s):
            try:
                answers.append(decode(message.value(), Recommendation))
            except MessageError as error:
                _LOG.warning("no answer at %s@%s: %s", RECOMMENDATIONS.name, message.offset(), error)
        return answers

    def ask(self, request: Request, patience_ms: float) -> Recommendation | None:
        """Send one request and return its final answer, or None if it does not come within `patience_ms`.

        Raises `KafkaError` if the broker refuses the request.
        """
        self.send(request)
        until_ms = self._clock.monotonic_ms() + patience_ms
        while (left_ms := until_ms - self._clock.monotonic_ms()) > 0:
            for answer in self.receive(min(left_ms, ASK_SLICE_MS) / 1000):
                if answer.request_id == request.request_id and answer.final:
                    return answer
            self._producer.poll(0)
            self._deliveries.check()
        return None

    def close(self) -> None:
        """Wait for what is queued and leave; raise `KafkaError` if a request was not accepted."""
        self._replies.close()
        self._deliveries.confirm(self._producer)

    def abandon(self) -> None:
        """Leave at once, with whatever is still queued."""
        self._replies.close()
        self._producer.purge()


@contextmanager
def recommendation_client(
    config: KafkaConfig, clock: Clock, *, idempotent: bool = True
) -> Iterator[RecommendationClient]:
    """Return a client for the duration of a `with` block."""
    client = RecommendationClient(config, clock, idempotent=idempotent)
    try:
        yield client
    except BaseException:
        client.abandon()
        raise
    client.close()
