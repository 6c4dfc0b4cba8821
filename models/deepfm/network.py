"""The network: deepctr-torch's DeepFM over groups of candidates, so that it learns to order them."""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from models.deepfm.compiled import CompiledDeepFm
from models.deepfm.inputs import LAST_ITEMS, LAST_ITEMS_LENGTH, Inputs, Matrix
from models.deepfm.library import quiet_deepctr
from models.vocabulary import ITEM

Weights = dict[str, NDArray[np.float32]]


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sizes of the network; small, since on 10,000 groups larger ones only learn their noise sooner."""

    embedding: int = 4
    hidden: tuple[int, ...] = (32, 16)


L2 = 1e-2
"""Per batch of summed losses. With 1e-5, the library's default, the first epoch is the best."""

INITIAL_SPREAD = 0.01


def build_network(inputs: Inputs, shape: Shape, seed: int) -> Any:
    """Return a `DeepFM` whose forward takes (groups, candidates * width) and returns (groups, candidates).

    The candidate and the pooled last items share one embedding, so that the factorisation machine's product of the
    two is a learned similarity. Columns are called by their place: a profile attribute may have any name.
    """
    quiet_deepctr()
    from deepctr_torch.inputs import DenseFeat, SparseFeat, VarLenSparseFeat
    from deepctr_torch.models import DeepFM

    class GroupedDeepFM(DeepFM):  # type: ignore[misc]
        def forward(self, groups: Any) -> Any:
            return super().forward(groups.reshape(-1, inputs.width)).reshape(len(groups), -1)

    sizes = inputs.vocabulary.sizes
    item = f"sparse_{inputs.sparse.index(ITEM)}"
    last = SparseFeat(LAST_ITEMS, sizes[ITEM], shape.embedding, embedding_name=item)
    columns = [
        *(SparseFeat(f"sparse_{at}", sizes[name], shape.embedding) for at, name in enumerate(inputs.sparse)),
        VarLenSparseFeat(last, LAST_ITEMS_LENGTH, "mean"),
        *(DenseFeat(f"dense_{at}") for at in range(len(inputs.dense))),
    ]
    return GroupedDeepFM(
        columns,
        columns,
        dnn_hidden_units=shape.hidden,
        l2_reg_linear=L2,
        l2_reg_embedding=L2,
        init_std=INITIAL_SPREAD,
        seed=seed,
        task="regression",  # raw scores: the loss compares them within their group
    ).eval()


def compile_network(network: Any, inputs: Inputs) -> CompiledDeepFm:
    """Return what scores like `network`, with its columns by side."""
    item_at = inputs.sparse.index(ITEM)
    return CompiledDeepFm(
        network,
        user=[*(f"sparse_{at}" for at in range(item_at)), LAST_ITEMS],
        item=[f"sparse_{at}" for at in range(item_at, len(inputs.sparse))],
        pair=[f"dense_{at}" for at in range(len(inputs.dense))],
    )


def score_rows(network: Any, rows: Matrix) -> NDArray[np.float32]:
    """Return the scores of scaled `rows` of shape (rows, width)."""
    import torch

    with torch.inference_mode():
        scores: NDArray[np.float32] = network(torch.from_numpy(rows.reshape(1, -1)))[0].numpy()
    return scores


def get_weights(network: Any) -> Weights:
    """Return a copy of every weight, by name."""
    return {name: tensor.numpy(force=True).copy() for name, tensor in network.state_dict().items()}


def set_weights(network: Any, weights: Weights) -> None:
    """Put `weights` into the network; raise `ValueError` if names or shapes are not the network's."""
    import torch

    expected = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    found = {name: array.shape for name, array in weights.items()}
    if found != expected:
        differing = sorted(set(found.items()) ^ set(expected.items()))
        raise ValueError(f"the weights do not fit the network, first at {differing[0][0]}")
    network.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in weights.items()})
