"""Training samples: the history replayed in log order, with what recall would have proposed at each moment."""

from collections.abc import Iterator
from dataclasses import dataclass

from features.activity import POSITIVE_ACTIONS
from features.co_occurrence import CoOccurrence
from features.tables import Tables
from features.user_record import RecordBuilder, UserRecord
from models.contract import History, Progress, RankRequest
from models.deepfm.recall import recall
from models.popularity import DecayedPopularity
from runtime.config import Config
from schemas.click import Click

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
