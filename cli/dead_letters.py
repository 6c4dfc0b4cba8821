"""`headrace dead-letters`: what was refused, and why."""

from collections import Counter, deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cli.context import load
from cli.plain import plain

if TYPE_CHECKING:
    from schemas.dead_letter import DeadLetter

SHOWN_BYTES = 40
WAIT_S = 0.2


def dead_letters(
    context: typer.Context,
    last: Annotated[int, typer.Option(min=1, help="Show this many of the latest ones.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with new ones until Ctrl-C.")] = False,
) -> None:
    """List the latest dead letters, and count all of them by reason."""
    from rich.console import Console
    from rich.table import Column, Table

    from runtime.dead_letters import read_dead_letter
    from runtime.kafka.clients import reader
    from runtime.kafka.reading import assign_from_beginning, drain, read_to_end
    from schemas.topics import DEAD_LETTERS

    config = load(context)
    console = Console()
    codes: Counter[str] = Counter()
    latest: deque[DeadLetter] = deque(maxlen=last)
    consumer = reader(config.kafka)
    try:
        for message in read_to_end(consumer, assign_from_beginning(consumer, [DEAD_LETTERS.name])):
            letter = read_dead_letter(message)
            codes[letter.code] += 1
            latest.append(letter)
        if latest:
            table = Table(*(Column(name, no_wrap=True) for name in ("time", "source", "code")), "detail", "original")
            for letter in latest:
                table.add_row(*map(plain, cells(letter)))
            console.print(table)
            summary = Table("code", Column("dead letters", justify="right"))
            for code, count in codes.most_common():
                summary.add_row(plain(code), f"{count:,}")
            console.print(summary)
        else:
            console.print("no dead letters")
        while follow:
            for message in drain(consumer, 100, WAIT_S):
                console.print(plain("  ".join(cells(read_dead_letter(message)))))
    finally:
        consumer.close()


def cells(letter: "DeadLetter") -> tuple[str, str, str, str, str]:
    """Return a dead letter as one row: time (UTC), source, code, detail, and the first bytes of the original."""
    time = datetime.fromtimestamp(letter.ts / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    source = f"{letter.source_topic}[{letter.source_partition}]@{letter.source_offset}"
    return time, source, letter.code, letter.detail, _beginning(letter.original)


def _beginning(original: bytes | None) -> str:
    if original is None:
        return "null"
    if len(original) <= SHOWN_BYTES:
        return ascii(original)[2:-1]
    return f"{ascii(original[:SHOWN_BYTES])[2:-1]}... ({len(original):,} bytes)"
