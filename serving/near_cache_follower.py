"""Keeps a near-cache fresh: follows the topics by user, for the partitions whose requests this process answers."""

import logging
from collections.abc import Collection, Iterable

from confluent_kafka import ConsumerGroupTopicPartitions, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from features.near_cache import NearCache
from features.topic_writes import write_of
from jobs.materializer import GROUP
from runtime.config import KafkaConfig
from runtime.kafka.asking import ask
from runtime.kafka.clients import client_settings, reader
from runtime.kafka.reading import Span, drain, position_of, read_to_end, watermarks
from schemas.errors import MessageError
from schemas.topics import EMBEDDINGS_USER, FEATURES_USER, USERS

_LOG = logging.getLogger("headrace.serving")

FOLLOWED = (FEATURES_USER.name, EMBEDDINGS_USER.name, USERS.name)

MAX_PER_POLL = 500
"""Messages applied between two batches: about two milliseconds."""


class NearCacheFollower:
    """Follows `features.user`, `embeddings.user` and `users` and hands what they say to the cache.

    The worker calls `assign` with all partitions of `recommend.requests` that it holds, each time that it is given
    some (after a revocation nothing is needed: until then their keys stay fresh), and `follow` between its batches.
    """

    def __init__(self, config: KafkaConfig, cache: NearCache) -> None:
        self._config = config
        self._cache = cache
        self._consumer = reader(config)
        self._assigned: set[tuple[str, int]] = set()

    def assign(self, partitions: Collection[int]) -> None:
        """Follow these partitions and no others, and come back when what was on them is taken in.

        A new one is followed from where the materializer stands: what is before that, Redis has. Raises `KafkaError`
        if the broker does not answer.
        """
        wanted = {(topic, partition) for topic in FOLLOWED for partition in partitions}
        gone, new = self._assigned - wanted, wanted - self._assigned
        spans = self._spans(sorted(new))
        if gone:
            self._consumer.incremental_unassign([TopicPartition(*each) for each in gone])
        if spans:
            self._consumer.incremental_assign(
                [TopicPartition(each.topic, each.partition, each.start) for each in spans]
            )
        self._assigned = wanted
        self._cache.keep(partitions)
        for message in read_to_end(self._consumer, spans):
            self._take(message)

    def follow(self) -> bool:
        """Take in some of what has arrived since, without waiting; return whether there may be more."""
        messages = drain(self._consumer, MAX_PER_POLL, 0.0)
        for message in messages:
            self._take(message)
        return len(messages) == MAX_PER_POLL

    def close(self) -> None:
        """Leave the topics."""
        self._consumer.close()

    def _spans(self, wanted: Collection[tuple[str, int]]) -> list[Span]:
        """Return what is to be read of each topic and partition to come from what Redis holds to now."""
        if not wanted:
            return []
        committed = _committed(self._config, [TopicPartition(*each) for each in wanted])
        spans = []
        for topic, partition in wanted:
            start, end = watermarks(self._consumer, topic, partition)
            spans.append(Span(topic, partition, min(max(start, committed[topic, partition]), end), end))
        return spans

    def _take(self, message: Message) -> None:
        topic, partition, offset = position_of(message)
        try:
            write = write_of(topic, message.key(), message.value(), partition, offset)
        except MessageError as error:
            # The materializer makes a dead letter of it, and what the store holds stays: so it does here.
            _LOG.warning("%s[%d]@%d skipped: %s", topic, partition, offset, error)
            return
        self._cache.take((write,), partition)


def _committed(config: KafkaConfig, partitions: Iterable[TopicPartition]) -> dict[tuple[str, int], int]:
    """Return the materializer's next offset in each partition; a negative one where it has committed none."""
    admin = AdminClient(client_settings(config))
    asked = ConsumerGroupTopicPartitions(GROUP, list(partitions))

    def question(timeout_s: float) -> list[TopicPartition]:
        (done,) = admin.list_consumer_group_offsets([asked], request_timeout=timeout_s).values()
        found: list[TopicPartition] = done.result().topic_partitions
        return found

    found = ask(question, f"no committed offsets of the group {GROUP}")
    return {(each.topic, each.partition): each.offset for each in found}
