"""Rankers, one thread, each against the library that it stands in for, beside it in the same run."""

import os

# Before any of the libraries starts its threads.
os.environ["OMP_NUM_THREADS"] = "1"

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Options, parse_options, report
from models.deepfm.compiled import CompiledDeepFm
from models.deepfm.library import quiet_deepctr
from models.gbdt_lr.leaves import leaves_of, number_leaves, one_hot, with_weights
from models.gbdt_lr.training import TREES

CANDIDATES = 200
"""Of one request."""
FIELDS, EMBEDDING, HIDDEN = 24, 8, (128, 64)
"""Of the network; half of the fields are the user's."""
CATALOGUE, VOCABULARY = 10_000, 10_000
FEATURES, TREE_COUNT, TRAINING_ROWS = 20, 100, 20_000

Measured = tuple[dict[str, float], dict[str, float]]
"""Rows a second by what was measured, and ratios."""


def main() -> None:
    """Measure every model and report all of them together."""
    options = parse_options("models", "Rankers: how fast they score, against the libraries that they come from.")
    results: list[dict[str, Any]] = []
    ratios: dict[str, float] = {}
    for measure in (deepfm, gbdt_lr):
        rates, found = measure(options)
        results += [{"what": what, "value": rate, "unit": "rows/s"} for what, rate in rates.items()]
        ratios |= found
    report("models", options, {"quick": options.quick, "candidates": CANDIDATES}, results, ratios)


def deepfm(options: Options) -> Measured:
    """Score one request by the library's forward and by the compiled scorer, whose scores are the same."""
    quiet_deepctr()
    import torch
    from deepctr_torch.inputs import SparseFeat
    from deepctr_torch.models import DeepFM

    torch.manual_seed(options.seed)
    names = [f"field_{place}" for place in range(FIELDS)]
    columns = [SparseFeat(name, VOCABULARY, EMBEDDING) for name in names]
    network = DeepFM(columns, columns, dnn_hidden_units=HIDDEN, init_std=0.1, seed=options.seed, task="regression")
    scorer = CompiledDeepFm(network, names[: FIELDS // 2], names[FIELDS // 2 :], [])
    user = torch.randint(0, VOCABULARY, (1, FIELDS)).float()
    catalogue = torch.randint(0, VOCABULARY, (CATALOGUE, FIELDS)).float()
    items, chosen = scorer.items(catalogue), torch.randint(0, CATALOGUE, (CANDIDATES,))
    count, none = torch.tensor([CANDIDATES]), torch.empty(CANDIDATES, 0)

    def by_library() -> Any:
        rows = catalogue[chosen]
        rows[:, : FIELDS // 2] = user[:, : FIELDS // 2]
        with torch.inference_mode():
            return network(rows)[:, 0]

    def compiled() -> Any:
        return scorer.scores(scorer.users(user), count, items, chosen, none)

    torch.testing.assert_close(compiled(), by_library(), rtol=1e-5, atol=1e-5)
    library, ours = _rates(options, by_library, compiled)
    return {"DeepFM, deepctr-torch": library, "DeepFM, compiled, fp32": ours}, {"deepfm_fp32": ours / library}


def gbdt_lr(options: Options) -> Measured:
    """Score one request by XGBoost's leaves and scikit-learn's regression, and by the trees with its weights."""
    import xgboost
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder

    rng = np.random.default_rng(options.seed)
    rows = rng.normal(size=(TRAINING_ROWS, FEATURES)).astype(np.float32)
    labels = (rows[:, 0] * rows[:, 1] + rows[:, 2] + rng.normal(size=len(rows)) > 0).astype(np.int64)
    booster = xgboost.train(TREES | {"seed": options.seed}, xgboost.DMatrix(rows, labels), TREE_COUNT)
    leaves, numbers = leaves_of(booster, rows), number_leaves(booster)
    encoder = OneHotEncoder(categories=[list(each) for each in numbers], dtype=np.float32).fit(leaves)
    regression = LogisticRegression(max_iter=1_000).fit(one_hot(leaves, numbers), labels)
    merged = with_weights(booster, numbers, regression.coef_[0], float(regression.intercept_[0]))
    asked = rows[:CANDIDATES]

    def by_libraries() -> Any:
        return regression.decision_function(encoder.transform(leaves_of(booster, asked)))

    def ours() -> Any:
        return merged.inplace_predict(asked, predict_type="margin", validate_features=False)

    np.testing.assert_allclose(ours(), by_libraries(), rtol=1e-4, atol=1e-4)
    library, merged_rate = _rates(options, by_libraries, ours)
    rates = {"GBDT+LR, XGBoost's leaves and scikit-learn's regression": library, "GBDT+LR, in the leaves": merged_rate}
    return rates, {"gbdt_lr": merged_rate / library}


def _rates(options: Options, *functions: Callable[[], Any]) -> list[float]:
    """Return how many rows a second each of `functions` scores: medians over rounds in which they take turns."""
    rounds, calls = (5, 20) if options.quick else (25, 100)
    seconds: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, taken in zip(functions, seconds, strict=True):
            function()
            began = time.perf_counter()
            for _ in range(calls):
                function()
            taken.append((time.perf_counter() - began) / calls)
    return [CANDIDATES / statistics.median(taken) for taken in seconds]


if __name__ == "__main__":
    main()
