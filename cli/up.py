"""`headrace up`: start the embedded stack and our own processes."""

from typing import TYPE_CHECKING

import typer

from cli.context import load

if TYPE_CHECKING:
    from rich.progress import Progress

    from runtime.config import Config
    from stack.state import StackState


def up(context: typer.Context) -> None:
    """Start Kafka, Redis, Flink and the pipeline; harmless if they run."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    from cli.status import table_of

    config = load(context)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, transient=True) as progress:
        state = start_with_progress(config, progress)
    Console().print(table_of(state))


def start_with_progress(config: "Config", progress: "Progress") -> "StackState":
    """Start everything, drawing what is being waited for; on a failure or Ctrl-C all of it is stopped again."""
    from cli.services import start

    jars = progress.add_task("fetching jars", total=None, visible=False)
    services = progress.add_task("starting", total=None)

    def on_jars(ready: int, total: int) -> None:
        progress.update(jars, completed=ready, total=total, visible=ready < total)

    def on_state(state: "StackState") -> None:
        waiting = [each.name for each in state.services if each.condition != "ready"]
        progress.update(
            services,
            description=f"waiting for {', '.join(waiting)}" if waiting else "everything is up",
            completed=len(state.services) - len(waiting),
            total=len(state.services) or None,
        )

    return start(config, on_state, on_jars)
