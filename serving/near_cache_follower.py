"""Keeps a near-cache fresh: follows the topics by user, for the partitions whose requests this process answers."""

import logging
from collections.abc import Collection
from contextlib import closing

from confluent_kafka import ConsumerGroupTopicPartitions, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from features.near_cache import HomeOf, NearCache, user_home
from features.topic_writes import write_of
from jobs.materializer import GROUP
from runtime.config import KafkaConfig
from runtime.kafka.asking import ask
from runtime.kafka.clients import client_settings, reader
from runtime.kafka.reading import drain, position_of, watermarks
from runtime.kafka.topics import partitions_of
from schemas.errors import MessageError
from schemas.topics import FEATURES_USER, USERS

_LOG = logging.getLogger("headrace.serving")

FOLLOWED = (FEATURES_USER.name, USERS.name)

MAX_PER_POLL = 500
PATIENCE_MS = 5
"""How long records may wait for others: about what the way by Redis takes."""

"""Messages applied between two batches: about two milliseconds."""

MAX_BEHIND = 20_000
"""Offsets of a partition that a follower goes back by: the records of three partitions fill 64 MB. What lies before
that is read from the store, which has it as soon as the materializer has caught up."""

_Partition = tuple[str, int]
"""Topic and number."""


def home_on(config: KafkaConfig) -> HomeOf:
    """Return where keys are at home among the partitions that `features.user` has, whatever the configuration says.

    Raises `KafkaError` if the topic or the broker is not there.
    """
    return user_home(len(partitions_of(AdminClient(client_settings(config)), FEATURES_USER.name)))


class NearCacheFollower:
    """Follows `features.user` and `users` and hands what they say to the cache.

    The worker calls `assign` with all partitions of `recommend.requests` that it holds, each time that it is given
    some (after a revocation nothing is needed: until then their keys stay fresh), and `follow` between its batches.
    """

    def __init__(self, config: KafkaConfig, cache: NearCache) -> None:
        self._config = config
        self._cache = cache
        self._consumer = reader(config, patience_ms=PATIENCE_MS)
        self._assigned: set[_Partition] = set()

    def assign(self, partitions: Collection[int]) -> None:
        """Follow these partitions and no others.

        A new one is followed from where the materializer stands: what is before that, Redis has. Nothing is read here,
        for this is called while the group waits: `follow` catches up between the batches, and until then an answer may
        rest on what was so at the materializer's last commit. Raises `KafkaError` if the broker does not answer.
        """
        wanted = {(topic, partition) for topic in FOLLOWED for partition in partitions}
        gone, new = self._assigned - wanted, wanted - self._assigned
        starts = _starts(self._config, new)
        if gone:
            self._consumer.incremental_unassign([TopicPartition(*each) for each in gone])
        if starts:
            self._consumer.incremental_assign([TopicPartition(*each, offset) for each, offset in starts.items()])
        self._assigned = wanted
        self._cache.keep(partitions)

    def follow(self) -> bool:
        """Take in some of what has arrived since, without waiting; return whether there may be more."""
        messages = drain(self._consumer, MAX_PER_POLL, 0.0)
        for message in messages:
            self._take(message)
        return len(messages) == MAX_PER_POLL

    def close(self) -> None:
        """Leave the topics."""
        self._consumer.close()

    def _take(self, message: Message) -> None:
        topic, partition, offset = position_of(message)
        try:
            write = write_of(topic, message.key(), message.value(), partition, offset)
        except MessageError as error:
            # The materializer makes a dead letter of it, and what the store holds stays: so it does here.
            _LOG.warning("%s[%d]@%d skipped: %s", topic, partition, offset, error)
            return
        self._cache.take((write,), partition)


def _starts(config: KafkaConfig, partitions: Collection[_Partition]) -> dict[_Partition, int]:
    """Return the materializer's next offset in each partition, or one `MAX_BEHIND` before the end if it is further."""
    if not partitions:
        return {}
    committed = _committed(config, partitions)
    # A consumer of its own: behind the waiting fetch of one that follows, each question takes half a second.
    with closing(reader(config)) as asking:
        held = {each: watermarks(asking, *each) for each in partitions}
    return {each: min(max(start, end - MAX_BEHIND, committed[each]), end) for each, (start, end) in held.items()}


def _committed(config: KafkaConfig, partitions: Collection[_Partition]) -> dict[_Partition, int]:
    """Return the materializer's next offset in each partition; a negative one where it has committed none."""
    admin = AdminClient(client_settings(config))
    asked = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(*each) for each in partitions])

    def question(timeout_s: float) -> dict[_Partition, int]:
        (done,) = admin.list_consumer_group_offsets([asked], request_timeout=timeout_s).values()
        return {(each.topic, each.partition): each.offset for each in done.result().topic_partitions}

    return ask(question, f"no committed offsets of the group {GROUP}")
