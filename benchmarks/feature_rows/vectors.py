"""User vectors: the job against itself with a Python function in it that does nothing."""

import statistics
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.feature_rows import Rows, row
from benchmarks.feature_rows.flink_rates import START_MS, flink_stack, zipf_clicks
from benchmarks.harness import Options
from benchmarks.running import FILL_LINGER_MS
from features.embedding import ITEM_VECTORS
from features.user_record import RecordBuilder, pack_record
from features.user_vector import pack_vector
from jobs import user_embedding
from models.item_vectors import ItemVectors
from models.training import publish_models
from runtime.artifact import Manifest, point_to
from runtime.config import Config
from runtime.kafka.sending import send_all
from schemas.state import ModelPointer
from schemas.topics import EMBEDDINGS_USER, FEATURES_USER

if TYPE_CHECKING:
    import pandas as pd
    from pyflink.table import TableEnvironment

USERS = 500
ITEMS = 5_000
VERSION = "20231114T221320000Z-benchmrk"


def measure(options: Options) -> Rows:
    """Measure both over the same full-length records, taking turns; the rates are medians."""
    records, repeats = (40_000, 1) if options.quick else (200_000, 3)
    vectors, empty = [], []
    with flink_stack() as stack:
        publish_models(stack.config.kafka, [_encoder(stack.config, options.seed)])
        backlog = _records(records, stack.config.features.record_events, options.seed)
        messages = ((FEATURES_USER.name, user_id, record) for user_id, record in backlog)
        send_all(stack.config.kafka, messages, linger_ms=FILL_LINGER_MS)
        run = partial(stack.rows_per_s, sink=EMBEDDINGS_USER, rows=records)
        run("warm-up", user_embedding.define)  # the JVM's first job runs at half the rate of the next
        for _ in range(repeats):
            vectors.append(run(user_embedding.JOB_NAME, user_embedding.define))
            empty.append(run("empty-function", with_empty_function))
    vectors_per_s, empty_per_s = statistics.median(vectors), statistics.median(empty)
    return Rows(
        [
            row("user vectors (parallelism 1)", vectors_per_s, "rows/s"),
            row("the same with an empty Python function", empty_per_s, "rows/s"),
        ],
        {"vectors_per_s": vectors_per_s, "vectors_vs_udf": vectors_per_s / empty_per_s},
    )


def with_empty_function(environment: "TableEnvironment", config: Config, now_ms: int) -> list[str]:
    """Define the vector job, but with a function that looks at nothing and returns a text of a vector's length."""
    from pyflink.table import DataTypes
    from pyflink.table.udf import udf

    text = pack_vector(0, 1_000_000, VERSION, np.zeros(config.embedding.size, np.float32))

    def same_for_all(records: "pd.Series[bytes]") -> "pd.Series[str]":
        import pandas as pd

        return pd.Series([text] * len(records), dtype=object)

    statements = user_embedding.define(environment, config, now_ms)
    environment.drop_temporary_function(user_embedding.FUNCTION)
    empty = udf(same_for_all, result_type=DataTypes.STRING(), func_type="pandas", deterministic=False)
    environment.create_temporary_function(user_embedding.FUNCTION, empty)
    return statements


def _encoder(config: Config, seed: int) -> ModelPointer:
    """Save random vectors for every item and return the pointer to them."""
    directions = np.random.default_rng(seed).normal(size=(ITEMS, config.embedding.size))
    vectors = (directions / np.linalg.norm(directions, axis=1, keepdims=True)).astype(np.float32)
    manifest = Manifest(
        model=ITEM_VECTORS, version=VERSION, parent=None, created_ms=START_MS, seed=seed, events=0, data_ts=None
    )
    ids = [f"item-{n}" for n in range(1, ITEMS + 1)]
    folder = config.state_dir / "models" / ITEM_VECTORS / VERSION
    ItemVectors(manifest, ids, vectors, config.embedding.step_decay).save(folder)
    return point_to(folder, START_MS)


def _records(count: int, max_events: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield the user and the packed record after each of `count` clicks of users whose records are full."""
    builders: dict[str, RecordBuilder] = defaultdict(partial(RecordBuilder, max_events))
    # Twice as many as needed to fill every record, since users come up at random.
    for place, click in enumerate(zipf_clicks(count + 2 * USERS * max_events, USERS, ITEMS, seed)):
        record = builders[click.user_id].add(click, (0, place))
        if place >= 2 * USERS * max_events:
            yield click.user_id, pack_record(record)
