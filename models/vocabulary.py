"""From ids and attributes to dense indices; index 0 is everything that was not there when the model was fitted."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np

from features.tables import Tables
from models.contract import History
from schemas.fields import Scalar
from schemas.item import Item
from schemas.user import User

OUT_OF_VOCABULARY = 0

USER, ITEM, CATEGORY = "user_id", "item_id", "category"
PROFILE_PREFIX = "profile."

ItemIndices = tuple[int, int]
"""Of an item and of its category."""

_MAX_VALUES = 1_000
"""A text attribute with more values than this is an id or free text, from which nothing can be learned."""

_BUCKETS = 10
"""Numeric attributes are cut at deciles: few enough that each is trained, many enough for an age curve."""

_LARGEST_NUMBER = 1e18
"""Beyond it an attribute is a mistake; so is NaN, which is below nothing."""

_EXACT_IN_FLOAT32 = 2**24
"""deepctr-torch takes indices in a float32 matrix; above this two of them would be the same number."""


class Vocabulary(msgspec.Struct, frozen=True, dict=True):
    """The known values of each sparse feature in index order (from 1), and the cuts of the numeric ones."""

    values: dict[str, tuple[str, ...]]
    cuts: dict[str, tuple[float, ...]]

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The rows that each feature's embedding needs, row 0 included."""
        known = {name: len(values) + 1 for name, values in self.values.items()}
        return known | {name: len(cuts) + 2 for name, cuts in self.cuts.items()}

    @cached_property
    def _indices(self) -> dict[str, dict[str, int]]:
        return {
            name: {value: index for index, value in enumerate(values, start=1)} for name, values in self.values.items()
        }

    @cached_property
    def profile_features(self) -> tuple[str, ...]:
        """The names of the features that come from a user's profile."""
        return tuple(name for name in self.sizes if name.startswith(PROFILE_PREFIX))

    def index(self, name: str, value: str | None) -> int:
        """Return the index of an id or category."""
        return OUT_OF_VOCABULARY if value is None else self._indices[name].get(value, OUT_OF_VOCABULARY)

    def indices(self, name: str, values: Iterable[str]) -> list[int]:
        """Return the indices of many ids."""
        known = self._indices[name]
        return [known.get(value, OUT_OF_VOCABULARY) for value in values]

    def item_indices(self, candidates: Sequence[str], tables: Tables) -> list[ItemIndices]:
        """Return the indices of each candidate and of the category that it has at the moment."""
        items = [tables.items.get(item_id) for item_id in candidates]
        categories = [self.index(CATEGORY, None if item is None else item.category) for item in items]
        return list(zip(self.indices(ITEM, candidates), categories, strict=True))

    def profile_indices(self, profile: User | None) -> list[int]:
        """Return the index of each of `profile_features`."""
        attributes = profile.attributes if profile is not None and profile.attributes is not None else {}
        return [
            self._profile_index(name, attributes.get(name.removeprefix(PROFILE_PREFIX)))
            for name in self.profile_features
        ]

    def _profile_index(self, name: str, value: Scalar) -> int:
        cuts = self.cuts.get(name)
        if cuts is None:
            return self.index(name, value if isinstance(value, str) else None)
        number = _number(value)
        return OUT_OF_VOCABULARY if number is None else bisect_right(cuts, number) + 1


def build_vocabulary(history: History) -> Vocabulary:
    """Return the vocabulary of `history`: its users, items, categories and profile attributes, each sorted."""
    items = {click.item_id for click in history.clicks} | set(history.items)
    values = {
        USER: _in_order(click.user_id for click in history.clicks),
        ITEM: _in_order(items),
        CATEGORY: _in_order(_categories(history.items.values())),
    }
    cuts: dict[str, tuple[float, ...]] = {}
    for name, found in sorted(_attributes(history.users).items()):
        numbers = [number for number in map(_number, found) if number is not None]
        texts = _in_order(each for each in found if isinstance(each, str))
        if len(numbers) > len(found) / 2:
            edges = np.quantile(np.array(numbers, np.float64), np.linspace(0, 1, _BUCKETS + 1)[1:-1])
            cuts[PROFILE_PREFIX + name] = tuple(np.unique(edges).tolist())
        elif 0 < len(texts) <= _MAX_VALUES:
            values[PROFILE_PREFIX + name] = texts
    return Vocabulary({name: each[: _EXACT_IN_FLOAT32 - 1] for name, each in values.items()}, cuts)


def _number(value: Scalar) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LARGEST_NUMBER:
        return None
    return float(value)


def _in_order(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))


def _categories(items: Iterable[Item]) -> Iterable[str]:
    return (item.category for item in items if item.category is not None)


def _attributes(users: Mapping[str, User]) -> dict[str, Sequence[Scalar]]:
    found: dict[str, list[Scalar]] = {}
    for user in users.values():
        for name, value in (user.attributes or {}).items():
            found.setdefault(name, []).append(value)
    return dict(found)
