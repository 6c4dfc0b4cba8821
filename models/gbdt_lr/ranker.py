"""GBDT+LR as a ranker: binds trees and encodings to the live tables and to their artifact."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from features.tables import Tables
from models.contract import Candidate, History, Lineage, Progress, RankRequest, Scores, no_progress
from models.gbdt_lr.training import ENCODED, NAME, Inputs, Trained, score_rows, train_gbdt_lr
from models.named_features import dense_features, describe
from models.recall import recall
from models.vocabulary import Vocabulary
from runtime import artifact
from runtime.config import Config

_VOCABULARY, _TREES = "vocabulary.json", "trees.ubj"
_ENCODING = "encoding."


class GbdtLr:
    """Scores a candidate by its log odds of being chosen."""

    name: ClassVar[str] = NAME
    precision = "fp32"

    def __init__(self, manifest: artifact.Manifest, trained: Trained) -> None:
        self.manifest = manifest
        self.version = manifest.version
        self._inputs = trained.inputs
        self._booster = trained.booster
        self._booster.set_param({"nthread": 1})

    @classmethod
    def fit(
        cls, history: History, config: Config, seed: int, lineage: Lineage, progress: Progress = no_progress
    ) -> Self:
        """Replay `history` and learn which of what recall proposed users came to next."""
        trained = train_gbdt_lr(history, config, seed, progress)
        features = describe(ENCODED, trained.inputs.dense)
        return cls(lineage.describe(cls.name, history, seed, features=features, metrics=trained.metrics), trained)

    def rank(
        self, requests: Sequence[RankRequest], candidates: Sequence[Sequence[str]], tables: Tables
    ) -> list[Scores]:
        """Score the candidates of all requests in one pass over the trees."""
        each = [self._inputs.rows(request, items, tables) for request, items in zip(requests, candidates, strict=True)]
        counts = [len(rows) for rows in each]
        if not sum(counts):
            return [np.empty(0, np.float32) for _ in requests]
        return np.split(score_rows(self._booster, np.concatenate(each)), np.cumsum(counts)[:-1])

    def recall(self, request: RankRequest, tables: Tables, k: int) -> list[Candidate]:
        """Propose the neighbours of the user's last items, then the leaderboard."""
        return recall(request.record, tables, k)

    def save(self, folder: Path) -> None:
        """Write trees, vocabulary and encodings."""
        inputs = self._inputs
        tensors = {_ENCODING + name: values for name, values in zip(ENCODED, inputs.encodings, strict=True)}
        documents = {_VOCABULARY: inputs.vocabulary}
        trees = bytes(self._booster.save_raw("ubj"))
        artifact.write(folder, self.manifest, tensors=tensors, documents=documents, contents={_TREES: trees})

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; raise `ArtifactError` for anything else, also for features of other names."""
        from xgboost import Booster
        from xgboost.core import XGBoostError

        found = artifact.read(folder, cls.name)
        dense = dense_features(found, ENCODED)
        vocabulary, tensors = found.document(_VOCABULARY, Vocabulary), found.tensors()
        encodings = []
        for name in ENCODED:
            encoding = tensors.get(_ENCODING + name)
            if encoding is None or encoding.dtype != np.float32 or encoding.shape != (vocabulary.sizes.get(name),):
                raise found.unusable(artifact.TENSORS, f"it holds no encoding of {name} for each of its values")
            encodings.append(encoding)
        try:
            booster = Booster(model_file=bytearray(found.content(_TREES)))
        except XGBoostError as error:
            raise found.unusable(_TREES, str(error).splitlines()[0]) from error
        wanted = len(dense) + len(ENCODED)
        if booster.num_features() != wanted:
            raise found.unusable(_TREES, f"its trees read {booster.num_features()} features instead of {wanted}")
        return cls(found.manifest, Trained(Inputs(vocabulary, dense, encodings), booster, found.manifest.metrics))
