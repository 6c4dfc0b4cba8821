"""`headrace data`: public data sets as files of JSON lines."""

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.context import load

if TYPE_CHECKING:
    import msgspec

app = typer.Typer(no_args_is_help=True, help="Get public data sets to try things with.")


class DataSet(StrEnum):
    """What can be fetched."""

    ML_100K = "ml-100k"


@app.callback()
def _group() -> None:
    """Make `fetch` a subcommand also while it is the only one."""


@app.command()
def fetch(context: typer.Context, name: Annotated[DataSet, typer.Argument(help="Which data set.")]) -> None:
    """Fetch a data set; writes clicks.jsonl, items.jsonl and users.jsonl into the cache folder."""
    from models.datasets import movielens

    config = load(context)
    print(movielens.LICENCE)
    data = movielens.load(config.cache_dir)
    folder = config.cache_dir / "data" / name.value
    folder.mkdir(parents=True, exist_ok=True)
    for kind, messages in (("clicks", data.clicks), ("items", data.items), ("users", data.users)):
        path = folder / f"{kind}.jsonl"
        _write(path, messages)
        print(f"{len(messages):>7,} {kind:6} {path}")


def _write(path: Path, messages: "Iterable[msgspec.Struct]") -> None:
    """Write all of `messages` or leave what was there."""
    from schemas.codec import encode

    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(b"".join(encode(message) + b"\n" for message in messages))
    unfinished.replace(path)
