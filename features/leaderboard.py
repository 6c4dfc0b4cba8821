"""What is popular now: the read side. The write side is the Flink SQL in `features/leaderboard_sql.py`."""

from collections.abc import Sequence

from schemas.state import Leaderboard

GLOBAL_BOARD = "global"
TRENDING_BOARD = "trending"
CATEGORY_BOARD = "category:"
SURFACE_BOARD = "surface:"
"""The last two are followed by the category's and the surface's name."""


class LeaderboardTable:
    """The current boards, by name; each a list of (item_id, score), best first, the best scored 1.0."""

    def __init__(self) -> None:
        self._boards: dict[str, tuple[tuple[str, float], ...]] = {}
        self._scores: dict[str, dict[str, float]] = {}

    def put(self, board: Leaderboard) -> None:
        """Replace one board by its new state, best first, scaled so that the best item scores 1.0.

        The trending board's scores are binary logarithms (see `features/leaderboard_sql.py`), all others are plain.
        """
        entries = sorted(board.items, key=lambda entry: (-entry.score, entry.item_id))
        best = entries[0].score if entries else 1.0
        if board.board == TRENDING_BOARD:
            ranked = tuple((entry.item_id, 2.0 ** (entry.score - best)) for entry in entries)
        else:
            ranked = tuple((entry.item_id, entry.score / best if best > 0.0 else 0.0) for entry in entries)
        self._boards[board.board] = ranked
        self._scores[board.board] = dict(ranked)

    def drop(self, board: str) -> None:
        """Forget a board that was deleted."""
        self._boards.pop(board, None)
        self._scores.pop(board, None)

    def top(self, k: int, board: str = GLOBAL_BOARD) -> Sequence[tuple[str, float]]:
        """Return the best `k` items of a board with their scores; empty where the board does not exist."""
        return self._boards.get(board, ())[:k]

    def score(self, item_id: str, board: str = GLOBAL_BOARD) -> float:
        """Return an item's score on a board, 0.0 where it is not on it."""
        return self._scores.get(board, {}).get(item_id, 0.0)
