"""The items' side of the compiled scorer: computed when an item is first ranked, then kept."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from models.deepfm.compiled import CompiledDeepFm, Half
from models.deepfm.inputs import Inputs
from models.vocabulary import ItemIndices

if TYPE_CHECKING:
    from torch import Tensor


class ItemTable:
    """One row for each item and category that was asked for; an item that changes its category gets another."""

    def __init__(self, inputs: Inputs, scorer: CompiledDeepFm) -> None:
        self._inputs = inputs
        self._scorer = scorer
        self._row_of: dict[ItemIndices, int] = {}
        self._items: Half | None = None

    def find(self, wanted: Sequence[ItemIndices]) -> "tuple[Half, Tensor]":
        """Return the table, and the row in it of each of `wanted`, int64."""
        import torch

        new = [each for each in dict.fromkeys(wanted) if each not in self._row_of]
        if new or self._items is None:
            self._items = self._grown(self._items, new)
        return self._items, torch.tensor([self._row_of[each] for each in wanted], dtype=torch.long)

    def _grown(self, items: Half | None, new: Sequence[ItemIndices]) -> Half:
        """Return `items` with the rows of `new`, in a table with room for as many again."""
        import torch

        added = self._scorer.items(torch.from_numpy(self._inputs.item_rows(new)))
        used = len(self._row_of)
        if items is None or used + len(new) > len(items.table):
            room = torch.empty(2 * (used + len(new)), added.table.shape[1])
            if items is not None:
                room[:used] = items.table[:used]
            items = Half(room, added.hidden)
        items.table[used : used + len(new)] = added.table
        self._row_of.update(zip(new, range(used, used + len(new)), strict=True))
        return items
