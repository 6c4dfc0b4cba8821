"""DeepFM compiled for serving: what depends on the item alone is computed once, what depends on the user, per request.

With e_f the embedding of field f, the factorisation machine's pairwise term is half of |sum e|^2 - sum |e|^2, and a
first dense layer is linear in its inputs. Both split into a part of the user's fields, a part of the item's, and, for
the former, one inner product of the two sums:

    |u + i|^2 - q_u - q_i  =  (|u|^2 - q_u) + (|i|^2 - q_i) + 2 u.i

Each side is therefore a `Half`: its share of the first layer, its sum of embeddings and one number, which holds its
linear terms too. The items' halves lie in one table. A candidate then costs a row of that table, an addition, an
inner product and the layers behind the first. Features of the pair, which neither side knows alone, are dense and
enter the first layer as they are.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


_EPSILON = 1e-8
"""What the library adds to the number of values that it takes the mean of."""


class Layer(NamedTuple):
    """One dense layer, its batch normalisation folded in: `weight` of shape (out, in), `bias` of shape (out,)."""

    weight: "Tensor"
    bias: "Tensor"


@dataclass(frozen=True, slots=True)
class Half:
    """One side's contribution, for `n` rows: all of it in one table of shape (n, hidden + embedding + 1)."""

    table: "Tensor"
    hidden: int

    @property
    def first_layer(self) -> "Tensor":
        """Share of the first layer before its activation, shape (n, hidden)."""
        return self.table[:, : self.hidden]

    @property
    def embeddings(self) -> "Tensor":
        """Sum of the side's embeddings, shape (n, embedding)."""
        return self.table[:, self.hidden : -1]

    @property
    def score(self) -> "Tensor":
        """The side's part of the score without the network, shape (n,)."""
        return self.table[:, -1]


class CompiledDeepFm:
    """Scores like `network`, a deepctr-torch DeepFM with ReLU, within rounding.

    `user`, `item` and `pair` name the feature columns of each side, which together are all of the network's; those of
    `pair` must be dense. Raises `ValueError` for a network that cannot be compiled.
    """

    def __init__(self, network: Any, user: Collection[str], item: Collection[str], pair: Sequence[str]) -> None:
        _require_compilable(network, user, item, pair)
        network.eval()
        first, *self._deeper = _layers(network)
        layer, linear = _first_layer_by_column(network, first.weight), _linear_by_column(network)
        self._user = _Side(network, user, layer, linear, first.bias, network.out.bias.detach())
        self._item = _Side(network, item, layer, linear)
        self._pair_layer = _stacked([layer[name] for name in pair], len(first.bias))
        self._pair_linear = _stacked([linear[name][:, None] for name in pair], 1)[:, 0]
        self._output = network.dnn_linear.weight.detach()[0]

    def users(self, rows: "Tensor") -> Half:
        """Return the users' side of `rows`, float32 of shape (n, width), of which only its columns are read."""
        return self._user.half(rows)

    def items(self, rows: "Tensor") -> Half:
        """Return the items' side of `rows`, float32 of shape (n, width), of which only its columns are read."""
        return self._item.half(rows)

    def scores(self, users: Half, counts: "Tensor", items: Half, chosen: "Tensor", pairs: "Tensor") -> "Tensor":
        """Return the score of each candidate, float32 of shape (n,).

        User r has the next `counts[r]` candidates, int64 of shape (users,); `chosen` holds the candidates' rows in
        `items`, int64 of shape (n,); `pairs` their pair features in the order of the constructor's, shape (n, pairs).
        """
        import torch

        with torch.inference_mode():
            candidates = Half(items.table.index_select(0, chosen), items.hidden)
            if len(users.table) == 1:
                own = users
                affinity = candidates.embeddings @ users.embeddings[0]
            else:
                own = Half(users.table.repeat_interleave(counts, 0), users.hidden)
                affinity = (candidates.embeddings * own.embeddings).sum(1)
            score = affinity.add_(candidates.score).add_(own.score)
            hidden = candidates.first_layer + own.first_layer
            if pairs.shape[1]:
                hidden.addmm_(pairs, self._pair_layer)
                score.addmv_(pairs, self._pair_linear)
            hidden.relu_()
            for weight, bias in self._deeper:
                hidden = torch.addmm(bias, hidden, weight.T).relu_()
            return score.addmv_(hidden, self._output)


class _Side:
    """Makes the halves of one side: its embeddings lie in one table, so that one lookup finds those of all columns."""

    def __init__(
        self,
        network: Any,
        names: Collection[str],
        layer: Mapping[str, "Tensor"],
        linear: Mapping[str, "Tensor"],
        bias: "Tensor | None" = None,
        score: "Tensor | None" = None,
    ) -> None:
        import torch

        columns = [each for each in network.dnn_feature_columns if each.name in names]
        embedded, dense, index = _sparse_first(columns), _dense(columns), network.feature_index
        self._size = next(iter(network.embedding_dict.values())).embedding_dim
        self._hidden = network.dnn.linears[0].out_features
        tables = [_with_linear_weight(network, each) for each in embedded]
        self._table = torch.cat([torch.empty(0, self._size + 1), *tables])
        offsets = [0, *accumulate(map(len, tables))]
        single = [place for place, each in enumerate(embedded) if not hasattr(each, "maxlen")]
        self._single = torch.tensor([index[embedded[place].name][0] for place in single], dtype=torch.long)
        self._offsets = torch.tensor([offsets[place] for place in single], dtype=torch.long)
        self._pooled = [
            (slice(*index[each.name]), offset, each.combiner == "mean")
            for each, offset in zip(embedded, offsets, strict=False)
            if hasattr(each, "maxlen")
        ]
        self._layer = _stacked([layer[each.name] for each in embedded], self._hidden)
        self._dense = torch.tensor([at for each in dense for at in range(*index[each.name])], dtype=torch.long)
        self._dense_layer = _stacked([layer[each.name] for each in dense], self._hidden)
        self._dense_linear = _stacked([linear[each.name][:, None] for each in dense], 1)[:, 0]
        self._bias, self._score = bias, score

    def half(self, rows: "Tensor") -> Half:
        """Return the half of each of `rows`."""
        import torch

        with torch.inference_mode():
            # The last number of an embedding is the column's weight in the linear part.
            found = self._table[rows.index_select(1, self._single).long() + self._offsets]
            if self._pooled:
                found = torch.cat([found, *(self._pool(rows, *each) for each in self._pooled)], 1)
            embeddings = found[:, :, :-1]
            total = found.sum(1)
            half = Half(torch.empty(len(rows), self._hidden + self._size + 1), self._hidden)
            torch.mm(embeddings.reshape(len(rows), len(self._layer)), self._layer, out=half.first_layer)
            half.embeddings.copy_(total[:, :-1])
            pairwise = (half.embeddings.square().sum(1) - embeddings.square().sum((1, 2))) / 2
            torch.add(pairwise, total[:, -1], out=half.score)
            if len(self._dense):
                values = rows.index_select(1, self._dense)
                half.first_layer.addmm_(values, self._dense_layer)
                half.score.addmv_(values, self._dense_linear)
            if self._bias is not None:
                half.first_layer.add_(self._bias)
            if self._score is not None:
                half.score.add_(self._score)
            return half

    def _pool(self, rows: "Tensor", columns: slice, offset: int, mean: bool) -> "Tensor":
        """Return the pooled embedding of a column of many values, of shape (n, 1, size + 1); 0 pads."""
        indices = rows[:, columns].long()
        present = (indices != 0).float()
        if mean:
            present /= present.sum(1, keepdim=True) + _EPSILON
        return present[:, None] @ self._table[indices + offset]


def _require_compilable(network: Any, user: Collection[str], item: Collection[str], pair: Collection[str]) -> None:
    """Raise `ValueError` for a network whose forward is not the one that is compiled here."""
    import torch

    names = [column.name for column in network.dnn_feature_columns]
    sides = [*user, *item, *pair]
    linear = network.linear_model
    of_linear = [*linear.sparse_feature_columns, *linear.varlen_sparse_feature_columns, *linear.dense_feature_columns]
    if sorted(names) != sorted(sides):
        raise ValueError(f"the network has the features {sorted(names)}, the sides {sorted(sides)}")
    if embedded := set(pair) - {column.name for column in linear.dense_feature_columns if column.dimension == 1}:
        raise ValueError(f"features of the pair must be single numbers, not {', '.join(sorted(embedded))}")
    if {column.name for column in of_linear} != set(names):
        raise ValueError("the linear part of the network must have the features of its deep part")
    if not (network.use_fm and network.use_dnn):
        raise ValueError("the network must have both a factorisation machine and dense layers")
    if measured := [each.name for each in linear.varlen_sparse_feature_columns if each.length_name is not None]:
        raise ValueError(f"{', '.join(measured)} must be padded with 0, not come with a length")
    if pooled_by_max := [each.name for each in linear.varlen_sparse_feature_columns if each.combiner == "max"]:
        # To the library the largest of no values is -1e9, whose square leaves nothing of the rest.
        raise ValueError(f"{', '.join(pooled_by_max)} must be pooled by mean or sum, not by max")
    others = {type(each).__name__ for each in network.dnn.activation_layers if not isinstance(each, torch.nn.ReLU)}
    if others:
        raise ValueError(f"the network's activations must be ReLU, not {', '.join(sorted(others))}")
    if network.out.task != "regression":
        raise ValueError(f"the network's task must be regression, whose scores are raw, not {network.out.task}")


def _layers(network: Any) -> list[Layer]:
    """Return the dense layers; a batch normalisation behind one is a scale and a shift of its outputs."""
    layers = []
    for place, linear in enumerate(network.dnn.linears):
        weight, bias = linear.weight.detach(), linear.bias.detach()
        if network.dnn.use_bn:
            norm = network.dnn.bn[place]
            scale = norm.weight.detach() / (norm.running_var + norm.eps).sqrt()
            weight, bias = weight * scale[:, None], (bias - norm.running_mean) * scale + norm.bias.detach()
        layers.append(Layer(weight, bias))
    return layers


def _first_layer_by_column(network: Any, weight: "Tensor") -> dict[str, "Tensor"]:
    """Return each column's part of the first layer's `weight`, of shape (its inputs, hidden)."""
    import torch

    columns = network.dnn_feature_columns
    widths = [(each.name, each.embedding_dim) for each in _sparse_first(columns)]
    widths += [(each.name, each.dimension) for each in _dense(columns)]
    parts = torch.split(weight.T.contiguous(), [width for _, width in widths])
    return {name: part for (name, _), part in zip(widths, parts, strict=True)}


def _linear_by_column(network: Any) -> dict[str, "Tensor"]:
    """Return each dense column's weights in the linear part, of shape (its inputs,)."""
    columns = network.linear_model.dense_feature_columns
    if not columns:
        return {}
    parts = network.linear_model.weight.detach()[:, 0].split([each.dimension for each in columns])
    return {column.name: part for column, part in zip(columns, parts, strict=True)}


def _with_linear_weight(network: Any, column: Any) -> "Tensor":
    """Return a column's embeddings, of shape (vocabulary, size + 1), each with its weight in the linear part behind."""
    import torch

    embedding, linear = network.embedding_dict, network.linear_model.embedding_dict
    name = column.embedding_name
    return torch.cat([embedding[name].weight.detach(), linear[name].weight.detach()], 1)


def _sparse_first(columns: Sequence[Any]) -> list[Any]:
    """Return the embedded columns as the library orders them: those of one value, then those of many."""
    from deepctr_torch.inputs import SparseFeat, VarLenSparseFeat

    return [each for kind in (SparseFeat, VarLenSparseFeat) for each in columns if isinstance(each, kind)]


def _dense(columns: Sequence[Any]) -> list[Any]:
    from deepctr_torch.inputs import DenseFeat

    return [each for each in columns if isinstance(each, DenseFeat)]


def _stacked(parts: Sequence["Tensor"], width: int) -> "Tensor":
    """Return `parts` below each other; of shape (0, width) where there are none."""
    import torch

    return torch.cat([torch.empty(0, width), *parts])
