"""The catalogue as columns: what the user features need of an item, found for thousands of events at once."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Self

import numpy as np
from numpy.typing import NDArray

from schemas.item import Item

UNKNOWN_ITEM = 0
"""The row of every item that the catalogue does not hold."""

NO_CATEGORY = -1


class ItemColumns:
    """Category and price by row; kept up to date as the item table is, with `put` and `drop`.

    `categories[code]` is the name of a category. Codes are given out in the order of arrival: they mean something
    beside this table only. A category, once seen, keeps its code.
    """

    def __init__(self) -> None:
        self.categories: list[str] = []
        self._codes: dict[str, int] = {}
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self._size = 1
        self._category = np.full(64, NO_CATEGORY, np.int64)
        self._log_price = np.full(64, np.nan)

    @classmethod
    def of(cls, items: Mapping[str, Item]) -> Self:
        """Return the columns of a whole item table."""
        columns = cls()
        for item in items.values():
            columns.put(item)
        return columns

    def put(self, item: Item) -> None:
        """Take in an item, or its new state."""
        row = self._rows.get(item.item_id)
        if row is None:
            row = self._rows[item.item_id] = self._free.pop() if self._free else self._new_row()
        self._category[row] = NO_CATEGORY if item.category is None else self._code(item.category)
        # One by one: numpy's logarithm of a longer array can differ in the last bit.
        self._log_price[row] = math.log2(1.0 + item.price) if item.price is not None and item.price >= 0 else math.nan

    def drop(self, item_id: str) -> None:
        """Forget an item that was deleted."""
        row = self._rows.pop(item_id, None)
        if row is not None:
            self._category[row], self._log_price[row] = NO_CATEGORY, math.nan
            self._free.append(row)

    def rows(self, item_ids: Iterable[str]) -> NDArray[np.int64]:
        """Return the row of each item, `UNKNOWN_ITEM` where there is none; good until the next `put` or `drop`."""
        return np.fromiter(map(self._rows.get, item_ids, repeat(UNKNOWN_ITEM)), np.int64)

    def category_codes(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the category of each row, `NO_CATEGORY` where it has none."""
        return self._category[rows]

    def log_prices(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return log2(1 + price) of each row, NaN where it has no price, or one below 0."""
        return self._log_price[rows]

    def category_names(self, codes: Sequence[int]) -> list[str]:
        """Return the name of each code, an empty one for `NO_CATEGORY`."""
        return [self.categories[code] if code != NO_CATEGORY else "" for code in codes]

    def _code(self, category: str) -> int:
        code = self._codes.get(category)
        if code is None:
            code = self._codes[category] = len(self.categories)
            self.categories.append(category)
        return code

    def _new_row(self) -> int:
        row, self._size = self._size, self._size + 1
        if row == len(self._category):
            more = len(self._category)
            self._category = np.concatenate([self._category, np.full(more, NO_CATEGORY)])
            self._log_price = np.concatenate([self._log_price, np.full(more, np.nan)])
        return row
