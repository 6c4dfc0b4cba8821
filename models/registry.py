"""Every model by its name: the one place where a new one is added."""

from features.embedding import ITEM_VECTORS
from models.contract import History, Lineage, Ranker, Trainable
from models.item_cf import ItemCf
from models.item_vectors import ItemVectors
from models.popularity import Popularity
from runtime import artifact
from runtime.config import Config
from runtime.errors import ArtifactError
from schemas.state import ModelPointer

NAMES = ("popularity", "cf", "gbdt_lr", "deepfm")
"""The rankers, from the cheapest to the dearest."""

TRAINABLE = (*NAMES, ITEM_VECTORS)
"""All that can be fitted on a history."""

BUILT_IN_VERSION = "built-in"


def ranker_class(name: str) -> type[Ranker]:
    """Return the class of the model called `name`; raise `ArtifactError` if there is none."""
    if name == "popularity":
        return Popularity
    if name == "cf":
        return ItemCf
    if name == "gbdt_lr":
        # Imports XGBoost and scikit-learn: only for those who use it.
        from models.gbdt_lr.ranker import GbdtLr

        return GbdtLr
    if name == "deepfm":
        # Imports torch and deepctr-torch, which takes seconds: only for those who use it.
        from models.deepfm.ranker import DeepFm

        return DeepFm
    raise ArtifactError(f"no model is called {name!r}; there are {', '.join(NAMES)}")


def trainable_class(name: str) -> type[Trainable]:
    """Return the class of what is called `name`, be it a ranker; raise `ArtifactError` if there is none."""
    if name == ITEM_VECTORS:
        return ItemVectors
    return ranker_class(name)


def built_in_rankers(config: Config) -> dict[str, Ranker]:
    """Return the rankers that need no training, since they read the live tables: popularity and item-item CF."""
    nothing, lineage = History(clicks=()), Lineage(version=BUILT_IN_VERSION, created_ms=0)
    cheap: tuple[type[Ranker], ...] = (Popularity, ItemCf)
    return {each.name: each.fit(nothing, config, 0, lineage) for each in cheap}


def load_pointer(pointer: ModelPointer) -> Ranker:
    """Return the model that `pointer` names; raise `ArtifactError` if its artifact is not what it says."""
    return ranker_class(pointer.model).load(artifact.follow(pointer))
