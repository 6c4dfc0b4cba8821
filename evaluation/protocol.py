"""The demo's protocol: what is history, what is live, who is asked for when, and what was right. Pure.

Events are sorted by time; the first 80 % are history. Just before every third live event a request is sent for its
user, and the film of that event is what the answer should hold. Event times are re-timed to one event every
`spacing_ms`, with the history ending when the live part starts: a click log of seven months passes in a few minutes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from schemas.click import Click

HISTORY_SHARE = 0.8
REQUEST_EVERY = 3
ACTIVITY_BUCKETS = ((0, "0"), (5, "1-5"), (20, "6-20"), (50, "21-50"))
"""Upper bounds of the buckets by past events, with their names."""
ABOVE_ALL_BUCKETS = ">50"


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole run: history with its new event times, and the live events in order, whose `ts` is set when sent."""

    history: tuple[Click, ...]
    live: tuple[Click, ...]
    spacing_ms: float

    @property
    def requests(self) -> int:
        """How many requests there will be."""
        return -(-len(self.live) // REQUEST_EVERY)


def plan(clicks: Sequence[Click], spacing_ms: float, live_from_ms: int, max_live: int | None = None) -> Plan:
    """Split `clicks` (sorted by time) and re-time the history to end at `live_from_ms`; keep `max_live` live events."""
    split = int(len(clicks) * HISTORY_SHARE)
    history = tuple(
        msgspec.structs.replace(click, ts=int(live_from_ms - (split - place) * spacing_ms))
        for place, click in enumerate(clicks[:split])
    )
    return Plan(history, tuple(clicks[split:][:max_live]), spacing_ms)


def asks_before(place: int) -> bool:
    """Whether a request is sent before the live event at `place`."""
    return place % REQUEST_EVERY == 0


def activity_bucket(past_events: int) -> str:
    """Return the name of the bucket that a user with so many past events falls into."""
    return next((name for bound, name in ACTIVITY_BUCKETS if past_events <= bound), ABOVE_ALL_BUCKETS)


class Audience:
    """What the application itself knows as the stream goes on: who has seen what, and how often each item was seen.

    It is the source of the requests' `exclude` lists and of the plain popularity that answers are compared with.
    """

    def __init__(self, item_ids: Sequence[str]) -> None:
        self._item_ids = tuple(item_ids)
        self._index = {item_id: place for place, item_id in enumerate(item_ids)}
        self._counts: NDArray[np.int64] = np.zeros(len(item_ids), np.int64)
        self._seen: dict[str, dict[str, None]] = {}
        self._events: dict[str, int] = {}

    def saw(self, user_id: str, item_id: str) -> None:
        """Take in one event."""
        self._counts[self._index[item_id]] += 1
        self._seen.setdefault(user_id, {})[item_id] = None
        self._events[user_id] = self._events.get(user_id, 0) + 1

    def events(self, user_id: str) -> int:
        """How many events the user had so far."""
        return self._events.get(user_id, 0)

    def seen(self, user_id: str) -> tuple[str, ...]:
        """What the user has seen so far, oldest first."""
        return tuple(self._seen.get(user_id, ()))

    def most_popular_unseen(self, user_id: str, k: int) -> tuple[str, ...]:
        """Return the `k` items with the most events that the user has not seen; equal ones in the catalogue's order."""
        counts = self._counts.copy()
        counts[[self._index[item_id] for item_id in self._seen.get(user_id, ())]] = -1
        best = np.argsort(-counts, kind="stable")[:k]
        return tuple(self._item_ids[place] for place in best if counts[place] >= 0)
