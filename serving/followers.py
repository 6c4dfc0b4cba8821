"""Keeps the worker's tables equal to the compacted topics behind them, and hands on new model pointers."""

import logging
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Message

from features.entries import read_entry
from features.tables import Tables
from runtime.config import KafkaConfig
from runtime.kafka.clients import reader
from runtime.kafka.reading import assign_from_beginning, drain, read_to_end
from schemas.errors import MessageError
from schemas.state import ModelPointer
from schemas.topics import ITEMS, LEADERBOARDS, MODELS, NEIGHBOURS, Topic

_LOG = logging.getLogger("headrace.serving")

MAX_PER_POLL = 100
"""Messages applied between two batches: a burst of updates must not hold up requests by more than a few ms."""


class TableFollower:
    """Reads `items`, `leaderboards`, `neighbours` and `models` from the beginning and then stays on them.

    `on_model` is called for every pointer, in order. A message that does not decode, or has a wrong key, is logged and
    skipped: what was in the table stays.
    """

    def __init__(self, config: KafkaConfig, tables: Tables, on_model: Callable[[ModelPointer], None]) -> None:
        items = tables.items
        every: tuple[tuple[Topic, Callable[[Any], None], Callable[[str], object]], ...] = (
            (ITEMS, lambda item: items.update({item.item_id: item}), lambda item_id: items.pop(item_id, None)),
            (LEADERBOARDS, tables.leaderboards.put, tables.leaderboards.drop),
            (NEIGHBOURS, tables.neighbours.put, tables.neighbours.drop),
            # A deleted pointer leaves its model in use.
            (MODELS, on_model, lambda _model: None),
        )
        self._followed = {each[0].name: each for each in every}
        self._consumer: Consumer = reader(config)

    def catch_up(self) -> None:
        """Apply everything that the topics hold now; call once, before serving."""
        for message in read_to_end(self._consumer, assign_from_beginning(self._consumer, self._followed)):
            self._apply(message)

    def follow(self) -> None:
        """Apply some of what has arrived since; never waits."""
        for message in drain(self._consumer, MAX_PER_POLL, 0.0):
            self._apply(message)

    def close(self) -> None:
        """Leave the topics."""
        self._consumer.close()

    def _apply(self, message: Message) -> None:
        topic, put, drop = self._followed[message.topic() or ""]
        assert topic.kind is not None  # every followed topic holds JSON
        try:
            entity, entry = read_entry(topic.kind, topic.key, message.key(), message.value())
        except MessageError as error:
            _LOG.warning("%s[%s]@%s skipped: %s", topic.name, message.partition(), message.offset(), error)
            return
        if entry is None:
            drop(entity)
        else:
            put(entry)
