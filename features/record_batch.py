"""Many user records at once, as columns: what a micro-batch costs is one pass over its bytes, not one per event.

There is one reader of the format (`features/record_bytes.py`): a single record is a batch of one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from features.record_bytes import HEAD_NUMBERS, Chosen, read_columns
from features.user_record import Event, UserRecord
from schemas.click import ACTIONS


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
    heads = np.zeros((len(records), HEAD_NUMBERS), np.int64)
    heads[[record is not None for record in records]] = np.array(
        [(*record.position, record.first_ts, *record.counts) for record in known], np.int64
    ).reshape(-1, HEAD_NUMBERS)
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
    decoded = read_columns(kept)
    if isinstance(decoded, dict):
        rows = [row for row, value in enumerate(packed) if value is not None]
        problems = {rows[place]: reason for place, reason in decoded.items()}
        rest = decode_records([None if row in problems else value for row, value in enumerate(packed)])
        return replace(rest, problems=problems | dict(rest.problems))
    heads, sizes = decoded.heads, decoded.sizes
    if len(kept) < len(packed):
        present = np.array([value is not None for value in packed])
        heads, sizes = np.zeros((len(packed), HEAD_NUMBERS), np.int64), np.zeros(len(packed), np.int64)
        heads[present], sizes[present] = decoded.heads, decoded.sizes
    return _batch(heads, sizes, decoded.ts, decoded.actions, decoded.values, decoded.item_ids)


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
