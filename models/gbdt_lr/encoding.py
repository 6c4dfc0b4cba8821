"""Target encoding: an id becomes the smoothed share of positives among its rows.

In training each row gets the share among the other folds' rows only: its own label in a feature would be the answer.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDS = 5

Encoding = NDArray[np.float32]
"""The value of each index of one id column; where the index was not seen in training, the mean of all."""


def fit_encodings(
    indices: NDArray[np.int64], labels: NDArray[Any], sizes: list[int], seed: int
) -> tuple[list[Encoding], NDArray[np.float32]]:
    """Return the encoding of each column of `indices`, of shape (rows, columns), and the cross-fitted values.

    `labels` are 0 or 1, at least `FOLDS` of either, of shape (rows,); `sizes` is one more than the largest index of
    each column. The values have the shape of `indices`. Smoothing is by empirical Bayes (Micci-Barreca,
    SIGKDD Explorations 2001).
    """
    from sklearn.model_selection import StratifiedKFold
    from sklearn.preprocessing import TargetEncoder

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    encoder = TargetEncoder(target_type="binary", smooth="auto", cv=folds)
    crossed = encoder.fit_transform(indices, labels)
    encodings = []
    for size, seen, values in zip(sizes, encoder.categories_, encoder.encodings_, strict=True):
        encoding = np.full(size, encoder.target_mean_, np.float32)
        encoding[seen] = values
        encodings.append(encoding)
    return encodings, crossed.astype(np.float32)


def encode(encodings: list[Encoding], indices: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the encoded `indices`, float32 of the same shape (rows, columns)."""
    return np.stack([encoding[column] for encoding, column in zip(encodings, indices.T, strict=True)], axis=1)
