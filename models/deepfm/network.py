"""The network: deepctr-torch's DeepFM over groups of candidates, so that it learns to order them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from models.deepfm.inputs import LAST_ITEMS, LAST_ITEMS_LENGTH, Inputs
from models.deepfm.library import quiet_deepctr
from models.deepfm.vocabulary import ITEM


@dataclass(frozen=True, slots=True)
class Shape:
    embedding: int = 8
    hidden: tuple[int, ...] = (64, 32)
    dropout: float = 0.1
    l2_embedding: float = 1e-5
    l2_linear: float = 1e-5
    init_std: float = 0.01


def build_network(inputs: Inputs, shape: Shape, seed: int) -> Any:
    quiet_deepctr()
    from deepctr_torch.inputs import DenseFeat, SparseFeat, VarLenSparseFeat
    from deepctr_torch.models import DeepFM

    sizes = inputs.vocabulary.sizes

    class Net(DeepFM):
        def forward(self, x):
            groups, each = x.shape[0], x.shape[1] // inputs.width
            return super().forward(x.reshape(-1, inputs.width)).reshape(groups, each)

    sparse = [SparseFeat(n.replace(".", "_"), sizes[n], shape.embedding) for n in inputs.sparse]
    last = VarLenSparseFeat(
        SparseFeat(LAST_ITEMS, sizes[ITEM], shape.embedding, embedding_name=ITEM), LAST_ITEMS_LENGTH, "mean"
    )
    dense = [DenseFeat(n) for n in inputs.dense]
    # order of columns
    allc = [*sparse, last, *dense]
    return Net(
        allc,
        allc,
        dnn_hidden_units=shape.hidden,
        dnn_dropout=shape.dropout,
        l2_reg_embedding=shape.l2_embedding,
        l2_reg_linear=shape.l2_linear,
        init_std=shape.init_std,
        seed=seed,
        task="regression",
    )
