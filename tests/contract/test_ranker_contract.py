"""Each ranker under the shared suite, and what is true of it alone."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from features.candidate import FEATURES
from features.tables import Tables
from models.contract import History, Ranker
from models.deepfm.ranker import DeepFm
from models.gbdt_lr.ranker import GbdtLr
from models.item_cf import ItemCf
from models.popularity import Popularity
from runtime.artifact import MANIFEST
from runtime.config import Config
from runtime.errors import ArtifactError, DataError
from schemas.state import Leaderboard, LeaderboardEntry, Neighbours
from tests.builders import NOW_MS
from tests.contract.ranker_suite import LINEAGE, STRANGER, RankerContract, request_of


class TestPopularity(RankerContract):
    kind = Popularity

    def test_the_live_board_wins_over_the_fitted_one(self, ranker: Ranker) -> None:
        tables = Tables()
        fitted = [each.item_id for each in ranker.recall(STRANGER, tables, 5)]
        assert len(fitted) == 5
        entries = (LeaderboardEntry(item_id="new", score=2.0), LeaderboardEntry(item_id=fitted[0], score=1.0))
        tables.leaderboards.put(Leaderboard(board="global", items=entries))
        assert [each.item_id for each in ranker.recall(STRANGER, tables, 5)] == ["new", fitted[0]]
        assert ranker.rank([STRANGER], [["new", fitted[0], fitted[1]]], tables)[0].tolist() == [1.0, 0.5, 0.0]


class TestItemCf(RankerContract):
    kind = ItemCf

    def test_it_recommends_what_the_same_people_came_to(self, ranker: Ranker, tables: Tables) -> None:
        for request in (request_of("a1", "a2"), request_of("a3", user_id="new")):
            assert {each.item_id[0] for each in ranker.recall(request, tables, 100)} == {"a"}
            own, other = ranker.rank([request], [["a7", "b7"]], tables)[0]
            assert own > other == 0.0

    def test_it_says_which_item_a_proposal_is_similar_to(self, ranker: Ranker, tables: Tables) -> None:
        assert ranker.recall(request_of("a1"), tables, 1)[0].reason == "similar to The a1"

    def test_a_stranger_gets_no_proposal(self, ranker: Ranker, tables: Tables) -> None:
        assert ranker.recall(STRANGER, tables, 10) == []

    def test_live_lists_win_over_fitted_ones(self, ranker: Ranker) -> None:
        tables = Tables()
        assert {each.item_id[0] for each in ranker.recall(request_of("a1"), tables, 100)} == {"a"}
        tables.neighbours.put(Neighbours(item_id="a1", ts=NOW_MS, events=1.0, neighbours=(("new", 0.5),)))
        assert [each.item_id for each in ranker.recall(request_of("a1"), tables, 100)] == ["new"]

    def test_only_the_last_items_count(self, ranker: Ranker, tables: Tables, config: Config) -> None:
        last = config.router.light_last_events
        request = request_of("b1", *(f"a{place}" for place in range(last)))
        assert {each.item_id[0] for each in ranker.recall(request, tables, 100)} == {"a"}


class ReRankerContract(RankerContract):
    """What holds for those that learn from replayed moments and bind their features by name."""

    def test_features_of_other_names_are_refused_with_both_lists(self, folder: Path) -> None:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        features = {("shoe_size" if name == "year" else name): kind for name, kind in manifest["features"].items()}
        (folder / MANIFEST).write_text(json.dumps(manifest | {"features": features}))
        with pytest.raises(ArtifactError, match=r"features are .*shoe_size.*; this program has .*year"):
            self.kind.load(folder)

    def test_a_history_without_a_moment_to_learn_from_is_refused(self, history: History, config: Config) -> None:
        with pytest.raises(DataError, match="3 clicks are too few"):
            self.kind.fit(History(history.clicks[:3]), config, 0, LINEAGE)


class TestGbdtLr(ReRankerContract):
    kind = GbdtLr

    def test_it_prefers_what_the_same_people_came_to(self, ranker: Ranker, tables: Tables) -> None:
        scores = ranker.rank([request_of("a1", "a2", "a3")], [["a7", "a9", "b7", "b9"]], tables)[0]
        assert scores[:2].min() > scores[2:].max()

    def test_its_odds_are_right_on_the_end_of_the_history(self, ranker: Ranker) -> None:
        assert 0.5 < ranker.manifest.metrics["validation_calibration"] < 2.0


class TestDeepFm(ReRankerContract):
    kind = DeepFm

    def test_it_ranks_what_the_same_people_came_to_first(self, ranker: Ranker, tables: Tables) -> None:
        items = [f"{world}{place}" for place in range(10, 20) for world in "ab"]
        scores = ranker.rank([request_of("a1", "a2", "a3", "a4")], [items], tables)[0]
        first_half = {items[place][0] for place in np.argsort(-scores)[:10]}
        assert first_half == {"a"}

    def test_recall_fills_up_from_the_leaderboard(self, ranker: Ranker, tables: Tables) -> None:
        found = [each.item_id[0] for each in ranker.recall(request_of("a1", "a2"), tables, 1_000)]
        assert set(found[:18]) == {"a"}
        assert "b" in found

    def test_its_curve_stands_in_the_manifest(self, ranker: Ranker) -> None:
        curve = ranker.manifest.curve
        assert [epoch["epoch"] for epoch in curve] == [float(number + 1) for number in range(len(curve))]
        best = min(epoch["validation_loss"] for epoch in curve)
        assert ranker.manifest.metrics["validation_loss"] == best

    def test_its_features_stand_in_the_manifest_by_name(self, ranker: Ranker) -> None:
        features = ranker.manifest.features
        assert features["user_id"] == features["profile.job.title"] == "int32"
        assert [name for name, dtype in features.items() if dtype == "float32"] == list(FEATURES)

    def test_weights_of_another_vocabulary_are_refused(self, ranker: Ranker, tmp_path: Path) -> None:
        assert isinstance(ranker, DeepFm)
        vocabulary = ranker._inputs.vocabulary
        ranker._inputs.vocabulary = msgspec.structs.replace(
            vocabulary, values=vocabulary.values | {"user_id": vocabulary.values["user_id"][1:]}
        )
        try:
            ranker.save(tmp_path / "mixed")
        finally:
            ranker._inputs.vocabulary = vocabulary
        with pytest.raises(ArtifactError, match="do not fit"):
            DeepFm.load(tmp_path / "mixed")
