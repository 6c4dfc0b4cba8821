"""What every ranker is: fit, rank, recall, save, load; bound to the live tables only by argument."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from features.tables import Tables
from features.user_record import UserRecord
from runtime.artifact import Manifest
from runtime.config import Config
from schemas.click import Click
from schemas.item import Item
from schemas.user import User

Scores = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RankRequest:
    """One user at one moment. `record` is None for a stranger, `profile` where there is none."""

    user_id: str
    record: UserRecord | None
    profile: User | None
    now_ms: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """One item that a recaller proposes, with its score there and the reason to show to people."""

    item_id: str
    score: float
    reason: str


@dataclass(frozen=True, slots=True)
class History:
    """What a model is fitted on: clicks in log order, the catalogue and the profiles."""

    clicks: Sequence[Click]
    items: Mapping[str, Item] = field(default_factory=dict)
    users: Mapping[str, User] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lineage:
    """Which artifact a fit makes: `version` sorts by time, `parent` is the version that it is to replace."""

    version: str
    created_ms: int
    parent: str | None = None

    def describe(
        self,
        model: str,
        history: History,
        seed: int,
        *,
        features: Mapping[str, str] | None = None,
        metrics: Mapping[str, float] | None = None,
        curve: Sequence[dict[str, float]] = (),
    ) -> Manifest:
        """Return the manifest of a `model` fitted on `history`."""
        times = [click.ts for click in history.clicks]
        return Manifest(
            model=model,
            version=self.version,
            parent=self.parent,
            created_ms=self.created_ms,
            seed=seed,
            events=len(times),
            data_ts=(min(times), max(times)) if times else None,
            features=dict(features or {}),
            metrics=dict(metrics or {}),
            curve=tuple(curve),
        )


class Progress(Protocol):
    """Where a fit reports how far it is."""

    def __call__(self, done: int, total: int, what: str) -> None:
        """`done` of `total` steps of the phase `what` are done."""
        ...


def no_progress(done: int, total: int, what: str) -> None:
    """Report to nobody."""


class Trainable(Protocol):
    """What can be fitted on a history and saved as an artifact."""

    name: ClassVar[str]
    manifest: Manifest

    @classmethod
    def fit(
        cls, history: History, config: Config, seed: int, lineage: Lineage, progress: Progress = no_progress
    ) -> Self:
        """Return a model fitted on `history`. Two fits with one seed are equal."""
        ...

    def save(self, folder: Path) -> None:
        """Write the artifact into `folder`, which is created."""
        ...


class Ranker(Trainable, Protocol):
    """One tier's model.

    `name` is the artifact's and the answer's name of it; `version` is that of its artifact. Scores are only
    compared within one request; ties are broken by the caller.
    """

    version: str
    precision: str

    def rank(
        self, requests: Sequence[RankRequest], candidates: Sequence[Sequence[str]], tables: Tables
    ) -> list[Scores]:
        """Return, for each request, finite float32 scores of shape (its candidates,), in their order.

        Unknown users and items get finite scores too. The order of the candidates does not matter.
        """
        ...

    def recall(self, request: RankRequest, tables: Tables, k: int) -> list[Candidate]:
        """Return at most `k` distinct candidates, best first; empty where the model has none to propose."""
        ...

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read an artifact; raise `ArtifactError` if it is damaged, truncated, foreign or newer."""
        ...
