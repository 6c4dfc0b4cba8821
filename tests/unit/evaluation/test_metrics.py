"""Metrics whose values follow from their definition."""

import math

import pytest

from evaluation.metrics import Judged, judge


def test_ndcg_with_one_right_item_depends_on_its_place_alone() -> None:
    qualities = judge(
        [Judged(f"at{place}", [f"f{n}" for n in range(place - 1)] + ["t"], "t") for place in (1, 2, 10, 11)]
    )
    assert qualities["at1"].ndcg10 == pytest.approx(1.0)
    assert qualities["at2"].ndcg10 == pytest.approx(1 / math.log2(3))
    assert qualities["at10"].ndcg10 == pytest.approx(1 / math.log2(11))
    assert (qualities["at11"].ndcg10, qualities["at11"].hr10) == (0.0, 0.0)
    assert [qualities[f"at{place}"].hr10 for place in (1, 2, 10)] == [1.0, 1.0, 1.0]


def test_an_empty_answer_scores_nothing_but_counts() -> None:
    qualities = judge([Judged("empty", [], "t"), Judged("full", ["t"], "t")])
    assert (qualities["empty"].ndcg10, qualities["full"].ndcg10) == (0.0, 1.0)
