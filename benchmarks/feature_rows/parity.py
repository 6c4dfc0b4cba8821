"""Features of the running pipeline against those of replaying the same clicks in plain Python: how many differ."""

import time
from collections.abc import Callable, Iterable, Mapping
from itertools import chain

import numpy as np

from benchmarks.feature_rows import Rows, row
from benchmarks.harness import Options
from benchmarks.running import FILL_LINGER_MS, pipeline
from evaluation.balance import wait_for_records
from evaluation.recount import miscounted, recount
from features.embedding import ITEM_VECTORS, Encoder
from features.item_columns import ItemColumns
from features.record_batch import decode_records
from features.redis_store import PATIENT_TIMEOUT_MS, RedisStore
from features.store import Family
from features.user_features import USER_FEATURES, user_features
from models.contract import History
from models.datasets import movielens
from models.training import publish_models, train
from runtime import artifact
from runtime.clock import SystemClock
from runtime.config import Config
from runtime.kafka.sending import send_all
from schemas.codec import decode, encode
from schemas.fields import Scalars
from schemas.item import Item
from schemas.topics import CLICKS, ITEMS

PATIENCE_S = 60.0

Values = Mapping[str, bytes | None]
"""Packed values by id."""


def measure(options: Options) -> Rows:
    """Send MovieLens 100k through the pipeline, then compare records, counts, user features and vectors."""
    with pipeline() as config:
        clock, data = SystemClock(), movielens.load(config.cache_dir)
        clicks = data.clicks[:20_000] if options.quick else data.clicks
        pointer = train(ITEM_VECTORS, History(clicks), config, options.seed, clock)
        publish_models(config.kafka, [pointer])
        catalogue_messages = ((ITEMS.name, item.item_id, encode(item)) for item in data.items)
        click_messages = ((CLICKS.name, click.user_id, encode(click)) for click in clicks)
        send_all(config.kafka, chain(catalogue_messages, click_messages), linger_ms=FILL_LINGER_MS)
        wait_for_records(config.kafka, len(clicks), clock, lambda _done: None)
        replayed = recount(config)
        encoder = Encoder.load(artifact.follow(pointer))
        store = RedisStore(config.redis, timeout_ms=PATIENT_TIMEOUT_MS)

        def stored(family: Family, ids: Iterable[str]) -> dict[str, bytes | None]:
            names = list(ids)
            values = store.get_many([family.key(each) for each in names])
            return {name: value and value.value for name, value in zip(names, values, strict=True)}

        wrong = miscounted(replayed, store, clock)
        vectors = dict(zip(replayed.users, encoder.encode(list(replayed.users.values())).vectors, strict=True))
        wanted = {user_id: None if vector is None else vector.encode() for user_id, vector in vectors.items()}
        wrong_vectors = _settled(lambda: _differing(stored(Family.EMBEDDING, wanted), wanted))
        catalogue = stored(Family.ITEM, (item.item_id for item in data.items))
        live = _features(config, stored(Family.USER, replayed.users), _decoded(catalogue))
        plain = _features(config, replayed.users, {item.item_id: item for item in data.items})
        store.close()
    counts = {
        "user records": (sum(key.startswith(Family.USER.key("")) for key in wrong), len(replayed.users)),
        "item counts": (sum(key.startswith(Family.ITEM_STATISTICS.key("")) for key in wrong), len(replayed.items)),
        "user vectors": (len(wrong_vectors), len(wanted)),
        "user features": (sum(live[name] != plain[name] for name in plain), len(plain)),
    }
    rows = [row(f"{what} that differ, of {of:,}", float(number), what) for what, (number, of) in counts.items()]
    return Rows(rows, {"parity_differences": float(sum(number for number, _ in counts.values()))})


def _features(config: Config, records: Values, items: Mapping[str, Item]) -> dict[str, bytes]:
    """Return every user feature over all users, as bytes."""
    batch = decode_records(list(records.values()))
    now_ms = np.full(len(batch), batch.ts.max() + 1, np.int64)
    contexts: list[Scalars] = [{}] * len(batch)
    columns = ItemColumns.of(items)
    found = user_features(USER_FEATURES, batch, columns, contexts, now_ms, config.features.session_gap_ms)
    return {name: encode(each.tolist()) if each.dtype == object else each.tobytes() for name, each in found.items()}


def _decoded(catalogue: Values) -> dict[str, Item]:
    return {item_id: decode(value, Item) for item_id, value in catalogue.items()}


def _differing(found: Values, wanted: Values) -> list[str]:
    return [each for each in wanted if found[each] != wanted[each]]


def _settled(differing: Callable[[], list[str]]) -> list[str]:
    """Return what still differs when nothing does or the patience is over."""
    until = time.monotonic() + PATIENCE_S
    while (wrong := differing()) and time.monotonic() < until:
        time.sleep(0.2)
    return wrong
