"""`headrace consume`: prints a topic, one line per message, for people and for pipes."""

import os
import sys
from typing import Annotated

import typer

from cli.context import load, require_utf8

WAIT_S = 0.2


def consume(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="The topic; `headrace topics` lists them.")],
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start with the oldest message instead of the next one.")
    ] = False,
    max_: Annotated[int | None, typer.Option("--max", min=1, help="Stop after this many messages.")] = None,
    key: Annotated[str | None, typer.Option(help="Print only the messages with this key.")] = None,
) -> None:
    """Print the messages of a topic as they come, until Ctrl-C; a deletion is printed as null."""
    from runtime.kafka.clients import reader
    from runtime.kafka.reading import assign_at_end, assign_from_beginning, drain

    config = load(context)
    require_utf8(topic, "topic")
    wanted = None if key is None else os.fsencode(key)
    out = sys.stdout.buffer
    consumer = reader(config.kafka)
    left = max_
    try:
        (assign_from_beginning if from_beginning else assign_at_end)(consumer, [topic])
        while left is None or left > 0:
            messages = [each for each in drain(consumer, 1_000, WAIT_S) if wanted is None or each.key() == wanted]
            for message in messages[:left]:
                value = message.value()
                out.write((b"null" if value is None else value) + b"\n")
            out.flush()
            if left is not None:
                left -= len(messages)
    except BrokenPipeError:
        # The reader of our output has seen enough; what Python flushes at its exit must not complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        consumer.close()
