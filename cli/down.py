"""`headrace down`: end exactly what `headrace up` started."""

from typing import Annotated

import typer

from cli.context import load


def down(
    context: typer.Context,
    wipe: Annotated[
        bool, typer.Option("--wipe", help="Also remove the data, the logs and the models; keeps the cache.")
    ] = False,
) -> None:
    """Stop the pipeline, Flink, Redis and Kafka; harmless if nothing runs."""
    from stack.control import down as stop_all

    config = load(context)
    stopped = stop_all(config, wipe=wipe)
    print(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")
    if wipe:
        print(f"removed the data in {config.state_dir}")
