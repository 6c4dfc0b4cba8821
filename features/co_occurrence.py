"""Item-item neighbours, learned from the stream: the write side. `features/neighbours.py` is the read side.

Two items are near when users come to them within a few events of each other. A pair at distance d of one user's
events weighs step_decay ** (d - 1); the similarity of i and j is c_ij / (sqrt(n_i * n_j) + shrinkage), a cosine
damped for rarely seen items as by Bell and Koren, "Scalable Collaborative Filtering with Jointly Derived
Neighborhood Interpolation Weights", ICDM 2007, section 4.
"""

from array import array
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from runtime.config import NeighboursConfig
from schemas.state import Neighbours

_COMPACT_ABOVE = 64
"""A row's log is folded into its sums once it is longer than they are, and than this."""


class _Row:
    """The pair sums of one item: sorted ids with their sums, and a log of what was added since the last fold.

    Twelve bytes a pair, where a dict takes about a hundred; adding is two appends, folding is one sort.
    """

    __slots__ = ("_log_ids", "_log_weights", "_other_ids", "_sums")

    def __init__(self) -> None:
        self._other_ids: NDArray[np.int32] = np.empty(0, np.int32)
        self._sums: NDArray[np.float64] = np.empty(0, np.float64)
        self._log_ids = array("i")
        self._log_weights = array("d")

    def add(self, other: int, weight: float) -> None:
        self._log_ids.append(other)
        self._log_weights.append(weight)

    def add_all(self, others: "array[int]", weights: "array[float]") -> None:
        self._log_ids.extend(others)
        self._log_weights.extend(weights)
        if len(self._log_ids) > max(_COMPACT_ABOVE, len(self._other_ids)):
            self.fold()

    def fold(self) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return the ids and their sums, with the log taken in."""
        if self._log_ids:
            ids = np.concatenate([self._other_ids, np.array(self._log_ids, np.int32)])
            weights = np.concatenate([self._sums, np.array(self._log_weights, np.float64)])
            self._other_ids, places = np.unique(ids, return_inverse=True)
            self._sums = np.bincount(places, weights).astype(np.float64, copy=False)
            self._log_ids, self._log_weights = array("i"), array("d")
        return self._other_ids, self._sums


class CoOccurrence:
    """Counts which items are seen together, event by event, and says whose list has changed.

    The caller passes only what users did of their own will (`features.activity.POSITIVE_ACTIONS`). An item that a
    user's window already holds only moves to the front of it: a reloaded page and a redelivered event add nothing.
    Memory grows with the number of item pairs seen, and with users up to `max_users`.
    """

    def __init__(self, config: NeighboursConfig) -> None:
        self._shrinkage = config.shrinkage
        self._window = config.window
        self._max_users = config.max_users
        # A user's window is kept oldest first, so its weights rise towards the end.
        self._weights = array("d", (config.step_decay**step for step in reversed(range(config.window))))
        self._windows: OrderedDict[str, array[int]] = OrderedDict()
        self._index: dict[str, int] = {}
        self._item_ids: list[str] = []
        self._rows: list[_Row] = []
        self._events = array("d")
        self._ts = array("q")
        self._changed: set[int] = set()

    def observe(self, user_id: str, item_id: str, ts: int) -> None:
        """Take in that `user_id` came to `item_id` at `ts` (epoch milliseconds)."""
        item = self._index.get(item_id)
        if item is None:
            item = self._new_item(item_id)
        window = self._windows.get(user_id)
        if window is None:
            window = self._new_window(user_id)
        else:
            self._windows.move_to_end(user_id)
        if item in window:
            window.remove(item)
            window.append(item)
            return
        weights = self._weights[-len(window) :] if window else self._weights[:0]
        self._rows[item].add_all(window, weights)
        for other, weight in zip(window, weights, strict=True):
            self._rows[other].add(item, weight)
        self._events[item] += 1.0
        self._ts[item] = max(self._ts[item], ts)
        self._changed.update(window)
        self._changed.add(item)
        window.append(item)
        if len(window) > self._window:
            del window[0]

    def neighbours(self, item_id: str, k: int) -> Neighbours:
        """Return the `k` items most similar to `item_id`, best first; `KeyError` for one never observed."""
        item = self._index[item_id]
        ids, sums = self._rows[item].fold()
        events = np.frombuffer(self._events)[ids]
        similar = sums / (np.sqrt(events * self._events[item]) + self._shrinkage)
        if len(similar) > k:
            best = np.argpartition(similar, -k)[-k:]
            ids, similar = ids[best], similar[best]
        order = np.lexsort((ids, -similar))
        names = self._item_ids
        return Neighbours(
            item_id=item_id,
            ts=self._ts[item],
            events=self._events[item],
            neighbours=tuple(
                (names[i], value) for i, value in zip(ids[order].tolist(), similar[order].tolist(), strict=True)
            ),
        )

    def take_changed(self) -> list[str]:
        """Return the items whose counts changed since the last call, in the order of their first event."""
        changed = [self._item_ids[item] for item in sorted(self._changed)]
        self._changed.clear()
        return changed

    def _new_item(self, item_id: str) -> int:
        self._index[item_id] = item = len(self._item_ids)
        self._item_ids.append(item_id)
        self._rows.append(_Row())
        self._events.append(0.0)
        self._ts.append(0)
        return item

    def _new_window(self, user_id: str) -> "array[int]":
        if len(self._windows) >= self._max_users:
            self._windows.popitem(last=False)
        self._windows[user_id] = window = array("i")
        return window
