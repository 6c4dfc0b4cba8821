"""What a worker holds in memory of the catalogue and the learned state: small, shared by all users, always fresh."""

from dataclasses import dataclass, field

from features.leaderboard import LeaderboardTable
from features.neighbours import NeighbourTable
from schemas.item import Item


@dataclass(slots=True)
class Tables:
    """The item table, the neighbour lists and the leaderboards, each kept up to date by following its topic."""

    items: dict[str, Item] = field(default_factory=dict)
    neighbours: NeighbourTable = field(default_factory=NeighbourTable)
    leaderboards: LeaderboardTable = field(default_factory=LeaderboardTable)
