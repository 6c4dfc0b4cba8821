"""`headrace train`: fits a model on a file or on what the topics hold, and saves it as an artifact."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from cli.context import load

if TYPE_CHECKING:
    import msgspec

    from models.contract import History
    from runtime.config import Config, KafkaConfig
    from schemas.state import ModelPointer

    Message = TypeVar("Message", bound=msgspec.Struct)

app = typer.Typer(no_args_is_help=True, help="Fit a model and save it as an artifact.")

TOPIC = "topic"

From = Annotated[
    str, typer.Option("--from", metavar="FILE|topic", help="JSON lines of clicks; or `topic`: what Kafka holds now.")
]
Items = Annotated[str | None, typer.Option(help="JSON lines of items, beside a file of clicks.")]
Users = Annotated[str | None, typer.Option(help="JSON lines of users, beside a file of clicks.")]
Seed = Annotated[int, typer.Option(help="Two fits with one seed on the same events are equal.")]
Publish = Annotated[
    bool, typer.Option("--publish", help="Hand the model to the workers; always done for --from topic.")
]


@app.command()
def popularity(
    context: typer.Context,
    source: From,
    items: Items = None,
    users: Users = None,
    seed: Seed = 0,
    publish: Publish = False,
) -> None:
    """Popularity: the decayed event count of each item, for strangers."""
    _train(context, "popularity", source, items, users, seed, publish)


@app.command()
def cf(
    context: typer.Context,
    source: From,
    items: Items = None,
    users: Users = None,
    seed: Seed = 0,
    publish: Publish = False,
) -> None:
    """Item-item collaborative filtering over the last events, for light users."""
    _train(context, "cf", source, items, users, seed, publish)


@app.command()
def deepfm(
    context: typer.Context,
    source: From,
    items: Items = None,
    users: Users = None,
    seed: Seed = 0,
    publish: Publish = False,
) -> None:
    """DeepFM: re-ranks what recall proposes, for heavy users."""
    _train(context, "deepfm", source, items, users, seed, publish)


def _train(
    context: typer.Context, name: str, source: str, items: str | None, users: str | None, seed: int, publish: bool
) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from models.training import publish_models, train

    config = load(context)
    history = _history(config, source, items, users)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"training {name}", total=None)

        def on_progress(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=f"training {name}: {what}")

        pointer = train(name, history, config, seed, on_progress)
    if publish or source == TOPIC:
        publish_models(config.kafka, [pointer])
    _report(pointer, len(history.clicks))


def _history(config: "Config", source: str, items: str | None, users: str | None) -> "History":
    from models.contract import History
    from runtime.errors import DataError
    from schemas.click import Click
    from schemas.item import Item
    from schemas.user import User

    if source != TOPIC:
        return History(
            tuple(read_file(source, Click, "user_id")),
            {item.item_id: item for item in (read_file(items, Item, "item_id") if items is not None else ())},
            {user.user_id: user for user in (read_file(users, User, "user_id") if users is not None else ())},
        )
    if items is not None or users is not None:
        raise DataError("--items and --users go with a file of clicks; with --from topic they come from Kafka too")
    return read_topics(config.kafka)


def read_file(file: str, kind: "type[Message]", id_field: str) -> "Iterator[Message]":
    """Yield every message of a file of JSON lines; raise `DataError` with file and line for one that is wrong."""
    from cli.produce import opened, read_messages
    from schemas.codec import decode

    with opened(file) as (lines, _, _):
        for _, value in read_messages(lines, file, kind, id_field, no_check=False):
            yield decode(value, kind)


def read_topics(config: "KafkaConfig") -> "History":
    """Return what `clicks.accepted`, `items` and `users` hold up to their current end, clicks by event time."""
    from models.contract import History
    from runtime.kafka import assign_from_beginning, read_to_end, reader
    from schemas.click import Click
    from schemas.codec import decode
    from schemas.errors import MessageError
    from schemas.item import Item
    from schemas.topics import CLICKS_ACCEPTED, ITEMS, USERS
    from schemas.user import User

    consumer = reader(config)
    clicks: list[Click] = []
    items: dict[str, Item] = {}
    users: dict[str, User] = {}
    skipped = 0
    try:
        spans = assign_from_beginning(consumer, (CLICKS_ACCEPTED.name, ITEMS.name, USERS.name))
        for message in read_to_end(consumer, spans):
            key, value = (message.key() or b"").decode(errors="replace"), message.value()
            try:
                if message.topic() == CLICKS_ACCEPTED.name:
                    clicks.append(decode(value, Click))
                elif value is None:
                    (items if message.topic() == ITEMS.name else users).pop(key, None)
                elif message.topic() == ITEMS.name:
                    items[key] = decode(value, Item)
                else:
                    users[key] = decode(value, User)
            except MessageError:
                skipped += 1
    finally:
        consumer.close()
    if skipped:
        print(f"left out {skipped:,} invalid items or users; see `headrace dead-letters`", file=sys.stderr)
    # Each user's events lie in one partition; between partitions only the event time says what came first.
    return History(sorted(clicks, key=lambda click: click.ts), items, users)


def _report(pointer: "ModelPointer", events: int) -> None:
    from pathlib import Path

    from models.artifact import read_manifest

    print(f"{pointer.model} {pointer.version}, fitted on {events:,} events, {pointer.path}")
    for name, value in read_manifest(Path(pointer.path)).metrics.items():
        print(f"  {name:24} {value:,.4f}".rstrip("0").rstrip("."))
