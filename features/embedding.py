"""The encoder: from packed user records to user vectors, many at a time.

A user's vector is the mean of the vectors of the items of their last deliberate events, brought to unit length. Each
item that the encoder knows counts once, at its most recent (as in `features.activity.last_items`), and weighs
`step_decay` times as much as the one that came after it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from features.activity import DELIBERATE
from features.record_batch import decode_records
from features.user_vector import pack_vector
from runtime import artifact

ITEM_VECTORS = "item-vectors"
"""The name of the model whose artifacts are encoders."""

TENSOR = "vectors"
IDS_FILE = "ids.json"
SETTINGS_FILE = "settings.json"

MAX_STEPS = 256
"""As many as the longest record can have (features.record_events); further ones, in no record of ours, weigh alike."""


class EncoderSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an encoder does besides looking up vectors."""

    step_decay: float


@dataclass(frozen=True, slots=True)
class Encoded:
    """What became of a batch of records.

    `vectors` has one packed user vector per record (see `features.user_vector`), None for a user without known items,
    for an absent record and for one that is refused; `refused` says by place in the batch what is wrong with those.
    """

    vectors: list[str | None]
    refused: Mapping[int, str]


class Encoder:
    """Makes a user's vector of the vectors of items: `vectors` is float32 of shape (items, size), a row per id."""

    def __init__(self, version: str, ids: Sequence[str], vectors: NDArray[np.float32], step_decay: float) -> None:
        self.version = version
        self._vectors = vectors
        self._row_of = {item_id: row for row, item_id in enumerate(ids)}
        # Once and for all: numpy's powers of a longer array can differ in the last bit.
        self._weights = (step_decay ** np.arange(MAX_STEPS)).astype(np.float32)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read an artifact of item vectors; raise `ArtifactError` if it is damaged, foreign or inconsistent."""
        found = artifact.read(folder, ITEM_VECTORS)
        settings = found.document(SETTINGS_FILE, EncoderSettings)
        ids = found.document(IDS_FILE, tuple[str, ...])
        vectors = found.tensors().get(TENSOR)
        if vectors is None or vectors.dtype != np.float32 or vectors.ndim != 2:
            shape = "none" if vectors is None else f"{vectors.dtype} of shape {vectors.shape}"
            raise found.unusable(artifact.TENSORS, f"{TENSOR} is {shape}, not float32 of two dimensions")
        if not len(vectors) == len(ids) == len(set(ids)):
            counts = f"{len(ids)} ids, {len(set(ids))} of them distinct, for {len(vectors)} vectors"
            raise found.unusable(IDS_FILE, f"it holds {counts}")
        if not 0.0 < settings.step_decay <= 1.0:
            raise found.unusable(SETTINGS_FILE, f"step_decay is {settings.step_decay}, not above 0 and at most 1")
        if not found.manifest.version.isprintable():
            raise found.unusable(artifact.MANIFEST, f"version {found.manifest.version!r} has control characters")
        return cls(found.manifest.version, ids, vectors, settings.step_decay)

    def encode(self, records: Sequence[bytes | None]) -> Encoded:
        """Return the vectors of packed user `records`.

        A record gives the same bytes in whatever batch it comes; one that cannot be read is refused by itself.
        """
        batch = decode_records(records)
        deliberate = DELIBERATE[batch.actions]
        row_of = self._row_of.get
        items = np.array([row_of(item_id, -1) for item_id in batch.read_item_ids(deliberate)], np.int64)
        means = self._means(len(batch), batch.rows[deliberate][items >= 0], items[items >= 0])
        norms = np.sqrt(np.einsum("ij,ij->i", means, means))
        units = means / np.where(norms > 0.0, norms, 1.0)[:, None]
        vectors = [
            pack_vector(partition, offset, self.version, unit) if norm > 0.0 else None
            for (partition, offset), unit, norm in zip(batch.positions.tolist(), units, norms.tolist(), strict=True)
        ]
        return Encoded(vectors, batch.problems)

    def _means(self, count: int, users: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the weighted sums of vectors, float32 of shape (count, size); their scale is of no account.

        `users` and `items` are the rows, in the result and in the vectors, of the events, oldest first.
        """
        from scipy.sparse import csr_array

        # Backwards, so that the first time that an item is seen is the most recent.
        _, first = np.unique((users * len(self._vectors) + items)[::-1], return_index=True)
        latest = len(items) - 1 - np.sort(first)
        users, items = count - 1 - users[latest], items[latest]
        splits = np.concatenate(([0], np.cumsum(np.bincount(users, minlength=count))))
        steps = np.arange(len(items)) - splits[users]
        weights = csr_array((self._weights.take(steps, mode="clip"), items, splits), shape=(count, len(self._vectors)))
        # A sparse product adds up each row by itself, from the latest item to the earliest.
        product: NDArray[np.float32] = weights @ self._vectors
        return product[::-1]
