"""The user record: the last N events and a few counters of one user.

Everything that serving knows about a user is a pure function of this record and of now. The write side is the
Flink SQL in `features/user_record_sql.py`; this module holds the record and its format, `features/record_batch.py`
reads many at once.

Format (tab-separated, one line; ids hold no control characters, so nothing needs escaping):

    version  partition  offset  first_ts  n_impression .. n_hide  entry*

`partition` and `offset` are those of the last event in `clicks.accepted`: they order a user's records. `n_*` count the
events of each action, in the order of `ACTIONS`. An entry is one of the last N events, oldest first: `ts` in 13 digits
(until the year 2286), the action's letter, the item_id, and only where the event had a value, a unit separator (0x1f)
and the value as Java writes a double. A ts of fixed width is what lets a reader take all of them out at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from features.packed import position_in
from schemas.click import ACTIONS, Action, Click

KIND = "user record"
FORMAT_VERSION = "2"
ACTION_CODES = dict(zip(ACTIONS, "ivctprh", strict=True))
"""One letter per action (cart is `t`, for trolley): the record's size is what its job costs."""

TS_DIGITS = 13
VALUE_SEPARATOR = "\x1f"
HEAD_FIELDS = 4 + len(ACTIONS)
"""What stands before the entries."""


class Event(NamedTuple):
    """One event as the record keeps it; `ts` in epoch milliseconds."""

    ts: int
    action: Action
    item_id: str
    value: float | None = None


@dataclass(frozen=True, slots=True)
class UserRecord:
    """What is known of one user; `events` are the last N, oldest first, `counts` all there ever were, per action.

    `position` is the (partition, offset) of the last event in `clicks.accepted`.
    """

    position: tuple[int, int]
    first_ts: int
    counts: tuple[int, ...]
    events: Sequence[Event]

    @property
    def total_events(self) -> int:
        """How many events there ever were."""
        return sum(self.counts)

    @property
    def last_ts(self) -> int:
        """Event time of the last event, epoch milliseconds."""
        return self.events[-1].ts


class RecordBuilder:
    """Builds one user's record event by event, as the Flink job does; for training, replay and tests."""

    def __init__(self, max_events: int) -> None:
        self._max_events = max_events
        self._events: list[Event] = []
        self._counts = dict.fromkeys(ACTIONS, 0)
        self._first_ts = 0

    def add(self, click: Click, position: tuple[int, int]) -> UserRecord:
        """Return the record after `click`, which stood at `position` (partition, offset)."""
        if not self._events:
            self._first_ts = click.ts
        self._events.append(Event(click.ts, click.action, click.item_id, click.value))
        del self._events[: -self._max_events]
        self._counts[click.action] += 1
        return UserRecord(position, self._first_ts, tuple(self._counts.values()), tuple(self._events))


def pack_record(record: UserRecord) -> bytes:
    """Return `record` in the format that the Flink job writes, byte for byte; `record_batch.parse_record` undoes it.

    Raises `ValueError` for an event whose ts has no place in the format; the gate accepts none.
    """
    fields = [FORMAT_VERSION, *map(str, (*record.position, record.first_ts, *record.counts))]
    for ts, action, item_id, value in record.events:
        if not 0 <= ts < 10**TS_DIGITS:
            raise ValueError(f"ts {ts} does not fit into {TS_DIGITS} digits; send milliseconds since the epoch")
        entry = f"{ts:0{TS_DIGITS}d}{ACTION_CODES[action]}{item_id}"
        fields.append(entry if value is None else f"{entry}{VALUE_SEPARATOR}{java_double(value)}")
    return "\t".join(fields).encode()


def java_double(value: float) -> str:
    """Return a finite `value` as Java's `Double.toString` does: the shortest digits that mean it, `1.0E7` from 1e7 on.

    Java has agreed with Python on the digits since release 19, but never writes fewer than two of them.
    """
    if value == 0.0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    if len(digits) == 1:
        # Two digits can come closer than one among the smallest doubles: 4.9E-324, not 5.0E-324.
        mantissa, _, power = f"{value:.1e}".partition("e")
        return f"{mantissa}E{int(power)}"
    head, *rest = map(str, digits)
    return f"{'-' if sign else ''}{head}.{''.join(rest)}E{int(exponent) + len(rest)}"


def record_position(packed: bytes) -> tuple[int, int]:
    """Return only the (partition, offset) of a packed record, without reading its events.

    Raises `ValueError` if it is none of this format.
    """
    return position_in(packed, KIND, FORMAT_VERSION)
