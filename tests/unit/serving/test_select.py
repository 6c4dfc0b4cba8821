"""The best k, deterministically."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.contract import Candidate
from serving.select import select_top

CANDIDATES = tuple(Candidate(item_id, 0.0, f"reason {item_id}") for item_id in "abcd")


def ids(scores: list[float], k: int) -> list[str]:
    chosen = select_top(CANDIDATES, np.array(scores, np.float32), k, explain=False)
    return [each.item_id for each in chosen]


def test_the_highest_scores_come_first() -> None:
    assert ids([0.1, 0.4, 0.3, 0.2], 3) == ["b", "c", "d"]


def test_equal_scores_keep_the_order_of_the_recall() -> None:
    assert ids([1.0, 2.0, 2.0, 1.0], 4) == ["b", "c", "a", "d"]


def test_fewer_candidates_than_asked_for_are_all_returned() -> None:
    assert len(ids([1.0, 2.0, 3.0, 4.0], 10)) == 4


def test_reasons_come_only_where_asked_for_and_propensities_are_one() -> None:
    scores = np.zeros(4, np.float32)
    plain, explained = (select_top(CANDIDATES, scores, 1, explain)[0] for explain in (False, True))
    assert (plain.reasons, explained.reasons) == ((), ("reason a",))
    assert plain.propensity == 1.0


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=4, max_size=4), st.integers(1, 6))
def test_no_item_that_was_left_out_scores_higher(scores: list[float], k: int) -> None:
    by_id = dict(zip("abcd", scores, strict=True))
    chosen = ids(scores, k)
    left_out = [score for item_id, score in by_id.items() if item_id not in chosen]
    assert all(by_id[item_id] >= score for item_id in chosen for score in left_out)
