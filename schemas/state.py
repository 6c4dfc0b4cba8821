"""The JSON values of the compacted state topics that Python programs write or read."""

import msgspec

from schemas.fields import Id, TimestampMs


class Neighbours(msgspec.Struct, frozen=True, kw_only=True):
    """The most similar items of one item, best first, with the cosine similarity of each; and its event count."""

    item_id: Id
    ts: TimestampMs
    events: float
    neighbours: tuple[tuple[Id, float], ...]


class LeaderboardEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One item of a board with its forward-decayed sum; only order and ratios of these have a meaning.

    On the board `trending` the score is a binary logarithm: only order and differences have one.
    """

    item_id: Id
    score: float


class Leaderboard(msgspec.Struct, frozen=True, kw_only=True):
    """The most popular items of one board, in any order."""

    board: str
    items: tuple[LeaderboardEntry, ...]


class ModelPointer(msgspec.Struct, frozen=True, kw_only=True):
    """Where the current artifact of one model lies, and what it must hash to."""

    model: str
    version: str
    ts: TimestampMs
    path: str
    sha256: str
    parent: str | None = None
