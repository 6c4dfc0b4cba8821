"""`headrace features rebuild` and `verify`: Redis written anew from the topics, and held against them."""

import typer

from cli.context import load
from cli.plain import plain


def rebuild(context: typer.Context) -> None:
    """Write all that the topics hold to Redis once more, for a Redis that lost it; the materializer may go on."""
    from features.redis_store import PATIENT_TIMEOUT_MS, RedisStore
    from jobs.store_care import rebuild_store
    from runtime.lifecycle import StopSignal

    config, stop = load(context), StopSignal().listen()
    store = RedisStore(config.redis, timeout_ms=PATIENT_TIMEOUT_MS)
    try:
        written = rebuild_store(config, store, stop)
    finally:
        store.close()
    print(f"{written:,} messages written{'; stopped before the end' if stop.stopping else ''}")
    if stop.stopping:
        raise typer.Exit(130)


def verify(context: typer.Context) -> None:
    """Compare what Redis holds of every key in the topics with what they say; ends with status 1 if it differs."""
    from rich.console import Console
    from rich.table import Column, Table

    from features.redis_store import PATIENT_TIMEOUT_MS, RedisStore
    from jobs.store_care import verify_store
    from runtime.clock import SystemClock
    from runtime.lifecycle import StopSignal

    config, stop = load(context), StopSignal().listen()
    store = RedisStore(config.redis, timeout_ms=PATIENT_TIMEOUT_MS)
    try:
        found = verify_store(config, store, SystemClock(), stop)
    finally:
        store.close()
    if stop.stopping:
        raise typer.Exit(130)
    table = Table(
        "topic", *(Column(name, justify="right") for name in ("keys", "missing", "different")), "for instance"
    )
    for topic, each in found.items():
        numbers = (f"{number:,}" for number in (each.keys, each.missing, each.different))
        table.add_row(topic, *numbers, plain(", ".join(each.examples)))
    console = Console()
    console.print(table)
    if not all(each.whole for each in found.values()):
        console.print("Redis does not hold what the topics say; `headrace features rebuild` writes it again")
        raise typer.Exit(1)
    console.print("Redis holds what the topics say")
