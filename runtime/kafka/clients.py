"""Kafka clients with this project's settings: murmur2, idempotent, quiet, committed by hand."""

import logging
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka import KafkaError as Code  # its codes; the name is taken by our own error

from runtime.config import KafkaConfig

_LOG = logging.getLogger("headrace.kafka")

MAX_MESSAGE_BYTES = 4 * 1024**2
"""The largest message that any topic of ours takes (`dead-letters`)."""

PATIENT_BYTES = 256 * 1024
"""What is worth an answer before a patient reader's time is up."""

SESSION_TIMEOUT_MS = 10_000
"""After this long without a heartbeat a worker's partitions go to another."""


def client_settings(config: KafkaConfig, **settings: Any) -> dict[str, Any]:
    """Common properties, then those of `settings` (underscores stand for dots), then the operator's own."""
    common: dict[str, Any] = {
        "bootstrap.servers": config.bootstrap_servers,
        "logger": _LOG,
        # A refused connection is an error to librdkafka; that a broker is gone shows in the calls' results.
        "error_cb": lambda error: _LOG.info("%s", error),
    }
    return common | {key.replace("_", "."): value for key, value in settings.items()} | dict(config.client)


def producer(config: KafkaConfig, *, linger_ms: float = 0.5, idempotent: bool = True) -> Producer:
    """Return a producer that puts a key on the same partition as Java clients do (murmur2).

    An idempotent one spends half a second on getting its id: do without for a single message.
    """
    settings = client_settings(
        config,
        partitioner="murmur2_random",
        enable_idempotence=idempotent,
        acks="all",
        linger_ms=linger_ms,
        message_max_bytes=MAX_MESSAGE_BYTES,
    )
    return Producer(settings)


def group_consumer(config: KafkaConfig, group: str, instance: str, *, patience_ms: int = 0) -> Consumer:
    """Return a consumer of `group` that starts at the beginning and commits only by hand.

    `instance` makes its membership static: a restarted process takes its partitions back at once, without
    waiting for the dead one's session to end. `patience_ms` is as for `reader`.
    """
    settings = client_settings(
        config,
        group_id=group,
        group_instance_id=instance,
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_TIMEOUT_MS,
        isolation_level="read_committed",
        **_patience(patience_ms),
    )
    return Consumer(settings | {"on_commit": _log_failed_commit})


def commit(consumer: Consumer, offsets: Iterable[TopicPartition], *, asynchronous: bool) -> None:
    """Commit those of `offsets` whose partitions `consumer` still has; the others are their new owner's to commit.

    A failure is logged, not raised, be it at once or later: whoever gets the partition reads from the commit before.
    """
    held = {(each.topic, each.partition) for each in consumer.assignment()}
    ours = [each for each in offsets if (each.topic, each.partition) in held]
    if not ours:
        return
    try:
        if asynchronous:
            consumer.commit(offsets=ours)
        else:
            _log_failed_commit(None, consumer.commit(offsets=ours, asynchronous=False))
    except KafkaException as error:
        _log_failed_commit(error.args[0], ours)


def _log_failed_commit(error: Code | None, partitions: list[TopicPartition]) -> None:
    """Called by the client, with the outcome of the whole commit or of each partition."""
    for each in partitions:
        if reason := error or each.error:
            _LOG.warning("%s[%d]: offset %d is not committed: %s", each.topic, each.partition, each.offset, reason)


def reader(config: KafkaConfig, *, patience_ms: int = 0) -> Consumer:
    """Return a consumer without a group, to be assigned by hand.

    With `patience_ms` the broker may keep what arrives for that long, and spares both sides most of the requests.
    """
    return Consumer(
        client_settings(
            config,
            **_patience(patience_ms),
            group_id="headrace-reader",  # required by the client, never joined or committed to
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            enable_partition_eof=False,
        )
    )


def _patience(patience_ms: int) -> dict[str, int]:
    return {"fetch_min_bytes": PATIENT_BYTES, "fetch_wait_max_ms": patience_ms} if patience_ms else {}
