"""The near-cache against a real Kafka: what is on the topics by user is in the reader's memory."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import TopicPartition

from features.memory_store import MemoryStore
from features.near_cache import NearCache
from features.store import Family, Stored, Write
from features.user_record import RecordBuilder, pack_record
from jobs.materializer import GROUP
from runtime.clock import SystemClock
from runtime.config import Config
from runtime.kafka.clients import group_consumer, producer
from runtime.kafka.placement import partition_of_key
from schemas.codec import encode
from schemas.topics import FEATURES_USER, USERS
from schemas.user import User
from serving import near_cache_follower
from serving.near_cache_follower import NearCacheFollower, home_on
from tests.builders import NOW_MS, click_of

Eventually = Callable[..., None]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(600, SystemClock())


@pytest.fixture
def cache(kafka: Config, store: MemoryStore) -> NearCache:
    return NearCache(store, home_on(kafka.kafka), 1_000_000, 600, SystemClock())


@pytest.fixture
def follower(kafka: Config, cache: NearCache) -> Iterator[NearCacheFollower]:
    made = NearCacheFollower(kafka.kafka, cache)
    yield made
    made.close()


def user_on(partition: int, name: str, partitions: int) -> str:
    """Return a user_id that begins with `name` and lies on this partition."""
    return next(
        user
        for user in (f"{name}-{number}" for number in range(1_000))
        if partition_of_key(user.encode(), partitions) == partition
    )


def record(user_id: str, *item_ids: str, partition: int = 0) -> bytes:
    builder = RecordBuilder(4)
    for offset, item_id in enumerate(item_ids):
        made = builder.add(click_of(user_id, item_id), (partition, offset))
    return pack_record(made)


def publish(config: Config, topic: str, *messages: tuple[str, bytes | None]) -> None:
    sender = producer(config.kafka)
    for key, value in messages:
        sender.produce(topic, value, key)
    assert sender.flush(30) == 0


def follows(follower: NearCacheFollower, cache: NearCache, key: str, wanted: Stored | None) -> Callable[[], bool]:
    """Return a condition: after another look at the topics, the cache holds this."""

    def condition() -> bool:
        follower.follow()
        return cache.get_many([key]) == [wanted]

    return condition


def test_what_is_published_is_known_without_the_store_and_a_deletion_too(
    kafka: Config, cache: NearCache, follower: NearCacheFollower, eventually: Eventually
) -> None:
    user = user_on(0, "fresh", kafka.kafka.partitions)
    key = Family.USER.key(user)
    follower.assign([0])
    assert cache.get_many([key]) == [None]
    old, new = record(user, "a"), record(user, "a", "b")
    publish(kafka, FEATURES_USER.name, (user, new), (user, old))
    publish(kafka, USERS.name, (user, encode(User(user_id=user, ts=NOW_MS))))

    def followed() -> bool:
        follower.follow()
        return None not in cache.get_many([Family.USER.key(user), Family.PROFILE.key(user)])

    eventually(followed, "record and profile are in the cache")
    assert cache.get_many([key]) == [Stored(new, 0, 1)]
    publish(kafka, FEATURES_USER.name, (user, None))
    eventually(follows(follower, cache, key, None), "the record is gone")


def test_a_follower_starts_where_the_materializer_stands(
    kafka: Config, store: MemoryStore, cache: NearCache, follower: NearCacheFollower, eventually: Eventually
) -> None:
    user = user_on(1, "restart", kafka.kafka.partitions)
    publish(kafka, FEATURES_USER.name, *((user, record(user, *"abc"[:n], partition=1)) for n in (1, 2, 3)))
    materializer = group_consumer(kafka.kafka, GROUP, "the-materializer")
    # The first two are in Redis, says the commit; the third was published while nobody followed.
    materializer.commit(offsets=[TopicPartition(FEATURES_USER.name, 1, 2)], asynchronous=False)
    materializer.close()
    store.put_many([Write(Family.USER.key(user), record(user, "a", "b", partition=1), 1, 1)])
    follower.assign([1])
    key, newest = Family.USER.key(user), Stored(record(user, "a", "b", "c", partition=1), 1, 2)
    # Nothing is read while the group waits: until the follower has caught up, an answer rests on the store.
    assert cache.get_many([key]) == [Stored(record(user, "a", "b", partition=1), 1, 1)]
    eventually(follows(follower, cache, key, newest), "the third is in the cache")


def test_a_follower_goes_back_by_a_bounded_number_of_messages(
    kafka: Config,
    cache: NearCache,
    follower: NearCacheFollower,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(near_cache_follower, "MAX_BEHIND", 2)
    users = [user_on(1, name, kafka.kafka.partitions) for name in ("first", "second", "third")]
    publish(kafka, FEATURES_USER.name, *((user, record(user, "a", partition=1)) for user in users))
    keys = [Family.USER.key(user) for user in users]
    follower.assign([1])
    eventually(
        follows(follower, cache, keys[2], Stored(record(users[2], "a", partition=1), 1, 0)), "the third is known"
    )
    assert [found is not None for found in cache.get_many(keys)] == [False, True, True]


def test_a_users_home_is_told_by_the_topic_not_by_the_configuration(kafka: Config) -> None:
    partitions = kafka.kafka.partitions
    home_of = home_on(kafka.kafka.model_copy(update={"partitions": partitions + 1}))
    users = [user_on(partition, "home", partitions) for partition in range(partitions)]
    assert [home_of(Family.USER.key(user)) for user in users] == list(range(partitions))


def test_partitions_come_and_go_and_what_stays_is_followed_on(
    kafka: Config, cache: NearCache, follower: NearCacheFollower, eventually: Eventually
) -> None:
    users = [user_on(partition, "moving", kafka.kafka.partitions) for partition in (2, 3)]
    keys = [Family.USER.key(user) for user in users]
    publish(kafka, FEATURES_USER.name, *((user, record(user, "a", partition=2)) for user in users))
    records = [Stored(record(user, "a", partition=2), 2, 0) for user in users]
    follower.assign([2])
    eventually(follows(follower, cache, keys[0], records[0]), "2 is followed")
    assert cache.get_many(keys) == [records[0], None]
    follower.assign([2, 3])
    eventually(follows(follower, cache, keys[1], records[1]), "3 is followed")
    newer = record(users[0], "a", "b", partition=2)
    publish(kafka, FEATURES_USER.name, (users[0], newer))
    eventually(follows(follower, cache, keys[0], Stored(newer, 2, 1)), "2 is still followed")
    follower.assign([3])
    assert [found is not None for found in cache.get_many(keys)] == [False, True]
    follower.assign([])
    assert cache.bytes == 0


def test_a_message_that_cannot_be_read_is_skipped(
    kafka: Config, cache: NearCache, follower: NearCacheFollower, eventually: Eventually
) -> None:
    user, after = (user_on(0, name, kafka.kafka.partitions) for name in ("damaged", "after"))
    good = record(user, "a")
    publish(kafka, FEATURES_USER.name, (user, good), (user, b"1\tof\tanother\tformat"))
    publish(kafka, FEATURES_USER.name, (after, record(after, "a")))
    follower.assign([0])
    eventually(follows(follower, cache, Family.USER.key(after), Stored(record(after, "a"), 0, 0)), "both are passed")
    assert cache.get_many([Family.USER.key(user)]) == [Stored(good, 0, 0)]
