"""Care of the store beside the running materializer: writing it anew from the topics, and holding it against them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from features.store import FeatureStore, Write
from features.topic_writes import STORED_TOPICS, write_of
from jobs.materializer import MAX_BATCH, latest
from runtime.clock import Clock
from runtime.config import Config
from runtime.kafka.clients import reader
from runtime.kafka.reading import assign_from_beginning, position_of, read_to_end
from runtime.lifecycle import StopSignal
from schemas.errors import MessageError

PATIENCE_MS = 10_000
"""How long a key may lag behind its topic before it counts as wrong: the materializer is milliseconds behind, or it was
restarted."""

LOOK_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True)
class Verification:
    """How the store compares with one topic: of `keys` so many are `missing`, or hold something `different`.

    `examples` names a few of either.
    """

    keys: int
    missing: int
    different: int
    examples: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether the store holds all that the topic says."""
        return self.missing == self.different == 0


def rebuild_store(config: Config, store: FeatureStore, stop: StopSignal) -> int:
    """Write what the topics hold now to `store` once more; return how many messages were written.

    Meanwhile the materializer may go on: the guard keeps what is newer. Only a user record that is deleted while
    this runs can come back, since its deletion has no position in the clicks. What cannot be stored is left out: the
    materializer has made a dead letter of it. Raises `StoreUnavailable`, or `KafkaError` if a topic is missing.
    """
    written = 0
    writes = (write for _, write in _writes(config, stop))
    while batch := list(islice(writes, MAX_BATCH)):
        store.put_many(latest(batch))
        written += len(batch)
    return written


def verify_store(
    config: Config, store: FeatureStore, clock: Clock, stop: StopSignal, patience_ms: int = PATIENCE_MS
) -> Mapping[str, Verification]:
    """Compare `store` with what each topic holds now, and return the outcome by topic.

    What was written longer ago than a key lives may be there or not, and is passed over. Keys that no topic names are
    not looked for.
    The materializer may go on: a key that holds something newer is as right as one that is equal, and one that does
    not hold it yet is looked at again for a while. Keeps a copy of every value in memory. Raises `StoreUnavailable`,
    or `KafkaError` if a topic is missing.
    """
    expected: dict[str, Write] = {}
    topic_of: dict[str, str] = {}
    expired_ms = clock.now_ms() - config.redis.ttl_s * 1_000
    for topic, write in _writes(config, stop, expired_ms):
        held = expected.get(write.key)
        if held is None or write.supersedes(held):
            expected[write.key] = write
            topic_of[write.key] = topic
    until_ms = clock.monotonic_ms() + patience_ms
    wrong = _wrong(store, list(expected.values()))
    while wrong and clock.monotonic_ms() < until_ms and not stop.wait(LOOK_AGAIN_S):
        wrong = _wrong(store, [expected[key] for key in wrong])
    keys = Counter(topic_of.values())
    return {topic: _verification(keys[topic], _of(topic, wrong, topic_of)) for topic in STORED_TOPICS}


def _of(topic: str, wrong: Mapping[str, bool], topic_of: Mapping[str, str]) -> dict[str, bool]:
    return {key: missing for key, missing in wrong.items() if topic_of[key] == topic}


def _verification(keys: int, wrong: Mapping[str, bool]) -> Verification:
    missing = sum(wrong.values())
    return Verification(keys, missing, len(wrong) - missing, tuple(islice(wrong, 3)))


def _wrong(store: FeatureStore, expected: Sequence[Write]) -> dict[str, bool]:
    """Return the keys that do not hold what they should, and whether there is nothing at all."""
    wrong = {}
    for start in range(0, len(expected), MAX_BATCH):
        part = expected[start : start + MAX_BATCH]
        for write, stored in zip(part, store.get_many([write.key for write in part]), strict=True):
            if stored is None:
                if write.value is not None:
                    wrong[write.key] = True
                continue
            # What has replaced the expected value since is right too. Of the deletion of a user it cannot be told.
            newer = stored.partition == write.partition and stored.offset > write.offset
            if stored.value != write.value and not newer:
                wrong[write.key] = False
    return wrong


def _writes(config: Config, stop: StopSignal, since_ms: int = 0) -> Iterator[tuple[str, Write]]:
    """Yield what the topics' messages since `since_ms` say, in order, without what cannot be stored.

    Stops early when told to.
    """
    consumer = reader(config.kafka)
    try:
        for message in read_to_end(consumer, assign_from_beginning(consumer, STORED_TOPICS)):
            if stop.stopping:
                return
            if message.timestamp()[1] < since_ms:
                continue
            topic, partition, offset = position_of(message)
            try:
                yield topic, write_of(topic, message.key(), message.value(), partition, offset)
            except MessageError:
                continue
    finally:
        consumer.close()
