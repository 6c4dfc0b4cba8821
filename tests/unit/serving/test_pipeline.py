"""The request path from a request to its final answer, with the store in memory."""

from collections.abc import Sequence

import numpy as np

from features.memory_store import MemoryStore
from features.store import Family, FeatureStore, Stored, Write
from features.tables import Tables
from features.user_record import UserRecord, pack_record
from models.contract import Candidate, Ranker, RankRequest, Scores
from models.registry import built_in_rankers
from runtime.clock import ManualClock
from runtime.config import Config, load_config
from runtime.errors import StoreUnavailable
from schemas.recommendation import Recommendation
from schemas.request import Request
from schemas.state import Leaderboard, LeaderboardEntry, Neighbours
from serving.pipeline import Pipeline
from serving.stages import Stages
from tests.builders import NOW_MS, record_of, request_of


class StoreThatIsAway:
    """A store that never answers."""

    def get_many(self, keys: Sequence[str]) -> list[Stored | None]:
        raise StoreUnavailable("away")

    def put_many(self, writes: Sequence[Write]) -> int:
        raise StoreUnavailable("away")

    def close(self) -> None:
        pass


class ReversedRanker:
    """A heavy ranker that likes best what was proposed last; or one that breaks."""

    name = "deepfm"
    version = "7"
    precision = "fp32"

    def __init__(self, broken: bool = False) -> None:
        self._broken = broken

    def rank(
        self, requests: Sequence[RankRequest], candidates: Sequence[Sequence[str]], tables: Tables
    ) -> list[Scores]:
        if self._broken:
            raise RuntimeError("broken")
        return [np.arange(len(each), dtype=np.float32) for each in candidates]

    def recall(self, request: RankRequest, tables: Tables, k: int) -> list[Candidate]:
        return []


class BrokenRecall(ReversedRanker):
    """A heavy ranker that ranks, but cannot propose."""

    def recall(self, request: RankRequest, tables: Tables, k: int) -> list[Candidate]:
        raise RuntimeError("broken")


class BrokenRank(ReversedRanker):
    """A light ranker that cannot rank."""

    name = "cf"

    def __init__(self) -> None:
        super().__init__(broken=True)


class SwapsItself(ReversedRanker):
    """A heavy ranker that is replaced by its next version while it ranks."""

    def __init__(self, rankers: dict[str, Ranker]) -> None:
        super().__init__()
        self._rankers = rankers

    def rank(
        self, requests: Sequence[RankRequest], candidates: Sequence[Sequence[str]], tables: Tables
    ) -> list[Scores]:
        successor = ReversedRanker()
        successor.version = "8"
        self._rankers["deepfm"] = successor  # type: ignore[assignment]
        return super().rank(requests, candidates, tables)


class SlowStore:
    """A store that takes seven milliseconds to read."""

    def __init__(self, store: FeatureStore, clock: ManualClock) -> None:
        self._store = store
        self._clock = clock

    def get_many(self, keys: Sequence[str]) -> list[Stored | None]:
        self._clock.advance(7)
        return self._store.get_many(keys)

    def put_many(self, writes: Sequence[Write]) -> int:
        return self._store.put_many(writes)

    def close(self) -> None:
        self._store.close()


class Bench:
    """A pipeline over a small world: board p1 > p2 > p3, and items near to `a`: n1 > n2."""

    def __init__(self, store: FeatureStore | None = None, **rankers: object) -> None:
        self.config: Config = load_config()
        self.clock = ManualClock(NOW_MS)
        self.store = store or MemoryStore(600, self.clock)
        self.tables = Tables()
        board = [LeaderboardEntry(item_id=f"p{place}", score=4.0 - place) for place in (1, 2, 3)]
        self.tables.leaderboards.put(Leaderboard(board="global", items=tuple(board)))
        near = (("n1", 0.9), ("n2", 0.5), ("p3", 0.1))
        self.tables.neighbours.put(Neighbours(item_id="a", ts=NOW_MS, events=9.0, neighbours=near))
        self.rankers: dict[str, Ranker] = built_in_rankers(self.config) | rankers  # type: ignore[assignment]
        self._pipeline = Pipeline(self.config, self.store, self.tables, self.rankers, self.clock)

    def knows(self, user_id: str, record: UserRecord) -> None:
        self.store.put_many([Write(Family.USER.key(user_id), pack_record(record), *record.position)])

    def answer(self, *requests: Request) -> list[Recommendation]:
        return self._pipeline.answer(requests, Stages(self.clock))


def ids(answer: Recommendation) -> list[str]:
    return [item.item_id for item in answer.items]


def test_a_stranger_gets_the_leaderboard() -> None:
    (answer,) = Bench().answer(request_of(k=2))
    assert (answer.tier, answer.model, ids(answer)) == ("stranger", "popularity", ["p1", "p2"])
    assert answer.final
    assert answer.state_read == {}
    assert answer.feature_age_ms is None


def test_after_a_click_the_neighbours_of_it_come_first_and_the_board_fills_up() -> None:
    bench = Bench()
    bench.knows("u", record_of("a"))
    (answer,) = bench.answer(request_of(ts=NOW_MS + 7, explain=True))
    assert (answer.tier, ids(answer)) == ("light", ["n1", "n2", "p3", "p1", "p2"])
    assert answer.items[0].reasons == ("similar to a",)
    assert answer.state_read == {"clicks.accepted": (0, 0)}
    assert answer.feature_age_ms == 7


def test_what_was_seen_is_not_recommended_and_the_answer_counts_it() -> None:
    bench = Bench()
    bench.knows("u", record_of("n1", "a"))
    (answer,) = bench.answer(request_of())
    assert "n1" not in ids(answer)
    assert answer.removed == {"seen": 1}


def test_a_very_active_user_gets_the_heavy_ranker() -> None:
    bench = Bench(deepfm=ReversedRanker())
    bench.knows("u", record_of(*(f"i{n}" for n in range(50)), "a"))
    (answer,) = bench.answer(request_of())
    assert (answer.tier, answer.model, answer.model_version) == ("heavy", "deepfm", "7")
    assert ids(answer)[0] == "p2"


def test_a_ranker_that_breaks_hands_its_requests_to_the_cheaper_tier() -> None:
    bench = Bench(deepfm=ReversedRanker(broken=True))
    bench.knows("u", record_of(*(f"i{n}" for n in range(50)), "a"))
    (answer,) = bench.answer(request_of())
    assert (answer.tier, answer.model) == ("light", "cf")
    assert answer.degradations == ("deepfm_failed", "gbdt_lr_unavailable")
    assert ids(answer)[0] == "n1"


def test_without_the_store_everybody_is_a_stranger_and_is_told() -> None:
    (answer,) = Bench(store=StoreThatIsAway()).answer(request_of())
    assert (answer.tier, ids(answer)) == ("stranger", ["p1", "p2", "p3"])
    assert answer.degradations == ("store_unavailable",)


def test_a_record_that_cannot_be_read_counts_as_none_and_the_answer_says_so() -> None:
    bench = Bench()
    bench.store.put_many([Write(Family.USER.key("u"), b"9\tnonsense", 0, 1)])
    (answer,) = bench.answer(request_of())
    assert (answer.tier, answer.degradations) == ("stranger", ("record_unreadable",))


def test_a_batch_answers_each_request_as_if_it_were_alone() -> None:
    bench = Bench(deepfm=ReversedRanker())
    bench.knows("light", record_of("a"))
    bench.knows("heavy", record_of(*(f"i{n}" for n in range(50)), "a"))
    requests = [request_of(user, request_id=user) for user in ("light", "stranger", "heavy", "light")]
    together = bench.answer(*requests)
    alone = [bench.answer(request)[0] for request in requests]
    assert together == alone
    assert [answer.tier for answer in together] == ["light", "stranger", "heavy", "light"]


def test_only_the_candidates_of_the_request_are_ranked_known_or_not() -> None:
    bench = Bench()
    bench.knows("u", record_of("a"))
    (answer,) = bench.answer(request_of(candidates=("unheard-of", "n2", "n1", "n1")))
    assert ids(answer) == ["n1", "n2", "unheard-of"]


def test_an_answer_without_items_says_why() -> None:
    (answer,) = Bench().answer(request_of(exclude=("p1", "p2", "p3")))
    assert answer.error is not None
    assert (answer.error.code, answer.final) == ("no_candidates", True)
    assert "excluded 3" in answer.error.message


def test_before_there_is_any_data_an_answer_says_so() -> None:
    bench = Bench()
    bench.tables = Tables()
    pipeline = Pipeline(bench.config, bench.store, bench.tables, bench.rankers, bench.clock)
    (answer,) = pipeline.answer([request_of()], Stages(bench.clock))
    assert answer.error is not None
    assert answer.error.code == "no_candidates"
    assert "nothing" not in answer.error.message
    assert "are clicks coming in?" in answer.error.message


def test_a_forced_model_is_used_and_one_that_is_not_there_is_reported() -> None:
    bench = Bench()
    bench.knows("u", record_of("a"))
    (answer,) = bench.answer(request_of(model="popularity"))
    assert (answer.model, answer.route_reason) == ("popularity", "the request asks for popularity")
    (answer,) = bench.answer(request_of(model="deepfm"))
    assert answer.model == "cf"
    assert "requested_model_unavailable" in answer.degradations


def test_an_answer_after_the_deadline_says_so() -> None:
    bench = Bench()
    bench.clock.advance(101)
    (answer,) = bench.answer(request_of(timeout_ms=100))
    assert "deadline_missed" in answer.degradations


def test_a_recaller_that_breaks_is_made_up_for_by_the_cheaper_ones() -> None:
    bench = Bench(deepfm=BrokenRecall())
    bench.knows("u", record_of(*(f"i{n}" for n in range(50)), "a"))
    (answer,) = bench.answer(request_of())
    assert answer.model == "deepfm"
    assert answer.degradations == ("deepfm_recall_failed",)
    assert set(ids(answer)) == {"n1", "n2", "p1", "p2", "p3"}


def test_a_batch_goes_on_with_the_models_it_began_with() -> None:
    bench = Bench()
    bench.rankers["deepfm"] = SwapsItself(bench.rankers)  # type: ignore[assignment]
    bench.knows("u", record_of(*(f"i{n}" for n in range(50)), "a"))
    assert [bench.answer(request_of())[0].model_version for _ in range(2)] == ["7", "8"]


def test_more_than_the_usual_number_of_candidates_are_ranked_if_more_are_asked_for() -> None:
    bench = Bench()
    board = [LeaderboardEntry(item_id=f"x{place:03}", score=1.0) for place in range(300)]
    bench.tables.leaderboards.put(Leaderboard(board="global", items=tuple(board)))
    few, many = (bench.answer(request_of(k=k))[0] for k in (10, 250))
    assert (len(few.items), len(many.items)) == (10, 250)


def test_every_stage_is_timed_and_counts_what_it_lets_through() -> None:
    bench = Bench(deepfm=ReversedRanker())
    slow = SlowStore(bench.store, bench.clock)
    pipeline = Pipeline(bench.config, slow, bench.tables, bench.rankers, bench.clock)
    stages = Stages(bench.clock)
    bench.knows("u", record_of("p1", "a"))
    pipeline.answer([request_of(k=2), request_of("stranger", request_id="s", k=1)], stages)
    assert stages.elapsed_ms == {"hydrate": 7, "route": 0, "recall": 0, "filter": 0, "rank": 0, "select": 0}
    # u: n1, n2, p3, p1, p2 less p1, which was seen; the stranger: p1, p2, p3.
    assert stages.let_through == {"hydrate": 2, "route": 2, "recall": 8, "filter": 7, "rank": 7, "select": 3}


def test_a_failure_that_falls_through_two_tiers_is_noted_once_each() -> None:
    bench = Bench(deepfm=ReversedRanker(broken=True), cf=BrokenRank())
    bench.knows("u", record_of(*(f"i{n}" for n in range(50)), "a"))
    bench.knows("v", record_of("a"))
    heavy, light = bench.answer(request_of(), request_of("v", request_id="v"))
    assert heavy.degradations == ("deepfm_failed", "gbdt_lr_unavailable", "cf_failed")
    assert light.degradations == ("cf_failed",)
    assert heavy.model == light.model == "popularity"
