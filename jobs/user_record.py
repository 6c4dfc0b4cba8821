"""The Flink program `user-record`: `clicks.accepted` into `features.user`, one keyed record per event."""

from typing import TYPE_CHECKING

from features.user_record_sql import select_user_records
from jobs.flink_environment import CLICKS_TABLE, PRODUCER_OPTIONS, create_clicks_table, options
from runtime.config import Config
from schemas.topics import FEATURES_USER

if TYPE_CHECKING:
    from pyflink.table import TableEnvironment

JOB_NAME = "user-record"


def define(environment: "TableEnvironment", config: Config, _now_ms: int) -> list[str]:
    """Create the job's tables on `environment` and return its INSERT statements."""
    create_clicks_table(environment, config, JOB_NAME)
    sink = {
        "connector": "kafka",
        "topic": FEATURES_USER.name,
        "key.format": "raw",
        "key.fields": "user_id",
        "value.format": "raw",
        "value.fields-include": "EXCEPT_KEY",
    }
    environment.execute_sql(f"""
        CREATE TABLE features_user (user_id STRING, record STRING)
        WITH ({options(config, sink | PRODUCER_OPTIONS)})""")
    query = select_user_records(CLICKS_TABLE, config.features.record_events)
    return [f"INSERT INTO features_user {query}"]
