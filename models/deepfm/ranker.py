"""DeepFM as a ranker: binds the network to the live tables and to its artifact."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

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
from models.deepfm.inputs import Inputs, Scaling, scale_pairs
from models.deepfm.item_table import ItemTable
from models.deepfm.network import Shape, build_network, compile_network, get_weights, set_weights
from models.deepfm.training import NAME, train_deepfm
from models.named_features import dense_features, describe
from models.recall import recall
from models.vocabulary import Vocabulary
from runtime import artifact
from runtime.config import Config

_VOCABULARY, _SHAPE = "vocabulary.json", "shape.json"
_NETWORK = "network."
_MEAN, _SPREAD = "dense.mean", "dense.spread"


class DeepFm:
    """Re-ranks the neighbours of a user's last items."""

    name: ClassVar[str] = NAME
    precision = "fp32"

    def __init__(
        self, manifest: artifact.Manifest, inputs: Inputs, scaling: Scaling, shape: Shape, network: Any
    ) -> None:
        self.manifest = manifest
        self.version = manifest.version
        self._inputs = inputs
        self._scaling = scaling
        self._shape = shape
        self._network = network
        self._scorer = compile_network(network, inputs)
        self._items = ItemTable(inputs, self._scorer)

    @classmethod
    def fit(
        cls, history: History, config: Config, seed: int, lineage: Lineage, progress: Progress = no_progress
    ) -> Self:
        """Replay `history` and learn which of what recall proposed users came to next."""
        trained = train_deepfm(history, config, seed, progress)
        manifest = lineage.describe(
            cls.name,
            history,
            seed,
            features=describe(trained.inputs.indices, trained.inputs.dense),
            metrics=trained.metrics,
            curve=trained.curve,
        )
        return cls(manifest, trained.inputs, trained.scaling, trained.shape, trained.network)

    def rank(
        self, requests: Sequence[RankRequest], candidates: Sequence[Sequence[str]], tables: Tables
    ) -> list[Scores]:
        """Score the candidates of all requests in one pass of the compiled network."""
        import torch

        inputs = self._inputs
        together = [inputs.pairs(request, items, tables) for request, items in zip(requests, candidates, strict=True)]
        pairs = np.concatenate([np.empty((0, len(inputs.dense)), np.float32), *together])
        counts = [len(items) for items in candidates]
        if not len(pairs):
            return [np.empty(0, np.float32) for _ in requests]
        scale_pairs(pairs, self._scaling)
        items, rows = self._items.find(
            [each for some in candidates for each in inputs.vocabulary.item_indices(some, tables)]
        )
        users = self._scorer.users(torch.from_numpy(inputs.user_rows(requests)))
        scores = self._scorer.scores(users, torch.tensor(counts), items, rows, torch.from_numpy(pairs))
        return np.split(scores.numpy(), np.cumsum(counts)[:-1])

    def recall(self, request: RankRequest, tables: Tables, k: int) -> list[Candidate]:
        """Propose the neighbours of the user's last items, then the leaderboard."""
        return recall(request.record, tables, k)

    def save(self, folder: Path) -> None:
        """Write the network, its vocabulary and its scaling."""
        tensors = {_NETWORK + name: array for name, array in get_weights(self._network).items()}
        tensors |= {_MEAN: self._scaling.mean, _SPREAD: self._scaling.spread}
        documents = {_VOCABULARY: self._inputs.vocabulary, _SHAPE: self._shape}
        artifact.write(folder, self.manifest, tensors=tensors, documents=documents)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; raise `ArtifactError` for anything else, also for features of other names."""
        found = artifact.read(folder, cls.name)
        vocabulary = found.document(_VOCABULARY, Vocabulary)
        dense = dense_features(found, Inputs(vocabulary, ()).indices)
        inputs = Inputs(vocabulary, dense)
        tensors = found.tensors()
        scaling = Scaling(*(_vector(found, tensors, name, len(dense)) for name in (_MEAN, _SPREAD)))
        shape = found.document(_SHAPE, Shape)
        network = build_network(inputs, shape, seed=found.manifest.seed)
        weights = {name.removeprefix(_NETWORK): array for name, array in tensors.items() if name.startswith(_NETWORK)}
        try:
            set_weights(network, weights)
        except ValueError as error:
            raise found.unusable(artifact.TENSORS, str(error)) from error
        return cls(found.manifest, inputs, scaling, shape, network)


def _vector(found: artifact.Artifact, tensors: dict[str, Any], name: str, length: int) -> Any:
    vector = tensors.get(name)
    if vector is None or vector.shape != (length,):
        raise found.unusable(artifact.TENSORS, f"it holds no array {name} of {length} numbers")
    return vector
