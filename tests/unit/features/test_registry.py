from pathlib import Path

import numpy as np
import pytest

from features import registry
from features.candidate import FEATURES, candidate_features
from features.item_columns import ItemColumns
from features.item_features import item_features
from features.item_statistics import Counts, ItemStatistics, WindowCounts
from features.record_batch import batch_of
from features.registry import REGISTRY, features_of
from features.tables import Tables
from features.user_features import USER_FEATURES, user_features
from runtime.config import load_config
from tests.builders import NOW_MS, record_of

STORED = {"user_vector"}
"""Features of a user that are not computed when they are read."""


def test_every_feature_is_documented_once_and_every_documented_one_exists() -> None:
    names = [feature.name for feature in REGISTRY]
    assert len(names) == len(set(names))
    assert {feature.name for feature in features_of("user")} == USER_FEATURES.keys() | STORED
    assert {feature.name for feature in features_of("candidate")} == FEATURES.keys()
    config = load_config()
    computed = item_features(None, NOW_MS, config.item_statistics, config.leaderboard.half_life_ms)
    assert {feature.name for feature in features_of("item")} == computed.keys()


@pytest.mark.parametrize("feature", [each for each in features_of("user") if each.name not in STORED])
def test_a_user_feature_has_the_documented_type_shape_and_default(feature: registry.Feature) -> None:
    batch = batch_of([None, record_of("a", "b")])
    now_ms = np.array([0, NOW_MS], np.int64)
    column = user_features([feature.name], batch, ItemColumns(), [{}, {}], now_ms, 1_800_000)[feature.name]
    assert column.shape == (2, *feature.shape)
    assert column.dtype == (object if feature.dtype == "str" else feature.dtype)
    if feature.default != "of now":
        default = {"''": ""}.get(feature.default, feature.default)
        assert {str(each) for each in np.ravel(column[0])} == {default}


def test_an_item_feature_has_the_documented_type_and_shape_and_its_windows_end() -> None:
    config = load_config().item_statistics
    known = ItemStatistics(
        Counts(impressions=80, clicks=15, interactions=20),
        8.0,
        NOW_MS - 1_000,
        (WindowCounts(NOW_MS - 60_000, Counts(impressions=10, clicks=1)), WindowCounts(), WindowCounts()),
    )
    found = item_features(known, NOW_MS, config, half_life_ms=1_000)
    for feature in features_of("item"):
        assert np.shape(found[feature.name]) == feature.shape
        assert np.asarray(found[feature.name]).dtype == feature.dtype
    assert np.array_equal(found["item_counts"], [80, 15, 0, 0, 20])
    assert found["item_ctr"] == pytest.approx((15 + 1) / (80 + 20))
    assert np.array_equal(found["item_counts_5m"], [10, 1, 0, 0, 0])
    assert found["item_popularity"] == 4.0
    later = item_features(known, NOW_MS + 600_000, config, half_life_ms=1_000)
    assert np.array_equal(later["item_counts_5m"], [0] * 5)
    assert later["item_ctr_5m"] == config.prior_ctr


def test_a_candidate_feature_of_which_nothing_is_known_has_the_documented_default() -> None:
    names = [feature.name for feature in features_of("candidate")]
    values = candidate_features(names, None, ["unknown"], Tables())
    for feature, value in zip(features_of("candidate"), values[0].tolist(), strict=True):
        if feature.default.lstrip("-").replace(".", "").isdigit():
            assert value == pytest.approx(float(feature.default), abs=0.005), feature.name


def test_the_reference_is_up_to_date() -> None:
    assert registry.main(["--check"]) == 0


def test_a_stale_reference_is_reported_and_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry, "FILE", tmp_path / "features_reference.md")
    assert registry.main(["--check"]) == 1
    assert "run `python -m features.registry`" in capsys.readouterr().out
    assert registry.main([]) == 0
    assert registry.main(["--check"]) == 0
    assert "| `session_dwell_ms` |" in registry.FILE.read_text()
