"""The read side of the leaderboards."""

from features.leaderboard import TRENDING_BOARD, LeaderboardTable
from schemas.state import Leaderboard, LeaderboardEntry


def board(**scores: float) -> Leaderboard:
    entries = (LeaderboardEntry(item_id=item_id, score=score) for item_id, score in scores.items())
    return Leaderboard(board="global", items=tuple(entries))


def test_items_come_best_first_whatever_their_order_on_the_wire_and_the_best_scores_one() -> None:
    table = LeaderboardTable()
    table.put(board(a=2.0, b=8.0, c=4.0))
    assert table.top(2) == (("b", 1.0), ("c", 0.5))
    assert table.score("a") == 0.25


def test_equal_scores_are_ordered_by_id() -> None:
    table = LeaderboardTable()
    table.put(board(b=1.0, a=1.0))
    assert [item_id for item_id, _ in table.top(2)] == ["a", "b"]


def test_huge_and_vanishing_scores_stay_finite() -> None:
    table = LeaderboardTable()
    table.put(board(a=1e300, b=1e-300))
    assert table.top(2) == (("a", 1.0), ("b", 0.0))
    table.put(board(a=0.0))
    assert table.top(1) == (("a", 0.0),)


def test_a_new_state_replaces_the_old_one_and_an_unknown_board_is_empty() -> None:
    table = LeaderboardTable()
    table.put(board(a=1.0))
    table.put(board(b=1.0))
    assert table.score("a") == 0.0
    assert table.top(5, "no such board") == ()
    table.drop("global")
    assert table.top(5) == ()


def test_the_trending_boards_scores_are_logarithms_of_any_size_and_sign() -> None:
    table = LeaderboardTable()
    entries = [LeaderboardEntry(item_id=item_id, score=score) for item_id, score in (("a", -5_002.0), ("b", -5_000.0))]
    table.put(Leaderboard(board=TRENDING_BOARD, items=tuple(entries)))
    assert table.top(2, TRENDING_BOARD) == (("b", 1.0), ("a", 0.25))
    table.put(Leaderboard(board=TRENDING_BOARD, items=()))
    assert table.top(2, TRENDING_BOARD) == ()
