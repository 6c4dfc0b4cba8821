"""What all Flink programs share: the table environment of a remote cluster and the tables at its rim."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from runtime.config import Config
from runtime.kafka.clients import PATIENT_BYTES
from schemas.click import Click
from schemas.ddl import columns
from schemas.topics import CLICKS_ACCEPTED

if TYPE_CHECKING:
    from pyflink.table import TableEnvironment

CLICKS_TABLE = "clicks_accepted"
CLICK_COLUMNS = ("user_id", "item_id", "ts", "action", "value")
"""What the table `CLICKS_TABLE` has of a Click."""

PRODUCER_OPTIONS = {
    # Records are small and many: some milliseconds to fill batches of 128 KiB double the rate of the user-record job.
    "properties.linger.ms": "3",
    "properties.batch.size": "131072",
}

AGGREGATE_PATIENCE_MS = 200
"""How long clicks may wait at the broker for others, for what is published by the half-second anyway."""


def table_environment(config: Config, job_name: str) -> "TableEnvironment":
    """Return a streaming table environment whose statements run as `job_name` on the cluster of the configuration."""
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    rest = urlsplit(config.flink.rest_url)
    options = {
        "pipeline.name": job_name,
        "execution.target": "remote",
        "rest.address": rest.hostname or "localhost",
        "rest.port": str(rest.port or 8081),
        "parallelism.default": str(config.flink.parallelism),
        "execution.checkpointing.interval": f"{config.flink.checkpoint_interval_ms} ms",
        # A job that is cancelled or lost with its JobManager goes on from its last checkpoint (`jobs/submit.py`).
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.buffer-timeout.interval": f"{config.flink.buffer_timeout_ms} ms",
        # Operators of one task hand rows on instead of copies: no SQL operator alters a row that it was given.
        "pipeline.object-reuse": "true",
        "table.exec.state.ttl": f"{config.flink.state_ttl_s} s",
        # State finds its operator again only by an id that does not depend on the rest of the plan.
        "table.exec.uid.generation": "ALWAYS",
    }
    settings = Configuration()
    for key, value in options.items():
        settings.set_string(key, value)
    return TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings).build()
    )


def create_clicks_table(environment: "TableEnvironment", config: Config, group: str) -> None:
    """Create the table `CLICKS_TABLE` over `clicks.accepted`, read from its beginning.

    A job with a checkpoint goes on from there; one without rebuilds its state from the log.
    """
    environment.execute_sql(f"""
        CREATE TABLE {CLICKS_TABLE} (
            {columns(Click, CLICK_COLUMNS)},
            src_partition INT METADATA FROM 'partition' VIRTUAL,
            src_offset BIGINT METADATA FROM 'offset' VIRTUAL,
            arrived AS PROCTIME()
        ) WITH ({options(config, clicks_source(group))})""")


def clicks_source(group: str) -> dict[str, str]:
    """Return the options of a table that reads `clicks.accepted` from its beginning."""
    return {
        "connector": "kafka",
        "topic": CLICKS_ACCEPTED.name,
        "properties.group.id": group,
        "scan.startup.mode": "earliest-offset",
        "format": "json",
    }


def patience(wait_ms: int) -> dict[str, str]:
    """Return the options of a source that lets rows wait for others at the broker, `wait_ms` at most.

    Fetched as they come, a thousand a second are hundreds of requests a second, each of which wakes all that is behind
    the source.
    """
    return {"properties.fetch.min.bytes": str(PATIENT_BYTES), "properties.fetch.max.wait.ms": str(wait_ms)}


def options(config: Config, own: dict[str, str]) -> str:
    """Return a table's WITH options: where Kafka is, the operator's client properties, and the table's own."""
    properties = {"bootstrap.servers": config.kafka.bootstrap_servers, **config.kafka.java_client}
    every = {f"properties.{key}": str(value) for key, value in properties.items()} | own
    return ", ".join(f"{_quoted(key)} = {_quoted(value)}" for key, value in every.items())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
