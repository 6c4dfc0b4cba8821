"""The materializer on a real broker, and what cares for its store, in threads of this process."""

from collections.abc import Callable

import pytest

from features.memory_store import MemoryStore
from features.redis_store import RedisStore
from features.store import Family, FeatureStore, Write
from features.user_record import RecordBuilder, pack_record
from jobs.materializer import run_materializer
from jobs.store_care import Verification, rebuild_store, verify_store
from runtime.config import Config, RedisConfig
from runtime.dead_letters import read_dead_letter
from runtime.kafka.placement import partition_of_key
from runtime.lifecycle import StopSignal
from schemas.codec import encode
from schemas.item import Item
from schemas.topics import DEAD_LETTERS, FEATURES_USER, ITEMS, USERS
from schemas.user import User
from tests.builders import NOW_MS, click_of
from tests.conftest import Eventually
from tests.contract.redis_server import RedisServer
from tests.integration.processes import CLOCK, Tail, publish, running

pytestmark = pytest.mark.stack


def materializer(config: Config, store: FeatureStore) -> Callable[[StopSignal], None]:
    return lambda stop: run_materializer(config, store, CLOCK, stop)


def test_the_materializer_holds_what_the_topics_say(kafka: Config, tail: Tail, eventually: Eventually) -> None:
    store = MemoryStore(3_600, CLOCK)
    builder = RecordBuilder(4)
    old, new = (pack_record(builder.add(click_of("mat-u", item), (0, offset))) for offset, item in enumerate("ab"))
    item, profile = encode(Item(item_id="mat-i", ts=NOW_MS)), encode(User(user_id="mat-u", ts=NOW_MS))
    with running(materializer(kafka, store)):
        # A job that starts again from a checkpoint repeats records that are older than what is there.
        publish(kafka, FEATURES_USER.name, ("mat-u", new), ("mat-u", old), ("mat-bad", b"not a record"))
        publish(kafka, ITEMS.name, ("mat-gone", item.replace(b"mat-i", b"mat-gone")), ("mat-gone", None))
        publish(kafka, ITEMS.name, ("mat-bad", b'{"item_id": 17}'), ("mat-i", item))
        publish(kafka, USERS.name, ("mat-u", profile))
        keys = [Family.USER.key("mat-u"), Family.ITEM.key("mat-i"), Family.PROFILE.key("mat-u")]
        values = [new, item, profile]
        eventually(
            lambda: (
                [held and held.value for held in store.get_many(keys)] == values
                and len(tail.read().messages[DEAD_LETTERS.name]) >= 2
            ),
            "the store holds the last values",
        )
        assert store.get_many([Family.ITEM.key("mat-gone"), Family.ITEM.key("mat-bad")]) == [None, None]
    letters = [read_dead_letter(message) for message in tail.read().messages[DEAD_LETTERS.name]]
    assert sorted((letter.source_topic, letter.code, letter.original) for letter in letters) == [
        ("features.user", "unreadable_record", b"not a record"),
        ("items", "wrong_type", b'{"item_id": 17}'),
    ]


def test_the_materializer_waits_for_a_store_that_is_away_and_misses_nothing(
    kafka: Config, eventually: Eventually, tmp_path_factory: pytest.TempPathFactory
) -> None:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    store = RedisStore(RedisConfig(url=server.url, timeout_ms=5_000, ttl_s=3_600))
    items = [(f"away-{n}", encode(Item(item_id=f"away-{n}", ts=NOW_MS))) for n in range(50)]
    keys = [Family.ITEM.key(item_id) for item_id, _ in items]
    try:
        publish(kafka, ITEMS.name, *items[:25])
        with running(materializer(kafka, store)):
            publish(kafka, ITEMS.name, *items[25:])
            server.start()
            eventually(lambda: None not in store.get_many(keys), "what came meanwhile is written")
            server.kill()
            publish(kafka, ITEMS.name, *items[:25])
            server.start()
            eventually(lambda: None not in store.get_many(keys[:25]), "so is what came during another outage")
    finally:
        store.close()
        server.kill()


def test_the_materializer_waits_for_a_store_that_is_full_or_hangs(
    kafka: Config, eventually: Eventually, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    store = RedisStore(RedisConfig(url=server.url, timeout_ms=300, ttl_s=3_600))
    reader_ = RedisStore(RedisConfig(url=server.url, timeout_ms=2_000, ttl_s=3_600))
    items = [(f"full-{n}", encode(Item(item_id=f"full-{n}", ts=NOW_MS, title="x" * 1_000))) for n in range(90)]
    keys = [Family.ITEM.key(item_id) for item_id, _ in items]

    def waits() -> int:
        return sum("waiting: Redis" in message for message in caplog.messages)

    def written(part: list[str]) -> Callable[[], bool]:
        return lambda: None not in reader_.get_many(part)

    try:
        with server.client() as redis, running(materializer(kafka, store)):
            publish(kafka, ITEMS.name, *items[:30])
            eventually(written(keys[:30]), "the first are written")
            redis.config_set("maxmemory", int(redis.info("memory")["used_memory"]) // 2)
            publish(kafka, ITEMS.name, *items[30:60])
            eventually(lambda: waits() == 1, "the full store is waited for, and that is said once")
            assert written(keys[:30])(), "readers go on with what is there"
            redis.config_set("maxmemory", 0)
            eventually(written(keys[:60]), "what came meanwhile is written")
            with server.frozen():
                publish(kafka, ITEMS.name, *items[60:])
                eventually(lambda: waits() == 2, "so is one that hangs")
            eventually(written(keys), "and what came then")
    finally:
        store.close()
        reader_.close()
        server.kill()


def test_a_store_that_lost_everything_is_rebuilt_beside_the_running_materializer(
    kafka: Config, eventually: Eventually
) -> None:
    live, lost = MemoryStore(3_600, CLOCK), MemoryStore(3_600, CLOCK)
    items = [(f"again-{n}", encode(Item(item_id=f"again-{n}", ts=NOW_MS))) for n in range(20)]
    keys = [Family.ITEM.key(item_id) for item_id, _ in items]
    publish(kafka, ITEMS.name, *items, ("again-0", None), ("other", items[1][1]))
    with running(materializer(kafka, live)):
        eventually(lambda: None not in live.get_many(keys[1:]), "everything is written and committed")
    assert rebuild_store(kafka, lost, StopSignal()) >= len(items) + 1
    assert lost.get_many(keys) == live.get_many(keys)
    assert lost.get_many([keys[0], Family.ITEM.key("other")]) == [None, None]


def test_a_store_is_held_against_the_topics_key_by_key(kafka: Config) -> None:
    builder = RecordBuilder(4)
    old, new, newer = (pack_record(builder.add(click_of("ver-u", item), (1, n))) for n, item in enumerate("abc"))
    items = {name: encode(Item(item_id=name, ts=NOW_MS)) for name in ("ver-1", "ver-2", "ver-gone")}
    publish(kafka, ITEMS.name, *items.items(), ("ver-gone", None))
    publish(kafka, FEATURES_USER.name, ("ver-u", new), ("ver-u", old))
    store = MemoryStore(3_600, CLOCK)
    rebuild_store(kafka, store, StopSignal())

    def looked_at(topic: str) -> Verification:
        return verify_store(kafka, store, CLOCK, StopSignal(), patience_ms=0)[topic]

    assert all(each.whole for each in verify_store(kafka, store, CLOCK, StopSignal()).values())
    user, item = Family.USER.key("ver-u"), Family.ITEM.key("ver-1")
    store.put_many([Write(user, newer, 1, 2)])
    assert looked_at(FEATURES_USER.name).whole, "what is newer than the topic was a moment ago is right"
    store.put_many([Write(user, old, 1, 2), Write(user, old, 0, 0), Write(user, old, 1, 0)])
    assert looked_at(FEATURES_USER.name).examples == (user,)
    store.put_many([Write(item, None, 9, 9), Write(Family.ITEM.key("ver-gone"), b"{}", 9, 9)])
    found = looked_at(ITEMS.name)
    assert (found.missing, found.different) == (1, 1)
    assert found.examples == (item, Family.ITEM.key("ver-gone"))
    again = Write(Family.ITEM.key("ver-gone"), b"{}", partition_of_key(b"ver-gone", kafka.kafka.partitions), 1_000_000)
    store.put_many([again])
    assert looked_at(ITEMS.name).different == 0, "what came back after its deletion is newer"
