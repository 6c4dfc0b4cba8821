"""Training: trees on the earlier samples, the regression on the later ones, so that neither has seen the other's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.candidate import FEATURES, candidate_features
from features.tables import Tables
from models.contract import History, Progress, RankRequest
from models.gbdt_lr.encoding import FOLDS, Encoding, encode, fit_encodings
from models.gbdt_lr.leaves import leaves_of, number_leaves, one_hot, with_weights
from models.samples import GROUP, Moment, collect, ndcg, sampled_group
from models.vocabulary import CATEGORY, ITEM, Vocabulary, build_vocabulary
from runtime.config import Config
from runtime.errors import DataError

NAME = "gbdt_lr"

ENCODED = (ITEM, CATEGORY)
"""The ids that enter as target encodings, behind the dense features."""

REGRESSION_SHARE = 0.3
"""Of the groups, the last in time, that the trees do not learn from: they say when to add no more trees, and the
regression learns what their leaves are worth now."""

TREES = {
    "objective": "binary:logistic",
    "eval_metric": "logloss",
    "tree_method": "hist",
    "max_depth": 4,
    "eta": 0.1,
    "min_child_weight": 5,
    "subsample": 0.8,
    "nthread": 1,
}
MAX_TREES = 300
PATIENCE = 20
"""How many trees may be added without a better log loss."""

INVERSE_REGULARISATION = 0.01
"""With ten times as much the leaves learn their noise: nDCG@10 on the end of ML-100k's history .150 against .164."""

Rows = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Assembles the trees' rows: the dense features by name, then the encodings of `ENCODED`."""

    vocabulary: Vocabulary
    dense: tuple[str, ...]
    encodings: list[Encoding]

    def rows(self, request: RankRequest, candidates: Sequence[str], tables: Tables) -> Rows:
        """Return float32 rows of shape (candidates, features)."""
        rows = _unencoded(self.vocabulary, self.dense, request, candidates, tables)
        _encode(rows, self.encodings)
        return rows


@dataclass(frozen=True, slots=True)
class Trained:
    """The model: trees whose leaves hold the regression's weights, and how it came about."""

    inputs: Inputs
    booster: Any
    metrics: dict[str, float]


def train_gbdt_lr(history: History, config: Config, seed: int, progress: Progress) -> Trained:
    """Return the model of `history`; `DataError` if that is too short to learn from."""
    vocabulary = _items_of(build_vocabulary(history))
    dense = tuple(FEATURES)
    rng = np.random.default_rng(seed)

    def rows_of(moment: Moment, tables: Tables) -> Rows:
        return _unencoded(vocabulary, dense, moment.request, moment.candidates, tables)

    samples = collect(NAME, history, config, rows_of, rng, progress)
    groups, width = samples.groups, samples.groups.shape[2]
    rows, labels = groups.reshape(-1, width), np.tile(np.eye(1, GROUP)[0], len(groups))
    early = round(len(groups) * (1 - REGRESSION_SHARE)) * GROUP
    if len(groups) < 2 * FOLDS:
        raise DataError(
            f"{len(history.clicks)} clicks are too few to train {NAME}: recall proposed the next item {len(groups)} "
            f"times in the part for training, and {2 * FOLDS} are needed; train it on a longer history"
        )
    sizes = [vocabulary.sizes[name] for name in ENCODED]
    encodings, crossed = fit_encodings(_indices(rows[:early]), labels[:early], sizes, seed)
    rows[:early, -len(ENCODED) :] = crossed
    for part in (rows[early:], *samples.validation):
        _encode(part, encodings)
    booster = _fit_trees(rows[:early], labels[:early], rows[early:], labels[early:], seed, progress)
    progress(1, 2, "weighing leaves")
    booster = _fit_regression(booster, rows[early:], labels[early:])
    progress(2, 2, "weighing leaves")
    metrics = _measure(booster, samples.validation, rng) | {"groups": float(len(groups))}
    return Trained(Inputs(vocabulary, dense, encodings), booster, metrics)


def score_rows(booster: Any, rows: Rows) -> Rows:
    """Return the log odds of `rows`, float32 of shape (rows,)."""
    scores: Rows = booster.inplace_predict(rows, predict_type="margin", validate_features=False)
    return scores


def _items_of(vocabulary: Vocabulary) -> Vocabulary:
    return Vocabulary({name: vocabulary.values[name] for name in ENCODED}, {})


def _unencoded(
    vocabulary: Vocabulary, dense: Sequence[str], request: RankRequest, candidates: Sequence[str], tables: Tables
) -> Rows:
    """Return rows in which indices stand where encodings will."""
    indices = np.reshape(vocabulary.item_indices(candidates, tables), (-1, len(ENCODED)))
    features = candidate_features(dense, request.record, candidates, tables)
    return np.concatenate([features, indices.astype(np.float32)], axis=1)


def _encode(rows: Rows, encodings: list[Encoding]) -> None:
    rows[:, -len(ENCODED) :] = encode(encodings, _indices(rows))


def _indices(rows: Rows) -> NDArray[np.int64]:
    return rows[:, -len(ENCODED) :].astype(np.int64)


def _fit_trees(
    rows: Rows, labels: NDArray[Any], late_rows: Rows, late_labels: NDArray[Any], seed: int, progress: Progress
) -> Any:
    import xgboost

    progress(0, 2, "growing trees")
    late = xgboost.DMatrix(late_rows, late_labels)
    booster = xgboost.train(
        TREES | {"seed": seed},
        xgboost.DMatrix(rows, labels),
        MAX_TREES,
        evals=[(late, "late")],
        early_stopping_rounds=PATIENCE,
        verbose_eval=False,
    )
    return booster[: booster.best_iteration + 1]


def _fit_regression(booster: Any, rows: Rows, labels: NDArray[Any]) -> Any:
    from sklearn.linear_model import LogisticRegression

    numbers = number_leaves(booster)
    leaves = leaves_of(booster, rows)
    regression = LogisticRegression(C=INVERSE_REGULARISATION, max_iter=1_000)
    regression.fit(one_hot(leaves, numbers), labels)
    return with_weights(booster, numbers, regression.coef_[0], float(regression.intercept_[0]))


def _measure(booster: Any, validation: list[Rows], rng: np.random.Generator) -> dict[str, float]:
    """Return nDCG@10 over all candidates of each moment, and how good the odds are on groups like those of training.

    `validation_calibration` is the expected number of positives over that observed, 1 where the odds are right.
    """
    from sklearn.metrics import log_loss, roc_auc_score

    scores = np.split(score_rows(booster, np.concatenate(validation)), np.cumsum([len(each) for each in validation]))
    groups = [sampled_group(each, rng) for each in scores[:-1]]
    odds = np.concatenate(groups).astype(np.float64)
    chances, labels = 1.0 / (1.0 + np.exp(-odds)), np.tile(np.eye(1, GROUP)[0], len(groups))
    return {
        "validation_ndcg10": float(np.mean([ndcg(each) for each in scores[:-1]])),
        "validation_loss": float(log_loss(labels, chances)),
        "validation_auc": float(roc_auc_score(labels, chances)),
        "validation_calibration": float(chances.sum() / labels.sum()),
        "validation_moments": float(len(validation)),
        "trees": float(booster.num_boosted_rounds()),
    }
