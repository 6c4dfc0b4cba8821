from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from features.embedding import Encoder
from models.contract import History, Lineage
from models.item_vectors import ItemVectors
from runtime.artifact import read_manifest
from runtime.config import load_config
from runtime.errors import DataError
from schemas.click import Action, Click
from tests.builders import NOW_MS, click_of

LINEAGE = Lineage("v1", NOW_MS)


def fit(clicks: Sequence[Click], size: int = 8, seed: int = 0) -> ItemVectors:
    config = load_config(overrides={"embedding": {"size": size}})
    return ItemVectors.fit(History(tuple(clicks)), config, seed, LINEAGE)


def visits(*pairs: str, action: Action = "view") -> list[Click]:
    return [click_of(pair[0], pair[1], action=action) for pair in pairs]


def cosines(model: ItemVectors) -> dict[str, float]:
    products = model.vectors @ model.vectors.T
    return {a + b: float(products[i, j]) for i, a in enumerate(model.ids) for j, b in enumerate(model.ids)}


def test_items_of_the_same_users_lie_together_and_those_of_others_at_right_angles() -> None:
    model = fit(visits("ua", "ub", "va", "vb", "wc", "wd", "xc", "xd"))
    assert model.ids == ("a", "b", "c", "d")
    near = cosines(model)
    assert near["ab"] == pytest.approx(1.0)
    assert near["cd"] == pytest.approx(1.0)
    assert near["ac"] == pytest.approx(0.0, abs=1e-6)


def test_every_vector_has_length_one_and_the_size_that_was_asked_for() -> None:
    model = fit(visits("ua", "ub", "vb", "vc", "wa", "wc", "wd"), size=3)
    assert model.vectors.shape == (len(model.ids), 3)
    assert model.vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(model.vectors, axis=1), 1.0, rtol=1e-6)


@pytest.mark.parametrize("pairs", [("ua",), ("ua", "va", "wa"), ("ua", "ub", "uc"), ("ua", "ub", "va")])
def test_fewer_items_or_users_than_numbers_leave_the_rest_at_zero(pairs: Sequence[str]) -> None:
    model = fit(visits(*pairs), size=8)
    assert set(model.ids) == {pair[1] for pair in pairs}
    assert model.vectors.shape == (len(model.ids), 8)
    assert not model.vectors[:, len(model.ids) :].any()
    np.testing.assert_allclose(np.linalg.norm(model.vectors, axis=1), 1.0, rtol=1e-6)


def test_only_what_was_deliberate_counts_and_each_only_once() -> None:
    once = visits("ua", "ub", "va")
    noise = visits("vb", "wc", action="impression") + visits("va", action="hide") + visits("ub", "ub")
    model, plain = fit(once + noise), fit(once)
    assert model.ids == plain.ids
    assert model.vectors.tobytes() == plain.vectors.tobytes()


def test_the_order_of_the_history_does_not_matter_and_one_seed_gives_one_result() -> None:
    chance = np.random.default_rng(3)
    clicks = [click_of(f"u{user}", f"i{item}") for user, item in chance.integers(70, size=(900, 2))]
    first, second = fit(clicks, seed=5), fit(clicks[::-1], seed=5)
    assert first.vectors.tobytes() == second.vectors.tobytes()


def test_a_history_in_which_nobody_came_to_anything_is_refused() -> None:
    with pytest.raises(DataError, match="2 clicks hold none of cart, click, purchase, rating, view"):
        fit(visits("ua", "vb", action="impression"))


def test_what_is_saved_is_an_encoder(tmp_path: Path) -> None:
    model = fit(visits("ua", "ub", "vb"), size=4)
    model.save(tmp_path / "v1")
    assert Encoder.load(tmp_path / "v1").version == "v1"
    assert read_manifest(tmp_path / "v1").metrics == {"items": 2}
