"""The user record: the last N events and a few counters of one user.

Everything that serving knows about a user is a pure function of this record and of now. The write side is the
Flink SQL in `features/user_record_sql.py`; this module is the read side.

Format (tab-separated, one line; ids hold no control characters, so nothing needs escaping):

    version  partition  offset  first_ts  events  n_impression .. n_hide  (ts  action  item_id  value)*

`partition` and `offset` are those of the last event in `clicks.accepted`: they order a user's records. `events` counts
all events, `n_*` those of each action in the order of `ACTIONS`; the repeated part is the last N events, oldest first;
`value` is empty where the event had none.
"""

from dataclasses import dataclass

from schemas.click import ACTIONS, Action, Click

FORMAT_VERSION = "1"
ACTION_CODES = dict(zip(ACTIONS, "ivctprh", strict=True))
"""One letter per action (cart is `t`, for trolley): the record's size is what its job costs."""

_ACTION_OF: dict[str, Action] = {code: action for action, code in ACTION_CODES.items()}
_HEAD = 5
_EVENTS_AT = _HEAD + len(ACTIONS)


@dataclass(frozen=True, slots=True)
class Event:
    """One event as the record keeps it."""

    ts: int
    action: Action
    item_id: str
    value: float | None = None


@dataclass(frozen=True, slots=True)
class UserRecord:
    """What is known of one user; `events` are the last N, oldest first, `counts` all there ever were, per action."""

    position: tuple[int, int]
    first_ts: int
    total_events: int
    counts: tuple[int, ...]
    events: tuple[Event, ...]

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
        counts = tuple(self._counts.values())
        return UserRecord(position, self._first_ts, sum(counts), counts, tuple(self._events))


def parse_record(packed: bytes) -> UserRecord:
    """Return the record that `packed` holds; raise `ValueError` if it is none of this format."""
    fields = packed.decode().split("\t")
    if fields[0] != FORMAT_VERSION:
        raise ValueError(f"user record of format {fields[0]!r}; this program reads {FORMAT_VERSION!r}")
    if len(fields) <= _EVENTS_AT or (len(fields) - _EVENTS_AT) % 4:
        raise ValueError(f"user record with {len(fields)} fields is truncated")
    repeated = fields[_EVENTS_AT:]
    try:
        events = tuple(
            Event(int(ts), _ACTION_OF[action], item_id, float(value) if value else None)
            for ts, action, item_id, value in zip(
                repeated[::4], repeated[1::4], repeated[2::4], repeated[3::4], strict=True
            )
        )
    except KeyError as error:
        raise ValueError(f"user record with an unknown action {error}") from error
    _, partition, offset, first_ts, total = fields[:_HEAD]
    counts = tuple(int(field) for field in fields[_HEAD:_EVENTS_AT])
    return UserRecord((int(partition), int(offset)), int(first_ts), int(total), counts, events)


def pack_record(record: UserRecord) -> bytes:
    """Return `record` in the format that the Flink job writes; `parse_record` undoes it."""
    head = (FORMAT_VERSION, *record.position, record.first_ts, record.total_events, *record.counts)
    fields = [str(field) for field in head]
    for event in record.events:
        value = "" if event.value is None else repr(event.value)
        fields += (str(event.ts), ACTION_CODES[event.action], event.item_id, value)
    return "\t".join(fields).encode()


def record_position(packed: bytes) -> tuple[int, int]:
    """Return only the (partition, offset) of a packed record, without reading its events.

    Raises `ValueError` if it is none of this format.
    """
    version, partition, offset, _ = packed.split(b"\t", 3)
    if version.decode() != FORMAT_VERSION:
        raise ValueError(f"user record of format {version!r}; this program reads {FORMAT_VERSION!r}")
    return int(partition), int(offset)
