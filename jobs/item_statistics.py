"""The Flink program `item-statistics`: `clicks.accepted` into `features.item`, one packed row per item."""

from typing import TYPE_CHECKING

from features.item_statistics_sql import (
    MINUTES_VIEW,
    NEWS_VIEW,
    select_item_statistics,
    select_minutes,
    select_news,
)
from jobs.flink_environment import (
    AGGREGATE_PATIENCE_MS,
    CLICKS_TABLE,
    PRODUCER_OPTIONS,
    clicks_source,
    options,
    patience,
)
from runtime.config import Config
from schemas.click import Click
from schemas.ddl import columns
from schemas.topics import FEATURES_ITEM

if TYPE_CHECKING:
    from pyflink.table import TableEnvironment

JOB_NAME = "item-statistics"

INTERVAL_MS = 500
"""Over how long an item's clicks are summed up before its row is written, and how long the sink waits for a newer one:
a click shows within about a second."""


def define(environment: "TableEnvironment", config: Config, now_ms: int) -> list[str]:
    """Create the program's tables and return the INSERT statement that is the job."""
    # Windows end at round times of the epoch, wherever the cluster stands.
    environment.get_config().set("table.local-time-zone", "UTC")
    # Rows reach the windows one by one, so that a late one is counted as one; and each window operator less saves a
    # megabyte of managed memory in every slot.
    environment.get_config().set("table.optimizer.agg-phase-strategy", "ONE_PHASE")
    source = clicks_source(JOB_NAME) | patience(AGGREGATE_PATIENCE_MS)
    source |= {"scan.watermark.idle-timeout": f"{config.item_statistics.idle_after_ms} ms"}
    environment.execute_sql(f"""
        CREATE TABLE {CLICKS_TABLE} (
            {columns(Click, ("item_id", "ts", "action"))},
            happened AS TO_TIMESTAMP_LTZ(ts, 3),
            arrived AS PROCTIME(),
            WATERMARK FOR happened AS TO_TIMESTAMP_LTZ(ts - {config.item_statistics.max_lateness_ms}, 3)
        ) WITH ({options(config, source)})""")
    environment.execute_sql(f"CREATE TEMPORARY VIEW {MINUTES_VIEW} AS {select_minutes(CLICKS_TABLE)}")
    environment.execute_sql(f"CREATE TEMPORARY VIEW {NEWS_VIEW} AS {select_news(CLICKS_TABLE)}")
    sink = {
        "connector": "upsert-kafka",
        "topic": FEATURES_ITEM.name,
        "key.format": "raw",
        "value.format": "raw",
        "value.fields-include": "EXCEPT_KEY",
        # When a window closes, or a log is replayed, many rows of one item come at once: only the last is written.
        "sink.buffer-flush.max-rows": "10000",
        "sink.buffer-flush.interval": f"{INTERVAL_MS} ms",
    }
    environment.execute_sql(f"""
        CREATE TABLE item_statistics (
            item_id STRING, statistics STRING, PRIMARY KEY (item_id) NOT ENFORCED
        ) WITH ({options(config, sink | PRODUCER_OPTIONS)})""")
    # Any moment will do that is near the events; the job keeps this one for as long as it keeps its state.
    query = select_item_statistics(config.leaderboard.half_life_ms, now_ms, INTERVAL_MS)
    return [f"INSERT INTO item_statistics {query}"]
