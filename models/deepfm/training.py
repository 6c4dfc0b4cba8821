"""Training: which rows, which loss, when to stop."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from features.candidate import FEATURES
from models.contract import History, Progress
from models.deepfm.inputs import Inputs, Matrix, Scaling
from models.deepfm.network import Shape, Weights, build_network, get_weights, score_rows, set_weights
from models.samples import Samples, collect, ndcg
from models.vocabulary import build_vocabulary
from runtime.config import Config

BATCH_GROUPS = 64
MAX_EPOCHS = 6
LEARNING_RATE = 5e-4
NAME = "deepfm"


@dataclass(frozen=True, slots=True)
class Trained:
    """The best network, with what it needs to be used and the record of how it came about."""

    inputs: Inputs
    scaling: Scaling
    shape: Shape
    network: Any
    curve: list[dict[str, float]]
    metrics: dict[str, float]


def train_deepfm(history: History, config: Config, seed: int, progress: Progress) -> Trained:
    """Return the network that was best on the end of `history`; `DataError` if that is too short to learn from."""
    inputs = Inputs(build_vocabulary(history), tuple(FEATURES))
    samples = collect(
        NAME,
        history,
        config,
        lambda moment, tables: inputs.rows(moment.request, moment.candidates, tables),
        np.random.default_rng(seed),
        progress,
    )
    scaling = inputs.scaling(samples.groups)
    for rows in (samples.groups, *samples.validation):
        inputs.scale(rows, scaling)
    network = build_network(inputs, Shape(), seed)
    curve = _fit(network, inputs, samples, seed, progress)
    best = min(curve, key=lambda epoch: epoch["validation_loss"])
    metrics = {name: value for name, value in best.items() if name.startswith("validation")}
    metrics["validation_ndcg10_cf"] = _item_cf_ndcg(inputs, samples.validation)
    metrics |= {"groups": float(len(samples.groups)), "validation_moments": float(len(samples.validation))}
    return Trained(inputs, scaling, Shape(), network, curve, metrics)


def _fit(network: Any, inputs: Inputs, samples: Samples, seed: int, progress: Progress) -> list[dict[str, float]]:
    """Train until an epoch is no better on the validation part; leave the best weights in; return the curve."""
    import torch

    network.compile(torch.optim.Adam(network.parameters(), lr=LEARNING_RATE), loss=_listwise_loss)
    rng = np.random.default_rng(seed)
    curve: list[dict[str, float]] = []
    best: Weights = {}
    # The library shuffles with torch's global generator; what others draw from it stays as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for epoch in range(MAX_EPOCHS):
            progress(epoch, MAX_EPOCHS, "training")
            rows = samples.groups.copy()
            inputs.forget(rows, rng)
            unused_labels = np.zeros(len(rows), np.float32)
            fitted = network.fit(
                [rows.reshape(len(rows), -1)], unused_labels, batch_size=BATCH_GROUPS, epochs=1, verbose=0
            )
            network.eval()
            loss, ndcg = _evaluate(network, samples.validation)
            curve.append(
                {
                    "epoch": float(epoch + 1),
                    "loss": float(fitted.history["loss"][-1]),
                    "validation_loss": loss,
                    "validation_ndcg10": ndcg,
                }
            )
            if loss > min(each["validation_loss"] for each in curve):
                break
            best = get_weights(network)
    set_weights(network, best)
    progress(MAX_EPOCHS, MAX_EPOCHS, "training")
    return curve


def _listwise_loss(scores: Any, _labels: Any, reduction: str) -> Any:
    """Softmax cross-entropy over each group, of which the first candidate was chosen (Cao et al., ICML 2007)."""
    import torch

    assert reduction == "sum"
    return -torch.log_softmax(scores, dim=1)[:, 0].sum()


def _evaluate(network: Any, validation: list[Matrix]) -> tuple[float, float]:
    """Return the mean listwise loss and nDCG@10 over all candidates of each moment."""
    scores = score_rows(network, np.concatenate(validation)).astype(np.float64)
    ends = np.cumsum([len(rows) for rows in validation])
    each = np.split(scores, ends[:-1])
    losses = [np.logaddexp.reduce(one) - one[0] for one in each]
    return float(np.mean(losses)), float(np.mean([ndcg(one) for one in each]))


def _item_cf_ndcg(inputs: Inputs, validation: list[Matrix]) -> float:
    """Return the nDCG@10 of item-item CF over the last ten items on the same moments, to compare with."""
    column = inputs.dense.index("cf_last_10") - len(inputs.dense)
    return float(np.mean([ndcg(rows[:, column]) for rows in validation]))
