"""What the stream built, held against a plain recount of the log in Python: byte for byte."""

from collections.abc import Mapping
from dataclasses import dataclass

from features.item_statistics import Counts, parse_statistics
from features.item_statistics_builder import ItemStatisticsBuilder
from features.store import Family, FeatureStore
from features.user_record import RecordBuilder, UserRecord, pack_record
from runtime.clock import Clock
from runtime.config import Config
from runtime.kafka.clients import reader
from runtime.kafka.reading import assign_from_beginning, position_of, read_to_end
from runtime.lifecycle import StopSignal
from schemas.click import Click
from schemas.codec import decode
from schemas.topics import CLICKS_ACCEPTED

KEYS_PER_READ = 1_000
PATIENCE_MS = 20_000
"""How long the store may take to hold what the log says: the item statistics come a second or two behind."""

LOOK_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True)
class Recount:
    """What the log says: of each user the packed record, of each item the lifetime counts."""

    users: Mapping[str, bytes]
    items: Mapping[str, Counts]

    @property
    def entities(self) -> int:
        """How many users and items were counted."""
        return len(self.users) + len(self.items)


def recount(config: Config) -> Recount:
    """Read `clicks.accepted` from its beginning to where it ends now, and build what it says."""
    builders: dict[str, RecordBuilder] = {}
    records: dict[str, UserRecord] = {}
    items = ItemStatisticsBuilder(config.leaderboard.half_life_ms, 0, config.item_statistics.max_lateness_ms)
    consumer = reader(config.kafka)
    try:
        for message in read_to_end(consumer, assign_from_beginning(consumer, [CLICKS_ACCEPTED.name])):
            _, partition, offset = position_of(message)
            click = decode(message.value(), Click)
            if click.user_id not in builders:
                builders[click.user_id] = RecordBuilder(config.features.record_events)
            records[click.user_id] = builders[click.user_id].add(click, (partition, offset))
            items.add(click, partition)
    finally:
        consumer.close()
    lifetime = {item_id: statistics.lifetime for item_id, statistics in items.build(0).items()}
    packed = {user_id: pack_record(record) for user_id, record in records.items()}
    return Recount(packed, lifetime)


def miscounted(expected: Recount, store: FeatureStore, clock: Clock, patience_ms: int = PATIENCE_MS) -> list[str]:
    """Return the keys whose value in `store` is not what the log says, after waiting for those that lag behind.

    Raises `StoreUnavailable`.
    """
    until_ms = clock.monotonic_ms() + patience_ms
    pause = StopSignal()
    wrong = _wrong(expected, store)
    while wrong and clock.monotonic_ms() < until_ms:
        pause.wait(LOOK_AGAIN_S)
        wrong = _wrong(expected, store)
    return wrong


def _wrong(expected: Recount, store: FeatureStore) -> list[str]:
    users = {Family.USER.key(user_id): packed for user_id, packed in expected.users.items()}
    items = {Family.ITEM_STATISTICS.key(item_id): counts for item_id, counts in expected.items.items()}
    wrong = [key for key, value in _read(store, list(users)) if value != users[key]]
    return wrong + [key for key, value in _read(store, list(items)) if _lifetime(value) != items[key]]


def _read(store: FeatureStore, keys: list[str]) -> list[tuple[str, bytes | None]]:
    found: list[tuple[str, bytes | None]] = []
    for start in range(0, len(keys), KEYS_PER_READ):
        part = keys[start : start + KEYS_PER_READ]
        stored = store.get_many(part)
        found += ((key, each and each.value) for key, each in zip(part, stored, strict=True))
    return found


def _lifetime(packed: bytes | None) -> Counts | None:
    return None if packed is None else parse_statistics(packed).lifetime
