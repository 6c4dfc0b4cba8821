"""`headrace run`: the long-running processes, each in the foreground; `headrace up` starts them for you."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from cli.context import load

if TYPE_CHECKING:
    from runtime.config import Config
    from runtime.lifecycle import StopSignal

app = typer.Typer(
    no_args_is_help=True,
    help="Run one process in the foreground until Ctrl-C (under systemd, in a container, or while debugging).",
)

Instance = Annotated[
    str, typer.Option(help="Its name in the consumer group; of several such processes each needs one of its own.")
]


def _foreground(context: typer.Context, process: "Callable[[Config, StopSignal], None]") -> None:
    from runtime.lifecycle import StopSignal, log_to_stderr

    log_to_stderr()
    process(load(context), StopSignal().listen())


@app.command()
def gate(context: typer.Context, instance: Instance = "gate") -> None:
    """Judge `clicks` into `clicks.accepted` and `dead-letters`."""
    from jobs.gate import run_gate
    from runtime.clock import SystemClock

    _foreground(context, lambda config, stop: run_gate(config, SystemClock(), stop, instance))


@app.command()
def jobs(context: typer.Context) -> None:
    """Keep the Flink jobs submitted: those that the cluster does not run are started."""
    import os

    from jobs.keeper import keep_jobs
    from stack.flink import flink_environment, prepare_flink
    from stack.jars import ensure_jars
    from stack.layout import Layout

    def keep(config: "Config", stop: "StopSignal") -> None:
        layout = Layout.of(config)
        if "flink" not in config.stack.parts:
            ensure_jars(config.cache_dir, ["flink"])
            prepare_flink(config, layout)
        keep_jobs(config, dict(os.environ) | flink_environment(layout), stop)

    _foreground(context, keep)


@app.command()
def materializer(context: typer.Context, instance: Instance = "materializer") -> None:
    """Write the compacted topics to Redis."""
    from features.redis_store import PATIENT_TIMEOUT_MS, RedisStore
    from jobs.materializer import run_materializer
    from runtime.clock import SystemClock

    def write(config: "Config", stop: "StopSignal") -> None:
        store = RedisStore(config.redis, timeout_ms=PATIENT_TIMEOUT_MS)
        run_materializer(config, store, SystemClock(), stop, instance)

    _foreground(context, write)


@app.command()
def neighbours(context: typer.Context) -> None:
    """Learn item-item neighbours from `clicks.accepted` and publish the lists that change."""
    from jobs.neighbours import run_neighbours
    from runtime.clock import SystemClock

    _foreground(context, lambda config, stop: run_neighbours(config, SystemClock(), stop))


@app.command()
def worker(context: typer.Context, instance: Instance = "worker-0") -> None:
    """Answer `recommend.requests` on `recommendations`."""
    from contextlib import closing

    from features.near_cache import NearCache
    from features.redis_store import RedisStore
    from features.tables import Tables
    from models.registry import built_in_rankers, load_pointer
    from runtime.clock import SystemClock
    from runtime.lifecycle import settle_memory
    from serving.followers import TableFollower
    from serving.metrics import ServingMetrics
    from serving.near_cache_follower import NearCacheFollower, home_on
    from serving.pipeline import Pipeline
    from serving.swap import ModelSwap
    from serving.worker import Worker

    def serve(config: "Config", stop: "StopSignal") -> None:
        clock, tables, metrics = SystemClock(), Tables(), ServingMetrics()
        swap = ModelSwap(built_in_rankers(config), load_pointer, on_flip=settle_memory)
        follower = TableFollower(config.kafka, tables, swap.take)
        follower.catch_up()
        swap.wait()
        settle_memory()
        metrics.serve(config.metrics_port)
        max_bytes = config.features.near_cache_mb * 1024**2
        home = home_on(config.kafka)
        with closing(NearCache(RedisStore(config.redis), home, max_bytes, config.redis.ttl_s, clock)) as users:
            pipeline = Pipeline(config, users, tables, swap.rankers, clock)
            users_follower = NearCacheFollower(config.kafka, users)
            Worker(config, pipeline, follower, users_follower, metrics, clock).run(stop, instance)

    _foreground(context, serve)


@app.command(hidden=True)
def supervisor(context: typer.Context) -> None:
    """Keep everything running that `headrace up` starts."""
    from cli.services import supervise

    supervise(load(context))
