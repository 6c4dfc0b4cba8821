"""The `headrace` command: registers one file per verb and turns errors into one readable line."""

import logging
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from cli import (
    consume,
    data,
    dead_letters,
    demo,
    doctor,
    down,
    features,
    jobs,
    produce,
    recommend,
    run,
    status,
    store_care,
    topics,
    train,
    up,
)
from cli.context import Settings
from cli.plain import printable
from runtime.errors import HeadraceError
from schemas.errors import MessageError

app = typer.Typer(
    name="headrace",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Kafka in, Flink for state, the cheapest ranker that is good enough, Kafka out.",
    epilog="Start with `headrace demo`, or `headrace up` and `headrace recommend --user U`.",
)


@app.callback()
def _common(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option(help="Configuration file; see ops/headrace.toml for every key.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override one key; repeatable.")
    ] = None,
) -> None:
    context.obj = Settings(file=config, assignments=tuple(set_ or ()))


app.command("demo")(demo.demo)
app.command("up")(up.up)
app.command("status")(status.status)
app.command("down")(down.down)
app.command("doctor")(doctor.doctor)
app.add_typer(jobs.app, name="jobs")
app.command("topics")(topics.topics)
app.add_typer(produce.app, name="produce")
app.command("consume")(consume.consume)
app.command("recommend")(recommend.recommend)
app.command("dead-letters")(dead_letters.dead_letters)
features.app.command("rebuild")(store_care.rebuild)
features.app.command("verify")(store_care.verify)
app.add_typer(features.app, name="features")
app.add_typer(train.app, name="train")
app.add_typer(data.app, name="data")
app.add_typer(run.app, name="run")


def main() -> None:
    """Run the command line; the entry point of the `headrace` script."""
    # Without a handler of any kind Python prints warnings to stderr, and librdkafka warns of every connection attempt.
    logging.getLogger("headrace").addHandler(logging.NullHandler())
    # As Ctrl-C does, so that `up` and `demo` stop what they started; the processes under `run` take it over.
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, _terminate)
    try:
        app()
    except (HeadraceError, MessageError) as error:
        # A message may quote a log or a message: its lines stay lines, but nothing in them steers the terminal.
        print("error:", "\n".join(map(printable, str(error).splitlines())), file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        reason = error.strerror or str(error)
        print(f"error: {reason}" if error.filename is None else f"error: {error.filename}: {reason}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        from confluent_kafka import KafkaException  # here, so that a command without Kafka does not wait for it

        if not isinstance(error, KafkaException):
            raise
        print(f"error: the Kafka client says: {error.args[0].str()}", file=sys.stderr)
        sys.exit(1)


def _terminate(number: int, _frame: FrameType | None) -> None:
    # A closed terminal sends its signal twice, through the kernel and the shell: the second must not end the tidying.
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)
