"""What holds for every ranker: inherit `RankerContract` and say which class it is about."""

import json
import random
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from features.co_occurrence import CoOccurrence
from features.tables import Tables
from models.contract import History, Lineage, Ranker, RankRequest
from models.popularity import DecayedPopularity
from runtime.artifact import MANIFEST
from runtime.config import Config, load_config
from runtime.errors import ArtifactError
from schemas.item import Item
from schemas.user import User
from tests.builders import NOW_MS, click_of, record_of

LINEAGE = Lineage(version="v1", created_ms=NOW_MS, parent="v0")
GROUP_SIZE = 20
VISITS = 12


def two_worlds() -> History:
    """Return a history in which nobody ever leaves the one or the other half of the catalogue."""
    draw = random.Random(7)
    walks = []
    for number in range(60):
        world = "ab"[number % 2]
        world_items = [f"{world}{place}" for place in range(GROUP_SIZE)]
        walks.append([(f"user{number}", item_id) for item_id in draw.sample(world_items, VISITS)])
    visits = [visit for step in zip(*walks, strict=True) for visit in step]
    clicks = tuple(click_of(user_id, item_id, NOW_MS + place) for place, (user_id, item_id) in enumerate(visits))
    items = {
        click.item_id: Item(item_id=click.item_id, ts=NOW_MS, title=f"The {click.item_id}", category=click.item_id[0])
        for click in clicks
    }
    ages = {click.user_id: 20 + place % 40 for place, click in enumerate(clicks)}
    users = {
        user_id: User(user_id=user_id, ts=NOW_MS, attributes={"age": age, "job.title": "x" if age % 2 else "y"})
        for user_id, age in ages.items()
    }
    return History(clicks, items, users)


def tables_after(history: History, config: Config) -> Tables:
    """Return the tables of a worker that has followed all of `history`."""
    tables, learner = Tables(items=dict(history.items)), CoOccurrence(config.neighbours)
    popularity = DecayedPopularity(config.leaderboard)
    for click in history.clicks:
        learner.observe(click.user_id, click.item_id, click.ts)
        popularity.observe(click.item_id, click.ts)
    for item_id in learner.take_changed():
        tables.neighbours.put(learner.neighbours(item_id, config.neighbours.size))
    tables.leaderboards.put(popularity.board())
    return tables


def request_of(*item_ids: str, user_id: str = "somebody") -> RankRequest:
    record = record_of(*item_ids) if item_ids else None
    profile = User(user_id=user_id, ts=NOW_MS, attributes={"age": 33, "job.title": "unheard of", "new": True})
    return RankRequest(user_id, record, profile, NOW_MS)


STRANGER = RankRequest("nobody knows", None, None, NOW_MS)


class RankerContract:
    """Subclasses set `kind`."""

    kind: ClassVar[type[Ranker]]

    @pytest.fixture(scope="class")
    @classmethod
    def config(cls) -> Config:
        return load_config()

    @pytest.fixture(scope="class")
    @classmethod
    def history(cls) -> History:
        return two_worlds()

    @pytest.fixture(scope="class")
    @classmethod
    def tables(cls, history: History, config: Config) -> Tables:
        return tables_after(history, config)

    @pytest.fixture(scope="class")
    @classmethod
    def ranker(cls, history: History, config: Config) -> Ranker:
        return cls.kind.fit(history, config, 3, LINEAGE)

    @pytest.fixture
    def folder(self, ranker: Ranker, tmp_path: Path) -> Path:
        ranker.save(tmp_path / "artifact")
        return tmp_path / "artifact"

    def test_a_batch_scores_like_each_request_alone(self, ranker: Ranker, tables: Tables) -> None:
        requests = [request_of("a1", "a2", "a3"), STRANGER, request_of("b4"), request_of("a5", user_id="user0")]
        candidates = [["a7", "b7", "a8"], ["b1"], [], ["a9", "unheard of"]]
        together = ranker.rank(requests, candidates, tables)
        assert [scores.shape for scores in together] == [(3,), (1,), (0,), (2,)]
        for request, items, scores in zip(requests, candidates, together, strict=True):
            alone = ranker.rank([request], [items], tables)[0]
            np.testing.assert_allclose(scores, alone, rtol=1e-5, atol=1e-6)

    def test_the_order_of_the_candidates_does_not_matter(self, ranker: Ranker, tables: Tables) -> None:
        items = ["a7", "b7", "a8", "unheard of", "b2"]
        straight = ranker.rank([request_of("a1", "a2")], [items], tables)[0]
        backwards = ranker.rank([request_of("a1", "a2")], [items[::-1]], tables)[0]
        np.testing.assert_allclose(backwards[::-1], straight, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("count", [0, 1, 1_000])
    def test_every_candidate_gets_a_finite_float32_score(
        self, ranker: Ranker, tables: Tables, history: History, count: int
    ) -> None:
        known = sorted(history.items)
        items = [known[place] if place < len(known) else f"new{place}" for place in range(count)]
        for request in (STRANGER, request_of("a1", "unheard of"), request_of("b1", user_id="user1")):
            scores = ranker.rank([request], [items], tables)[0]
            assert scores.dtype == np.float32
            assert scores.shape == (count,)
            assert np.isfinite(scores).all()

    def test_no_requests_get_no_scores(self, ranker: Ranker, tables: Tables) -> None:
        assert ranker.rank([], [], tables) == []

    def test_it_ranks_with_empty_tables_too(self, ranker: Ranker) -> None:
        for request in (STRANGER, request_of("a1")):
            assert np.isfinite(ranker.rank([request], [["a2", "b2"]], Tables())[0]).all()
            ranker.recall(request, Tables(), 10)

    @pytest.mark.parametrize("k", [1, 7, 1_000])
    def test_recall_proposes_at_most_k_distinct_items_best_first(self, ranker: Ranker, tables: Tables, k: int) -> None:
        for request in (STRANGER, request_of("a1", "a2", "a3")):
            found = ranker.recall(request, tables, k)
            assert len({each.item_id for each in found}) == len(found) <= k
            assert ranker.recall(request, tables, k) == found
            assert found == [*ranker.recall(request, tables, 1_000)][:k]

    def test_what_was_saved_scores_the_same_bit_for_bit_once_loaded(
        self, ranker: Ranker, tables: Tables, folder: Path
    ) -> None:
        loaded = self.kind.load(folder)
        requests, candidates = [request_of("a1", "a2"), STRANGER], [["a7", "b7", "new"], ["b1", "a1"]]
        for each in (tables, Tables()):
            for before, after in zip(
                ranker.rank(requests, candidates, each), loaded.rank(requests, candidates, each), strict=True
            ):
                assert before.tobytes() == after.tobytes()
            assert loaded.recall(requests[0], each, 50) == ranker.recall(requests[0], each, 50)
        assert (loaded.name, loaded.version, loaded.precision) == (self.kind.name, "v1", "fp32")

    def test_the_manifest_says_what_it_was_fitted_on(self, ranker: Ranker, history: History, folder: Path) -> None:
        manifest = self.kind.load(folder).manifest
        assert (manifest.model, manifest.version, manifest.parent) == (self.kind.name, "v1", "v0")
        assert manifest.events == len(history.clicks)
        assert manifest.data_ts == (history.clicks[0].ts, history.clicks[-1].ts)
        assert manifest.metrics

    def test_two_fits_with_one_seed_are_equal(
        self, ranker: Ranker, history: History, config: Config, folder: Path, tmp_path: Path
    ) -> None:
        again = self.kind.fit(history, config, 3, LINEAGE)
        again.save(tmp_path / "again")
        assert (tmp_path / "again" / MANIFEST).read_bytes() == (folder / MANIFEST).read_bytes()

    def test_a_damaged_or_truncated_or_missing_file_is_refused_by_name(self, folder: Path) -> None:
        for path in sorted(folder.iterdir()):
            whole = path.read_bytes()
            for broken in (whole[: len(whole) // 2], b"", whole[:-2] + b"~~"):
                path.write_bytes(broken)
                with pytest.raises(ArtifactError, match=path.name):
                    self.kind.load(folder)
            path.unlink()
            with pytest.raises(ArtifactError, match=path.name):
                self.kind.load(folder)
            path.write_bytes(whole)
        self.kind.load(folder)

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"model": "another"}, "another"),
            ({"format": "another"}, "another program"),
            ({"format_version": 99, "unheard_of": 1}, "update the program"),
            ({"unheard_of": 1}, "unheard_of"),
        ],
    )
    def test_a_foreign_or_newer_artifact_is_refused(self, folder: Path, change: dict[str, object], why: str) -> None:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        (folder / MANIFEST).write_text(json.dumps(manifest | change))
        with pytest.raises(ArtifactError, match=f"{MANIFEST}.*{why}"):
            self.kind.load(folder)
