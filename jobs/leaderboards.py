"""The Flink program `leaderboards`: `clicks.accepted` and `items` into `leaderboards`, one value per board."""

from typing import TYPE_CHECKING

from features.leaderboard_sql import (
    CATALOGUE_VIEW,
    CHANGES_VIEW,
    LISTED_VIEW,
    SCORES_VIEW,
    select_catalogue,
    select_changes,
    select_leaderboards,
    select_listed,
    select_scores,
)
from jobs.flink_environment import AGGREGATE_PATIENCE_MS, CLICKS_TABLE, clicks_source, options, patience
from runtime.config import Config
from schemas.click import Click
from schemas.ddl import columns
from schemas.topics import ITEMS, LEADERBOARDS

if TYPE_CHECKING:
    from pyflink.table import TableEnvironment

JOB_NAME = "leaderboards"

ITEMS_TABLE = "items"


def define(environment: "TableEnvironment", config: Config, now_ms: int) -> list[str]:
    """Create the job's tables and views on `environment` and return its INSERT statements."""
    # Half of a join or of an order that forgets an item cannot take back what it has said of it: state here grows with
    # the catalogue, not with time.
    environment.get_config().set("table.exec.state.ttl", "0 s")
    # Whenever the windows fire, thousands of places change at once: a board's array is then made once, not each time.
    environment.get_config().set("table.exec.mini-batch.enabled", "true")
    environment.get_config().set("table.exec.mini-batch.allow-latency", f"{config.leaderboard.interval_ms // 4} ms")
    environment.get_config().set("table.exec.mini-batch.size", "10000")
    _create_tables(environment, config)
    settings = config.leaderboard
    views = {
        # Any landmark will do that is near the events; the job keeps this one for as long as it keeps its state.
        CHANGES_VIEW: select_changes(CLICKS_TABLE, settings.half_life_ms, now_ms, settings.interval_ms),
        SCORES_VIEW: select_scores(),
        CATALOGUE_VIEW: select_catalogue(ITEMS_TABLE),
        LISTED_VIEW: select_listed(),
    }
    for name, query in views.items():
        environment.execute_sql(f"CREATE TEMPORARY VIEW {name} AS {query}")
    return [f"INSERT INTO boards {select_leaderboards(settings.size)}"]


def _create_tables(environment: "TableEnvironment", config: Config) -> None:
    environment.execute_sql(f"""
        CREATE TABLE {CLICKS_TABLE} (
            {columns(Click, ("item_id", "ts", "action", "context"))},
            arrived AS PROCTIME()
        ) WITH ({options(config, clicks_source(JOB_NAME) | patience(AGGREGATE_PATIENCE_MS))})""")
    catalogue = {
        "connector": "kafka",
        "topic": ITEMS.name,
        "properties.group.id": JOB_NAME,
        "scan.startup.mode": "earliest-offset",
        # Nobody has validated this topic: it is taken as bytes, of which nothing can be wrong.
        "key.format": "raw",
        "key.fields": "item_id",
        "value.format": "raw",
        "value.fields-include": "EXCEPT_KEY",
    }
    environment.execute_sql(f"""
        CREATE TABLE {ITEMS_TABLE} (item_id STRING, body STRING, arrived AS PROCTIME())
        WITH ({options(config, catalogue)})""")
    sink = {
        "connector": "upsert-kafka",
        "topic": LEADERBOARDS.name,
        "key.format": "raw",
        "value.format": "json",
        # Of all the changes within an interval only a board's last state is written.
        "sink.buffer-flush.max-rows": "10000",
        "sink.buffer-flush.interval": f"{config.leaderboard.interval_ms} ms",
    }
    environment.execute_sql(f"""
        CREATE TABLE boards (
            board STRING, items ARRAY<ROW<item_id STRING, score DOUBLE>>, PRIMARY KEY (board) NOT ENFORCED
        ) WITH ({options(config, sink)})""")
