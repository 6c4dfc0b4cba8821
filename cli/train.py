"""`headrace train`: fits a model on a file or on what the topics hold, and saves it as an artifact."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

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

Model = Literal["popularity", "cf", "gbdt_lr", "deepfm"]

MODELS: dict[Model, str] = {  # as in models.registry, which would take a second to import
    "popularity": "Popularity: the decayed event count of each item, for strangers.",
    "cf": "Item-item collaborative filtering over the last events, for light users.",
    "gbdt_lr": "Logistic regression on the leaves of boosted trees: re-ranks what recall proposes, for medium users.",
    "deepfm": "DeepFM: re-ranks what recall proposes, for heavy users.",
}

ITEM_VECTORS = ("item-vectors", "Item vectors, of which the job user-embedding makes each user's vector.")
"""Not a ranker: no request can ask for it."""


def _train(
    context: typer.Context,
    source: From,
    items: Items = None,
    users: Users = None,
    seed: Seed = 0,
    publish: Publish = False,
) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from models.training import publish_models, train
    from runtime.clock import SystemClock

    name = context.command.name
    assert name is not None
    config = load(context)
    history = _history(config, source, items, users)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"training {name}", total=None)

        def on_progress(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=f"training {name}: {what}")

        pointer = train(name, history, config, seed, SystemClock(), on_progress)
    if publish or source == TOPIC:
        publish_models(config.kafka, [pointer])
    _report(pointer, len(history.clicks))


for _name, _what in (*MODELS.items(), ITEM_VECTORS):
    app.command(_name, help=_what)(_train)


def _history(config: "Config", source: str, items: str | None, users: str | None) -> "History":
    from models.contract import History
    from runtime.errors import DataError
    from schemas.click import Click
    from schemas.item import Item
    from schemas.user import User

    if source != TOPIC:
        return History(
            tuple(read_file(source, Click)),
            {item.item_id: item for item in (read_file(items, Item) if items is not None else ())},
            {user.user_id: user for user in (read_file(users, User) if users is not None else ())},
        )
    if items is not None or users is not None:
        raise DataError("--items and --users go with a file of clicks; with --from topic they come from Kafka too")
    return read_topics(config.kafka)


def read_file(file: str, kind: "type[Message]") -> "Iterator[Message]":
    """Yield every message of a file of JSON lines; raise `DataError` with file and line for one that is wrong."""
    from cli.produce import opened, read_messages

    with opened(file) as (lines, _, _):
        for message, _ in read_messages(lines, file, kind):
            yield message


def read_topics(config: "KafkaConfig") -> "History":
    """Return what `clicks.accepted`, `items` and `users` hold up to their current end, clicks by event time."""
    from features.entries import apply_entry
    from models.contract import History
    from runtime.kafka.clients import reader
    from runtime.kafka.reading import assign_from_beginning, read_to_end
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
            try:
                if message.topic() == CLICKS_ACCEPTED.name:
                    clicks.append(decode(message.value(), Click))
                elif message.topic() == ITEMS.name:
                    apply_entry(items, Item, ITEMS.key, message.key(), message.value())
                else:
                    apply_entry(users, User, USERS.key, message.key(), message.value())
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

    from runtime.artifact import read_manifest

    print(f"{pointer.model} {pointer.version}, fitted on {events:,} events, {pointer.path}")
    for name, value in read_manifest(Path(pointer.path)).metrics.items():
        print(f"  {name:24} {value:,.4f}".rstrip("0").rstrip("."))
