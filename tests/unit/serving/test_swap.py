"""Taking up a new model while the old one serves."""

import threading
import time

import msgspec

from features.embedding import ITEM_VECTORS
from models.contract import Ranker
from runtime.errors import ArtifactError
from schemas.state import ModelPointer
from serving.swap import ModelSwap
from tests.builders import NOW_MS


class Named:
    """A ranker that is only a version."""

    def __init__(self, version: str) -> None:
        self.version = version


def pointer(version: str) -> ModelPointer:
    return ModelPointer(model="cf", version=version, ts=NOW_MS, path=f"models/cf/{version}", sha256="0")


def ranker(version: str) -> Ranker:
    return Named(version)  # type: ignore[return-value]


def test_a_new_artifact_replaces_the_old_one() -> None:
    flips: list[str] = []
    swap = ModelSwap({"cf": ranker("1")}, lambda each: ranker(each.version), lambda: flips.append("flipped"))
    swap.take(pointer("2"))
    swap.wait()
    assert swap.rankers["cf"].version == "2"
    assert flips == ["flipped"]


def test_a_refused_artifact_leaves_the_old_model_in_place() -> None:
    def refuse(_pointer: ModelPointer) -> Ranker:
        raise ArtifactError("damaged")

    swap = ModelSwap({"cf": ranker("1")}, refuse)
    swap.take(pointer("2"))
    swap.wait()
    assert swap.rankers["cf"].version == "1"


def test_item_vectors_are_no_ranker_and_are_not_loaded() -> None:
    loaded: list[str] = []

    def load(each: ModelPointer) -> Ranker:
        loaded.append(each.model)
        return ranker(each.version)

    swap = ModelSwap({}, load)
    cf = pointer("1")
    vectors = msgspec.structs.replace(cf, model=ITEM_VECTORS)
    swap.take(vectors)
    swap.take(cf)
    swap.wait()
    assert loaded == list(swap.rankers) == ["cf"]


def test_the_later_pointer_wins_even_if_it_is_loaded_first() -> None:
    second_is_loading, third_serves = threading.Event(), threading.Event()

    def load(each: ModelPointer) -> Ranker:
        if each.version == "2":
            second_is_loading.set()
            assert third_serves.wait(10)
        return ranker(each.version)

    swap = ModelSwap({}, load)
    swap.take(pointer("2"))
    assert second_is_loading.wait(10)
    swap.take(pointer("3"))
    deadline = time.monotonic() + 10
    while "cf" not in swap.rankers and time.monotonic() < deadline:
        time.sleep(0.001)
    third_serves.set()
    swap.wait()
    assert swap.rankers["cf"].version == "3"
