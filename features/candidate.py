"""Dense features of a candidate for a user, by name. Training and serving compute them with this same code."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from features.activity import activity, category_streak, last_items
from features.tables import Tables
from features.user_record import UserRecord
from schemas.item import Item

_TASTE_ITEMS = 10
"""How many of the last items say what a user likes now."""

_CF_CUTS = (1, 3, 10, 32)

_SIMILARITY_FLOOR = 1e-3
"""Similarities enter as logarithms: a user whose lists are all strong is then only shifted, which a ranking within
one request does not see. What is no neighbour at all counts as this much."""


class _View:
    """One user, the candidates, and what several features need of them, computed once."""

    def __init__(self, record: UserRecord | None, candidates: Sequence[str], tables: Tables) -> None:
        self.record = record
        self.candidates = candidates
        self.tables = tables
        self.items = [tables.items.get(item_id) for item_id in candidates]
        self.last = last_items(record, _CF_CUTS[-1])

    @cached_property
    def near(self) -> NDArray[np.float32]:
        """Item-item scores over the last 1, 3, .. items, shape (cuts, candidates)."""
        return self.tables.neighbours.scores(self.last, self.candidates, _CF_CUTS)

    @cached_property
    def recent(self) -> list[Item]:
        """What the catalogue holds of the user's last items."""
        items = (self.tables.items.get(item_id) for item_id in self.last[:_TASTE_ITEMS])
        return [item for item in items if item is not None]

    @cached_property
    def popularity(self) -> NDArray[np.float32]:
        """Of each candidate: its score on the leaderboard."""
        score = self.tables.leaderboards.score
        return np.array([score(item_id) for item_id in self.candidates], np.float32)

    @cached_property
    def log_events(self) -> NDArray[np.float64]:
        """Of each candidate: the logarithm of its event count."""
        return np.log1p([self.tables.neighbours.events(item_id) for item_id in self.candidates])

    @cached_property
    def recent_log_events(self) -> float:
        """The mean of the same over the user's last items."""
        counts = [self.tables.neighbours.events(item_id) for item_id in self.last[:_TASTE_ITEMS]]
        return float(np.log1p(counts).mean()) if counts else 0.0

    @cached_property
    def years(self) -> NDArray[np.float64]:
        """Of each candidate: its year, NaN where it has none."""
        return np.array([_year(item) for item in self.items], np.float64)


Feature = Callable[[_View], ArrayLike]


def _cf_last(k: int) -> Feature:
    row = _CF_CUTS.index(k)
    return lambda view: np.log(view.near[row] + _SIMILARITY_FLOOR)


def _cf_place(k: int) -> Feature:
    row = _CF_CUTS.index(k)
    return lambda view: _place(view.near[row])


def _popularity(view: _View) -> ArrayLike:
    return view.popularity


def _popularity_place(view: _View) -> ArrayLike:
    return _place(view.popularity)


def _log_events(view: _View) -> ArrayLike:
    return view.log_events


def _log_events_place(view: _View) -> ArrayLike:
    return _place(view.log_events)


def _log_events_gap(view: _View) -> ArrayLike:
    """How much better known the candidate is than what the user came to last."""
    return view.log_events - view.recent_log_events


def _year_feature(view: _View) -> ArrayLike:
    """Decades since 1990."""
    return np.nan_to_num((view.years - 1990.0) / 10.0)


def _year_gap(view: _View) -> ArrayLike:
    """Decades between the candidate and the mean of what the user came to last; 0.0 where either is unknown."""
    years = [year for year in map(_year, view.recent) if not math.isnan(year)]
    return np.nan_to_num(np.abs(view.years - sum(years) / len(years)) / 10.0) if years else np.zeros(len(view.items))


def _tag_affinity(view: _View) -> ArrayLike:
    """The share of the user's last items that bear a tag, averaged over the candidate's tags."""
    counts = Counter(tag for item in view.recent for tag in _tags(item))
    tags = [_tags(item) for item in view.items]
    return [sum(counts[tag] for tag in each) / (len(each) * len(view.recent) or 1) for each in tags]


def _streak_match(view: _View) -> ArrayLike:
    """The log length of the user's category streak where the candidate goes on with it, else 0.0."""
    streak, category = category_streak(view.record, view.tables.items)
    value = math.log1p(streak)
    return [value if item is not None and item.category == category else 0.0 for item in view.items]


def _user_log_events(view: _View) -> ArrayLike:
    return np.full(len(view.candidates), math.log1p(activity(view.record)))


def _place(values: NDArray[Any]) -> ArrayLike:
    """The logarithm of each candidate's place among all of them, best first; equals share their mean place.

    What a place is worth is the same for every user, which the value behind it is not.
    """
    rising = np.sort(values)
    better = len(values) - np.searchsorted(rising, values, side="right")
    not_worse = len(values) - np.searchsorted(rising, values, side="left")
    places: NDArray[np.float64] = np.log1p((better + not_worse - 1) / 2)
    return places


def _tags(item: Item | None) -> Sequence[str]:
    if item is None:
        return ()
    return item.tags or ((item.category,) if item.category is not None else ())


def _year(item: Item | None) -> float:
    year = (item.attributes or {}).get("year") if item is not None else None
    return float(year) if isinstance(year, int | float) and 0 < year < 10_000 else math.nan


FEATURES: Mapping[str, Feature] = {
    **{f"cf_last_{k}": _cf_last(k) for k in _CF_CUTS},
    **{f"cf_place_{k}": _cf_place(k) for k in _CF_CUTS[1:]},
    "popularity": _popularity,
    "popularity_place": _popularity_place,
    "log_events": _log_events,
    "log_events_place": _log_events_place,
    "log_events_gap": _log_events_gap,
    "year": _year_feature,
    "year_gap": _year_gap,
    "tag_affinity": _tag_affinity,
    "streak_match": _streak_match,
    "user_log_events": _user_log_events,
}
"""Every dense candidate feature by the name under which an artifact lists it."""


def candidate_features(
    names: Sequence[str], record: UserRecord | None, candidates: Sequence[str], tables: Tables
) -> NDArray[np.float32]:
    """Return float32 features of shape (candidates, names), all finite; `KeyError` for a name not in `FEATURES`.

    Places are among `candidates`, whose order does not matter.
    """
    view = _View(record, candidates, tables)
    columns = np.empty((len(names), len(candidates)), np.float32)
    for row, name in enumerate(names):
        columns[row] = FEATURES[name](view)
    return columns.T
