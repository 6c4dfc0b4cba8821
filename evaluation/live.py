"""The live part of the demo: sends events and requests on schedule, as applications would, and collects the answers."""

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from evaluation.protocol import Audience, Plan, asks_before
from runtime.clock import Clock
from runtime.config import KafkaConfig
from runtime.errors import KafkaError
from runtime.kafka.clients import producer
from runtime.kafka.sending import Deliveries, send
from schemas.codec import encode
from schemas.recommendation import Recommendation
from schemas.request import Request
from schemas.topics import CLICKS
from serving.client import RecommendationClient, recommendation_client

K = 10
HOLD_MS = 50
"""A user's own stream rests this long before a request of theirs: far quicker than people click."""

TIMEOUT_MS = 2_000
IDLE_WAIT_MS = 5.0
ANSWER_WITHIN_MS = 60_000
"""An answer that takes longer than any restart of any part is missing."""

Progress = Callable[[int, int, int], None]
"""Called with events sent, requests sent and answers received."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request as it was sent, what was right, and what plain popularity would have answered.

    `user_last_ts` is the time of the user's last event so far, None for one who has none.
    """

    request: Request
    place: int
    sent_ms: float
    target: str
    past_events: int
    popular: tuple[str, ...]
    user_last_ts: int | None


@dataclass(frozen=True, slots=True)
class Answered:
    """A question, its answer and the time between, as the application saw it."""

    question: Question
    answer: Recommendation
    latency_ms: float

    @property
    def fresh(self) -> bool:
        """Whether the answer had seen the user's last event."""
        last_ts = self.question.user_last_ts
        expected = None if last_ts is None else max(0, self.question.request.ts - last_ts)
        return self.answer.feature_age_ms == expected


class LiveRun:
    """One run of the live part.

    Each user's stream is strictly ordered: an event, a rest of 50 ms, a request, its answer, the next event. Streams
    of different users keep to the schedule of the plan and do not wait for each other.
    """

    def __init__(self, config: KafkaConfig, plan: Plan, audience: Audience, clock: Clock, run_id: str) -> None:
        self._plan = plan
        self._audience = audience
        self._clock = clock
        self._run_id = run_id
        self._config = config
        self._queues: dict[str, deque[int]] = defaultdict(deque)
        for place, click in enumerate(plan.live):
            self._queues[click.user_id].append(place)
        self._due: list[tuple[float, int, bool]] = []
        self._last_sent_ms: dict[str, float] = {}
        self._last_ts: dict[str, int] = {click.user_id: click.ts for click in plan.history}
        self._waiting: dict[str, Question] = {}
        self._answered: list[Answered] = []
        self._events_sent = 0

    def run(self, progress: Progress) -> Sequence[Answered]:
        """Send everything, wait for every answer, and return them in the order in which they came.

        Raises `KafkaError` if an answer stays out.
        """
        self._producer, self._deliveries = producer(self._config), Deliveries()
        with recommendation_client(self._config, self._clock) as client:
            self._start_ms = self._clock.monotonic_ms()
            for queue in self._queues.values():
                self._schedule(queue[0], 0.0)
            while self._due or self._waiting:
                self._turn(client)
                progress(self._events_sent, len(self._answered) + len(self._waiting), len(self._answered))
        self._deliveries.confirm(self._producer)
        return self._answered

    def _turn(self, client: RecommendationClient) -> None:
        now_ms = self._clock.monotonic_ms()
        while self._due and self._due[0][0] <= now_ms:
            _, place, is_event = heapq.heappop(self._due)
            if is_event:
                self._send_event(place)
            else:
                client.send(self._ask_before(place))
        next_ms = self._due[0][0] - now_ms if self._due else IDLE_WAIT_MS
        self._receive(client, min(IDLE_WAIT_MS, max(0.0, next_ms)) / 1000)

    def _schedule(self, place: int, earliest_ms: float) -> None:
        """Plan the next step of the stream that the live event at `place` belongs to: its request or itself."""
        due_ms = max(self._start_ms + place * self._plan.spacing_ms, earliest_ms)
        is_event = not asks_before(place)
        if not is_event:
            rested_ms = self._last_sent_ms.get(self._plan.live[place].user_id, 0.0) + HOLD_MS
            due_ms = max(due_ms, rested_ms)
        heapq.heappush(self._due, (due_ms, place, is_event))

    def _send_event(self, place: int) -> None:
        click = msgspec.structs.replace(self._plan.live[place], ts=self._clock.now_ms())
        user_id = click.user_id
        send(self._producer, CLICKS.name, encode(click), user_id, on_delivery=self._deliveries.note)
        self._audience.saw(user_id, click.item_id)
        self._events_sent += 1
        self._last_ts[user_id] = click.ts
        self._last_sent_ms[user_id] = self._clock.monotonic_ms()
        queue = self._queues[user_id]
        queue.popleft()
        if queue:
            self._schedule(queue[0], self._last_sent_ms[user_id])

    def _ask_before(self, place: int) -> Request:
        """Return the request that is sent just before the live event at `place`, and note what is waited for."""
        target, ts = self._plan.live[place], self._clock.now_ms()
        user_id = target.user_id
        request = Request(
            request_id=f"{self._run_id}-{place}",
            ts=ts,
            user_id=user_id,
            k=K,
            timeout_ms=TIMEOUT_MS,
            exclude=self._audience.seen(user_id),
            explain=True,
        )
        self._waiting[request.request_id] = Question(
            request=request,
            place=place,
            sent_ms=self._clock.monotonic_ms(),
            target=target.item_id,
            past_events=self._audience.events(user_id),
            popular=self._audience.most_popular_unseen(user_id, K),
            user_last_ts=self._last_ts.get(user_id),
        )
        return request

    def _receive(self, client: RecommendationClient, wait_s: float) -> None:
        for answer in client.receive(wait_s):
            question = self._waiting.pop(answer.request_id, None)
            if question is not None:
                now_ms = self._clock.monotonic_ms()
                self._answered.append(Answered(question, answer, now_ms - question.sent_ms))
                heapq.heappush(self._due, (now_ms, question.place, True))
        oldest = next(iter(self._waiting.values()), None)
        if oldest is not None and self._clock.monotonic_ms() - oldest.sent_ms > ANSWER_WITHIN_MS:
            raise KafkaError(
                f"no answer to {oldest.request.request_id} within {ANSWER_WITHIN_MS / 1000:.0f} s; see the worker's log"
            )
