"""How far the gate has come, in a form from which a restarted gate goes on without writing anything twice.

Every record that the gate writes names its source in a header. A commit of the source's offsets carries, as
metadata, where the outputs ended at that moment. Whatever a gate wrote after its last commit therefore lies
behind those ends, and its successor reads just that much back before it starts.
"""

import logging
from collections.abc import Iterable

import msgspec
from confluent_kafka import Consumer, Message, TopicPartition

from runtime.config import KafkaConfig
from runtime.kafka.asking import ask
from runtime.kafka.clients import commit, reader
from runtime.kafka.reading import assign_from, position_of, read_to_end, watermarks
from schemas.topics import CLICKS, CLICKS_ACCEPTED, DEAD_LETTERS

OUTPUTS = (CLICKS_ACCEPTED.name, DEAD_LETTERS.name)
SOURCE_HEADER = "gate-source"

_LOG = logging.getLogger("headrace.gate")

Ends = dict[str, dict[int, int]]
"""Topic to partition to the offset of the next record."""


def source_header(partition: int, offset: int) -> tuple[str, bytes]:
    """Return the header of the record that comes of the click at (partition, offset)."""
    return SOURCE_HEADER, b"%d:%d" % (partition, offset)


def source_of(message: Message) -> tuple[int, int] | None:
    """Return the (partition, offset) of the click that `message` comes of; None where no gate wrote it."""
    value = dict(message.headers() or ()).get(SOURCE_HEADER)
    if isinstance(value, bytes):
        partition, offset = value.split(b":")
        return int(partition), int(offset)
    return None


def pack_ends(ends: Ends) -> str:
    """Return the ends of the outputs as the metadata of a commit; brokers take 4,096 bytes by default."""
    return msgspec.json.encode(ends).decode()


def unpack_ends(metadata: str | None) -> Ends:
    """Return what `pack_ends` packed; empty for a commit that someone else made, so that all is read back."""
    try:
        return msgspec.json.decode(metadata or "{}", type=Ends)
    except msgspec.DecodeError:
        return {}


class GateProgress:
    """The gate's position in every assigned partition of `clicks`, and in its outputs."""

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config
        self._next: dict[int, int] = {}
        self._ends: Ends = {}
        self._written: set[tuple[int, int]] = set()
        self._uncommitted = False

    def take_over(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        """Learn what was committed for the `assigned` partitions and what was written beyond that."""
        if not assigned:
            self._next = {}
            return
        committed = ask(
            lambda timeout_s: consumer.committed(assigned, timeout=timeout_s), f"no committed offsets of {CLICKS.name}"
        )
        self._next = {
            each.partition: each.offset if each.offset >= 0 else watermarks(consumer, CLICKS.name, each.partition)[0]
            for each in committed
        }
        before = [unpack_ends(each.metadata) for each in committed]
        tail = reader(self._config)
        try:
            spans = assign_from(
                tail,
                OUTPUTS,
                lambda held: min(each.get(held.topic, {}).get(held.partition, 0) for each in before),
            )
            sources = (source_of(message) for message in read_to_end(tail, spans))
            self._written = {
                source for source in sources if source and source[1] >= self._next.get(source[0], source[1] + 1)
            }
        finally:
            tail.close()
        self._ends = {topic: {} for topic in OUTPUTS}
        for span in spans:
            self._ends[span.topic][span.partition] = span.end
        self._uncommitted = False
        _LOG.info("from %s; %d of that already written", self._next, len(self._written))

    def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget these: another gate goes on with them, and commits their offsets."""
        for each in partitions:
            self._next.pop(each.partition, None)

    def has(self, partition: int) -> bool:
        """Whether this gate is the one to judge the clicks of `partition`."""
        return partition in self._next

    def is_done(self, partition: int, offset: int) -> bool:
        """Whether the outcome of this click, in a partition that the gate has, is written already."""
        return offset < self._next[partition] or (partition, offset) in self._written

    def passed(self, partition: int, offset: int) -> None:
        """Note that everything up to the click at (partition, offset) is written and acknowledged."""
        self._next[partition] = offset + 1
        self._uncommitted = True

    def acknowledged(self, message: Message) -> None:
        """Note that the broker has the output record `message`.

        Nothing is committed until its source has passed: a gate that fails in between would otherwise leave ends
        behind this record and a position before its source, and its successor would write the record again.
        """
        topic, partition, offset = position_of(message)
        self._ends[topic][partition] = offset + 1
        self._uncommitted = False

    def commit(self, consumer: Consumer, *, asynchronous: bool) -> None:
        """Commit all positions, if there is news; a failure is logged."""
        if not self._uncommitted:
            return
        metadata = pack_ends(self._ends)
        offsets = [TopicPartition(CLICKS.name, partition, offset, metadata) for partition, offset in self._next.items()]
        commit(consumer, offsets, asynchronous=asynchronous)
        self._uncommitted = False
