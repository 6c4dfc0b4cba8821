"""`headrace recommend`: asks for one user, as an application would, and shows the answer."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli.context import load, require_utf8
from cli.plain import plain
from cli.train import Model

if TYPE_CHECKING:
    from runtime.config import Config
    from schemas.recommendation import Recommendation

WAIT_AFTER_DEADLINE_MS = 5_000.0

# As in schemas.request, which would take a moment to import.
MAX_K = 1_000
MAX_TIMEOUT_MS = 3_600_000


def recommend(
    context: typer.Context,
    user: Annotated[str, typer.Option(help="The user_id to recommend for.")],
    k: Annotated[int, typer.Option(min=1, max=MAX_K, help="How many items.")] = 10,
    explain: Annotated[bool, typer.Option("--explain", help="Show a reason for each item.")] = False,
    model: Annotated[Model | None, typer.Option(help="Force this model.")] = None,
    timeout_ms: Annotated[int, typer.Option(min=1, max=MAX_TIMEOUT_MS, help="The request's deadline.")] = 2_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as it came.")] = False,
) -> None:
    """Send one request and print its answer as a table with titles and reasons."""
    import uuid

    import msgspec

    from runtime.clock import SystemClock
    from runtime.errors import HeadraceError
    from schemas.codec import decode, encode
    from schemas.request import Request
    from serving.client import recommendation_client

    config, clock = load(context), SystemClock()
    require_utf8(user, "--user")
    request = Request(
        request_id=f"cli-{uuid.uuid4()}",
        ts=clock.now_ms(),
        user_id=user,
        k=k,
        timeout_ms=timeout_ms,
        explain=explain,
        model=model,
    )
    decode(encode(request), Request)  # What the worker would refuse is refused before anything is sent.
    # A producer id for a single message would cost half a second.
    with recommendation_client(config.kafka, clock, idempotent=False) as client:
        started_ms = clock.monotonic_ms()
        answer = client.ask(request, timeout_ms + WAIT_AFTER_DEADLINE_MS)
        elapsed_ms = clock.monotonic_ms() - started_ms
    if answer is None:
        raise HeadraceError(
            f"no answer within {elapsed_ms / 1000:.0f} s; is the worker up? (headrace status, {config.state_dir}/log)"
        )
    if as_json:
        print(msgspec.json.format(encode(answer), indent=2).decode())
    else:
        show(config, answer, elapsed_ms, explain)
    if answer.error is not None:
        raise typer.Exit(1)


def show(config: "Config", answer: "Recommendation", elapsed_ms: float, explain: bool) -> None:
    """Print an answer; titles come from the store."""
    from rich.console import Console
    from rich.table import Table

    from cli.titles import read_titles

    console = Console()
    model = plain(f" tier, {answer.model} {answer.model_version} ({answer.precision})")
    console.print(plain(answer.tier, "bold"), model, sep="")
    console.print(plain(f"  because  {answer.route_reason}"))
    if answer.degradations:
        console.print(plain(f"  degraded {', '.join(answer.degradations)}", "yellow"))
    if answer.error is not None:
        console.print(plain(f"  error    {answer.error.code}: {answer.error.message}", "red"))
        return
    titles = read_titles(config, {item.item_id for item in answer.items})
    table = Table("#", "item", "title", "score", "propensity", *(["reason"] if explain else []))
    for place, item in enumerate(answer.items, start=1):
        cells = [str(place), item.item_id, titles.get(item.item_id, ""), f"{item.score:.4f}", f"{item.propensity:.3f}"]
        table.add_row(*map(plain, cells), *([plain("; ".join(item.reasons))] if explain else []))
    console.print(table)
    age = "no events" if answer.feature_age_ms is None else f"last event {answer.feature_age_ms} ms before the request"
    stages = ", ".join(f"{stage} {ms:.1f}" for stage, ms in answer.stage_ms.items())
    console.print(plain(f"answered in {elapsed_ms:.1f} ms; {age}; stages in ms: {stages}"))
