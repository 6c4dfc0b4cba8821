"""The features of an artifact by name: what a re-ranker lists when it is saved, and is held to when it is loaded."""

from collections.abc import Sequence

from features.candidate import FEATURES
from runtime import artifact

_INDEX, _DENSE = "int32", "float32"


def describe(indices: Sequence[str], dense: Sequence[str]) -> dict[str, str]:
    """Return the features of a manifest: ids by their index, then dense ones."""
    return dict.fromkeys(indices, _INDEX) | dict.fromkeys(dense, _DENSE)


def dense_features(found: artifact.Artifact, indices: Sequence[str]) -> tuple[str, ...]:
    """Return the dense features that `found` was fitted on, in their order.

    Raises `ArtifactError`, with both lists, if one of them is none of `FEATURES` or if its ids are not `indices`.
    """
    features = found.manifest.features
    dense = tuple(name for name, dtype in features.items() if dtype == _DENSE)
    if not set(dense) <= set(FEATURES) or features != describe(indices, dense):
        expected = ", ".join(describe(indices, tuple(FEATURES)))
        raise found.unusable(artifact.MANIFEST, f"its features are {', '.join(features)}; this program has {expected}")
    return dense
