"""How many keys a second the materializer writes, all of them different ones."""

import multiprocessing
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from redis import Redis

from benchmarks.feature_rows import Rows, row
from benchmarks.harness import Options
from features.redis_store import RedisStore
from features.user_record import RecordBuilder, pack_record
from jobs.materializer import WRITE_TIMEOUT_MS, run_materializer
from runtime.clock import SystemClock
from runtime.config import Config, load_config
from runtime.kafka.clients import producer
from runtime.kafka.sending import Deliveries, send
from runtime.kafka.topics import create_topics
from runtime.lifecycle import StopSignal
from schemas.click import Click
from schemas.topics import FEATURES_USER, TOPICS
from stack.control import PARTS_ONLY, down, up
from stack.layout import Layout
from stack.ports import LOOPBACK, free_port

EVENTS = 32
STALLED_S = 120.0


def measure(options: Options) -> Rows:
    """Fill `features.user` with full records and time the materializer from the first key to the last."""
    users, turns = (40_000, 3) if options.quick else (200_000, 3)
    rates = []
    for turn in range(turns):
        with _kafka_and_redis() as config:
            out, deliveries = producer(config.kafka, linger_ms=20), Deliveries()
            for user_id, record in _records(users, options.seed + turn):
                send(out, FEATURES_USER.name, record, user_id, on_delivery=deliveries.note)
            deliveries.confirm(out)
            rates.append(_rate(config, users))
    rate = statistics.median(rates)
    return Rows([row("materializer", rate, "keys/s")], {"materializer_keys_per_s": rate})


def _records(users: int, seed: int) -> Iterator[tuple[str, bytes]]:
    chance = random.Random(seed)  # noqa: S311 - a sequence to repeat, not a secret
    for user in range(users):
        builder = RecordBuilder(EVENTS)
        for place in range(EVENTS):
            click = Click(
                event_id="e",
                ts=1_700_000_000_000 + place * 977,
                user_id="u",
                item_id=str(chance.randrange(10_000)),
                action="view",
            )
            record = builder.add(click, (user % 4, user))
        yield f"user-{user}", pack_record(record)


def _run(file: Path) -> None:
    config = load_config(file)
    store = RedisStore(config.redis, timeout_ms=WRITE_TIMEOUT_MS)
    run_materializer(config, store, SystemClock(), StopSignal().listen())


def _rate(config: Config, keys: int) -> float:
    process = multiprocessing.get_context("spawn").Process(
        target=_run, args=(Layout.of(config).config_file,), daemon=True
    )
    with Redis.from_url(config.redis.url) as redis:
        process.start()
        try:
            done, first, deadline = 0, None, time.perf_counter() + STALLED_S
            while done < keys:
                time.sleep(0.02)
                done, now = int(redis.dbsize()), time.perf_counter()
                if done and first is None:
                    first = done, now
                if now > deadline:
                    raise SystemExit(f"{done:,} of {keys:,} keys after {STALLED_S:.0f} s")
            assert first is not None
            return (done - first[0]) / (now - first[1])
        finally:
            process.terminate()
            process.join()


@contextmanager
def _kafka_and_redis() -> Iterator[Config]:
    with TemporaryDirectory(prefix="headrace-benchmark-") as folder:
        config = load_config(
            overrides={
                "state_dir": Path(folder),
                "kafka": {"bootstrap_servers": f"{LOOPBACK}:{free_port()}"},
                "redis": {"url": f"redis://{LOOPBACK}:{free_port()}/0"},
                "stack": {"parts": ["kafka", "redis"]},
            }
        )
        up(config, PARTS_ONLY)
        try:
            create_topics(config.kafka, TOPICS)
            yield config
        finally:
            down(config)
