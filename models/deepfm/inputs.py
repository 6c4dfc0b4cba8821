"""The matrix that the network reads: sparse indices and scaled dense features, one row per candidate."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from features.activity import last_items
from features.candidate import candidate_features
from features.tables import Tables
from models.contract import RankRequest
from models.vocabulary import CATEGORY, ITEM, OUT_OF_VOCABULARY, USER, ItemIndices, Vocabulary

LAST_ITEMS = "last_items"
LAST_ITEMS_LENGTH = 10
"""How many of the last items the network pools; index 0 pads, and pooling leaves it out."""

_SMALLEST_SPREAD = 1e-3
"""A feature that hardly varied in training is not blown up when it does in serving."""

_LARGEST_SCALED = 10.0
"""Ten spreads from the mean say "extreme"; more would only unsettle the network."""

_FORGET_USER, _FORGET_PROFILE, _FORGET_ITEM = 0.5, 0.1, 0.1
"""How often training hides an id. Half of the users of a live stream are new, few items and profiles are."""

Matrix = NDArray[np.float32]


class Scaling(NamedTuple):
    """Mean and spread of the dense features, both float32 of shape (dense,)."""

    mean: Matrix
    spread: Matrix


class Inputs:
    """Assembles rows in one fixed column order: `sparse`, then `LAST_ITEMS`, then `dense`."""

    def __init__(self, vocabulary: Vocabulary, dense: Sequence[str]) -> None:
        self.vocabulary = vocabulary
        self.sparse = (USER, *vocabulary.profile_features, ITEM, CATEGORY)
        self.dense = tuple(dense)
        self.indices = (*self.sparse, LAST_ITEMS)
        self._item_at = self.sparse.index(ITEM)
        self._dense_at = len(self.sparse) + LAST_ITEMS_LENGTH
        self.width = self._dense_at + len(self.dense)

    def rows(self, request: RankRequest, candidates: Sequence[str], tables: Tables) -> Matrix:
        """Return float32 rows of shape (candidates, width), dense features not yet scaled."""
        rows = np.tile(self.user_rows([request]), (len(candidates), 1))
        rows[:, self._item_at : self._item_at + 2] = self.vocabulary.item_indices(candidates, tables)
        rows[:, self._dense_at :] = self.pairs(request, candidates, tables)
        return rows

    def user_rows(self, requests: Sequence[RankRequest]) -> Matrix:
        """Return float32 rows of shape (requests, width), in which only the user's columns are filled."""
        known = self.vocabulary
        rows = np.zeros((len(requests), self.width), np.float32)
        for row, request in zip(rows, requests, strict=True):
            row[: self._item_at] = known.indices(USER, (request.user_id,)) + known.profile_indices(request.profile)
            last = known.indices(ITEM, last_items(request.record, LAST_ITEMS_LENGTH))
            row[len(self.sparse) : len(self.sparse) + len(last)] = last
        return rows

    def item_rows(self, indices: Sequence[ItemIndices]) -> Matrix:
        """Return float32 rows of shape (items, width), in which only the item's columns are filled."""
        rows = np.zeros((len(indices), self.width), np.float32)
        rows[:, self._item_at : self._item_at + 2] = np.reshape(indices, (-1, 2))
        return rows

    def pairs(self, request: RankRequest, candidates: Sequence[str], tables: Tables) -> Matrix:
        """Return the features of the user and each candidate together, float32 of shape (candidates, dense)."""
        return candidate_features(self.dense, request.record, candidates, tables)

    def scaling(self, rows: Matrix) -> Scaling:
        """Return the mean and the spread of each dense feature over `rows`, whose last axis has `width` columns."""
        dense = rows[..., self._dense_at :].reshape(-1, len(self.dense)).astype(np.float64)
        spread = np.maximum(dense.std(axis=0), _SMALLEST_SPREAD)
        return Scaling(dense.mean(axis=0).astype(np.float32), spread.astype(np.float32))

    def scale(self, rows: Matrix, scaling: Scaling) -> None:
        """Scale the dense features of `rows` in place."""
        scale_pairs(rows[..., self._dense_at :], scaling)

    def forget(self, rows: Matrix, rng: np.random.Generator) -> None:
        """Replace ids in `rows` (groups, candidates, width) by the out-of-vocabulary row, so that it is trained too.

        A whole group forgets its user and profile together; items and categories are forgotten one by one.
        """
        groups, candidates, _ = rows.shape
        for column, name in enumerate(self.sparse):
            if name in (ITEM, CATEGORY):
                rows[:, :, column][rng.random((groups, candidates)) < _FORGET_ITEM] = OUT_OF_VOCABULARY
            else:
                share = _FORGET_USER if name == USER else _FORGET_PROFILE
                rows[rng.random(groups) < share, :, column] = OUT_OF_VOCABULARY


def scale_pairs(pairs: Matrix, scaling: Scaling) -> None:
    """Scale dense features, of shape (..., dense), in place."""
    pairs -= scaling.mean
    pairs /= scaling.spread
    np.clip(pairs, -_LARGEST_SCALED, _LARGEST_SCALED, out=pairs)
