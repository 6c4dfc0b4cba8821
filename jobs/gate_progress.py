"""How far the gate has come, in a form from which a restarted gate goes on without writing anything twice.

Every record that the gate writes names its source in a header. A commit of the source's offsets carries, as
metadata, where the outputs ended at that moment. Whatever a gate wrote after its last commit therefore lies
behind those ends, and its successor reads just that much back before it starts.
"""

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec
from confluent_kafka import Consumer, Message, TopicPartition

from jobs.recent_events import RecentEvents, event_id_of
from runtime.config import Config
from runtime.kafka.asking import ask
from runtime.kafka.clients import commit, reader
from runtime.kafka.reading import Span, assign_from, position_of, read_to_end, watermarks
from schemas.errors import DuplicateEvent
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

    def __init__(self, config: Config, recent: RecentEvents) -> None:
        self._kafka = config.kafka
        self._window = config.gate.dedup_window_events
        self._recent = recent
        self._next: dict[int, int] = {}
        self._ends: Ends = {}
        self._written: set[tuple[int, int]] = set()
        self._uncommitted = False

    def take_over(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        """Learn what was committed for the `assigned` partitions, what was written beyond that, and which events of
        them were accepted lately."""
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
        self._recent.forget(list(self._next))
        self._written = set()
        before = [unpack_ends(each.metadata) for each in committed]
        tail = reader(self._kafka)
        try:
            spans = assign_from(tail, OUTPUTS, lambda held: self._read_back_from(held, before))
            for message in read_to_end(tail, spans):
                self._read_back(message)
        finally:
            tail.close()
        self._ends = {topic: {} for topic in OUTPUTS}
        for span in spans:
            self._ends[span.topic][span.partition] = span.end
        self._uncommitted = False
        _LOG.info("from %s; %d of that already written", self._next, len(self._written))

    def _read_back_from(self, held: Span, before: Iterable[Ends]) -> int:
        """Return where in an output what is to be read back begins, given the ends at the last commits."""
        uncommitted = min(each.get(held.topic, {}).get(held.partition, 0) for each in before)
        return min(uncommitted, held.end - self._window) if held.topic == CLICKS_ACCEPTED.name else uncommitted

    def _read_back(self, message: Message) -> None:
        source = source_of(message)
        if source is None or source[0] not in self._next:
            return  # of another gate, or of none
        partition, offset = source
        if offset >= self._next[partition]:
            self._written.add(source)
        value = message.value()
        if message.topic() == CLICKS_ACCEPTED.name and value is not None:
            with suppress(DuplicateEvent, msgspec.MsgspecError):  # what someone else wrote has no say here
                self._recent.add(partition, event_id_of(value))

    def give_up(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget these: another gate goes on with them, and commits their offsets."""
        for each in partitions:
            self._next.pop(each.partition, None)
        self._recent.forget(each.partition for each in partitions)

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
