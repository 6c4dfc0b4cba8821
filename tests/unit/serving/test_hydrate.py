from collections.abc import Sequence

import pytest

from features.memory_store import MemoryStore
from features.near_cache import NearCache
from features.store import Family, Stored, Write
from features.user_record import pack_record
from runtime.clock import ManualClock
from runtime.errors import StoreUnavailable
from schemas.codec import encode
from schemas.user import User
from serving.hydrate import Hydrator
from tests.builders import NOW_MS, record_of, request_of

CLOCK = ManualClock(NOW_MS)
RECORD = record_of("a", "b")
PROFILE = User(user_id="u", ts=NOW_MS)


class StoreThatGoesAway(MemoryStore):
    """A store in memory that counts its readings, and can be away."""

    def __init__(self) -> None:
        super().__init__(600, CLOCK)
        self.away = False
        self.reads = 0

    def get_many(self, keys: Sequence[str]) -> list[Stored | None]:
        self.reads += 1
        if self.away:
            raise StoreUnavailable("away")
        return super().get_many(keys)


def record_write(user_id: str, value: bytes = pack_record(RECORD)) -> Write:
    return Write(Family.USER.key(user_id), value, *RECORD.position)


def test_a_micro_batch_is_one_read() -> None:
    store = StoreThatGoesAway()
    store.put_many([record_write("u"), Write(Family.PROFILE.key("u"), encode(PROFILE), 0, 1)])
    found = Hydrator(store).read([request_of("u"), request_of("stranger"), request_of("u")])
    assert found == [(RECORD, PROFILE, []), (None, None, []), (RECORD, PROFILE, [])]
    assert store.reads == 1


def test_what_cannot_be_read_degrades_only_the_answer_that_needs_it() -> None:
    store = StoreThatGoesAway()
    store.put_many([record_write("u"), record_write("old", b"1\t0\t0"), Write(Family.PROFILE.key("bad"), b"{", 0, 1)])
    found = Hydrator(store).read([request_of("old"), request_of("u"), request_of("bad")])
    assert found == [(None, None, ["record_unreadable"]), (RECORD, None, []), (None, None, ["profile_unreadable"])]


def test_while_the_store_is_away_only_who_is_not_in_the_near_cache_is_a_stranger() -> None:
    store = StoreThatGoesAway()
    cache = NearCache(store, lambda _key: 0, 100_000, 600, CLOCK)
    cache.keep([0])
    store.put_many([record_write("u"), record_write("half"), record_write("other")])
    hydrator = Hydrator(cache)
    hydrator.read([request_of("u")])
    cache.take([record_write("half")], 0)
    store.away = True
    found = hydrator.read([request_of("u"), request_of("half"), request_of("other")])
    # Of "half" the record is known, of the profile nothing.
    assert found == [(RECORD, None, []), (RECORD, None, ["store_unavailable"]), (None, None, ["store_unavailable"])]


def test_an_answer_from_memory_alone_does_not_end_an_outage_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    store = StoreThatGoesAway()
    cache = NearCache(store, lambda _key: 0, 100_000, 600, CLOCK)
    cache.keep([0])
    cache.take([record_write("u"), Write(Family.PROFILE.key("u"), encode(PROFILE), 0, 1)], 0)
    hydrator = Hydrator(cache)
    store.away = True
    with caplog.at_level("INFO", logger="headrace.serving"):
        for _ in range(3):
            hydrator.read([request_of("other")])
            assert hydrator.read([request_of("u")]) == [(RECORD, PROFILE, [])]
        store.away = False
        hydrator.read([request_of("u")])
        assert len(caplog.records) == 1
        hydrator.read([request_of("other")])
    assert [record.message for record in caplog.records] == [
        "answering without the store: away",
        "the store answers again",
    ]


def test_an_outage_is_two_lines_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    store = StoreThatGoesAway()
    hydrator = Hydrator(store)
    store.away = True
    with caplog.at_level("INFO", logger="headrace.serving"):
        for _ in range(3):
            assert hydrator.read([request_of("u")]) == [(None, None, ["store_unavailable"])]
        store.away = False
        for _ in range(3):
            assert hydrator.read([request_of("u")]) == [(None, None, [])]
    assert [record.message for record in caplog.records] == [
        "answering without the store: away",
        "the store answers again",
    ]
