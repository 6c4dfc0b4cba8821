"""Features of an item, by name: pure functions of (item statistics, now); `features/registry.py` explains them."""

from dataclasses import astuple

import numpy as np
from numpy.typing import NDArray

from features.item_statistics import WINDOWS, Counts, ItemStatistics
from runtime.config import ItemStatisticsConfig

_NOTHING = ItemStatistics(lifetime=Counts(), popularity=0.0, landmark_ms=0)


def item_features(
    statistics: ItemStatistics | None, now_ms: int, config: ItemStatisticsConfig, half_life_ms: int
) -> dict[str, NDArray[np.int64] | float]:
    """Return every item feature as of `now_ms`; None stands for an item that nothing happened to."""
    known = statistics or _NOTHING
    periods = {"": known.lifetime} | {
        f"_{window.name}": known.counts_at(window, now_ms, config.max_lateness_ms) for window in WINDOWS
    }
    features: dict[str, NDArray[np.int64] | float] = {}
    for suffix, counts in periods.items():
        features[f"item_counts{suffix}"] = np.array(astuple(counts), np.int64)
        features[f"item_ctr{suffix}"] = counts.smoothed_ctr(config.prior_ctr, config.prior_impressions)
    features["item_popularity"] = known.popularity_at(now_ms, half_life_ms)
    return features
