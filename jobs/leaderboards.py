"""The Flink program `leaderboards`: `clicks.accepted` into `leaderboards`, one value per board."""

from typing import TYPE_CHECKING

from features.leaderboard_sql import select_leaderboard
from jobs.flink_environment import CLICKS_TABLE, create_clicks_table, options
from runtime.config import Config
from schemas.topics import LEADERBOARDS

if TYPE_CHECKING:
    from pyflink.table import TableEnvironment

JOB_NAME = "leaderboards"


def submit(environment: "TableEnvironment", config: Config, now_ms: int) -> None:
    """Start the job on the cluster and return once it is accepted."""
    create_clicks_table(environment, config, JOB_NAME)
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
    query = select_leaderboard(
        CLICKS_TABLE,
        config.leaderboard.size,
        config.leaderboard.half_life_ms,
        # Any moment will do that is near the events; the job keeps this one for as long as it keeps its state.
        now_ms,
        config.leaderboard.interval_ms,
    )
    environment.execute_sql(f"INSERT INTO boards {query}")
