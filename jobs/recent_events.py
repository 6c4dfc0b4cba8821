"""Which events the gate accepted lately, so that a redelivered one changes nothing."""

from collections import defaultdict, deque
from collections.abc import Iterable

import msgspec

from schemas.errors import DuplicateEvent


class _EventId(msgspec.Struct):
    event_id: str


_decode = msgspec.json.Decoder(_EventId).decode


def event_id_of(accepted: bytes) -> str:
    """Return the event_id of a click as the gate wrote it."""
    return _decode(accepted).event_id


class RecentEvents:
    """The event_ids of the last `window` accepted events of each partition of `clicks`.

    Counted in events, not in time, so that a log gives the same answers however fast it is read. Takes about 100 bytes
    an event.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._order: defaultdict[int, deque[str]] = defaultdict(deque)
        self._known: defaultdict[int, set[str]] = defaultdict(set)

    def add(self, partition: int, event_id: str) -> None:
        """Remember that an event of `partition` was accepted; raise `DuplicateEvent` if it was within the window."""
        known = self._known[partition]
        if event_id in known:
            raise DuplicateEvent(
                f"event_id {event_id!r} was accepted before, within the last {self._window:,} events of its partition; "
                "if it is not the same event sent again, give every event an id of its own"
            )
        if not self._window:
            return
        known.add(event_id)
        order = self._order[partition]
        order.append(event_id)
        if len(order) > self._window:
            known.remove(order.popleft())

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop what is known of `partitions`: another gate goes on with them."""
        for partition in partitions:
            self._order.pop(partition, None)
            self._known.pop(partition, None)
