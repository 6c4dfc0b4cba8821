"""The gate against a plain Python copy of the topic: the same client, the same batches, no judgement."""

import statistics
from pathlib import Path

from benchmarks.feature_rows import Rows, row
from benchmarks.feature_rows.flink_rates import zipf_clicks
from benchmarks.harness import Options
from benchmarks.running import FILL_LINGER_MS, Process, empty, forget_group, parts, rate_of
from jobs.gate import GROUP, IDLE_WAIT_S, MAX_BATCH, run_gate
from runtime.clock import SystemClock
from runtime.config import Config, load_config
from runtime.kafka.clients import group_consumer, producer, reader
from runtime.kafka.reading import drain, watermarks
from runtime.kafka.sending import send_all
from runtime.kafka.topics import partitions_of
from runtime.lifecycle import StopSignal
from schemas.codec import encode
from schemas.topics import CLICKS, CLICKS_ACCEPTED, DEAD_LETTERS, Topic

COPY = Topic("benchmark.copy", "user_id", "a copy of the clicks", None)
COPY_GROUP = "benchmark-copy"
USERS, ITEMS = 50_000, 10_000


def measure(options: Options) -> Rows:
    """Run both over the same backlog in turns, each time from its beginning and into an empty topic."""
    clicks, turns = (200_000, 3) if options.quick else (1_000_000, 3)
    gates: list[float] = []
    copies: list[float] = []
    with parts("kafka") as config:
        backlog = zipf_clicks(clicks, USERS, ITEMS, options.seed)
        messages = ((CLICKS.name, click.user_id, encode(click)) for click in backlog)
        send_all(config.kafka, messages, linger_ms=FILL_LINGER_MS)
        for _ in range(turns):
            copies.append(_rate(config, _copy, COPY_GROUP, [COPY], clicks))
            gates.append(_rate(config, _gate, GROUP, [CLICKS_ACCEPTED, DEAD_LETTERS], clicks))
    gate, copy = statistics.median(gates), statistics.median(copies)
    return Rows(
        [row("plain Python copy of the clicks", copy, "clicks/s"), row("gate", gate, "clicks/s")],
        {"gate_vs_copy": gate / copy},
    )


def _gate(file: Path) -> None:
    run_gate(load_config(file), SystemClock(), StopSignal().listen())


def _copy(file: Path) -> None:
    """Read a batch, write it, wait until the broker has it, commit."""
    kafka, stop = load_config(file).kafka, StopSignal().listen()
    out, consumer = producer(kafka), group_consumer(kafka, COPY_GROUP, COPY_GROUP)
    consumer.subscribe([CLICKS.name])
    while not stop.stopping:
        messages = drain(consumer, MAX_BATCH, IDLE_WAIT_S)
        for message in messages:
            out.produce(COPY.name, message.value(), message.key())
        out.flush()
        if messages:
            consumer.commit(offsets=consumer.position(consumer.assignment()), asynchronous=True)
    consumer.close()


def _rate(config: Config, run: Process, group: str, sinks: list[Topic], rows: int) -> float:
    """Return the rate at which a process of `group` fills its `sinks`, from the beginning of its source."""
    for sink in sinks:
        empty(config.kafka, sink)
    forget_group(config.kafka, group)
    client = reader(config.kafka)
    partitions = [(sink.name, partition) for sink in sinks for partition in partitions_of(client, sink.name)]
    try:
        return rate_of(run, config, lambda: sum(watermarks(client, *each)[1] for each in partitions), rows)
    finally:
        client.close()
