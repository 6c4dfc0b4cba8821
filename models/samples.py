"""Training samples: the history replayed in log order, with what recall would have proposed at each moment."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.activity import POSITIVE_ACTIONS
from features.co_occurrence import CoOccurrence
from features.tables import Tables
from features.user_record import RecordBuilder, UserRecord
from models.contract import History, Progress, RankRequest
from models.popularity import DecayedPopularity
from models.recall import recall
from runtime.config import Config
from runtime.errors import DataError
from schemas.click import Click

WARM_UP = 0.5
"""Share of the history that only fills the tables: earlier moments would show them emptier than serving has them."""

MAX_MOMENTS = 10_000
"""Bounds the time: on one core about 30 s for ML-100k. More moments did not rank better."""

VALIDATION = 0.1
"""Share of the sampled part, its end in time, that decides when to stop."""

GROUP = 40
"""Candidates of one training group: the one that was chosen and a sample of the others."""

CUTOFF = 10

REFRESHES = 40
"""How often the replayed tables are brought up to date. On ML-100k that is every 1,000 events: serving's tables are
about a second old, which is as much on a busy stream."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Just before the click at `index`: who asked, and what recall proposed of what that user had not seen.

    The first of `candidates` is the one that the user then came to.
    """

    index: int
    request: RankRequest
    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Samples:
    """Rows of features in log order; the first row of a group or moment is the candidate that was chosen.

    `groups` has shape (groups, GROUP, width), each entry of `validation` (candidates, width).
    """

    groups: NDArray[np.float32]
    validation: list[NDArray[np.float32]]


RowsOf = Callable[[Moment, Tables], NDArray[np.float32]]
"""Makes the rows, of shape (candidates, width), of a moment's candidates."""


def collect(
    model: str, history: History, config: Config, rows_of: RowsOf, rng: np.random.Generator, progress: Progress
) -> Samples:
    """Return samples of `history` to train `model` with; `DataError` if that is too short to learn from."""
    clicks = len(history.clicks)
    start = int(clicks * WARM_UP)
    every = max(1, (clicks - start) // MAX_MOMENTS)
    validation_from = clicks - int((clicks - start) * VALIDATION)
    groups: list[NDArray[np.float32]] = []
    validation: list[NDArray[np.float32]] = []
    replay = Replay(history, config)
    for moment in replay.moments(start, every, progress):
        rows = rows_of(moment, replay.tables)
        if moment.index >= validation_from:
            validation.append(rows)
        else:
            groups.append(sampled_group(rows, rng))
    if not groups or not validation:
        raise DataError(
            f"{clicks} clicks are too few to train {model}: recall proposed the next item {len(groups)} times in the "
            f"part for training, {len(validation)} times in that for validation; train it on a longer history"
        )
    return Samples(np.stack(groups), validation)


def sampled_group(candidates: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Return the first of a moment's `candidates`, which was chosen, and a sample of the others: GROUP in all."""
    # With replacement only where recall proposed fewer than a group holds.
    others = rng.choice(len(candidates) - 1, GROUP - 1, replace=len(candidates) < GROUP) + 1
    return candidates[[0, *others.tolist()]]


class Replay:
    """Goes through a history once and stops at sampled moments; `tables` are as they were at each."""

    def __init__(self, history: History, config: Config) -> None:
        self._history = history
        self._config = config
        self._learner = CoOccurrence(config.neighbours)
        self._popularity = DecayedPopularity(config.leaderboard)
        self._builders: dict[str, RecordBuilder] = {}
        self._records: dict[str, UserRecord] = {}
        self._seen: dict[str, set[str]] = {}
        self.tables = Tables(items=dict(history.items))

    def moments(self, start: int, every: int, progress: Progress) -> Iterator[Moment]:
        """Yield the moments before every `every`-th click from index `start` on whose item recall proposed."""
        clicks = self._history.clicks
        refresh_every = max(1, (len(clicks) - start) // REFRESHES)
        for index, click in enumerate(clicks):
            if index >= start and (index - start) % refresh_every == 0:
                self._refresh()
                progress(index, len(clicks), "replaying")
            if index >= start and (index - start) % every == 0:
                moment = self._moment(click, index)
                if moment is not None:
                    yield moment
            self._observe(click, index)
        progress(len(clicks), len(clicks), "replaying")

    def _moment(self, click: Click, index: int) -> Moment | None:
        seen = self._seen.get(click.user_id, set())
        if click.action not in POSITIVE_ACTIONS or click.item_id in seen:
            return None
        record = self._records.get(click.user_id)
        wanted = self._config.worker.max_candidates
        proposed = recall(record, self.tables, wanted + len(seen))
        unseen = [each.item_id for each in proposed if each.item_id not in seen][:wanted]
        if click.item_id not in unseen or len(unseen) < 2:
            return None
        unseen.remove(click.item_id)
        request = RankRequest(click.user_id, record, self._history.users.get(click.user_id), click.ts)
        return Moment(index, request, (click.item_id, *unseen))

    def _observe(self, click: Click, index: int) -> None:
        builder = self._builders.get(click.user_id)
        if builder is None:
            builder = self._builders[click.user_id] = RecordBuilder(self._config.features.record_events)
            self._seen[click.user_id] = set()
        self._records[click.user_id] = builder.add(click, (0, index))
        if click.action in POSITIVE_ACTIONS:
            self._learner.observe(click.user_id, click.item_id, click.ts)
            self._popularity.observe(click.item_id, click.ts)
            self._seen[click.user_id].add(click.item_id)

    def _refresh(self) -> None:
        for item_id in self._learner.take_changed():
            self.tables.neighbours.put(self._learner.neighbours(item_id, self._config.neighbours.size))
        self.tables.leaderboards.put(self._popularity.board())


def ndcg(scores: NDArray[Any]) -> float:
    """Return nDCG@10 where only the first candidate is relevant; those that tie with it count as before it."""
    place = int((scores[1:] >= scores[0]).sum())
    return 1.0 / math.log2(place + 2) if place < CUTOFF else 0.0
