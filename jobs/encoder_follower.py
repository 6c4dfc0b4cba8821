"""The newest usable encoder, taken up from `models` while a job runs."""

import logging
from collections.abc import Iterable

from confluent_kafka import Consumer, Message

from features.embedding import ITEM_VECTORS, Encoder
from features.entries import read_entry
from runtime import artifact
from runtime.config import KafkaConfig
from runtime.errors import ArtifactError, KafkaError
from runtime.kafka.clients import reader
from runtime.kafka.reading import assign_from_beginning, drain, read_to_end
from schemas.errors import MessageError
from schemas.state import ModelPointer
from schemas.topics import MODELS

_LOG = logging.getLogger("headrace.embedding")

MAX_PER_LOOK = 1_000


class EncoderFollower:
    """Looks for a new pointer to item vectors whenever it is asked for the encoder.

    An artifact that is refused is logged, and so is a pointer that cannot be read; what was in use goes on.
    """

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config
        self._consumer: Consumer | None = None
        self._encoder: Encoder | None = None

    def current(self) -> Encoder | None:
        """Return the encoder, None as long as no usable one was ever published.

        The first call reads all of `models`, later ones take what has arrived and never wait. Raises `KafkaError` if
        the topic is missing or its broker away at the first call, which may then be made again.
        """
        if self._consumer is None:
            consumer = reader(self._config)
            try:
                self._take(read_to_end(consumer, assign_from_beginning(consumer, [MODELS.name])))
            except KafkaError:
                consumer.close()
                raise
            self._consumer = consumer  # only now: a first look that failed is made again, from the beginning
        else:
            self._take(drain(self._consumer, MAX_PER_LOOK, 0.0))
        return self._encoder

    def _take(self, messages: Iterable[Message]) -> None:
        newest = None
        for message in messages:
            try:
                model, pointer = read_entry(ModelPointer, MODELS.key, message.key(), message.value())
            except MessageError as error:
                _LOG.warning("%s@%s skipped: %s", MODELS.name, message.offset(), error)
                continue
            # A deleted pointer leaves its encoder in use, as in the worker.
            if model == ITEM_VECTORS and pointer is not None:
                newest = pointer
        if newest is not None:
            self._load(newest)

    def _load(self, pointer: ModelPointer) -> None:
        try:
            self._encoder = Encoder.load(artifact.follow(pointer))
        except ArtifactError as error:
            _LOG.error("%s %s refused, the old one goes on: %s", pointer.model, pointer.version, error)
        else:
            _LOG.info("%s %s encodes now", pointer.model, pointer.version)
