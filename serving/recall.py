"""Which items are ranked at all: the union of what the recallers propose, or what the request names."""

from collections.abc import Iterator, Mapping
from itertools import chain

from features.tables import Tables
from models.contract import Candidate, Ranker, RankRequest
from runtime.config import WorkerConfig
from schemas.request import Request
from serving.router import CHEAPER, MODEL_OF_TIER, Route

REQUESTED = "requested"


def recall_candidates(
    request: Request,
    rank_request: RankRequest,
    route: Route,
    rankers: Mapping[str, Ranker],
    tables: Tables,
    config: WorkerConfig,
) -> tuple[Candidate, ...]:
    """Return distinct candidates, those of the route's own model first, then those of each cheaper one.

    A cheap recaller fills up what a sparse one leaves open, so that nobody goes without an answer. At most
    `config.max_candidates`, but all that the request itself names.
    """
    if request.candidates is not None:
        return tuple(Candidate(item_id, 0.0, REQUESTED) for item_id in dict.fromkeys(request.candidates))
    recallers = (rankers[model] for model in _models_from(route) if model in rankers)
    # What filters remove must not leave the answer short, hence a reserve of as many as the request excludes.
    wanted = config.max_candidates + len(request.exclude)
    proposed = chain.from_iterable(ranker.recall(rank_request, tables, wanted) for ranker in recallers)
    distinct: dict[str, Candidate] = {}
    for candidate in proposed:
        distinct.setdefault(candidate.item_id, candidate)
        if len(distinct) == wanted:
            break
    return tuple(distinct.values())


def _models_from(route: Route) -> Iterator[str]:
    tier = route.tier
    yield route.model
    while tier in CHEAPER:
        tier = CHEAPER[tier]
        yield MODEL_OF_TIER[tier]
