"""Many user records at once, as columns: what a micro-batch costs is one pass over its bytes, not one per event.

The format is in `features/user_record.py`. This is the only reader of it: a single record is a batch of one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from features.user_record import (
    ACTION_CODES,
    FORMAT_VERSION,
    HEAD_FIELDS,
    TS_DIGITS,
    VALUE_SEPARATOR,
    Event,
    UserRecord,
    foreign_version,
)
from schemas.click import ACTIONS

_TAB, _SEPARATOR, _ZERO = ord("\t"), ord(VALUE_SEPARATOR), ord("0")
_NUMBERS = HEAD_FIELDS - 1
"""Fields of the head behind the version: all of them whole numbers."""
_MAX_DIGITS = 15
"""Whole numbers of this length are exact in a double, whose matrix product is the quick one; no offset gets there."""
_FIRST = np.ones(1, np.int64)
"""The first record's fields begin behind the first tab."""
_PREFIX = TS_DIGITS + 1
"""What stands before the item_id in an entry."""
_LAST = np.array([[0] * (_MAX_DIGITS - width) + [1] * width for width in range(_MAX_DIGITS + 1)], np.uint8)
"""Row w has ones at the last w of so many places."""
_POWERS = 10.0 ** np.arange(_MAX_DIGITS - 1, -1, -1)
_NO_ACTION = len(ACTIONS)
_ACTION_INDEX = np.full(256, _NO_ACTION, np.uint8)
_ACTION_INDEX[[ord(code) for code in ACTION_CODES.values()]] = range(len(ACTIONS))

Places = NDArray[np.int64]
Chosen = NDArray[np.bool_] | slice
"""Some of the events of a batch."""


@dataclass(frozen=True)
class RecordBatch:
    """The records of B users with E kept events together; row r has the events row_splits[r]:row_splits[r + 1].

    A row without a record (a stranger, or one of `problems`) has no events and only zeros. Rows keep their order, and
    so do the events of a row, oldest first.
    """

    positions: NDArray[np.int64]
    """Partition and offset of each user's last event, shape (B, 2)."""
    first_ts: NDArray[np.int64]
    """Epoch milliseconds, shape (B,)."""
    counts: NDArray[np.int64]
    """Events ever, per action in the order of `ACTIONS`, shape (B, 7)."""
    row_splits: NDArray[np.int64]
    """Shape (B + 1,)."""
    ts: NDArray[np.int64]
    """Epoch milliseconds, shape (E,)."""
    actions: NDArray[np.uint8]
    """Places in `ACTIONS`, shape (E,)."""
    values: NDArray[np.float64]
    """NaN where an event had none, shape (E,)."""
    read_item_ids: Callable[[Chosen], list[str]] = field(repr=False)
    """Makes the item ids of the chosen events of the bytes."""
    problems: Mapping[int, str] = field(default_factory=dict)
    """What is wrong with the rows that could not be read."""

    @cached_property
    def item_ids(self) -> list[str]:
        """The E item ids; made of the bytes at the first use."""
        return self.read_item_ids(slice(None))

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The row of each event, shape (E,)."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.row_splits))

    def __len__(self) -> int:
        return len(self.first_ts)

    def records(self) -> list[UserRecord | None]:
        """Return each row as a record, whose events are made when they are first looked at; None where it has none."""
        columns = zip(self.positions.tolist(), self.first_ts.tolist(), self.counts.tolist(), strict=True)
        splits = self.row_splits.tolist()
        return [
            UserRecord((partition, offset), first_ts, tuple(counts), RowEvents(self, splits[row], splits[row + 1]))
            if splits[row] < splits[row + 1]
            else None
            for row, ((partition, offset), first_ts, counts) in enumerate(columns)
        ]


class RowEvents(Sequence[Event]):
    """The events of one row of a batch, made at the first look: equal to the tuple of them, and as quick."""

    __slots__ = ("_batch", "_end", "_made", "_start")

    def __init__(self, batch: RecordBatch, start: int, end: int) -> None:
        self._batch = batch
        self._start = start
        self._end = end
        self._made: tuple[Event, ...] | None = None

    def __len__(self) -> int:
        return self._end - self._start

    @overload
    def __getitem__(self, place: int) -> Event: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Event, ...]: ...
    def __getitem__(self, place: int | slice) -> Event | tuple[Event, ...]:
        return self._all()[place]

    def __iter__(self) -> Iterator[Event]:
        return iter(self._all())

    def __reversed__(self) -> Iterator[Event]:
        return reversed(self._all())

    def __eq__(self, other: object) -> bool:
        return self._all() == (tuple(other) if isinstance(other, RowEvents) else other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())

    def _all(self) -> tuple[Event, ...]:
        if self._made is None:
            batch, part = self._batch, slice(self._start, self._end)
            values = [None if value != value else value for value in batch.values[part].tolist()]  # noqa: PLR0124 - NaN
            actions = [ACTIONS[action] for action in batch.actions[part].tolist()]
            columns = zip(batch.ts[part].tolist(), actions, batch.item_ids[part], values, strict=True)
            self._made = tuple(map(Event._make, columns))
        return self._made


def batch_of(records: Sequence[UserRecord | None]) -> RecordBatch:
    """Return records that were built here (training, replay) as one batch; None is a stranger's row."""
    known = [record for record in records if record is not None]
    events = [event for record in known for event in record.events]
    sizes = [0 if record is None else len(record.events) for record in records]
    place_of = {action: place for place, action in enumerate(ACTIONS)}
    heads = np.zeros((len(records), _NUMBERS), np.int64)
    heads[[record is not None for record in records]] = np.array(
        [(*record.position, record.first_ts, *record.counts) for record in known], np.int64
    ).reshape(-1, _NUMBERS)
    item_ids = np.array([event.item_id for event in events], object)
    return _batch(
        heads,
        np.array(sizes, np.int64),
        np.array([event.ts for event in events], np.int64),
        np.array([place_of[event.action] for event in events], np.uint8),
        np.array([np.nan if event.value is None else event.value for event in events], np.float64),
        lambda chosen: item_ids[chosen].tolist(),
    )


def parse_record(packed: bytes) -> UserRecord:
    """Return the record that `packed` holds; raise `ValueError` if it is none of this format."""
    batch = decode_records([packed])
    if batch.problems:
        raise ValueError(batch.problems[0])
    (record,) = batch.records()
    assert record is not None  # a record without events is one of the problems
    return record


def decode_records(packed: Sequence[bytes | None]) -> RecordBatch:
    """Return the records as columns, row by row; None is a stranger's row.

    A value that is none of this format makes an empty row and stands in the batch's `problems`, with the reason: the
    other rows are not touched by it.
    """
    kept = [value for value in packed if value is not None]
    decoded = _foreign(kept) or _decode(kept)
    if isinstance(decoded, dict):
        rows = [row for row, value in enumerate(packed) if value is not None]
        problems = {rows[place]: reason for place, reason in decoded.items()}
        rest = decode_records([None if row in problems else value for row, value in enumerate(packed)])
        return replace(rest, problems=problems | dict(rest.problems))
    heads, sizes = decoded.heads, decoded.sizes
    if len(kept) < len(packed):
        present = np.array([value is not None for value in packed])
        heads, sizes = np.zeros((len(packed), _NUMBERS), np.int64), np.zeros(len(packed), np.int64)
        heads[present], sizes[present] = decoded.heads, decoded.sizes
    return _batch(heads, sizes, decoded.ts, decoded.actions, decoded.values, decoded.item_ids)


@dataclass(frozen=True, slots=True)
class _Decoded:
    heads: NDArray[np.int64]
    sizes: NDArray[np.int64]
    ts: NDArray[np.int64]
    actions: NDArray[np.uint8]
    values: NDArray[np.float64]
    joined: bytes
    item_starts: Places
    item_ends: Places

    def item_ids(self, chosen: Chosen) -> list[str]:
        places = zip(self.item_starts[chosen].tolist(), self.item_ends[chosen].tolist(), strict=True)
        if self.joined.isascii():  # then a place in the bytes is one in the text, and slices of that are the ids
            text = self.joined.decode()
            return [text[start:end] for start, end in places]
        return [self.joined[start:end].decode() for start, end in places]


def _batch(
    heads: NDArray[np.int64],
    sizes: NDArray[np.int64],
    ts: NDArray[np.int64],
    actions: NDArray[np.uint8],
    values: NDArray[np.float64],
    read_item_ids: Callable[[Chosen], list[str]],
) -> RecordBatch:
    row_splits = np.concatenate(([0], np.cumsum(sizes)))
    return RecordBatch(heads[:, :2], heads[:, 2], heads[:, 3:], row_splits, ts, actions, values, read_item_ids)


def _foreign(packed: Sequence[bytes]) -> dict[int, str]:
    """Return what is wrong with those values that are of another format or no text."""
    prefix = f"{FORMAT_VERSION}\t".encode()
    problems = {place: _refusal(value) for place, value in enumerate(packed) if not value.startswith(prefix)}
    if not problems and not all(map(bytes.isascii, packed)):
        problems = {place: refusal for place, value in enumerate(packed) if (refusal := _no_text(value))}
    return problems


def _refusal(value: bytes) -> str:
    return foreign_version(value.split(b"\t", 1)[0][:20].decode(errors="replace"))


def _no_text(value: bytes) -> str | None:
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return f"user record that is not UTF-8: {error}"
    return None


def _decode(packed: Sequence[bytes]) -> _Decoded | dict[int, str]:
    """Return the columns of `packed`, or what is wrong with some of it."""
    # What stands in front lets the first number be read as a window of full width, and begins it with a tab like all.
    joined = b"\t".join([b"0" * _MAX_DIGITS, *packed, b""])
    data = np.frombuffer(joined, np.uint8)
    tabs = np.flatnonzero(data == _TAB)
    lengths = np.fromiter(map(len, packed), np.int64, len(packed))
    last = np.searchsorted(tabs, np.cumsum(lengths + 1) + (_MAX_DIGITS + 1))
    first = np.concatenate((_FIRST, last))[:-1]
    sizes = last - first - HEAD_FIELDS
    if (bad := sizes < 1).any():
        return _problems(bad, lambda row: f"user record with {sizes[row] + HEAD_FIELDS} fields is truncated")

    places = (first[:, None] + np.arange(_NUMBERS)).ravel()
    heads, readable = _integers(joined, tabs[places] + 1, tabs[places + 1])
    if not readable.all():
        bad = ~readable.reshape(-1, _NUMBERS).all(axis=1)
        return _problems(bad, lambda row: f"user record with an unreadable head {packed[row][:80]!r}")

    row_ends = np.cumsum(sizes)
    places = np.arange(row_ends[-1] if packed else 0) + np.repeat(first + (HEAD_FIELDS - 1) - row_ends + sizes, sizes)
    starts, ends = tabs[places] + 1, tabs[places + 1]
    item_ends = ends.copy()
    bad = ends - starts <= _PREFIX
    if not bad.any():
        digits = _digits(joined, starts, TS_DIGITS)
        actions = _ACTION_INDEX[data[starts + TS_DIGITS]]
        values = np.full(len(starts), np.nan)
        bad = (actions == _NO_ACTION) | (data[starts + _PREFIX] == _SEPARATOR)
        if (digits > 9).any():
            bad |= (digits > 9).any(axis=1)
        if VALUE_SEPARATOR.encode() in joined:
            separators = np.flatnonzero(data == _SEPARATOR)
            bad |= ~_read_values(joined, separators, ends, values)
            item_ends[np.searchsorted(ends, separators)] = separators
    if bad.any():
        damaged = np.zeros(len(packed), np.bool_)
        damaged[np.repeat(np.arange(len(packed)), sizes)[bad]] = True
        return _problems(damaged, lambda row: f"user record with an unreadable event, {packed[row][:80]!r}")
    numbers = heads.reshape(-1, _NUMBERS)
    return _Decoded(numbers, sizes, _numbers(digits), actions, values, joined, starts + _PREFIX, item_ends)


def _problems(bad: NDArray[np.bool_], reason: Callable[[int], str]) -> dict[int, str]:
    return {row: reason(row) for row in np.flatnonzero(bad).tolist()}


def _digits(joined: bytes, starts: Places, width: int) -> NDArray[np.uint8]:
    """Return the `width` digits from each of `starts` on, shape (n, width); above 9 where a byte is no digit."""
    windows: NDArray[np.void] = np.ndarray((len(joined) - width + 1,), f"V{width}", joined, strides=(1,))
    return windows[starts].view(np.uint8).reshape(-1, width) - np.uint8(_ZERO)


def _numbers(digits: NDArray[np.uint8]) -> NDArray[np.int64]:
    return (digits.astype(np.float64) @ _POWERS[-digits.shape[1] :]).astype(np.int64)


def _integers(joined: bytes, starts: Places, ends: Places) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the whole number in each joined[start:end], and where there is one; all of shape (n,)."""
    widths = ends - starts
    readable: NDArray[np.bool_] = (widths > 0) & (widths <= _MAX_DIGITS)
    width = min(int(widths.max(initial=1)), _MAX_DIGITS)
    digits = _digits(joined, ends - width, width)
    digits *= _LAST[:, -width:].take(widths, axis=0, mode="clip")
    if (digits > 9).any():
        readable &= ~(digits > 9).any(axis=1)
    return _numbers(digits), readable


def _read_values(joined: bytes, separators: Places, ends: Places, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Read the values of the entries that end at `ends` into `values`; return where none or a number was."""
    readable = np.ones(len(ends), np.bool_)
    at = np.searchsorted(ends, separators)
    for entry, separator, end in zip(at.tolist(), separators.tolist(), ends[at].tolist(), strict=True):
        try:
            values[entry] = float(joined[separator + 1 : end])
        except ValueError:
            readable[entry] = False
    return readable
