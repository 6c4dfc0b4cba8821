"""`headrace features`: which features there are, and what they are for one user or item."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.context import load, require_utf8
from cli.plain import plain
from cli.units import age

if TYPE_CHECKING:
    from rich.console import Console

    from cli.feature_views import View

app = typer.Typer(no_args_is_help=True, help="List the features, and show those of one user or item.")

READ_TIMEOUT_MS = 2_000
"""Nobody's recommendation waits for this."""

SHOWN_EVENTS = 10


@app.command("list")
def list_() -> None:
    """List every feature with its type, shape, unit, default and source."""
    from typing import get_args

    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Column, Table

    from features.registry import Entity, features_of, shown_shape

    console = Console()
    for entity in get_args(Entity):
        folded = (Column(name, overflow="fold") for name in ("shape", "unit", "default", "source"))
        # Few lines and no frame, so that nothing is cut off at 80 columns.
        table = Table(
            Column(f"{entity} feature", no_wrap=True), "dtype", *folded, box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
        )
        for each in features_of(entity):
            shape = shown_shape(each)
            table.add_row(*map(plain, (each.name, each.dtype, shape, each.unit, each.default, each.source)))
        console.print(table)


@app.command()
def show(
    context: typer.Context,
    user: Annotated[str | None, typer.Option(help="The user_id to show.")] = None,
    item: Annotated[str | None, typer.Option(help="The item_id to show.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show what Redis holds of a user or an item, and the features made of it as of now."""
    import msgspec
    from rich.console import Console

    from cli.feature_views import item_view, user_view
    from features.redis_store import RedisStore
    from runtime.clock import SystemClock
    from schemas.codec import encode

    if (user is None) == (item is None):
        raise typer.BadParameter("name one of them", param_hint="--user or --item")
    config, now_ms = load(context), SystemClock().now_ms()
    store = RedisStore(config.redis, timeout_ms=READ_TIMEOUT_MS)
    try:
        if user is not None:
            require_utf8(user, "--user")
            view = user_view(store, config, user, now_ms)
        else:
            assert item is not None
            require_utf8(item, "--item")
            view = item_view(store, config, item, now_ms)
    finally:
        store.close()
    if as_json:
        print(msgspec.json.format(encode(view), indent=2).decode())
    elif user is not None:
        print_user(Console(), view, now_ms)
    else:
        print_item(Console(), view, now_ms)


def print_user(console: "Console", view: "View", now_ms: int) -> None:
    """Print a user's counters, last events, vector and features."""
    from rich.table import Table

    record, vector, profile = view["record"], view["vector"], view["profile"]
    console.print(plain(f"user {view['user_id']}", "bold"))
    if profile is not None:
        console.print(plain(f"  profile  {_attributes(profile.attributes)}"))
    if record is None:
        console.print("  no events")
    else:
        console.print(plain(f"  record   after clicks.accepted[{record['partition']}]@{record['offset']}"))
        counts = ", ".join(f"{action} {count:,}" for action, count in record["counts"].items() if count)
        console.print(plain(f"  events   {counts}; since {_time(record['first_ts'])}"))
    if vector is not None:
        of = f"clicks.accepted[{vector['partition']}]@{vector['offset']}"
        encoder = f"encoder {vector['encoder_version']}, after {of}"
        console.print(plain(f"  vector   {vector['size']} numbers of norm {vector['norm']:.3f}; {encoder}"))
    if record is not None:
        table = Table("time (UTC)", "age", "action", "item", "value")
        for event in record["events"][: -SHOWN_EVENTS - 1 : -1]:
            value = "" if event["value"] is None else f"{event['value']:g}"
            cells = (_time(event["ts"]), age(now_ms - event["ts"]), event["action"], event["item_id"], value)
            table.add_row(*map(plain, cells))
        console.print(table)
    _print_features(console, view)


def print_item(console: "Console", view: "View", now_ms: int) -> None:
    """Print an item's catalogue entry and features."""
    entry, statistics = view["entry"], view["statistics"]
    console.print(plain(f"item {view['item_id']}", "bold"))
    if entry is None:
        console.print("  no catalogue entry")
    else:
        price = "no price" if entry.price is None else f"price {entry.price:g}"
        state = "available" if entry.available and not (entry.expires_at or now_ms + 1) <= now_ms else "not available"
        title, category = entry.title or "no title", entry.category or "no category"
        console.print(plain(f"  entry    {title}; {category}; {price}; {state}; as of {_time(entry.ts)}"))
        if entry.attributes:
            console.print(plain(f"  about    {_attributes(entry.attributes)}"))
    if statistics is None:
        console.print("  no statistics: nobody has come to it yet")
    _print_features(console, view)


def _print_features(console: "Console", view: "View") -> None:
    from rich.table import Table

    from features.registry import REGISTRY

    units = {feature.name: feature.unit for feature in REGISTRY}
    table = Table("feature", "value", "unit")
    for name, value in view["features"].items():
        table.add_row(plain(name), plain(_shown(value)), plain(units[name]))
    console.print(table)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_shown(each) for each in value if each != "")
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _attributes(attributes: dict[str, Any] | None) -> str:
    return ", ".join(f"{name} {value}" for name, value in (attributes or {}).items()) or "no attributes"


def _time(ts_ms: int) -> str:
    return datetime.fromtimestamp(ts_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
