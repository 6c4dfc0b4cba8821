"""Features of a user, by name: pure functions of (record, item table, context, now), for a whole batch at once.

Worker, training and replay compute them with this same code; `features/registry.py` says what each of them means.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.activity import DELIBERATE
from features.item_columns import NO_CATEGORY, ItemColumns
from features.record_batch import RecordBatch
from features.session import Sessions, current_sessions, run_starts
from schemas.fields import Scalars
from schemas.request import Request

Column = NDArray[Any]

NO_EVENT = -1
"""What stands for an age where there is nothing to be that old, and for a band where there is no price."""

LAST_ITEMS = 3

SHORT_WINDOWS_MS = {"5m": 300_000, "1h": 3_600_000, "24h": 86_400_000}

_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000
_EPOCH_WEEKDAY = 3
"""1970-01-01 was a Thursday."""


class _View:
    """A batch of B users, and what several features need of it, computed once."""

    def __init__(
        self,
        batch: RecordBatch,
        items: ItemColumns,
        contexts: Sequence[Scalars],
        now_ms: NDArray[np.int64],
        session_gap_ms: int,
    ) -> None:
        self.batch = batch
        self.items = items
        self.contexts = contexts
        self.now_ms = now_ms
        self.session_gap_ms = session_gap_ms
        self.known = np.diff(batch.row_splits) > 0

    @cached_property
    def sessions(self) -> Sessions:
        return current_sessions(self.batch, self.now_ms, self.session_gap_ms)

    @cached_property
    def totals(self) -> NDArray[np.int64]:
        """Events ever, shape (B,)."""
        totals: NDArray[np.int64] = self.batch.counts.sum(axis=1)
        return totals

    @cached_property
    def ages_ms(self) -> NDArray[np.int64]:
        """Of each kept event, shape (E,)."""
        return self.now_ms[self.batch.rows] - self.batch.ts

    @cached_property
    def deliberate(self) -> NDArray[np.bool_]:
        """Which of the kept events the user did of their own will; those D events are the next ones' subject."""
        return DELIBERATE[self.batch.actions]

    @cached_property
    def users(self) -> NDArray[np.int64]:
        """Of each deliberate event: its row in the batch, shape (D,)."""
        return self.batch.rows[self.deliberate]

    @cached_property
    def item_ids(self) -> list[str]:
        return self.batch.read_item_ids(self.deliberate)

    @cached_property
    def item_rows(self) -> NDArray[np.int64]:
        """Of each deliberate event: its item's row in the table, shape (D,)."""
        return self.items.rows(self.item_ids)

    @cached_property
    def categories(self) -> NDArray[np.int64]:
        """Of each deliberate event: the code of its item's category, shape (D,)."""
        return self.items.category_codes(self.item_rows)

    @cached_property
    def bounds(self) -> NDArray[np.int64]:
        """Where each user's deliberate events begin, and the last one's end: shape (B + 1,)."""
        return np.searchsorted(self.users, np.arange(len(self.batch) + 1))

    @cached_property
    def active(self) -> NDArray[np.int64]:
        """The rows of users with a deliberate event among the kept ones."""
        return np.flatnonzero(np.diff(self.bounds))

    @cached_property
    def streaks(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Length and category code of the streak that each user is in, both of shape (B,)."""
        lengths = np.zeros(len(self.batch), np.int64)
        codes = np.full(len(self.batch), NO_CATEGORY)
        if len(self.active):
            begins = np.diff(self.categories, prepend=NO_CATEGORY) != 0
            begins[self.bounds[:-1][self.active]] = True
            last = self.bounds[1:][self.active] - 1
            codes[self.active] = self.categories[last]
            lengths[self.active] = np.where(
                self.categories[last] == NO_CATEGORY, 0, last - run_starts(begins)[last] + 1
            )
        return lengths, codes

    @cached_property
    def affinities(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Category code that most of each user's events share, the most recent of equals; and that share; (B,)."""
        codes, shares = np.full(len(self.batch), NO_CATEGORY), np.zeros(len(self.batch), np.float32)
        events = np.flatnonzero(self.categories != NO_CATEGORY)
        if len(events):
            pairs = self.users[events] * len(self.items.categories) + self.categories[events]
            # Equal pairs stand together, in the order of the log: the last of them is the most recent.
            order = np.argsort(pairs, kind="stable")
            ends = np.flatnonzero(np.diff(pairs[order], append=-1))
            counts = np.diff(ends, prepend=-1)
            latest = events[order[ends]]
            users = self.users[latest]
            # The higher count wins, and of equal ones the later event.
            ranks = counts * len(self.users) + latest
            best = np.maximum.reduceat(ranks, np.flatnonzero(np.diff(users, prepend=-1)))
            counts, latest = np.divmod(best, len(self.users))
            known = self.users[latest]
            codes[known] = self.categories[latest]
            shares[known] = counts / np.bincount(self.users[events], minlength=len(self.batch))[known]
        return codes, shares

    def per_user(self, events: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Count the kept events (E,) that are true, for each user: shape (B,)."""
        return np.bincount(self.batch.rows[events], minlength=len(self.batch))


def _age(ts: NDArray[np.int64], view: _View) -> Column:
    return np.where(view.known, np.maximum(view.now_ms - ts, 0), NO_EVENT)


def _recency(view: _View) -> Column:
    last_ts = np.zeros(len(view.batch), np.int64)
    last_ts[view.known] = view.batch.ts[view.batch.row_splits[1:][view.known] - 1]
    return _age(last_ts, view)


def _action_shares(view: _View) -> Column:
    shares: Column = (view.batch.counts / np.maximum(view.totals, 1)[:, None]).astype(np.float32)
    return shares


def _events_within(window_ms: int) -> "UserFeature":
    return lambda view: view.per_user(view.ages_ms < window_ms)


def _price_band(view: _View) -> Column:
    """The whole part of the mean of log2(1 + price)."""
    prices = view.items.log_prices(view.item_rows)
    priced = ~np.isnan(prices)
    counts = np.bincount(view.users[priced], minlength=len(view.batch))
    sums = np.bincount(view.users[priced], prices[priced], minlength=len(view.batch))
    bands: Column = np.where(counts > 0, sums // np.maximum(counts, 1), NO_EVENT).astype(np.int64)
    return bands


def _last_items(view: _View) -> Column:
    """The walk back is short and its steps depend on each other: a loop is as quick as numpy here."""
    found = np.full((len(view.batch), LAST_ITEMS), "", object)
    bounds = view.bounds.tolist()
    for row in view.active.tolist():
        recent: dict[str, None] = {}
        for place in range(bounds[row + 1] - 1, bounds[row] - 1, -1):
            recent.setdefault(view.item_ids[place])
            if len(recent) == LAST_ITEMS:
                break
        found[row, : len(recent)] = list(recent)
    return found


def _category_names(codes: NDArray[np.int64], view: _View) -> Column:
    return np.array(view.items.category_names(codes.tolist()), object)


def _context(name: str) -> "UserFeature":
    def read(view: _View) -> Column:
        values = (context.get(name) for context in view.contexts)
        return np.array([value if isinstance(value, str) else "" for value in values], object)

    return read


UserFeature = Callable[[_View], Column]

USER_FEATURES: Mapping[str, UserFeature] = {
    "activity": lambda view: view.totals,
    "action_counts": lambda view: view.batch.counts,
    "action_shares": _action_shares,
    "recency_ms": _recency,
    "tenure_ms": lambda view: _age(view.batch.first_ts, view),
    **{f"events_{name}": _events_within(window_ms) for name, window_ms in SHORT_WINDOWS_MS.items()},
    "session_id": lambda view: view.sessions.start_ms,
    "session_events": lambda view: view.sessions.events,
    "session_dwell_ms": lambda view: view.sessions.dwell_ms,
    "category_streak": lambda view: view.streaks[0],
    "streak_category": lambda view: _category_names(view.streaks[1], view),
    "top_category": lambda view: _category_names(view.affinities[0], view),
    "top_category_share": lambda view: view.affinities[1],
    "price_band": _price_band,
    "last_items": _last_items,
    "hour": lambda view: view.now_ms % _DAY_MS // _HOUR_MS,
    "weekday": lambda view: (view.now_ms // _DAY_MS + _EPOCH_WEEKDAY) % 7,
    "device": _context("device"),
    "surface": _context("surface"),
}
"""Every read-side user feature by its name."""


def user_features(
    names: Iterable[str],
    batch: RecordBatch,
    items: ItemColumns,
    contexts: Sequence[Scalars],
    now_ms: NDArray[np.int64],
    session_gap_ms: int,
) -> dict[str, Column]:
    """Return each named feature of the B users of `batch`, of shape (B, *shape in the registry).

    `contexts` has one mapping a user (see `context_of`), `now_ms` the moment that each row is asked for, int64 epoch
    milliseconds of shape (B,). Raises `KeyError` for a name not in `USER_FEATURES`.
    """
    view = _View(batch, items, contexts, now_ms, session_gap_ms)
    return {name: USER_FEATURES[name](view) for name in names}


def context_of(request: Request) -> Scalars:
    """Return the context of a request: what it sent as such, and its surface."""
    context = request.context or {}
    return context if request.surface is None else {**context, "surface": request.surface}
