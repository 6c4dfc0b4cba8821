"""What a request pays for the state of its users: reading and decoding their records, and all features made of them."""

import random
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.feature_rows import Rows, row
from benchmarks.harness import Options
from benchmarks.running import parts
from features.item_columns import ItemColumns
from features.record_batch import decode_records
from features.redis_store import RedisStore
from features.store import Family, Write
from features.user_features import USER_FEATURES, user_features
from features.user_record import RecordBuilder, UserRecord, pack_record
from runtime.config import Config, load_config
from schemas.click import ACTIONS, Click
from schemas.fields import Scalars
from schemas.item import Item

USERS = 64
EVENTS = 32
ITEMS = 4_000
CATEGORIES = 20
NOW_MS = 1_700_000_000_000
WARM_UP = 20


def measure(options: Options) -> Rows:
    """Measure on a real Redis of its own; the values are medians of the repeats."""
    repeats = 200 if options.quick else 2_000
    rng = random.Random(options.seed)  # noqa: S311 - sample data
    records = [_record(rng) for _ in range(USERS)]
    packed = [pack_record(record) for record in records]
    keys = [Family.USER.key(f"user-{place}") for place in range(USERS)]
    with parts("redis", redis={"timeout_ms": 5_000}) as config:
        mget_s, read_s = _reading(config, keys, records, packed, repeats)
    features_s = _features(rng, packed, repeats)
    return Rows(
        [
            row(f"bare MGET of {USERS} records of {EVENTS} events", mget_s * 1e6, "us"),
            row("get_many and decode of the same", read_s * 1e6, "us"),
            row(f"all {len(USER_FEATURES)} user features of {USERS} decoded records", features_s * 1e6, "us"),
        ],
        {"read_vs_mget": read_s / mget_s, "features_users_per_s": USERS / features_s},
    )


def _reading(
    config: Config, keys: Sequence[str], records: Sequence[UserRecord], packed: Sequence[bytes], repeats: int
) -> tuple[float, float]:
    from redis import Redis

    store, bare = RedisStore(config.redis), Redis.from_url(config.redis.url)
    writes = [Write(key, value, *record.position) for key, record, value in zip(keys, records, packed, strict=True)]
    store.put_many(writes)

    def read() -> None:
        decode_records([None if stored is None else stored.value for stored in store.get_many(keys)])

    try:
        mget, both = _medians([lambda: lambda: bare.mget(keys), lambda: read], repeats)
    finally:
        store.close()
        bare.close()
    return mget, both


def _features(rng: random.Random, packed: Sequence[bytes], repeats: int) -> float:
    columns = ItemColumns()
    for item in range(ITEMS):
        category = f"category-{rng.randrange(CATEGORIES)}"
        columns.put(Item(item_id=str(item), ts=NOW_MS, category=category, price=rng.uniform(1.0, 100.0)))
    contexts: list[Scalars] = [{"device": "phone", "surface": "home"}] * USERS
    now_ms = np.full(USERS, NOW_MS, np.int64)
    gap_ms = load_config().features.session_gap_ms

    def prepared() -> Callable[[], object]:
        # A batch keeps what was once made of it: every repeat has its own.
        batch = decode_records(packed)
        return lambda: user_features(USER_FEATURES, batch, columns, contexts, now_ms, gap_ms)

    (seconds,) = _medians([prepared], repeats)
    return seconds


def _medians(prepared: Sequence[Callable[[], Callable[[], object]]], repeats: int) -> list[float]:
    """Return the median seconds of each call, which is got ready anew each time.

    They take turns, so that what slows the machine slows all of them.
    """
    seconds: list[list[float]] = [[] for _ in prepared]
    for repeat in range(repeats + WARM_UP):
        for taken, prepare in zip(seconds, prepared, strict=True):
            call = prepare()
            start = time.perf_counter()
            call()
            if repeat >= WARM_UP:
                taken.append(time.perf_counter() - start)
    return [statistics.median(each) for each in seconds]


def _record(rng: random.Random) -> UserRecord:
    builder = RecordBuilder(EVENTS)
    ts = NOW_MS - rng.randrange(3_600_000)
    for place in range(EVENTS + rng.randrange(1, 50)):
        ts += rng.randrange(120_000)
        click = Click(
            event_id="e", ts=ts, user_id="u", item_id=str(rng.randrange(1_000, ITEMS)), action=rng.choice(ACTIONS)
        )
        record = builder.add(click, (rng.randrange(4), 1_000_000 + place))
    return record
