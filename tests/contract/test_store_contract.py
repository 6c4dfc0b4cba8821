"""One suite for every feature store: what holds for Redis holds for the store in memory, and behind a near-cache."""

import time
from collections.abc import Callable, Iterator

import pytest

from features.memory_store import MemoryStore
from features.near_cache import NearCache
from features.redis_store import RedisStore
from features.store import Family, FeatureStore, Stored, Write
from runtime.clock import ManualClock
from runtime.config import RedisConfig
from runtime.errors import StoreUnavailable
from tests.contract.redis_server import RedisServer

TTL_S = 600
TIMEOUT_MS = 5_000
"""Generous: no test here is about how fast the store is."""


class MemorySubject:
    """A store in memory, with a clock to turn."""

    def __init__(self) -> None:
        self._clock = ManualClock(1_700_000_000_000)
        self._memory = MemoryStore(TTL_S, self._clock)
        self.store: FeatureStore = self._memory

    def ttl_ms(self, key: str) -> int:
        """How long `key` still lives, found out by a copy of the clock's future."""
        start, live = self._clock.now_ms(), 0
        while self._memory.get_many([key])[0] is not None:
            self._clock.advance(1_000)
            live = self._clock.now_ms() - start
        return live

    def pass_time(self, _keys: list[str]) -> None:
        self._clock.advance(TTL_S * 1_000)

    def age(self, _keys: list[str]) -> None:
        self._clock.advance(TTL_S * 500)


class NearCacheSubject(MemorySubject):
    """A near-cache that may hold every key, over a store in memory, where the time to live is kept."""

    def __init__(self) -> None:
        super().__init__()
        near_cache = NearCache(self._memory, lambda _key: 0, max_bytes=100_000, ttl_s=TTL_S, clock=self._clock)
        near_cache.keep([0])
        self.store = near_cache


class RedisSubject:
    """A store in Redis, whose keys' expiry is moved rather than waited for."""

    def __init__(self, server: RedisServer) -> None:
        self._client = server.client()
        self._client.flushall()
        self.store: FeatureStore = RedisStore(RedisConfig(url=server.url, timeout_ms=TIMEOUT_MS, ttl_s=TTL_S))

    def ttl_ms(self, key: str) -> int:
        return int(self._client.pttl(key))  # type: ignore[arg-type]

    def pass_time(self, keys: list[str]) -> None:
        for key in keys:
            self._client.pexpire(key, 1)
        _until(lambda: not self._client.exists(*keys))

    def age(self, keys: list[str]) -> None:
        for key in keys:
            self._client.expire(key, TTL_S // 2)

    def close(self) -> None:
        self.store.close()
        self._client.close()


Subject = MemorySubject | RedisSubject


@pytest.fixture(params=["memory", "near-cache", "redis"])
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    if request.param != "redis":
        yield MemorySubject() if request.param == "memory" else NearCacheSubject()
        return
    redis_subject = RedisSubject(request.getfixturevalue("redis_server"))
    yield redis_subject
    redis_subject.close()


@pytest.fixture
def store(subject: Subject) -> FeatureStore:
    return subject.store


def test_a_value_comes_back_with_its_position(store: FeatureStore) -> None:
    assert store.put_many([Write("headrace:user:u1", b"state", 3, 17)]) == 1
    assert store.get_many(["headrace:user:u1"]) == [Stored(b"state", 3, 17)]


def test_answers_stand_in_the_order_of_the_keys_and_unknown_keys_are_none(store: FeatureStore) -> None:
    store.put_many([Write("a", b"1", 0, 1), Write("b", b"2", 0, 2)])
    assert store.get_many(["b", "unknown", "a", "b"]) == [
        Stored(b"2", 0, 2),
        None,
        Stored(b"1", 0, 1),
        Stored(b"2", 0, 2),
    ]


def test_empty_batches_do_nothing(store: FeatureStore) -> None:
    assert store.get_many([]) == []
    assert store.put_many([]) == 0


@pytest.mark.parametrize("value", [b"", b" ", b"\x00\xff\r\n", b"1 2 3", bytes(range(256)) * 40])
def test_any_bytes_are_a_value(store: FeatureStore, value: bytes) -> None:
    store.put_many([Write("k", value, 0, 0)])
    assert store.get_many(["k"]) == [Stored(value, 0, 0)]


def test_keys_may_hold_any_text(store: FeatureStore) -> None:
    keys = [Family.USER.key(user_id) for user_id in ("😀", "a b", "a:b", "ключ", "{tag}")]
    store.put_many([Write(key, key.encode(), 0, 1) for key in keys])
    assert store.get_many(keys) == [Stored(key.encode(), 0, 1) for key in keys]


def test_a_thousand_writes_are_one_batch(store: FeatureStore) -> None:
    writes = [Write(f"k{n}", b"x" * 2_000, n % 4, n) for n in range(1_000)]
    assert store.put_many(writes) == 1_000
    assert store.get_many([write.key for write in writes]) == [Stored(b"x" * 2_000, n % 4, n) for n in range(1_000)]


def test_a_smaller_offset_of_the_same_partition_never_overwrites(store: FeatureStore) -> None:
    store.put_many([Write("k", b"new", 1, 10)])
    assert store.put_many([Write("k", b"old", 1, 9)]) == 0
    assert store.get_many(["k"]) == [Stored(b"new", 1, 10)]


def test_offsets_are_compared_as_numbers(store: FeatureStore) -> None:
    store.put_many([Write("k", b"nine", 0, 9)])
    assert store.put_many([Write("k", b"ten", 0, 10)]) == 1
    assert store.put_many([Write("k", b"two billion", 0, 2**53 - 1), Write("k", b"less", 0, 2**53 - 2)]) == 1
    assert store.get_many(["k"]) == [Stored(b"two billion", 0, 2**53 - 1)]


def test_an_equal_offset_is_written_again(store: FeatureStore) -> None:
    store.put_many([Write("k", b"first", 1, 10)])
    assert store.put_many([Write("k", b"again", 1, 10)]) == 1
    assert store.get_many(["k"]) == [Stored(b"again", 1, 10)]


def test_another_partition_always_wins(store: FeatureStore) -> None:
    store.put_many([Write("k", b"before", 1, 1_000)])
    assert store.put_many([Write("k", b"after", 11, 0)]) == 1
    assert store.get_many(["k"]) == [Stored(b"after", 11, 0)]


def test_writes_of_one_batch_apply_in_order(store: FeatureStore) -> None:
    batch = [Write("k", b"1", 0, 1), Write("k", b"3", 0, 3), Write("k", b"2", 0, 2)]
    assert store.put_many(batch) == 2
    assert store.get_many(["k"]) == [Stored(b"3", 0, 3)]


def test_a_deleted_value_is_gone_and_a_late_write_does_not_bring_it_back(store: FeatureStore) -> None:
    store.put_many([Write("k", b"value", 0, 5), Write("k", None, 0, 6)])
    assert store.get_many(["k"]) == [None]
    assert store.put_many([Write("k", b"late", 0, 5)]) == 0
    assert store.get_many(["k"]) == [None]
    assert store.put_many([Write("k", b"newer", 0, 7)]) == 1
    assert store.get_many(["k"]) == [Stored(b"newer", 0, 7)]


def test_a_late_deletion_does_not_delete_what_is_newer(store: FeatureStore) -> None:
    store.put_many([Write("k", b"value", 0, 5)])
    assert store.put_many([Write("k", None, 0, 4)]) == 0
    assert store.get_many(["k"]) == [Stored(b"value", 0, 5)]


def test_every_value_expires_and_its_guard_with_it(subject: Subject) -> None:
    subject.store.put_many([Write("k", b"value", 0, 5), Write("gone", None, 0, 5)])
    subject.pass_time(["k", "gone"])
    assert subject.store.get_many(["k", "gone"]) == [None, None]
    assert subject.store.put_many([Write("k", b"older", 0, 1), Write("gone", b"older", 0, 1)]) == 2


@pytest.mark.parametrize("offset", [5, 6], ids=["the same offset", "a greater offset"])
def test_writing_again_starts_the_whole_ttl_again(subject: Subject, offset: int) -> None:
    subject.store.put_many([Write("k", b"value", 0, 5)])
    subject.age(["k"])
    subject.store.put_many([Write("k", b"value", 0, offset)])
    assert TTL_S * 500 < subject.ttl_ms("k") <= TTL_S * 1_000


def test_a_refused_write_does_not_lengthen_the_life_of_a_value(subject: Subject) -> None:
    subject.store.put_many([Write("k", b"value", 0, 5)])
    subject.age(["k"])
    subject.store.put_many([Write("k", b"older", 0, 4)])
    assert subject.ttl_ms("k") <= TTL_S * 500


def test_redis_that_is_gone_is_reported_and_found_again(redis_server: RedisServer) -> None:
    store = RedisStore(RedisConfig(url=redis_server.url, timeout_ms=TIMEOUT_MS, ttl_s=TTL_S))
    store.put_many([Write("k", b"before", 0, 1)])
    redis_server.kill()
    try:
        with pytest.raises(StoreUnavailable, match="does not answer"):
            store.get_many(["k"])
        with pytest.raises(StoreUnavailable, match="does not answer"):
            store.put_many([Write("k", b"meanwhile", 0, 2)])
    finally:
        redis_server.start()
    # The new server knows neither the data nor the script.
    assert store.get_many(["k"]) == [None]
    assert store.put_many([Write("k", b"after", 0, 3)]) == 1
    assert store.get_many(["k"]) == [Stored(b"after", 0, 3)]
    store.close()


def test_a_connection_that_died_unnoticed_costs_no_failed_call(redis_server: RedisServer) -> None:
    store = RedisStore(RedisConfig(url=redis_server.url, timeout_ms=TIMEOUT_MS, ttl_s=TTL_S))
    store.put_many([Write("k", b"before", 0, 1)])
    redis_server.kill()
    redis_server.start()
    assert store.put_many([Write("k", b"after", 0, 2)]) == 1
    assert store.get_many(["k"]) == [Stored(b"after", 0, 2)]
    store.close()


def test_redis_that_hangs_is_reported_after_the_timeout_and_its_late_reply_is_nobodys(
    redis_server: RedisServer,
) -> None:
    store = RedisStore(RedisConfig(url=redis_server.url, timeout_ms=500, ttl_s=TTL_S))
    store.put_many([Write("k", b"asked in vain", 0, 1), Write("other", b"other", 0, 2)])
    with redis_server.frozen(), pytest.raises(StoreUnavailable, match="Timeout"):
        store.get_many(["k"])
    assert store.get_many(["other"]) == [Stored(b"other", 0, 2)]
    store.close()


def test_credentials_do_not_appear_in_an_error() -> None:
    store = RedisStore(RedisConfig(url="redis://me:secret@127.0.0.1:1/0", timeout_ms=1_000, ttl_s=TTL_S))
    with pytest.raises(StoreUnavailable) as raised:
        store.get_many(["k"])
    assert "secret" not in str(raised.value)


def test_a_value_is_readable_text_in_redis(redis_server: RedisServer) -> None:
    store = RedisStore(RedisConfig(url=redis_server.url, timeout_ms=TIMEOUT_MS, ttl_s=TTL_S))
    store.put_many([Write(Family.USER.key("u1"), b"record", 2, 40)])
    with redis_server.client() as client:
        assert client.get("headrace:user:u1") == b"2 40 record"
        assert 0 < client.ttl("headrace:user:u1") <= TTL_S
    store.close()


@pytest.mark.parametrize("foreign", [b"hello", b"", b"a b c", b"1 x y"])
def test_a_value_that_another_program_wrote_counts_as_absent(foreign: bytes, redis_server: RedisServer) -> None:
    store = RedisStore(RedisConfig(url=redis_server.url, timeout_ms=TIMEOUT_MS, ttl_s=TTL_S))
    with redis_server.client() as client:
        client.set("foreign", foreign)
    assert store.get_many(["foreign"]) == [None]
    store.close()


def _until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.005)
