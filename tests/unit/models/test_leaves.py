"""Trees with the regression's weights give what trees and regression give one after the other."""

import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from models.gbdt_lr.encoding import encode, fit_encodings
from models.gbdt_lr.leaves import leaves_of, number_leaves, one_hot, with_weights


@given(st.integers(0, 1_000), st.integers(1, 12), st.integers(1, 5), st.sampled_from([0.0, 0.3]))
def test_one_prediction_does_the_work_of_trees_and_regression(
    seed: int, trees: int, depth: int, missing: float
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(200, 4)).astype(np.float32)
    labels = (rows[:, 0] * rows[:, 1] + rng.normal(size=200) > 0).astype(np.int64)
    rows[rng.random(rows.shape) < missing] = np.nan
    parameters = {"objective": "binary:logistic", "max_depth": depth, "nthread": 1}
    booster = xgboost.train(parameters, xgboost.DMatrix(rows, labels), trees)
    numbers = number_leaves(booster)
    leaves = leaves_of(booster, rows)
    hot = one_hot(leaves, numbers)
    assert hot.sum(axis=1).tolist() == [trees] * len(rows)
    regression = LogisticRegression().fit(hot, labels)
    merged = with_weights(booster, numbers, regression.coef_[0], float(regression.intercept_[0]))
    found = merged.inplace_predict(rows, predict_type="margin")
    np.testing.assert_allclose(found, regression.decision_function(hot), rtol=1e-5, atol=1e-5)


def test_an_encoding_is_the_smoothed_share_of_positives_and_of_the_others_only_in_training() -> None:
    indices = np.array([[1], [1], [2], [2]] * 50)
    labels = np.array([1, 1, 0, 1] * 50)
    (encoding,), crossed = fit_encodings(indices, labels, [4], seed=0)
    assert encoding.shape == (4,)
    assert encoding[1] == pytest.approx(1.0)
    assert encoding[2] == pytest.approx(0.5, abs=0.02)
    assert encoding[0] == encoding[3] == pytest.approx(0.75)
    assert encode([encoding], np.array([[2], [0]])).tolist() == [[encoding[2]], [encoding[0]]]
    # An index that occurs once is worth what all the others say: its own label is not among them.
    alone = np.concatenate([indices, [[3]]])
    (_,), crossed = fit_encodings(alone, np.append(labels, 0), [4], seed=0)
    assert 0.7 < crossed[-1, 0] < 0.8
