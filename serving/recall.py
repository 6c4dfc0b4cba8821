"""Which items are ranked at all: the union of what the recallers propose."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from features.tables import Tables
from models.contract import Candidate, Ranker, RankRequest
from serving.router import CHEAPER, MODEL_OF_TIER, Route

_LOG = logging.getLogger("headrace.serving")


@dataclass(frozen=True, slots=True)
class Recalled:
    """Distinct candidates, and which recallers failed to propose theirs."""

    candidates: tuple[Candidate, ...]
    degradations: tuple[str, ...]


def recall_candidates(
    request: RankRequest, route: Route, rankers: Mapping[str, Ranker], tables: Tables, wanted: int
) -> Recalled:
    """Return up to `wanted` candidates: those of the route's own model first, then those of each cheaper one.

    A cheap recaller fills up what a sparse or failing one leaves open, so that nobody goes without an answer.
    """
    distinct: dict[str, Candidate] = {}
    failed: list[str] = []
    for model in _models_from(route):
        if model not in rankers or len(distinct) >= wanted:
            continue
        try:
            proposed = rankers[model].recall(request, tables, wanted)
        except Exception:
            _LOG.exception("recall of %s failed", model)
            failed.append(f"{model}_recall_failed")
            continue
        for candidate in proposed:
            distinct.setdefault(candidate.item_id, candidate)
    return Recalled(tuple(distinct.values())[:wanted], tuple(failed))


def _models_from(route: Route) -> Iterator[str]:
    tier = route.tier
    yield route.model
    while tier in CHEAPER:
        tier = CHEAPER[tier]
        yield MODEL_OF_TIER[tier]
