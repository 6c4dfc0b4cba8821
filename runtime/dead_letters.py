"""Where every process puts the messages that it refuses."""

from typing import Any

from confluent_kafka import Message, Producer

from runtime.kafka.reading import position_of
from runtime.kafka.sending import send
from schemas.codec import decode, encode
from schemas.dead_letter import DeadLetter
from schemas.errors import MAX_QUOTED_CHARS, MessageError
from schemas.topics import DEAD_LETTERS


def dead_letter(message: Message, error: MessageError, now_ms: int) -> DeadLetter:
    """Return the dead letter for `message`, refused at `now_ms` because of `error`."""
    topic, partition, offset = position_of(message)
    return DeadLetter(
        source_topic=topic,
        source_partition=partition,
        source_offset=offset,
        ts=now_ms,
        code=error.code,
        detail=str(error)[:MAX_QUOTED_CHARS],
        key=message.key(),
        original=message.value(),
    )


def send_dead_letter(producer: Producer, letter: DeadLetter, **rest: Any) -> None:
    """Queue one dead letter, keyed by its source topic; `rest` goes to `runtime.kafka.sending.send`."""
    send(producer, DEAD_LETTERS.name, encode(letter), letter.source_topic, **rest)


def read_dead_letter(message: Message) -> DeadLetter:
    """Return the dead letter that `message` of the topic `dead-letters` holds; it may be longer than other messages."""
    return decode(message.value(), DeadLetter, DEAD_LETTERS.max_message_bytes)
