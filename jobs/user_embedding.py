"""The Flink program `user-embedding`: `features.user` into `embeddings.user`, one vector per record.

The function is stateless and chained between source and sink, so that a user's vectors keep the order of their records
whatever the parallelism; key and partitioner are those of `features.user`, hence also the partition.
"""

from typing import TYPE_CHECKING

from jobs.encode_records import NO_VECTOR, EncodeRecords
from jobs.flink_environment import PRODUCER_OPTIONS, options, patience
from runtime.config import Config
from schemas.topics import EMBEDDINGS_USER, FEATURES_USER

if TYPE_CHECKING:
    from pyflink.table import TableEnvironment

JOB_NAME = "user-embedding"
FUNCTION = "encode_record"
BATCH_ROWS = 500

_FORMATS = {
    "connector": "kafka",
    "key.format": "raw",
    "key.fields": "user_id",
    "value.format": "raw",
    "value.fields-include": "EXCEPT_KEY",
}


def define(environment: "TableEnvironment", config: Config, _now_ms: int) -> list[str]:
    """Create the job's tables and its function on `environment` and return its INSERT statements."""
    from pyflink.table import DataTypes
    from pyflink.table.udf import udf

    settings = environment.get_config()
    # Rows wait for a bundle to fill, by default for a second.
    settings.set("python.fn-execution.bundle.time", str(config.flink.bundle_time_ms))
    # Small enough that under load the function works on one part of a bundle while Flink reads the next; by default
    # (10,000) a bundle of this duration is one batch, and the two take turns.
    settings.set("python.fn-execution.arrow.batch.size", str(BATCH_ROWS))
    # What is found depends on the encoder of the moment; and a deterministic function would be called once for each
    # use of its result.
    encode = udf(EncodeRecords(config.kafka), result_type=DataTypes.STRING(), func_type="pandas", deterministic=False)
    environment.create_temporary_function(FUNCTION, encode)
    source = (
        _FORMATS
        | patience(config.flink.bundle_time_ms)
        | {
            "topic": FEATURES_USER.name,
            "properties.group.id": JOB_NAME,
            "scan.startup.mode": "earliest-offset",
        }
    )
    sink = _FORMATS | {"topic": EMBEDDINGS_USER.name}
    # As bytes: what is not UTF-8 is then refused by itself and does not end the job.
    environment.execute_sql(
        f"CREATE TABLE user_records (user_id STRING, record BYTES) WITH ({options(config, source)})"
    )
    environment.execute_sql(
        f"CREATE TABLE user_vectors (user_id STRING, vector STRING) WITH ({options(config, sink | PRODUCER_OPTIONS)})"
    )
    return [
        f"""
        INSERT INTO user_vectors
        SELECT user_id, NULLIF(vector, '{NO_VECTOR}')
        FROM (SELECT user_id, {FUNCTION}(record) AS vector FROM user_records)
        WHERE vector IS NOT NULL"""
    ]
