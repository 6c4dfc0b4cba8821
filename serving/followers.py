"""Keeps the worker's tables equal to the compacted topics behind them, and hands on new model pointers."""

import logging
from collections.abc import Callable

from confluent_kafka import Consumer, Message

from features.tables import Tables
from runtime.config import KafkaConfig
from runtime.kafka import assign_from_beginning, drain, read_to_end, reader
from schemas.codec import decode
from schemas.errors import MessageError
from schemas.item import Item
from schemas.state import Leaderboard, ModelPointer, Neighbours
from schemas.topics import ITEMS, LEADERBOARDS, MODELS, NEIGHBOURS

_LOG = logging.getLogger("headrace.serving")

MAX_PER_POLL = 100
"""Messages applied between two batches: a burst of updates must not hold up requests by more than a few ms."""


class TableFollower:
    """Reads `items`, `leaderboards`, `neighbours` and `models` from the beginning and then stays on them.

    `on_model` is called for every pointer, in order. A value that does not decode is logged and skipped: what was in
    the table stays.
    """

    def __init__(self, config: KafkaConfig, tables: Tables, on_model: Callable[[ModelPointer], None]) -> None:
        self._tables = tables
        self._on_model = on_model
        self._consumer: Consumer = reader(config)

    def catch_up(self) -> None:
        """Apply everything that the topics hold now; call once, before serving."""
        topics = [topic.name for topic in (ITEMS, LEADERBOARDS, NEIGHBOURS, MODELS)]
        for message in read_to_end(self._consumer, assign_from_beginning(self._consumer, topics)):
            self._apply(message)

    def follow(self) -> None:
        """Apply some of what has arrived since; never waits."""
        for message in drain(self._consumer, MAX_PER_POLL, 0.0):
            self._apply(message)

    def close(self) -> None:
        """Leave the topics."""
        self._consumer.close()

    def _apply(self, message: Message) -> None:
        topic, value = message.topic(), message.value()
        entity = (message.key() or b"").decode(errors="replace")
        try:
            if topic == NEIGHBOURS.name:
                if value is None:
                    self._tables.neighbours.drop(entity)
                else:
                    self._tables.neighbours.put(decode(value, Neighbours))
            elif topic == LEADERBOARDS.name:
                if value is None:
                    self._tables.leaderboards.drop(entity)
                else:
                    self._tables.leaderboards.put(decode(value, Leaderboard))
            elif topic == ITEMS.name:
                if value is None:
                    self._tables.items.pop(entity, None)
                else:
                    item = decode(value, Item)
                    self._tables.items[item.item_id] = item
            elif value is not None:
                self._on_model(decode(value, ModelPointer))
        except MessageError as error:
            _LOG.warning("%s[%s]@%s skipped: %s", topic, message.partition(), message.offset(), error)
