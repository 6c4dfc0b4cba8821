"""`headrace produce`: sends a file of JSON lines to the topic that they belong to."""

import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, TypeVar

import typer

from cli.context import load
from cli.plain import printable

if TYPE_CHECKING:
    import msgspec
    from confluent_kafka import Producer

    from runtime.kafka.sending import Deliveries
    from schemas.topics import Topic

    Message = TypeVar("Message", bound=msgspec.Struct)

app = typer.Typer(no_args_is_help=True, help="Send a file of JSON lines to `clicks`, `items` or `users`.")

File = Annotated[str, typer.Argument(help="JSON lines, plain or .gz; - for standard input.")]
NoCheck = Annotated[
    bool, typer.Option("--no-check", help="Send every line as it is and leave the judgement to the receiver.")
]

LINGER_MS = 20.0
"""A file is not in a hurry: full batches are several times faster than prompt ones."""


@app.command()
def clicks(context: typer.Context, file: File, no_check: NoCheck = False) -> None:
    """Send what people did."""
    from schemas.topics import CLICKS

    _produce(context, CLICKS, file, no_check)


@app.command()
def items(context: typer.Context, file: File, no_check: NoCheck = False) -> None:
    """Send catalogue entries."""
    from schemas.topics import ITEMS

    _produce(context, ITEMS, file, no_check)


@app.command()
def users(context: typer.Context, file: File, no_check: NoCheck = False) -> None:
    """Send profiles."""
    from schemas.topics import USERS

    _produce(context, USERS, file, no_check)


def read_messages(lines: Iterable[bytes], name: str, kind: "type[Message]") -> "Iterator[tuple[Message, bytes]]":
    """Yield what every line that is not blank says, and the line itself.

    Raises `DataError` with the line's number for the first one that is not a valid `kind`.
    """
    from runtime.errors import DataError
    from schemas.codec import decode
    from schemas.errors import MessageError

    for number, line in enumerate(lines, start=1):
        value = line.strip()
        if not value:
            continue
        try:
            yield decode(value, kind), value
        except MessageError as error:
            raise DataError(f"{name}, line {number}: {error.code}: {error}") from error


def read_keys(
    lines: Iterable[bytes], name: str, kind: "type[msgspec.Struct]", id_field: str, no_check: bool
) -> Iterator[tuple[str | None, bytes]]:
    """Yield the key of every line that is not blank, and the line itself; with `no_check` nothing is refused."""
    if no_check:
        yield from ((_key_if_readable(value, id_field), value) for value in filter(None, map(bytes.strip, lines)))
    else:
        yield from ((getattr(message, id_field), value) for message, value in read_messages(lines, name, kind))


def _key_if_readable(value: bytes, id_field: str) -> str | None:
    import msgspec

    try:
        key = msgspec.json.decode(value, type=dict[str, object]).get(id_field)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return key if isinstance(key, str) else None


def _produce(context: typer.Context, topic: "Topic", file: str, no_check: bool) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn

    from runtime.errors import DataError, KafkaError
    from runtime.kafka.clients import producer
    from runtime.kafka.sending import send
    from runtime.kafka.topics import partitions_of

    assert topic.kind is not None
    config = load(context)
    sink = producer(config.kafka, linger_ms=LINGER_MS)
    partitions_of(sink, topic.name)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), MofNCompleteColumn())
    with (
        opened(file) as (lines, raw, size),
        _confirmed(sink, topic.name) as deliveries,
        Progress(*columns, console=Console(stderr=True), transient=True) as progress,
    ):
        task = progress.add_task(f"{topic.name} <- {printable(file)}, bytes", total=size)
        try:
            for count, (key, value) in enumerate(read_keys(lines, file, topic.kind, topic.key, no_check)):
                send(sink, topic.name, value, key, on_delivery=deliveries.note)
                if size is not None and count % 1_000 == 0:
                    progress.update(task, completed=raw.tell())
        except (DataError, KafkaError) as error:
            raise type(error)(f"{error}; nothing from this line on was sent") from error


@contextmanager
def _confirmed(sink: "Producer", topic: str) -> "Iterator[Deliveries]":
    """Yield what counts the deliveries; at the end, also of a failure, wait for them and print how many there were."""
    from runtime.kafka.sending import Deliveries

    deliveries = Deliveries()
    try:
        yield deliveries
    finally:
        try:
            deliveries.confirm(sink)
        finally:
            print(f"{deliveries.acknowledged:,} messages acknowledged by {topic}")


@contextmanager
def opened(file: str) -> Iterator[tuple[Iterator[bytes], IO[bytes], int | None]]:
    """Yield the lines of `file`, the stream whose position tells the progress, and that stream's size."""
    from runtime.errors import DataError

    if file == "-":
        yield iter(sys.stdin.buffer), sys.stdin.buffer, None
        return
    path = Path(file)
    if not path.is_file():
        raise DataError(f"no file at {file}; pass a file of JSON lines, or - for standard input")
    try:
        with path.open("rb") as raw, gzip.open(raw) if path.suffix == ".gz" else nullcontext(raw) as lines:
            yield iter(lines), raw, path.stat().st_size
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{file} is not a whole gzip file: {error}") from error
