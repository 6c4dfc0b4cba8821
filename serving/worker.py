"""The scoring worker: requests in, answers out; a thin loop around the pipeline.

An answer is acknowledged before the request's offset is committed, so a crash repeats requests but loses none. On
taking over partitions the worker reads back the tail of `recommendations`, so no request gets a second final answer.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing

import msgspec
from confluent_kafka import Consumer, Message, TopicPartition

from runtime.clock import Clock
from runtime.config import Config, KafkaConfig
from runtime.dead_letters import dead_letter, send_dead_letter
from runtime.kafka.clients import commit, group_consumer, producer, reader
from runtime.kafka.reading import assign_from, drain, position_of, read_to_end
from runtime.kafka.sending import Deliveries, send
from runtime.lifecycle import StopSignal, say_ready
from schemas.codec import decode, encode_bounded
from schemas.errors import MessageError, TooLarge
from schemas.recommendation import AnswerError, Recommendation
from schemas.request import Request
from schemas.topics import RECOMMENDATIONS, REQUESTS
from serving.accept import AnsweredRequests, Repeated, Unreadable, accept, error_answer
from serving.followers import TableFollower
from serving.metrics import ServingMetrics
from serving.near_cache_follower import NearCacheFollower
from serving.pipeline import Pipeline
from serving.stages import Stages

_LOG = logging.getLogger("headrace.serving")

GROUP = "scoring-worker"

IDLE_WAIT_S = 0.02
"""How long the loop waits for a request before it looks at the tables again; a request ends the wait at once."""

TAIL_PER_PARTITION = 5_000
"""Answers read back per partition on taking over: far more than one worker can have sent without committing."""


class Worker:
    """Takes micro-batches of requests through the pipeline until it is told to stop."""

    def __init__(
        self,
        config: Config,
        pipeline: Pipeline,
        tables: TableFollower,
        users: NearCacheFollower,
        metrics: ServingMetrics,
        clock: Clock,
    ) -> None:
        self._config = config
        self._pipeline = pipeline
        self._tables = tables
        self._users = users
        self._metrics = metrics
        self._clock = clock
        # What is read back on taking over must not push itself out again.
        tails = TAIL_PER_PARTITION * config.kafka.partitions
        self._answered = AnsweredRequests(max(config.worker.remember_requests, tails))
        self._producer = producer(config.kafka)

    def run(self, stop: StopSignal, instance: str) -> None:
        """Serve until `stop`, then close; `instance` names this worker in its consumer group across restarts."""
        with (
            closing(self._users),
            closing(self._tables),
            closing(group_consumer(self._config.kafka, GROUP, instance)) as consumer,
        ):
            consumer.subscribe([REQUESTS.name], on_assign=self._on_assign)
            while not stop.stopping:
                self._tables.follow()
                # A request never waits for a backlog of updates, but updates are not left waiting for a request.
                wait_s = 0.0 if self._users.follow() else IDLE_WAIT_S
                messages = _still_held(consumer, drain(consumer, self._config.worker.max_batch, wait_s))
                if messages:
                    self._serve(messages)
                    commit(consumer, _behind(messages), asynchronous=True)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._users.assign([each.partition for each in partitions])
        # All partitions, not only the assigned: a request with a foreign key is answered on its user's partition.
        recent = list(recent_request_ids(self._config.kafka))
        self._answered.add(recent)
        _LOG.info("%d partitions assigned, %d recent answers known", len(partitions), len(recent))
        say_ready()

    def _serve(self, messages: Sequence[Message]) -> None:
        stages, deliveries = Stages(self._clock), Deliveries()
        requests: list[Request] = []
        answers: list[tuple[Recommendation, bytes | str | None]] = []
        for message in messages:
            now_ms = self._clock.now_ms()
            outcome = accept(message.value(), self._answered, now_ms, self._config.gate.future_tolerance_ms)
            if isinstance(outcome, Unreadable):
                self._metrics.refused(outcome.error.code)
                letter = dead_letter(message, outcome.error, now_ms)
                send_dead_letter(self._producer, letter, on_delivery=deliveries.note)
                continue
            if isinstance(outcome, Repeated):
                self._metrics.refused("repeated")
                continue
            self._answered.add((outcome.request_id,))
            if isinstance(outcome, Recommendation):
                answers.append((outcome, outcome.user_id or message.key()))
            else:
                requests.append(outcome)
        stages.done("accept", len(requests))
        answers += ((answer, answer.user_id) for answer in self._answer(requests, stages))
        for answer, key in answers:
            send(self._producer, RECOMMENDATIONS.name, encoded(answer), key, on_delivery=deliveries.note)
        deliveries.confirm(self._producer)
        stages.done("publish", len(answers))
        self._metrics.batch((answer for answer, _ in answers), stages)

    def _answer(self, requests: Sequence[Request], stages: Stages) -> Sequence[Recommendation]:
        """Answer a batch; if it fails as a whole, each request alone, so that one cannot take others down with it."""
        if not requests:
            return ()
        try:
            return self._pipeline.answer(requests, stages)
        except Exception as error:
            _LOG.exception("a batch of %d requests failed", len(requests))
            if len(requests) > 1:
                return [answer for request in requests for answer in self._answer([request], stages)]
            (request,) = requests
            message = f"{type(error).__name__} while answering; see the worker's log"
            return [error_answer(request.request_id, request.user_id, "internal_error", message, self._clock.now_ms())]


def encoded(answer: Recommendation) -> bytes:
    """Return `answer` as JSON that readers accept: one that is too large loses its reasons, or else its items."""
    try:
        return encode_bounded(answer)
    except TooLarge:
        bare = tuple(msgspec.structs.replace(item, reasons=()) for item in answer.items)
        degradations = (*answer.degradations, "reasons_left_out")
    try:
        return encode_bounded(msgspec.structs.replace(answer, items=bare, degradations=degradations))
    except TooLarge as error:
        why = AnswerError(code="answer_too_large", message=f"{error}; ask for fewer items")
        return encode_bounded(msgspec.structs.replace(answer, items=(), route_reason="not kept", error=why))


def recent_request_ids(config: KafkaConfig) -> Iterator[str]:
    """Yield the request_ids of the last final answers of every partition, oldest first per partition."""
    tail = reader(config)
    try:
        spans = assign_from(
            tail,
            [RECOMMENDATIONS.name],
            lambda held: held.end - TAIL_PER_PARTITION,
        )
        for message in read_to_end(tail, spans):
            try:
                answer = decode(message.value(), Recommendation)
            except MessageError as error:
                _LOG.warning("%s@%s is no answer: %s", RECOMMENDATIONS.name, message.offset(), error)
                continue
            if answer.final:
                yield answer.request_id
    finally:
        tail.close()


def _still_held(consumer: Consumer, messages: Sequence[Message]) -> Sequence[Message]:
    """Leave out what belongs to a partition that a rebalance took away meanwhile: its new owner answers that."""
    held = {(each.topic, each.partition) for each in consumer.assignment()}
    return [message for message in messages if (message.topic(), message.partition()) in held]


def _behind(messages: Sequence[Message]) -> list[TopicPartition]:
    """Return the offset behind the last of `messages` in each partition."""
    last = {(topic, partition): offset for topic, partition, offset in map(position_of, messages)}
    return [TopicPartition(topic, partition, offset + 1) for (topic, partition), offset in last.items()]
