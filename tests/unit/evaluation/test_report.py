"""The report's rows and its books."""

import pytest

from evaluation.live import Answered, Question
from evaluation.report import Report, examples, rows, unbalanced
from schemas.recommendation import Recommendation, RecommendedItem, Tier
from tests.builders import NOW_MS, request_of


def answered(
    request_id: str,
    ranked: str,
    target: str,
    *,
    tier: Tier = "light",
    past_events: int = 3,
    popular: str = "",
    last_ts: int | None = NOW_MS - 70,
    age_ms: int | None = 70,
    latency_ms: float = 4.0,
) -> Answered:
    request = request_of(request_id=request_id)
    question = Question(
        request=request,
        place=0,
        sent_ms=0.0,
        target=target,
        past_events=past_events,
        popular=tuple(popular),
        user_last_ts=last_ts,
    )
    answer = Recommendation(
        request_id=request_id,
        ts=NOW_MS,
        user_id="u",
        items=tuple(RecommendedItem(item_id=each, score=1.0, propensity=1.0) for each in ranked),
        final=True,
        tier=tier,
        model="cf",
        model_version="1",
        precision="fp32",
        route_reason="test",
        feature_age_ms=age_ms,
    )
    return Answered(question, answer, latency_ms)


def test_rows_group_by_tier_and_activity_and_compare_with_popularity_on_the_same_requests() -> None:
    tiers, activity, overall = rows(
        [
            answered("1", "tx", "t", tier="stranger", past_events=0, popular="xt", last_ts=None, age_ms=None),
            answered("2", "xy", "t", popular="t", latency_ms=8.0),
            answered("3", "t", "t", popular="q", past_events=60, tier="heavy"),
        ]
    )
    assert (list(tiers), list(activity)) == (["stranger", "light", "heavy"], ["0", "1-5", ">50"])
    assert (tiers["stranger"].ndcg10, tiers["stranger"].popularity_ndcg10) == (1.0, 0.6309)
    assert (tiers["light"].hr10, tiers["light"].popularity_hr10, tiers["light"].p50_ms) == (0.0, 1.0, 8.0)
    assert overall.requests == 3
    assert overall.hr10 == pytest.approx(2 / 3, abs=1e-4)
    assert (tiers["stranger"].feature_age_ms, tiers["light"].feature_age_ms) == (None, 70.0)


def test_an_answer_is_fresh_if_it_saw_the_last_event() -> None:
    assert answered("1", "t", "t").fresh
    assert not answered("1", "t", "t", age_ms=5_000).fresh
    assert not answered("1", "t", "t", age_ms=None).fresh
    assert answered("1", "t", "t", last_ts=None, age_ms=None).fresh


def test_examples_show_the_best_answer_of_each_tier() -> None:
    log = [answered("1", "xt", "t"), answered("2", "tx", "t"), answered("3", "xy", "t", tier="heavy")]
    assert [each.answer.request_id for each in examples(log)] == ["2"]


def report(**changes: int) -> Report:
    counts = {"requests": 2, "answers": 2, "duplicates": 0, "events": 5, "records": 5}
    counts |= {"recounted": 3, "miscounted": 0} | changes
    _, _, overall = rows([answered("1", "t", "t")])
    return Report(
        **counts,
        dead_letters={},
        tiers={},
        activity={},
        all=overall,
        first_recommendation_s=1.0,
        live_s=1.0,
        total_s=1.0,
        flink_jobs={},
        versions={},
    )


@pytest.mark.parametrize("changes", [{"records": 4}, {"answers": 1}, {"duplicates": 1}, {"miscounted": 1}])
def test_what_does_not_add_up_is_said(changes: dict[str, int]) -> None:
    assert not unbalanced(report())
    assert len(unbalanced(report(**changes))) == 1
