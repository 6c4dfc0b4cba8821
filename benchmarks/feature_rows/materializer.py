"""How many keys a second the materializer writes, all of them different ones."""

import random
import statistics
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from redis import Redis

from benchmarks.feature_rows import Rows, row
from benchmarks.harness import Options
from benchmarks.running import FILL_LINGER_MS, parts, rate_of
from features.redis_store import PATIENT_TIMEOUT_MS, RedisStore
from features.user_record import RecordBuilder, pack_record
from jobs.materializer import run_materializer
from runtime.clock import SystemClock
from runtime.config import load_config
from runtime.kafka.sending import send_all
from runtime.lifecycle import StopSignal
from schemas.click import Click
from schemas.topics import FEATURES_USER

EVENTS = 32
START_MS = 1_700_000_000_000
STEP_MS = 977


def measure(options: Options) -> Rows:
    """Fill `features.user` with full records and time the materializer from the first key to the last."""
    users, turns = (40_000, 3) if options.quick else (200_000, 3)
    messages = [(FEATURES_USER.name, user_id, record) for user_id, record in _records(users, options.seed)]
    rates = []
    for _ in range(turns):
        with parts("kafka", "redis") as config, Redis.from_url(config.redis.url) as redis:
            send_all(config.kafka, messages, linger_ms=FILL_LINGER_MS)
            rates.append(rate_of(_run, config, partial(_keys, redis), users))
    rate = statistics.median(rates)
    return Rows([row("materializer", rate, "keys/s")], {"materializer_keys_per_s": rate})


def _keys(redis: Redis) -> int:
    return int(redis.dbsize())  # type: ignore[arg-type]


def _run(file: Path) -> None:
    config = load_config(file)
    store = RedisStore(config.redis, timeout_ms=PATIENT_TIMEOUT_MS)
    run_materializer(config, store, SystemClock(), StopSignal().listen())


def _records(users: int, seed: int) -> Iterator[tuple[str, bytes]]:
    chance = random.Random(seed)  # noqa: S311 - a sequence to repeat, not a secret
    for user in range(users):
        builder = RecordBuilder(EVENTS)
        for place in range(EVENTS):
            item_id, ts = str(chance.randrange(10_000)), START_MS + place * STEP_MS
            click = Click(event_id="e", ts=ts, user_id=f"user-{user}", item_id=item_id, action="view")
            record = builder.add(click, (user % 4, user))
        yield f"user-{user}", pack_record(record)
