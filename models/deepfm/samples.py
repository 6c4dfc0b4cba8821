"""Training samples: the history replayed in log order, with what recall would have proposed at each moment."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from features.activity import POSITIVE_ACTIONS
from features.neighbours import CoOccurrence
from features.tables import Tables
from features.user_record import RecordBuilder, UserRecord
from models.contract import History, Progress, RankRequest
from models.deepfm.recall import recall
from models.popularity import DecayedPopularity
from runtime.config import Config
from schemas.click import Click

REFRESH_EVERY_EVENTS = 1_000
"""How stale the replayed tables get: serving's are about a second old, which is as many events on a busy stream."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Just before a click: who asked, what recall proposed (unseen only), and which of it the user came to."""

    request: RankRequest
    candidates: tuple[str, ...]
    chosen: int


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
        for index, click in enumerate(clicks):
            if index >= start and (index - start) % REFRESH_EVERY_EVENTS == 0:
                self._refresh()
                progress(index, len(clicks), "replaying")
            if index >= start and (index - start) % every == 0:
                moment = self._moment(click)
                if moment is not None:
                    yield moment
            self._observe(click, index)
        progress(len(clicks), len(clicks), "replaying")

    def _moment(self, click: Click) -> Moment | None:
        seen = self._seen.get(click.user_id, set())
        if click.action not in POSITIVE_ACTIONS or click.item_id in seen:
            return None
        record = self._records.get(click.user_id)
        wanted = self._config.worker.max_candidates
        proposed = recall(record, self.tables, wanted + len(seen))
        candidates = tuple(each.item_id for each in proposed if each.item_id not in seen)[:wanted]
        if click.item_id not in candidates:
            return None
        request = RankRequest(click.user_id, record, self._history.users.get(click.user_id), click.ts)
        return Moment(request, candidates, candidates.index(click.item_id))

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
