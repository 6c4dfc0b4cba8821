"""Item-item collaborative filtering: the neighbours of what the user came to last."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

import msgspec

from features.activity import POSITIVE_ACTIONS, last_items
from features.co_occurrence import CoOccurrence
from features.neighbours import NeighbourTable
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
from runtime.config import Config
from schemas.state import Neighbours

_SETTINGS = "settings.json"
_LISTS = "lists.json"


MAX_TITLE_CHARS = 200
"""Of a title in a reason: it stands in every item of the answer."""


class _Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    last_events: int


class ItemCf:
    """Scores a candidate by the decayed sum of its similarities to the user's last items.

    Lists come from the live table; those fitted from the history stand in for items that it does not hold.
    """

    name: ClassVar[str] = "cf"
    precision = "fp32"

    def __init__(self, manifest: artifact.Manifest, settings: _Settings, lists: tuple[Neighbours, ...]) -> None:
        self.manifest = manifest
        self.version = manifest.version
        self._settings = settings
        self._lists = lists
        self._fitted = NeighbourTable()
        for each in lists:
            self._fitted.put(each)

    @classmethod
    def fit(
        cls, history: History, config: Config, seed: int, lineage: Lineage, progress: Progress = no_progress
    ) -> Self:
        """Learn from `history` as the stream's learner does; nothing here is random."""
        learner = CoOccurrence(config.neighbours)
        for done, click in enumerate(history.clicks, start=1):
            if click.action in POSITIVE_ACTIONS:
                learner.observe(click.user_id, click.item_id, click.ts)
            if done % 1_000 == 0 or done == len(history.clicks):
                progress(done, len(history.clicks), "counting pairs")
        lists = tuple(learner.neighbours(item_id, config.neighbours.size) for item_id in learner.take_changed())
        manifest = lineage.describe(cls.name, history, seed, metrics={"items": len(lists)})
        return cls(manifest, _Settings(config.router.light_last_events), lists)

    def rank(
        self, requests: Sequence[RankRequest], candidates: Sequence[Sequence[str]], tables: Tables
    ) -> list[Scores]:
        """Score each candidate, 0.0 where it is no neighbour of the user's last items."""
        return [self._score(request, each, tables) for request, each in zip(requests, candidates, strict=True)]

    def _score(self, request: RankRequest, candidates: Sequence[str], tables: Tables) -> Scores:
        last = self._last(request)
        scores: Scores = tables.neighbours.scores(last, candidates, (len(last),), fallback=self._fitted)[0]
        return scores

    def recall(self, request: RankRequest, tables: Tables, k: int) -> list[Candidate]:
        """Propose the nearest items, each with the last item that it is near to as the reason."""
        near = tables.neighbours.nearest(self._last(request), k, fallback=self._fitted)
        return [Candidate(each.item_id, each.score, similar_to(each.source, tables)) for each in near]

    def _last(self, request: RankRequest) -> tuple[str, ...]:
        return last_items(request.record, self._settings.last_events)

    def save(self, folder: Path) -> None:
        """Write the lists of the history."""
        documents = {_SETTINGS: self._settings, _LISTS: self._lists}
        artifact.write(folder, self.manifest, documents=documents)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; raise `ArtifactError` for anything else."""
        found = artifact.read(folder, cls.name)
        settings = found.document(_SETTINGS, _Settings)
        return cls(found.manifest, settings, found.document(_LISTS, tuple[Neighbours, ...]))


def similar_to(item_id: str, tables: Tables) -> str:
    """Return the reason to show for a candidate that is near to `item_id`, by its title if it has one."""
    item = tables.items.get(item_id)
    return f"similar to {item.title[:MAX_TITLE_CHARS] if item is not None and item.title else item_id}"
