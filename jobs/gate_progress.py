"""How far the gate has come, in a form from which a restarted gate goes on without writing anything twice.

Every record that the gate writes names its source: a dead letter does by itself, an accepted click in a field of its
own. A commit of the source's offsets carries, as metadata, where the outputs ended at that moment. Whatever a gate
wrote after its last commit therefore lies behind those ends, and its successor reads just that much back before it
starts.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec
from confluent_kafka import Consumer, Message, TopicPartition

from jobs.recent_events import RecentEvents
from runtime.config import Config
from runtime.errors import KafkaError
from runtime.kafka.asking import ask
from runtime.kafka.clients import commit, reader
from runtime.kafka.reading import Span, assign_from, read_to_end, watermarks
from schemas.errors import DuplicateEvent
from schemas.topics import CLICKS, CLICKS_ACCEPTED, DEAD_LETTERS

OUTPUTS = (CLICKS_ACCEPTED.name, DEAD_LETTERS.name)

_LOG = logging.getLogger("headrace.gate")

Ends = dict[str, dict[int, int]]
"""Topic to partition to the offset of the next record."""


class _AcceptedClick(msgspec.Struct):
    """What is read back of an accepted click."""

    event_id: str
    source: str


class _Refused(msgspec.Struct):
    """What is read back of a dead letter."""

    source_topic: str
    source_partition: int
    source_offset: int


_accepted = msgspec.json.Decoder(_AcceptedClick).decode
_refused = msgspec.json.Decoder(_Refused).decode


def with_source(click: bytes, partition: int, offset: int) -> bytes:
    """Return the JSON of an accepted click with the field that names the message it comes of: "source":"3:17".

    Spliced in, since a header would cost the client as much as all the rest of sending the record.
    """
    return b'%b,"source":"%d:%d"}' % (click[:-1], partition, offset)


def source_of(message: Message) -> tuple[tuple[int, int], str | None] | None:
    """Return the (partition, offset) of the click that an output record comes of, and its event_id if it was accepted.

    None where no gate wrote the record.
    """
    value = message.value() or b""
    try:
        if message.topic() == DEAD_LETTERS.name:
            letter = _refused(value)
            return (
                ((letter.source_partition, letter.source_offset), None) if letter.source_topic == CLICKS.name else None
            )
        accepted = _accepted(value)
        partition, offset = accepted.source.split(":")
        return (int(partition), int(offset)), accepted.event_id
    except (msgspec.MsgspecError, ValueError):
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


def require_known_sources(written: Iterable[tuple[int, int]], ends: Mapping[int, int]) -> None:
    """Raise `KafkaError` if an output names a source, (partition, offset), at or behind the end of its partition.

    Then `clicks` is not the topic that the outputs were made of, and its first events would be taken for those that
    are done.
    """
    for partition, offset in written:
        if offset >= ends[partition]:
            raise KafkaError(
                f"the gate's output holds the outcome of {CLICKS.name}[{partition}]@{offset}, but that partition "
                f"ends at {ends[partition]}: {CLICKS.name} was deleted and created anew. Delete "
                f"{' and '.join(OUTPUTS)} as well, then rebuild the jobs (headrace jobs submit NAME... --from-log)"
            )


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
        require_known_sources(
            self._written, {partition: watermarks(consumer, CLICKS.name, partition)[1] for partition in self._next}
        )
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
        found = source_of(message)
        if found is None or found[0][0] not in self._next:
            return  # of another gate, or of none
        source, event_id = found
        if source[1] >= self._next[source[0]]:
            self._written.add(source)
        if event_id is not None:
            with suppress(DuplicateEvent):  # from before the window was set
                self._recent.add(source[0], event_id)

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
        self._ends[message.topic()][message.partition()] = message.offset() + 1  # type: ignore[index, operator]
        self._uncommitted = False

    def commit(self, consumer: Consumer, *, asynchronous: bool) -> None:
        """Commit all positions, if there is news; a failure is logged."""
        if not self._uncommitted:
            return
        metadata = pack_ends(self._ends)
        offsets = [TopicPartition(CLICKS.name, partition, offset, metadata) for partition, offset in self._next.items()]
        commit(consumer, offsets, asynchronous=asynchronous)
        self._uncommitted = False
