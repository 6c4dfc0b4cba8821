"""Trees and the regression on their leaves are one model: trees whose leaves hold the regression's weights.

A row falls into one leaf of each tree, and the regression adds up the weights of these leaves. That is how trees
score, so the weights take the place of the leaves' own values, and one prediction does the work of two.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Leaves = NDArray[np.int32]
"""For each row the leaf of each tree, shape (rows, trees)."""


def leaves_of(booster: Any, rows: NDArray[np.float32]) -> Leaves:
    """Return the leaves that `rows` fall into, by their numbers among the tree's nodes."""
    from xgboost import DMatrix

    found: Leaves = booster.predict(DMatrix(rows, nthread=1), pred_leaf=True).astype(np.int32)
    return found.reshape(len(rows), -1)


def number_leaves(booster: Any) -> list[NDArray[np.int64]]:
    """Return the numbers of each tree's leaves among its nodes, ascending."""
    return [np.flatnonzero(np.array(tree["left_children"]) < 0) for tree in _trees(_document(booster))]


def one_hot(leaves: Leaves, numbers: Sequence[NDArray[np.int64]]) -> Any:
    """Return `leaves` as a sparse matrix of shape (rows, leaves of all trees), with a one per tree."""
    from scipy.sparse import csr_array

    rows, trees = leaves.shape
    offsets = np.cumsum([0, *map(len, numbers)])
    columns = np.stack([np.searchsorted(each, leaves[:, tree]) for tree, each in enumerate(numbers)], axis=1)
    columns += offsets[:-1]
    indptr = np.arange(rows + 1) * trees
    return csr_array((np.ones(rows * trees), columns.ravel(), indptr), shape=(rows, int(offsets[-1])))


def with_weights(booster: Any, numbers: Sequence[NDArray[np.int64]], weights: NDArray[np.float64], bias: float) -> Any:
    """Return the trees of `booster` with `weights` (one per leaf, as the columns of `one_hot`) as their leaves' values.

    Its prediction is the sum of a row's weights and `bias`, as it is.
    """
    from xgboost import Booster

    document = _document(booster)
    parts = np.split(weights, np.cumsum([len(each) for each in numbers])[:-1])
    for tree, leaves, values in zip(_trees(document), numbers, parts, strict=True):
        for leaf, value in zip(leaves.tolist(), values.tolist(), strict=True):
            # XGBoost keeps a leaf's value where other nodes have their threshold.
            tree["split_conditions"][leaf] = tree["base_weights"][leaf] = value
    learner = document["learner"]
    learner["objective"] = {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}}
    learner["learner_model_param"]["base_score"] = repr(bias)
    return Booster(model_file=bytearray(json.dumps(document).encode()))


def _document(booster: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(booster.save_raw("json"))
    return document


def _trees(document: dict[str, Any]) -> list[dict[str, Any]]:
    trees: list[dict[str, Any]] = document["learner"]["gradient_booster"]["model"]["trees"]
    return trees
