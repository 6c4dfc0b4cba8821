"""From a click that is produced to the record in Redis that shows it, with everything running."""

import time

import numpy as np
from redis import Redis

from benchmarks.feature_rows import Rows, row
from benchmarks.feature_rows.flink_rates import zipf_clicks
from benchmarks.harness import Options
from benchmarks.running import Failed, pipeline
from features.embedding import ITEM_VECTORS
from features.store import Family
from models.contract import History
from models.training import publish_models, train
from runtime.clock import SystemClock
from runtime.config import Config
from runtime.kafka.clients import producer
from runtime.kafka.sending import Deliveries, send
from schemas.click import Click
from schemas.codec import encode
from schemas.topics import CLICKS

RATE = 1_000
USERS, ITEMS = 20_000, 5_000
TRAINING_CLICKS = 100_000
SAMPLE_EVERY = 10
"""One click in ten is waited for; looking for all of them would be a load of its own."""

LOOK_EVERY_S = 0.001
LOST_S = 10.0


def measure(options: Options) -> Rows:
    """Send clicks at a steady rate and look for a tenth of them in Redis, every millisecond."""
    # Java's compiler takes a core for the first minute.
    warm_up, seconds = (30, 20) if options.quick else (90, 60)
    with pipeline() as config:
        # Without an encoder the embedding job would have nothing to do.
        history = History(tuple(zipf_clicks(TRAINING_CLICKS, USERS, ITEMS, options.seed)))
        publish_models(config.kafka, [train(ITEM_VECTORS, history, config, options.seed, SystemClock())])
        latencies = _run(config, warm_up, seconds)
    p50, p99 = (float(np.percentile(latencies, each)) for each in (50, 99))
    return Rows(
        [row("click to record in Redis, p50", p50, "ms"), row("click to record in Redis, p99", p99, "ms")],
        {"freshness_p50_ms": p50, "freshness_p99_ms": p99},
    )


def _run(config: Config, warm_up: int, seconds: int) -> list[float]:
    """Return the milliseconds between sending and seeing each click that was sampled after `warm_up` seconds."""
    clock, out, deliveries = SystemClock(), producer(config.kafka), Deliveries()
    waiting: dict[str, tuple[bytes, float]] = {}
    latencies: list[float] = []
    sent, every, began = 0, (warm_up + seconds) * RATE, time.perf_counter()
    with Redis.from_url(config.redis.url) as redis:
        while sent < every or waiting:
            now = time.perf_counter()
            for n in range(sent, min(every, int((now - began) * RATE))):
                user_id, item_id = f"fresh-{n % USERS}", f"item-{n * 7 % ITEMS}"
                click = Click(event_id=f"f{n}", ts=clock.now_ms(), user_id=user_id, item_id=item_id, action="click")
                if n >= warm_up * RATE and n % SAMPLE_EVERY == 0:
                    waiting[Family.USER.key(user_id)] = b"%dc%b" % (click.ts, item_id.encode()), time.perf_counter()
                send(out, CLICKS.name, encode(click), user_id, on_delivery=deliveries.note)
                sent += 1
            out.poll(0)
            for key, value in zip(list(waiting), redis.mget(waiting) if waiting else (), strict=True):
                entry, since = waiting[key]
                if value is not None and value.endswith(entry):
                    latencies.append((time.perf_counter() - since) * 1_000)
                    del waiting[key]
                elif now - since > LOST_S:
                    raise Failed(f"{entry.decode()} is not in {key} after {LOST_S:.0f} s")
            time.sleep(LOOK_EVERY_S)
    deliveries.confirm(out)
    return latencies
