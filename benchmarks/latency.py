"""From request to answer, against an echo through the same broker.

The floor is a Python process that reads one topic and writes each message to another, as the worker does but without
the work. The highest rate that the worker holds is searched by doubling; echo and worker are then measured in turns at
half of it. The stream is MovieLens 100k: requests come for its users at random, so all tiers are used.
"""

import multiprocessing
import random
import statistics
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.harness import parse_options, report
from benchmarks.running import pipeline
from evaluation import demo as steps
from evaluation.balance import wait_for_records
from evaluation.protocol import plan
from models.contract import History
from models.datasets import movielens
from models.registry import TRAINABLE
from models.training import publish_models, train
from runtime.clock import SystemClock
from runtime.config import Config, KafkaConfig
from runtime.kafka.clients import group_consumer, producer, reader
from runtime.kafka.reading import assign_at_end, drain
from runtime.kafka.sending import send
from runtime.kafka.topics import create_topics
from runtime.lifecycle import StopSignal
from schemas.codec import encode
from schemas.request import Request
from schemas.topics import RECOMMENDATIONS, REQUESTS, Topic

ECHO_IN = Topic("benchmark.echo.in", "user_id", "what is to be echoed", None)
ECHO_OUT = Topic("benchmark.echo.out", "user_id", "the echo", None)
FIRST_RATE = 50
HELD_SHARE = 0.99
GRACE_S = 0.5
"""A rate is held if 99 % of the answers are there half a second after the last request."""

REQUEST_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Run:
    """One run at one rate: the latencies of what came back, and whether the rate was held."""

    latencies_ms: Sequence[float]
    held: bool


def main() -> None:
    """Start a stack of its own, measure, and stop it."""
    options = parse_options("latency", "Latency from request to answer, as a ratio to a Kafka echo.")
    seconds, turns = (5, 3) if options.quick else (20, 5)
    with _pipeline(options.seed) as (config, users):
        choose = random.Random(options.seed).choice  # noqa: S311 - a sequence to repeat, not a secret
        create_topics(config.kafka, [ECHO_IN, ECHO_OUT])
        with _echo(config.kafka):
            held = _highest_rate(
                lambda rate: _run(config.kafka, REQUESTS, RECOMMENDATIONS, rate, seconds, choose, users)
            )
            rate = held / 2
            echo: list[Run] = []
            worker: list[Run] = []
            for _ in range(turns):
                echo.append(_run(config.kafka, ECHO_IN, ECHO_OUT, rate, seconds, choose, users))
                worker.append(_run(config.kafka, REQUESTS, RECOMMENDATIONS, rate, seconds, choose, users))
    rows = [_row("Kafka echo", rate, echo), _row("request to answer", rate, worker)]
    ratios = {
        f"{each} over echo": float(rows[1][f"{each} ms"]) / float(rows[0][f"{each} ms"]) for each in ("p50", "p99")
    }
    sizes = {"users": len(users), "highest rate held": held, "seconds": seconds, "turns": turns}
    report("latency", options, sizes, rows, ratios)


@contextmanager
def _pipeline(seed: int) -> Iterator[tuple[Config, list[str]]]:
    """Run the whole pipeline on free ports with MovieLens' history in it and every model trained."""
    clock = SystemClock()
    with pipeline() as config:
        data = movielens.load(config.cache_dir)
        history = plan(data.clicks, 5.0, clock.now_ms()).history
        items, users = ({each.item_id: each for each in data.items}, {each.user_id: each for each in data.users})
        pointers = [train(name, History(history, items, users), config, seed, clock) for name in TRAINABLE]
        steps.produce_history(config.kafka, plan(data.clicks, 5.0, clock.now_ms()), data.items, data.users)
        publish_models(config.kafka, pointers)
        wait_for_records(config.kafka, len(history), clock, lambda _count: None)
        steps.wait_for_models(config.kafka, clock, history[0].user_id, pointers)
        yield config, sorted(users)


def _echo_process(config: KafkaConfig) -> None:
    stop = StopSignal().listen()
    consumer, out = group_consumer(config, "benchmark-echo", "echo-0"), producer(config)
    consumer.subscribe([ECHO_IN.name])
    while not stop.stopping:
        messages = drain(consumer, 64, 0.02)
        for message in messages:
            send(out, ECHO_OUT.name, message.value(), message.key())
        if messages:
            out.flush()
            consumer.commit(message=messages[-1], asynchronous=True)
    consumer.close()


@contextmanager
def _echo(config: KafkaConfig) -> Iterator[None]:
    process = multiprocessing.get_context("spawn").Process(target=_echo_process, args=(config,), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join(30)


def _highest_rate(run: Callable[[int], Run]) -> int:
    """Return the highest of 50, 100, 200 ... requests a second that is held."""
    run(FIRST_RATE)  # not counted: connections are made, and code paths warm up
    rate = FIRST_RATE
    if not run(rate).held:
        raise SystemExit(f"not even {rate} requests a second are held; is the machine busy with something else?")
    while run(rate * 2).held:
        rate *= 2
    return rate


def _run(
    config: KafkaConfig,
    topic: Topic,
    result: Topic,
    rate: float,
    seconds: float,
    choose: Callable[[Sequence[str]], str],
    users: Sequence[str],
) -> Run:
    """Send requests to `topic` at `rate` for `seconds` and collect what comes back on `result`."""
    replies, requests = reader(config), producer(config)
    assign_at_end(replies, [result.name])
    requests.list_topics(topic.name, timeout=10)
    run_id = uuid.uuid4().hex[:8]
    sent_at: dict[str, float] = {}
    latencies: list[float] = []
    wanted = int(rate * seconds)
    started = time.perf_counter()
    last_sent = started
    while len(latencies) < wanted and (len(sent_at) < wanted or time.perf_counter() - last_sent < GRACE_S):
        while len(sent_at) < wanted and time.perf_counter() - started >= len(sent_at) / rate:
            request_id, user_id = f"{run_id}-{len(sent_at)}", choose(users)
            ts = time.time_ns() // 1_000_000
            request = Request(request_id=request_id, ts=ts, user_id=user_id, k=10, timeout_ms=REQUEST_TIMEOUT_MS)
            sent_at[request_id] = last_sent = time.perf_counter()
            send(requests, topic.name, encode(request), user_id)
        for message in drain(replies, 100, 0.001):
            request_id = _request_id(message.value() or b"")
            if request_id in sent_at:
                latencies.append((time.perf_counter() - sent_at[request_id]) * 1000)
    replies.close()
    return Run(latencies, held=len(latencies) >= HELD_SHARE * wanted)


def _request_id(value: bytes) -> str:
    # Both a request and an answer begin with their request_id: no need to decode all of either.
    return value.split(b'"', 4)[3].decode()


def _row(what: str, rate: float, runs: Sequence[Run]) -> dict[str, str | float]:
    def median_of(percent: int) -> float:
        return statistics.median(statistics.quantiles(run.latencies_ms, n=100)[percent - 1] for run in runs)

    return {"what": what, "per second": rate, "p50 ms": median_of(50), "p99 ms": median_of(99)}


if __name__ == "__main__":
    main()
