"""Sessions: where a user's current one begins among the kept events, for a whole batch at once.

A session ends when its user does nothing for longer than the gap. The current one is that of the user's last event, if
now is not further from it than the gap. It begins, at the earliest, with the oldest event that the record keeps.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.record_batch import RecordBatch


@dataclass(frozen=True, slots=True)
class Sessions:
    """The current session of each of B users, int64 of shape (B,); all 0 for a user who is in none."""

    start_ms: NDArray[np.int64]
    """Event time of its first event: it names the session, the same wherever it is computed."""
    events: NDArray[np.int64]
    dwell_ms: NDArray[np.int64]
    """From its first event to its last."""


def current_sessions(batch: RecordBatch, now_ms: NDArray[np.int64], gap_ms: int) -> Sessions:
    """Return the session that each user is in at `now_ms`, epoch milliseconds of shape (B,).

    Events are in the order of the log. One whose ts lies before that of the event it follows (a producer whose clock
    is behind) belongs to the session of that event.
    """
    start_ms, events, dwell_ms = (np.zeros(len(batch), np.int64) for _ in range(3))
    known = np.flatnonzero(np.diff(batch.row_splits))
    if len(known):
        begins = np.diff(batch.ts, prepend=0) > gap_ms
        begins[batch.row_splits[:-1][known]] = True
        last = batch.row_splits[1:][known] - 1
        first = run_starts(begins)[last]
        current = now_ms[known] - batch.ts[last] <= gap_ms
        known, first, last = known[current], first[current], last[current]
        start_ms[known] = batch.ts[first]
        events[known] = last - first + 1
        dwell_ms[known] = np.maximum(batch.ts[last] - batch.ts[first], 0)
    return Sessions(start_ms, events, dwell_ms)


def run_starts(begins: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return for each place where its run begins: the last place up to it at which `begins` is true."""
    starts: NDArray[np.int64] = np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))
    return starts
