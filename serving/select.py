"""From scores to the answer's items: the best k, deterministically. Pure."""

from collections.abc import Sequence

import numpy as np

from models.contract import Candidate, Scores
from schemas.recommendation import RecommendedItem


def select_top(candidates: Sequence[Candidate], scores: Scores, k: int, explain: bool) -> tuple[RecommendedItem, ...]:
    """Return the `k` best candidates, best first; equal scores keep the order of the recall.

    `scores` has shape (len(candidates),). The choice is deterministic, so every propensity is 1.
    """
    best = np.argsort(-scores, kind="stable")[:k]
    return tuple(
        RecommendedItem(
            item_id=candidates[place].item_id,
            score=float(scores[place]),
            propensity=1.0,
            reasons=(candidates[place].reason,) if explain else (),
        )
        for place in best
    )
