"""Popularity: the leaderboard, for users of whom nothing is known yet."""

import heapq
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from features.activity import POSITIVE_ACTIONS
from features.leaderboard import GLOBAL_BOARD, LeaderboardTable
from features.tables import Tables
from models.contract import (
    Candidate,
    History,
    Lineage,
    Progress,
    RankRequest,
    Scores,
    no_progress,
)
from runtime import artifact
from runtime.config import Config, LeaderboardConfig
from schemas.state import Leaderboard, LeaderboardEntry

REASON = "popular now"
_BOARD = "board.json"


class DecayedPopularity:
    """Event counts that halve every `half_life_ms` of event time, as the leaderboard job keeps them.

    Forward decay: an event weighs 2 ** (half-lives since the landmark), so that no count is touched for getting
    older (Cormode, Shkapenyuk, Srivastava, Xu, "Forward Decay", ICDE 2009).
    """

    def __init__(self, config: LeaderboardConfig) -> None:
        self._half_life_ms = config.half_life_ms
        self._size = config.size
        self._landmark_ms = 0
        self._weights: dict[str, float] = {}

    def observe(self, item_id: str, ts: int) -> None:
        """Count one deliberate event at `ts` (epoch milliseconds)."""
        if not self._landmark_ms:
            self._landmark_ms = ts
        age = (ts - self._landmark_ms) / self._half_life_ms
        if age > 500.0:
            # Far below the largest exponent of a double (1023): bring the landmark up before sums overflow.
            self._weights = {item: weight * 2.0**-age for item, weight in self._weights.items()}
            self._landmark_ms, age = ts, 0.0
        self._weights[item_id] = self._weights.get(item_id, 0.0) + 2.0**age

    def board(self) -> Leaderboard:
        """Return the best items now."""
        best = heapq.nsmallest(self._size, self._weights.items(), key=lambda pair: (-pair[1], pair[0]))
        entries = tuple(LeaderboardEntry(item_id=item_id, score=weight) for item_id, weight in best)
        return Leaderboard(board=GLOBAL_BOARD, items=entries)


class Popularity:
    """Ranks by the live board; by the board of its history as long as there is no live one."""

    name: ClassVar[str] = "popularity"
    precision = "fp32"

    def __init__(self, manifest: artifact.Manifest, board: Leaderboard) -> None:
        self.manifest = manifest
        self.version = manifest.version
        self._board = board
        self._fitted = LeaderboardTable()
        self._fitted.put(board)

    @classmethod
    def fit(
        cls, history: History, config: Config, seed: int, lineage: Lineage, progress: Progress = no_progress
    ) -> Self:
        """Keep the board as it stands at the end of `history`."""
        popularity = DecayedPopularity(config.leaderboard)
        for click in history.clicks:
            if click.action in POSITIVE_ACTIONS:
                popularity.observe(click.item_id, click.ts)
        progress(1, 1, "counting")
        board = popularity.board()
        return cls(lineage.describe(cls.name, history, seed, metrics={"items": len(board.items)}), board)

    def rank(
        self, requests: Sequence[RankRequest], candidates: Sequence[Sequence[str]], tables: Tables
    ) -> list[Scores]:
        """Score each candidate by its score on the board, 0.0 off it; the same for every user."""
        board = self._current(tables)
        return [np.array([board.score(item_id) for item_id in each], np.float32) for each in candidates]

    def recall(self, request: RankRequest, tables: Tables, k: int) -> list[Candidate]:
        """Propose the top of the board."""
        return [Candidate(item_id, score, REASON) for item_id, score in self._current(tables).top(k)]

    def _current(self, tables: Tables) -> LeaderboardTable:
        return tables.leaderboards if tables.leaderboards.top(1) else self._fitted

    def save(self, folder: Path) -> None:
        """Write the board of the history."""
        artifact.write(folder, self.manifest, documents={_BOARD: self._board})

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; raise `ArtifactError` for anything else."""
        found = artifact.read(folder, cls.name)
        return cls(found.manifest, found.document(_BOARD, Leaderboard))
