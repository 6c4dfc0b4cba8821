"""What a demo run measured: one row per tier, per activity bucket and over all. Pure."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

import msgspec
import numpy as np

from evaluation.live import Answered
from evaluation.metrics import Judged, Quality, judge
from evaluation.protocol import ABOVE_ALL_BUCKETS, ACTIVITY_BUCKETS, activity_bucket
from schemas.recommendation import Tier

TIERS = get_args(Tier)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one group; latency from sending the request to holding its answer.

    `feature_age_ms` is the median time since the event that the state had seen last; `fresh_share` the share of answers
    that had seen everything their user had done.
    """

    requests: int
    ndcg10: float
    hr10: float
    popularity_ndcg10: float
    popularity_hr10: float
    p50_ms: float
    p99_ms: float
    feature_age_ms: float | None
    fresh_share: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The whole run, as `headrace demo --json` writes it.

    `recounted` users and items were held against a plain recount of the log; `miscounted` of them differ.
    """

    requests: int
    answers: int
    duplicates: int
    events: int
    records: int
    recounted: int
    miscounted: int
    dead_letters: dict[str, int]
    tiers: dict[str, Row]
    activity: dict[str, Row]
    all: Row
    first_recommendation_s: float
    live_s: float
    total_s: float
    flink_jobs: dict[str, str]
    versions: dict[str, str]


def rows(answered: Sequence[Answered]) -> tuple[dict[str, Row], dict[str, Row], Row]:
    """Return the rows by tier, by activity, and over all; groups without requests are left out."""
    served = judge(
        [
            Judged(each.answer.request_id, [item.item_id for item in each.answer.items], each.question.target)
            for each in answered
        ]
    )
    popular = judge([Judged(each.answer.request_id, each.question.popular, each.question.target) for each in answered])

    def grouped(key: Callable[[Answered], str], order: Sequence[str]) -> dict[str, Row]:
        groups: dict[str, list[Answered]] = defaultdict(list)
        for each in answered:
            groups[key(each)].append(each)
        return {name: _row(groups[name], served, popular) for name in order if name in groups}

    buckets = [name for _, name in ACTIVITY_BUCKETS] + [ABOVE_ALL_BUCKETS]
    return (
        grouped(lambda each: each.answer.tier, TIERS),
        grouped(lambda each: activity_bucket(each.question.past_events), buckets),
        _row(answered, served, popular),
    )


def unbalanced(report: Report) -> list[str]:
    """Return what does not add up, in words; empty when nothing was lost and nothing came twice."""
    complaints = []
    if report.events != report.records:
        complaints.append(f"{report.events} events were produced, but {report.records} records built")
    if report.miscounted:
        complaints.append(f"{report.miscounted} of {report.recounted} users and items differ from a recount of the log")
    if report.requests != report.answers:
        complaints.append(f"{report.requests} requests were sent, but {report.answers} answered")
    if report.duplicates:
        complaints.append(f"{report.duplicates} requests got more than one final answer")
    return complaints


def examples(answered: Sequence[Answered]) -> list[Answered]:
    """Return one answer of each tier that was used; the one that ranked the right item best."""
    best: dict[str, tuple[float, Answered]] = {}
    for each in answered:
        ids = [item.item_id for item in each.answer.items]
        place = ids.index(each.question.target) if each.question.target in ids else np.inf
        if ids and place < best.get(each.answer.tier, (np.inf, each))[0]:
            best[each.answer.tier] = (place, each)
    return [best[tier][1] for tier in TIERS if tier in best]


def _row(group: Sequence[Answered], served: Mapping[str, Quality], popular: Mapping[str, Quality]) -> Row:
    ids = [each.answer.request_id for each in group]
    latencies = [each.latency_ms for each in group]
    ages = [each.answer.feature_age_ms for each in group if each.answer.feature_age_ms is not None]
    return Row(
        requests=len(group),
        ndcg10=_mean([served[each].ndcg10 for each in ids]),
        hr10=_mean([served[each].hr10 for each in ids]),
        popularity_ndcg10=_mean([popular[each].ndcg10 for each in ids]),
        popularity_hr10=_mean([popular[each].hr10 for each in ids]),
        p50_ms=round(float(np.percentile(latencies, 50)), 2),
        p99_ms=round(float(np.percentile(latencies, 99)), 2),
        feature_age_ms=round(float(np.median(ages)), 1) if ages else None,
        fresh_share=_mean([float(each.fresh) for each in group]),
    )


def _mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 4)
