"""Ranking metrics of single requests, computed by ir-measures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CUTOFF = 10


@dataclass(frozen=True, slots=True)
class Judged:
    """One request's answer beside what was right: `ranked` are the item ids of the answer, best first."""

    request_id: str
    ranked: Sequence[str]
    target: str


@dataclass(frozen=True, slots=True)
class Quality:
    """nDCG@10 and hit rate@10 of one request; with one right item, nDCG is 1 / log2(1 + place)."""

    ndcg10: float
    hr10: float


def judge(answers: Sequence[Judged]) -> Mapping[str, Quality]:
    """Return the quality of each answer by request_id; an empty answer scores zero."""
    import ir_measures
    from ir_measures import Success, nDCG

    qrels = [ir_measures.Qrel(each.request_id, each.target, 1) for each in answers]
    run = [
        # A measure sorts by score, so the place is turned into one.
        ir_measures.ScoredDoc(each.request_id, item_id, -float(place))
        for each in answers
        for place, item_id in enumerate(each.ranked)
    ]
    values: dict[str, dict[str, float]] = {each.request_id: {} for each in answers}
    for metric in ir_measures.iter_calc([nDCG @ CUTOFF, Success @ CUTOFF], qrels, run):
        values[metric.query_id][str(metric.measure)] = metric.value
    return {
        request_id: Quality(each.get(f"nDCG@{CUTOFF}", 0.0), each.get(f"Success@{CUTOFF}", 0.0))
        for request_id, each in values.items()
    }
