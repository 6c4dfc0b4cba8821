"""Keeps the worker's tables equal to the compacted topics behind them, and hands on new model pointers."""

import logging
from collections.abc import Callable

from confluent_kafka import Consumer, Message

from features.entries import apply_entry, read_entry
from features.tables import Tables
from runtime.config import KafkaConfig
from runtime.kafka.clients import reader
from runtime.kafka.reading import assign_from_beginning, drain, read_to_end
from schemas.errors import MessageError
from schemas.item import Item
from schemas.state import Leaderboard, ModelPointer, Neighbours
from schemas.topics import ITEMS, LEADERBOARDS, MODELS, NEIGHBOURS

_LOG = logging.getLogger("headrace.serving")

MAX_PER_POLL = 100
"""Messages applied between two batches: a burst of updates must not hold up requests by more than a few ms."""


class TableFollower:
    """Reads `items`, `leaderboards`, `neighbours` and `models` from the beginning and then stays on them.

    `on_model` is called for every pointer, in order. A message that does not decode, or has a wrong key, is logged and
    skipped: what was in the table stays.
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
        topic, key, value = message.topic(), message.key(), message.value()
        try:
            if topic == NEIGHBOURS.name:
                item_id, neighbours = read_entry(Neighbours, NEIGHBOURS.key, key, value)
                if neighbours is None:
                    self._tables.neighbours.drop(item_id)
                else:
                    self._tables.neighbours.put(neighbours)
            elif topic == LEADERBOARDS.name:
                board, leaderboard = read_entry(Leaderboard, LEADERBOARDS.key, key, value)
                if leaderboard is None:
                    self._tables.leaderboards.drop(board)
                else:
                    self._tables.leaderboards.put(leaderboard)
            elif topic == ITEMS.name:
                apply_entry(self._tables.items, Item, ITEMS.key, key, value)
            else:
                _, pointer = read_entry(ModelPointer, MODELS.key, key, value)
                if pointer is not None:
                    self._on_model(pointer)
        except MessageError as error:
            _LOG.warning("%s[%s]@%s skipped: %s", topic, message.partition(), message.offset(), error)
