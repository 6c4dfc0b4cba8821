from collections.abc import Sequence
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.memory_store import MemoryStore
from features.near_cache import STORE_HOLD_MS, NearCache, PartlyUnavailable, user_home
from features.store import Family, Stored, Write
from runtime.clock import ManualClock
from runtime.errors import StoreUnavailable
from runtime.kafka.placement import partition_of_key
from tests.builders import NOW_MS

TTL_S = 600


class WatchedStore(MemoryStore):
    """A store in memory that notes what it is asked for, and can be taken away."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(TTL_S, clock)
        self.asked: list[list[str]] = []
        self.away = False

    def get_many(self, keys: Sequence[str]) -> list[Stored | None]:
        self.asked.append(list(keys))
        if self.away:
            raise StoreUnavailable("away")
        return super().get_many(keys)


class Bench:
    """A cache over a watched store; keys end in the number of their partition, and 0 and 1 are kept."""

    def __init__(self, max_bytes: int = 1_000_000) -> None:
        self.clock = ManualClock(NOW_MS)
        self.store = WatchedStore(self.clock)
        home_of = {str(partition): partition for partition in range(4)}
        self.cache = NearCache(self.store, lambda key: home_of.get(key[-1]), max_bytes, TTL_S, self.clock)
        self.cache.keep([0, 1])

    def get(self, key: str) -> bytes | None:
        (stored,) = self.cache.get_many([key])
        return None if stored is None else stored.value


def test_what_was_read_once_is_read_from_memory_the_next_time() -> None:
    bench = Bench()
    bench.store.put_many([Write("a0", b"a", 0, 5)])
    for _ in range(2):
        assert bench.cache.get_many(["a0", "gone1", "a0"]) == [Stored(b"a", 0, 5), None, Stored(b"a", 0, 5)]
    assert bench.store.asked == [["a0", "gone1"]]


def test_only_what_is_missing_is_asked_for_and_at_once() -> None:
    bench = Bench()
    bench.cache.take([Write("a0", b"a", 0, 5)], 0)
    bench.store.put_many([Write("b0", b"b", 0, 6), Write("c1", b"c", 1, 7)])
    assert bench.cache.get_many(["b0", "a0", "c1"]) == [Stored(b"b", 0, 6), Stored(b"a", 0, 5), Stored(b"c", 1, 7)]
    assert bench.store.asked == [["b0", "c1"]]


def test_a_key_of_another_partition_or_of_none_is_read_each_time() -> None:
    bench = Bench()
    bench.store.put_many([Write("a2", b"a", 2, 5), Write("item", b"i", 0, 1)])
    bench.cache.take([Write("a2", b"newer", 2, 6)], 2)
    for _ in range(2):
        assert bench.cache.get_many(["a2", "item"]) == [Stored(b"a", 2, 5), Stored(b"i", 0, 1)]
    assert len(bench.store.asked) == 2


def test_a_message_makes_what_is_held_new_and_absence_end() -> None:
    bench = Bench()
    assert bench.get("a0") is None
    bench.cache.take([Write("a0", b"1", 0, 5)], 0)
    bench.cache.take([Write("a0", b"2", 0, 6)], 0)
    assert bench.get("a0") == b"2"


def test_an_older_message_changes_nothing() -> None:
    bench = Bench()
    bench.store.put_many([Write("a0", b"new", 0, 9)])
    assert bench.get("a0") == b"new"
    bench.cache.take([Write("a0", b"old", 0, 8)], 0)
    assert bench.get("a0") == b"new"


def test_a_message_that_passed_before_the_first_read_is_not_lost_to_an_older_store() -> None:
    bench = Bench()
    bench.store.put_many([Write("a0", b"old", 0, 5)])
    bench.cache.take([Write("a0", b"new", 0, 6)], 0)
    assert bench.get("a0") == b"new"
    assert bench.store.asked == []


def test_a_deletion_is_known_without_the_store() -> None:
    bench = Bench()
    bench.store.put_many([Write("a0", b"old", 0, 5)])
    bench.cache.take([Write("a0", None, 0, 6)], 0)
    assert bench.get("a0") is None
    assert bench.store.asked == []


def test_memory_is_bounded_and_the_least_recently_used_leaves() -> None:
    bench = Bench(max_bytes=20_000)
    for number in range(40):
        bench.cache.take([Write(f"{number}:0", bytes(600), 0, number)], 0)
        assert bench.get("0:0") == bytes(600)
        assert bench.cache.bytes <= 20_000
    assert bench.store.asked == []
    assert bench.get("39:0") is not None
    assert bench.store.asked == []
    assert bench.get("1:0") is None
    assert bench.store.asked == [["1:0"]]


def test_an_older_value_of_a_store_that_lags_behind_is_passed_on_but_not_kept_for_what_has_left() -> None:
    bench = Bench(max_bytes=20_000)
    bench.store.put_many([Write("a0", b"old", 0, 5)])
    bench.cache.take([Write("a0", b"new", 0, 6)], 0)
    bench.cache.take([Write(f"{number}:0", bytes(600), 0, number) for number in range(20)], 0)
    assert bench.get("a0") == b"old"
    bench.store.put_many([Write("a0", b"new", 0, 6)])
    assert bench.get("a0") == b"new"
    assert bench.get("a0") == b"new"
    assert bench.store.asked == [["a0"], ["a0"]]


def test_a_message_that_comes_again_is_no_news_to_what_has_left() -> None:
    bench = Bench(max_bytes=20_000)
    bench.cache.take([Write("a0", b"new", 0, 6)], 0)
    bench.cache.take([Write(f"{number}:0", bytes(600), 0, number) for number in range(20)], 0)
    bench.store.put_many([Write("a0", b"new", 0, 6)])
    bench.cache.take([Write("a0", b"old", 0, 5)], 0)
    assert bench.get("a0") == b"new"


def test_a_value_larger_than_the_memory_is_not_held() -> None:
    bench = Bench(max_bytes=20_000)
    bench.store.put_many([Write("a0", bytes(30_000), 0, 5)])
    assert bench.get("a0") == bytes(30_000)
    assert bench.cache.bytes < 20_000


def test_keys_of_a_partition_that_was_given_up_are_dropped() -> None:
    bench = Bench()
    bench.cache.take([Write("a0", b"a", 0, 5)], 0)
    bench.cache.take([Write("b1", b"b", 1, 5)], 1)
    bench.cache.keep([1, 2])
    assert bench.cache.get_many(["a0", "b1"]) == [None, Stored(b"b", 1, 5)]
    assert bench.store.asked == [["a0"]]
    bench.cache.keep([])
    assert bench.cache.bytes == 0


def test_without_the_store_what_is_held_is_still_known() -> None:
    bench = Bench()
    bench.cache.take([Write("a0", b"a", 0, 5), Write("b0", None, 0, 6)], 0)
    bench.store.away = True
    assert bench.cache.get_many(["a0", "b0"]) == [Stored(b"a", 0, 5), None]
    with pytest.raises(PartlyUnavailable, match="away") as raised:
        bench.cache.get_many(["a0", "c0", "b0"])
    assert raised.value.known == {"a0": Stored(b"a", 0, 5), "b0": None}


@pytest.mark.parametrize("before", [None, b"old"], ids=["absence", "a value"])
def test_what_the_store_said_is_soon_read_again_so_that_one_that_lost_data_can_be_mended(before: bytes | None) -> None:
    bench = Bench()
    if before is not None:
        bench.store.put_many([Write("a0", before, 0, 5)])
    assert bench.get("a0") == before
    bench.store.put_many([Write("a0", b"rebuilt", 0, 6)])
    bench.clock.advance(STORE_HOLD_MS - 1)
    assert bench.get("a0") == before
    bench.clock.advance(1)
    assert bench.get("a0") == b"rebuilt"
    assert bench.store.asked == [["a0"], ["a0"]]


def test_what_a_message_said_is_not_read_again_before_its_ttl() -> None:
    bench = Bench()
    bench.cache.take([Write("a0", b"a", 0, 5)], 0)
    bench.clock.advance(TTL_S * 1_000 - 1)
    assert bench.get("a0") == b"a"
    assert bench.store.asked == []
    bench.clock.advance(1)
    assert bench.get("a0") is None
    assert bench.store.asked == [["a0"]]


def test_a_message_that_repeats_what_was_read_ends_the_questions() -> None:
    bench = Bench()
    bench.store.put_many([Write("a0", b"a", 0, 5)])
    assert bench.get("a0") == b"a"
    bench.cache.take([Write("a0", b"a", 0, 5)], 0)
    bench.clock.advance(STORE_HOLD_MS)
    assert bench.get("a0") == b"a"
    assert bench.store.asked == [["a0"]]


def test_while_the_store_is_away_what_it_said_last_stands() -> None:
    bench = Bench()
    bench.store.put_many([Write("a0", b"a", 0, 5)])
    assert bench.cache.get_many(["a0", "gone1"]) == [Stored(b"a", 0, 5), None]
    bench.clock.advance(STORE_HOLD_MS)
    bench.store.away = True
    with pytest.raises(PartlyUnavailable) as raised:
        bench.cache.get_many(["a0", "gone1", "b0"])
    assert raised.value.known == {"a0": Stored(b"a", 0, 5), "gone1": None}


def test_that_the_store_is_away_is_known_until_a_read_has_reached_it() -> None:
    bench = Bench()
    bench.cache.take([Write("a0", b"a", 0, 5)], 0)
    assert not bench.cache.store_is_away
    bench.store.away = True
    with pytest.raises(PartlyUnavailable):
        bench.get("b0")
    assert bench.get("a0") == b"a"
    assert bench.cache.store_is_away
    bench.store.away = False
    assert bench.get("b0") is None
    assert not bench.cache.store_is_away


def test_a_write_goes_to_the_store_and_is_seen_by_the_next_reader() -> None:
    bench = Bench()
    assert bench.get("a0") is None
    assert bench.cache.put_many([Write("a0", b"a", 0, 5)]) == 1
    assert bench.get("a0") == b"a"
    assert bench.store.asked == [["a0"], ["a0"]]


def test_users_are_at_home_where_their_requests_are() -> None:
    home_of = user_home(4)
    for family in (Family.USER, Family.PROFILE):
        assert home_of(family.key("u:1")) == partition_of_key(b"u:1", 4)
    assert home_of(Family.ITEM.key("u:1")) is None


KEYS = st.sampled_from(["a0", "b0", "c0"])


@given(
    st.lists(st.tuples(KEYS, st.integers(0, 4)), min_size=10, max_size=30),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 2), KEYS), min_size=3, max_size=12),
)
@settings(max_examples=300)
def test_once_all_is_followed_and_stored_every_key_is_as_its_last_message_says(
    messages: list[tuple[str, int]], steps: list[tuple[int, int, int, str]]
) -> None:
    """The follower and the materializer read one log, each at its own pace, while somebody reads now and then."""
    bench = Bench(max_bytes=25_000)  # Two values and a few positions.
    log = [
        Write(key, bytes(10_000) + str(offset).encode() if dice else None, 0, offset)
        for offset, (key, dice) in enumerate(messages)
    ]
    followed, stored = iter(log), iter(log)
    for follow, store, half_holds, key in steps:
        bench.cache.take(islice(followed, follow), 0)
        bench.store.put_many(list(islice(stored, store)))
        bench.clock.advance(half_holds * STORE_HOLD_MS // 2)
        bench.get(key)
    bench.cache.take(followed, 0)
    for key in ("a0", "b0", "c0"):
        bench.get(key)
    bench.store.put_many(list(stored))
    for key in ("a0", "b0", "c0"):
        last = next((write for write in reversed(log) if write.key == key), None)
        assert bench.get(key) == (None if last is None else last.value)
