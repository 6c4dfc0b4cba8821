"""The compiled scorer gives the library's own scores, whatever the network is made of."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.deepfm.compiled import CompiledDeepFm
from models.deepfm.library import quiet_deepctr

quiet_deepctr()
from deepctr_torch.inputs import DenseFeat, SparseFeat, VarLenSparseFeat, build_input_features  # noqa: E402
from deepctr_torch.models import DeepFM  # noqa: E402

VOCABULARY, LONGEST = 11, 4


@st.composite
def networks(draw: st.DrawFn) -> tuple[Any, dict[str, list[str]]]:
    """A random network, and the names of its columns by side."""
    size = draw(st.integers(1, 5))
    columns: list[Any] = []
    sides: dict[str, list[str]] = {"user": [], "item": [], "pair": []}
    for side, names in sides.items():
        kinds = st.sampled_from(("dense",) if side == "pair" else ("sparse", "tags", "dense"))
        for place, kind in enumerate(draw(st.lists(kinds, min_size=0 if side == "pair" else 1, max_size=4))):
            names.append(name := f"{side}_{place}")
            if kind == "dense":
                columns.append(DenseFeat(name, draw(st.integers(1, 3)) if side != "pair" else 1))
            elif kind == "sparse":
                columns.append(SparseFeat(name, VOCABULARY, size))
            else:
                combiner = draw(st.sampled_from(("mean", "sum")))
                columns.append(VarLenSparseFeat(SparseFeat(name, VOCABULARY, size), LONGEST, combiner))
    columns.append(SparseFeat("item_id", VOCABULARY, size))
    sides["item"].append("item_id")
    network = DeepFM(
        draw(st.permutations(columns)),
        columns,
        dnn_hidden_units=tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))),
        dnn_use_bn=draw(st.booleans()),
        init_std=0.3,
        seed=draw(st.integers(0, 1_000)),
        task="regression",
    )
    _unsettle(network)
    return network.eval(), sides


def _unsettle(network: Any) -> None:
    """Give every parameter and statistic that starts at 0 or 1 a value of its own."""
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if name.endswith(("bias", "running_mean")) or (".bn." in name and name.endswith("weight")):
                tensor.normal_()
            elif name.endswith("running_var"):
                tensor.uniform_(0.5, 2.0)


def rows_of(network: Any, count: int) -> torch.Tensor:
    """Random rows of every column, of which one value in five is the padding of 0."""
    index = build_input_features(network.dnn_feature_columns)
    rows = torch.empty(count, max(end for _, end in network.feature_index.values()))
    for column in network.dnn_feature_columns:
        start, end = network.feature_index[column.name]
        shape = (count, end - start)
        if isinstance(column, DenseFeat):
            rows[:, start:end] = torch.randn(shape)
        else:
            rows[:, start:end] = torch.randint(0, VOCABULARY, shape) * (torch.rand(shape) > 0.2)
    assert index.keys() == network.feature_index.keys()
    return rows


@settings(max_examples=150)
@given(networks(), st.lists(st.integers(0, 7), min_size=1, max_size=4), st.integers(0, 1_000))
def test_the_scores_are_those_of_the_librarys_forward(
    made: tuple[Any, dict[str, list[str]]], counts: list[int], seed: int
) -> None:
    network, sides = made
    torch.manual_seed(seed)
    scorer = CompiledDeepFm(network, **sides)
    items, users, pairs = rows_of(network, 9), rows_of(network, len(counts)), rows_of(network, sum(counts))
    chosen, count = torch.randint(0, len(items), (sum(counts),)), torch.tensor(counts)
    rows = users.repeat_interleave(count, 0)
    for name in sides["item"]:
        rows[:, slice(*network.feature_index[name])] = items[chosen][:, slice(*network.feature_index[name])]
    places = [network.feature_index[name][0] for name in sides["pair"]]
    rows[:, places] = pairs[:, places]
    with torch.inference_mode():
        expected = network(rows)[:, 0]
    found = scorer.scores(scorer.users(users), count, scorer.items(items), chosen, pairs[:, places])
    # Sums of some tens of products of this size: what single precision leaves of them.
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def network_of(*columns: Any, linear: list[Any] | None = None, **options: Any) -> Any:
    settings_ = {"dnn_hidden_units": (3,), "task": "regression"} | options
    return DeepFM(list(columns) if linear is None else linear, list(columns), **settings_)


USER, ITEM, PAIR = SparseFeat("user", 5, 2), SparseFeat("item", 5, 2), DenseFeat("pair")


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (network_of(USER, ITEM), r"features \['item', 'user'\], the sides \['item', 'pair', 'user'\]"),
        (network_of(USER, ITEM, SparseFeat("pair", 5, 2)), "must be single numbers, not pair"),
        (network_of(USER, ITEM, DenseFeat("pair", 2)), "must be single numbers, not pair"),
        (network_of(USER, ITEM, PAIR, linear=[USER, PAIR]), "the features of its deep part"),
        (network_of(USER, ITEM, PAIR, use_fm=False), "both a factorisation machine and dense layers"),
        (network_of(USER, ITEM, PAIR, dnn_hidden_units=()), "both a factorisation machine and dense layers"),
        (network_of(USER, ITEM, PAIR, dnn_activation="sigmoid"), "must be ReLU, not Sigmoid"),
        (network_of(USER, ITEM, PAIR, task="binary"), "must be regression"),
        (network_of(USER, VarLenSparseFeat(ITEM, 3, length_name="n"), PAIR), "item must be padded with 0"),
        (network_of(USER, VarLenSparseFeat(ITEM, 3, "max"), PAIR), "item must be pooled by mean or sum"),
    ],
)
def test_a_network_that_it_cannot_compile_is_refused_with_the_reason(network: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CompiledDeepFm(network, ["user"], ["item"], ["pair"])
