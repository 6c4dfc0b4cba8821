"""The gate against a plain Python copy of the topic: the same client, the same batches, no judgement."""

import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from benchmarks.feature_rows import Rows, row
from benchmarks.feature_rows.flink_rates import zipf_clicks
from benchmarks.harness import Options
from jobs.gate import GROUP, IDLE_WAIT_S, MAX_BATCH, run_gate
from runtime.clock import SystemClock
from runtime.config import Config, load_config
from runtime.kafka.clients import client_settings, group_consumer, producer, reader
from runtime.kafka.reading import drain, watermarks
from runtime.kafka.sending import Deliveries, send
from runtime.kafka.topics import create_topics, existing_topics, partitions_of
from runtime.lifecycle import StopSignal
from schemas.codec import encode
from schemas.topics import CLICKS, CLICKS_ACCEPTED, DEAD_LETTERS, Topic
from stack.control import PARTS_ONLY, down, up
from stack.layout import Layout
from stack.ports import LOOPBACK, free_port

COPY = Topic("benchmark.copy", "user_id", "a copy of the clicks", None)
COPY_GROUP = "benchmark-copy"
STALLED_S = 60.0
USERS, ITEMS = 50_000, 10_000

Process = Callable[[Path], None]
"""Runs with the configuration in a file until it is told to stop."""


def measure(options: Options) -> Rows:
    """Run both over the same backlog in turns, each time from its beginning and into an empty topic."""
    clicks, turns = (200_000, 3) if options.quick else (1_000_000, 3)
    gates: list[float] = []
    copies: list[float] = []
    with _kafka() as config:
        out, deliveries = producer(config.kafka, linger_ms=20), Deliveries()
        for click in zipf_clicks(clicks, USERS, ITEMS, options.seed):
            send(out, CLICKS.name, encode(click), click.user_id, on_delivery=deliveries.note)
        deliveries.confirm(out)
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


@contextmanager
def _kafka() -> Iterator[Config]:
    with TemporaryDirectory(prefix="headrace-benchmark-") as folder:
        config = load_config(
            overrides={
                "state_dir": Path(folder),
                "kafka": {"bootstrap_servers": f"{LOOPBACK}:{free_port()}"},
                "stack": {"parts": ["kafka"]},
            }
        )
        up(config, PARTS_ONLY)
        try:
            create_topics(config.kafka, [CLICKS])
            yield config
        finally:
            down(config)


def _rate(config: Config, run: Process, group: str, sinks: list[Topic], rows: int) -> float:
    """Run a process until its `sinks` hold `rows` records; return the rate from first to last."""
    _start_afresh(config, group, sinks)
    process = multiprocessing.get_context("spawn").Process(
        target=run, args=(Layout.of(config).config_file,), daemon=True
    )
    client = reader(config.kafka)
    partitions = [(sink.name, partition) for sink in sinks for partition in partitions_of(client, sink.name)]
    process.start()
    try:
        done, first, deadline = 0, None, time.perf_counter() + STALLED_S
        while done < rows:
            time.sleep(0.02)
            done = sum(watermarks(client, *each)[1] for each in partitions)
            now = time.perf_counter()
            if done and first is None:
                first = done, now
            if now > deadline:
                raise SystemExit(f"{done:,} of {rows:,} after {STALLED_S:.0f} s")
        assert first is not None
        return (done - first[0]) / (now - first[1])
    finally:
        process.terminate()
        process.join()
        client.close()


def _start_afresh(config: Config, group: str, sinks: list[Topic]) -> None:
    admin, client = AdminClient(client_settings(config.kafka)), reader(config.kafka)
    there = existing_topics(client)
    for sink in sinks:
        if sink.name in there:
            admin.delete_topics([sink.name])[sink.name].result(30)
    while any(sink.name in existing_topics(client) for sink in sinks):
        time.sleep(0.05)
    create_topics(config.kafka, sinks)
    client.close()
    while group in {each.group_id for each in admin.list_consumer_groups().result(10).valid}:
        # The last process was a static member, which leaves when its session ends.
        with suppress(KafkaException):
            admin.delete_consumer_groups([group])[group].result(30)
        time.sleep(0.5)
