"""Dense features of a candidate for a user, by name. Training and serving compute them with this same code."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from features.activity import activity, category_streak, last_items
from features.tables import Tables
from features.user_record import UserRecord
from schemas.item import Item

_TASTE_ITEMS = 10
"""How many of the last items say what a user likes now; ten is where item-item CF stops gaining on ML-100k."""

_SIMILARITY_FLOOR = 1e-3
"""Similarities enter as logarithms: a user whose lists are all strong is then only shifted, which a ranking within one
request does not see. What is no neighbour at all counts as this much."""


class _View:
    """What the features of one user share, computed once for all candidates."""

    def __init__(self, record: UserRecord | None, tables: Tables) -> None:
        self.record = record
        self.tables = tables
        self.last = last_items(record, len(record.events) if record is not None else 0)

    def item(self, item_id: str) -> Item | None:
        return self.tables.items.get(item_id)

    @cached_property
    def streak(self) -> tuple[int, str | None]:
        return category_streak(self.record, self.tables.items)

    @cached_property
    def tag_shares(self) -> Mapping[str, float]:
        """The share of the last items that bear each tag."""
        items = [item for item in map(self.item, self.last[:_TASTE_ITEMS]) if item is not None]
        counts = Counter(tag for item in items for tag in _tags(item))
        return {tag: count / len(items) for tag, count in counts.items()}

    @cached_property
    def year(self) -> float | None:
        years = [year for year in map(_year, map(self.item, self.last[:_TASTE_ITEMS])) if year is not None]
        return sum(years) / len(years) if years else None

    @cached_property
    def log_events(self) -> float:
        counts = [self.item_log_events(item_id) for item_id in self.last[:_TASTE_ITEMS]]
        return sum(counts) / len(counts) if counts else 0.0

    def item_log_events(self, item_id: str) -> float:
        return math.log1p(self.tables.neighbours.events(item_id))


Feature = Callable[[_View, Sequence[str]], list[float]]


def _cf_last(k: int) -> Feature:
    row = _CF_CUTS.index(k)

    def feature(view: _View) -> Column:
        return np.log(view.near[row] + _SIMILARITY_FLOOR)

    return feature


def _popularity(view: _View, candidates: Sequence[str]) -> list[float]:
    return [view.tables.leaderboards.score(item_id) for item_id in candidates]


def _log_events(view: _View, candidates: Sequence[str]) -> list[float]:
    return [view.item_log_events(item_id) for item_id in candidates]


def _log_events_gap(view: _View, candidates: Sequence[str]) -> list[float]:
    """How much better known the candidate is than what the user came to last."""
    return [view.item_log_events(item_id) - view.log_events for item_id in candidates]


def _year_of(view: _View, candidates: Sequence[str]) -> list[float]:
    years = [_year(view.item(item_id)) for item_id in candidates]
    return [(year - 1990.0) / 10.0 if year is not None else 0.0 for year in years]


def _year_gap(view: _View, candidates: Sequence[str]) -> list[float]:
    """Decades between the candidate and what the user came to last; 0.0 where either is unknown."""
    user = view.year
    years = [_year(view.item(item_id)) for item_id in candidates]
    return [abs(year - user) / 10.0 if year is not None and user is not None else 0.0 for year in years]


def _tag_affinity(view: _View, candidates: Sequence[str]) -> list[float]:
    """The mean share of the candidate's tags among the last items."""
    shares, result = view.tag_shares, []
    for item in map(view.item, candidates):
        tags = _tags(item)
        result.append(sum(shares.get(tag, 0.0) for tag in tags) / len(tags) if tags else 0.0)
    return result


def _streak_match(view: _View, candidates: Sequence[str]) -> list[float]:
    """The log length of the user's category streak where the candidate goes on with it."""
    streak, category = view.streak
    items = map(view.item, candidates)
    return [math.log1p(streak) if item is not None and item.category == category else 0.0 for item in items]


def _user_log_events(view: _View, candidates: Sequence[str]) -> list[float]:
    return [math.log1p(activity(view.record))] * len(candidates)


def _tags(item: Item | None) -> Sequence[str]:
    if item is None:
        return ()
    return item.tags or ((item.category,) if item.category is not None else ())


def _year(item: Item | None) -> float | None:
    year = item.attributes.get("year") if item is not None and item.attributes is not None else None
    return float(year) if isinstance(year, int | float) else None


FEATURES: Mapping[str, Feature] = {
    "cf_last_1": _cf_last(1),
    "cf_last_3": _cf_last(3),
    "cf_last_10": _cf_last(10),
    "cf_last_32": _cf_last(32),
    "popularity": _popularity,
    "log_events": _log_events,
    "log_events_gap": _log_events_gap,
    "year": _year_of,
    "year_gap": _year_gap,
    "tag_affinity": _tag_affinity,
    "streak_match": _streak_match,
    "user_log_events": _user_log_events,
}
"""Every dense candidate feature by the name under which an artifact lists it."""


def candidate_features(
    names: Sequence[str], record: UserRecord | None, candidates: Sequence[str], tables: Tables
) -> NDArray[np.float32]:
    """Return float32 features of shape (candidates, names), all finite; `KeyError` for a name not in `FEATURES`."""
    view = _View(record, tables)
    columns = [FEATURES[name](view, candidates) for name in names]
    return np.array(columns, np.float32).reshape(len(names), len(candidates)).T
