"""`headrace topics`: what lies in which topic; with --create, makes the missing ones."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli.context import load

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from schemas.topics import Topic


def topics(
    context: typer.Context,
    create: Annotated[bool, typer.Option("--create", help="Create the topics that are missing.")] = False,
) -> None:
    """List the topics with their sizes, keys and cleanup."""
    from rich.console import Console
    from rich.table import Column, Table

    from runtime.kafka.clients import reader
    from runtime.kafka.topics import create_topics, existing_topics
    from schemas.topics import TOPICS

    config = load(context)
    if create:
        created = create_topics(config.kafka, TOPICS)
        print(f"created: {', '.join(created) or 'nothing was missing'}")
    table = Table(
        Column("topic", no_wrap=True),
        "key",
        "what",
        "cleanup",
        Column("partitions", justify="right"),
        Column("messages", justify="right"),
    )
    consumer = reader(config.kafka)
    try:
        existing = existing_topics(consumer)
        for topic in TOPICS:
            size = _size(consumer, topic) if topic.name in existing else ("-", "missing: --create")
            table.add_row(topic.name, topic.key, topic.what, topic.cleanup, *size)
    finally:
        consumer.close()
    Console().print(table)


def _size(consumer: "Consumer", topic: "Topic") -> tuple[str, str]:
    """The partition count, and how many offsets there are; what is compacted or expired within is still counted."""
    from runtime.kafka.reading import watermarks
    from runtime.kafka.topics import partitions_of

    partitions = partitions_of(consumer, topic.name)
    bounds = [watermarks(consumer, topic.name, partition) for partition in partitions]
    return str(len(partitions)), f"{sum(high - low for low, high in bounds):,}"
