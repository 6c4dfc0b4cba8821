"""`headrace jobs`: the Flink jobs as operated things; their state is kept by savepoints and checkpoints."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from cli.context import load
from cli.plain import plain
from cli.units import age, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobs.job_state import Snapshot
    from jobs.operations import JobView

app = typer.Typer(no_args_is_help=True, help="List, stop, resume and rebuild the Flink jobs.")

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="As `headrace jobs list` shows them.")]

_STYLES = {"RUNNING": "green", "STOPPED": "yellow", "MISSING": "red"}


@app.command("list")
def list_(context: typer.Context) -> None:
    """Show every job, its last checkpoint and what it was restored from."""
    from rich.console import Console
    from rich.table import Column, Table

    from jobs.operations import view_jobs
    from runtime.clock import SystemClock

    config = load(context)
    now_ms = SystemClock().now_ms()
    # Two lines a job, so that it fits a terminal of 80 columns.
    first = (Column(name, no_wrap=True) for name in ("job\nfingerprint", "state\nsince", "id\nparallelism"))
    table = Table(*first, Column("last checkpoint\nsize", no_wrap=True), Column("restored from", overflow="fold"))
    for view in view_jobs(config):
        style = _STYLES.get(view.state, "yellow")
        since = job_id = parallelism = restored_from = ""
        fingerprint = view.record.fingerprint
        if view.job is not None:
            since, job_id = age(now_ms - view.job.start_ms), view.job.jid[:8]
            restored_from = origin(view.record.restored_from)
        if view.identity is not None:
            parallelism, fingerprint = str(view.identity.parallelism), view.identity.fingerprint
        table.add_row(
            plain(view.name).append(f"\n{fingerprint[:8]}"),
            plain(view.state, style).append(f"\n{since}"),
            f"{job_id}\n{parallelism}",
            described(view.checkpoint, now_ms),
            plain(restored_from),
        )
    Console().print(table)


@app.command()
def stop(context: typer.Context, names: Names) -> None:
    """End jobs with a savepoint; they stay stopped until `resume`."""
    from jobs.operations import stop_job
    from jobs.programs import require_programs
    from runtime.clock import SystemClock

    config = load(context)
    require_programs(names)  # all of them, before the first is stopped
    for name in dict.fromkeys(names):
        with _waiting() as on_wait:
            stopped = stop_job(config, name, SystemClock(), on_wait)
        # At once: should the next one fail, this one's savepoint is known.
        what = "is stopped" if stopped.ran else "was not running; it stays stopped"
        print(f"{name} {what}{_kept(stopped.state)}", flush=True)


@app.command()
def resume(context: typer.Context, names: Names) -> None:
    """Let stopped jobs go on from their savepoint, or their last checkpoint."""
    _let_run(context, names, from_log=False)


@app.command()
def submit(
    context: typer.Context,
    names: Names,
    from_log: Annotated[
        bool,
        typer.Option("--from-log", help="Drop its state and rebuild it from the beginning of the log."),
    ] = False,
) -> None:
    """Have jobs run: those that do are left alone, unless they are to be rebuilt."""
    _let_run(context, names, from_log=from_log)


def _let_run(context: typer.Context, names: list[str], *, from_log: bool) -> None:
    from jobs.operations import let_run
    from runtime.clock import SystemClock

    config = load(context)
    with _waiting() as on_wait:
        views = let_run(config, names, SystemClock(), on_wait, from_log=from_log)
    for view in views:
        print(f"{view.name} runs, {restored(view)}")


@contextmanager
def _waiting() -> "Iterator[Callable[[str], None]]":
    """Show, while it lasts, what is being waited for."""
    from rich.console import Console

    with Console(stderr=True).status("asking Flink") as status:
        yield lambda what: status.update(plain(what))


def restored(view: "JobView") -> str:
    """Say what the state of a running job began with."""
    if not view.record.restored_from:
        return "its state built from the log"
    return f"restored from {view.record.restored_from}"


def origin(restored_from: str) -> str:
    """Name what a job was restored from: the last part of a savepoint's path, the last two of a checkpoint's."""
    folder, _, name = restored_from.rpartition("/")
    job_id = folder.rpartition("/")[2]
    return f"{name} of {job_id[:8]}" if name.startswith("chk-") else name or "the log"


def described(snapshot: "Snapshot | None", now_ms: int) -> str:
    """Say how old a job's state is and, on a second line, how large, if that is known."""
    if snapshot is None:
        return ""
    kind = "savepoint, " if snapshot.savepoint else ""
    return (
        f"{kind}{age(now_ms - snapshot.completed_ms)} ago\n{size(snapshot.size_bytes) if snapshot.size_bytes else ''}"
    )


def _kept(state: "Snapshot | None") -> str:
    if state is None:
        return ", without any state"
    return f", its state is {'the savepoint' if state.savepoint else 'its last checkpoint'} {state.path}"
