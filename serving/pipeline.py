"""The request path: one readable function of named stages, the same for the worker and for a replay.

    accept > hydrate > route > recall > filter > rank > select > publish

The worker does the first and the last, which need Kafka; everything between is here. A stage takes the drafts of a
micro-batch and adds its part to each.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from features.store import FeatureStore
from features.tables import Tables
from models.contract import Candidate, Ranker, RankRequest, Scores
from runtime.clock import Clock
from runtime.config import Config
from schemas.recommendation import AnswerError, Recommendation, RecommendedItem
from schemas.request import Request
from schemas.topics import CLICKS_ACCEPTED
from serving import router
from serving.filters import filter_candidates
from serving.hydrate import Hydrator
from serving.recall import recall_candidates
from serving.select import select_top
from serving.stages import Stages

_LOG = logging.getLogger("headrace.serving")

Rankers = Mapping[str, Ranker]


@dataclass(slots=True)
class Draft:
    """One request on its way; each stage fills in its part."""

    request: Request
    rank_request: RankRequest
    degradations: list[str]
    route: router.Route = router.NOWHERE
    candidates: tuple[Candidate, ...] = ()
    scores: Scores | None = None
    items: tuple[RecommendedItem, ...] = ()
    removed: Mapping[str, int] = field(default_factory=dict)

    def take(self, chosen: router.Route) -> None:
        """Go the way of `chosen`, and say what was degraded for it."""
        self.route = chosen
        self.degradations += chosen.degradations


class Pipeline:
    """Answers requests from the store, the tables and the rankers it is given.

    `rankers` maps a model's name to the one in use; its owner may replace an entry at any moment, and a batch goes on
    with those that it began with.
    """

    def __init__(self, config: Config, store: FeatureStore, tables: Tables, rankers: Rankers, clock: Clock) -> None:
        self._config = config
        self._hydrator = Hydrator(store)
        self._tables = tables
        self._rankers = rankers
        self._clock = clock

    def answer(self, requests: Sequence[Request], stages: Stages) -> list[Recommendation]:
        """Return the final answer of each request, in their order.

        A ranker or recaller that fails is replaced by a cheaper one, and the answer says so.
        """
        rankers = dict(self._rankers)
        drafts = self._hydrate(requests)
        stages.done("hydrate", len(drafts))
        for draft in drafts:
            self._route(draft, rankers)
        stages.done("route", len(drafts))
        for draft in drafts:
            self._recall(draft, rankers)
        stages.done("recall", sum(len(draft.candidates) for draft in drafts))
        for draft in drafts:
            self._filter(draft)
        stages.done("filter", sum(len(draft.candidates) for draft in drafts))
        by_model: dict[str, list[Draft]] = {}
        for draft in drafts:
            by_model.setdefault(draft.route.model, []).append(draft)
        for model, together in by_model.items():
            self._rank(model, together, rankers)
        stages.done("rank", sum(len(draft.candidates) for draft in drafts if draft.scores is not None))
        for draft in drafts:
            if draft.scores is not None:
                draft.items = select_top(draft.candidates, draft.scores, draft.request.k, draft.request.explain)
        stages.done("select", sum(len(draft.items) for draft in drafts))
        return [self._finish(draft, rankers, stages.elapsed_ms) for draft in drafts]

    def _hydrate(self, requests: Sequence[Request]) -> list[Draft]:
        found = self._hydrator.read(requests)
        return [
            Draft(request, RankRequest(request.user_id, record, profile, request.ts), degradations)
            for request, (record, profile, degradations) in zip(requests, found, strict=True)
        ]

    def _route(self, draft: Draft, rankers: Rankers) -> None:
        chosen = None
        if draft.request.model is not None:
            chosen = router.forced(draft.request.model, rankers.keys())
            if chosen is None:
                draft.degradations.append("requested_model_unavailable")
        record, items = draft.rank_request.record, self._tables.items
        draft.take(chosen or router.route(record, items, self._config.router, rankers.keys()))

    def _recall(self, draft: Draft, rankers: Rankers) -> None:
        if draft.request.candidates is None:
            # What the filters will remove must not leave the answer short, hence a reserve for what is excluded.
            wanted = self._most_candidates(draft.request) + len(draft.request.exclude)
            recalled = recall_candidates(draft.rank_request, draft.route, rankers, self._tables, wanted)
            draft.candidates = recalled.candidates
            draft.degradations += recalled.degradations
        else:
            named = dict.fromkeys(draft.request.candidates)
            draft.candidates = tuple(Candidate(item_id, 0.0, "requested") for item_id in named)

    def _filter(self, draft: Draft) -> None:
        request = draft.request
        filtered = filter_candidates(
            draft.candidates, request, draft.rank_request.record, self._tables.items, request.ts
        )
        most = len(filtered.kept) if request.candidates is not None else self._most_candidates(request)
        draft.candidates, draft.removed = filtered.kept[:most], filtered.removed
        if len(filtered.kept) > most:
            draft.removed = {**filtered.removed, "over_the_cap": len(filtered.kept) - most}

    def _most_candidates(self, request: Request) -> int:
        return max(request.k, self._config.worker.max_candidates)

    def _rank(self, model: str, drafts: Sequence[Draft], rankers: Rankers) -> None:
        """Rank one model's drafts together; a model that fails hands them to the next cheaper tier."""
        try:
            scores = rankers[model].rank(
                [draft.rank_request for draft in drafts],
                [[candidate.item_id for candidate in draft.candidates] for draft in drafts],
                self._tables,
            )
        except Exception:
            _LOG.exception("model %s failed on %d requests", model, len(drafts))
            for draft in drafts:
                draft.degradations.append(f"{model}_failed")
            self._rank_cheaper(drafts, {name: each for name, each in rankers.items() if name != model})
            return
        for draft, each in zip(drafts, scores, strict=True):
            draft.scores = each

    def _rank_cheaper(self, drafts: Sequence[Draft], rankers: Rankers) -> None:
        cheaper = router.cheaper(drafts[0].route, rankers.keys())
        if cheaper is None:
            return
        for draft in drafts:
            draft.take(router.Route(cheaper.tier, cheaper.model, draft.route.reason, cheaper.degradations))
        self._rank(cheaper.model, drafts, rankers)

    def _finish(self, draft: Draft, rankers: Rankers, stage_ms: Mapping[str, float]) -> Recommendation:
        request, record, now_ms = draft.request, draft.rank_request.record, self._clock.now_ms()
        if now_ms > request.deadline_ms:
            draft.degradations.append("deadline_missed")
        ranker = rankers.get(draft.route.model)
        return Recommendation(
            request_id=request.request_id,
            ts=now_ms,
            user_id=request.user_id,
            items=draft.items,
            final=True,
            tier=draft.route.tier,
            model=draft.route.model,
            model_version=ranker.version if ranker else "none",
            precision=ranker.precision if ranker else "none",
            route_reason=draft.route.reason,
            degradations=tuple(draft.degradations),
            state_read={} if record is None else {CLICKS_ACCEPTED.name: record.position},
            feature_age_ms=None if record is None else max(0, request.ts - record.last_ts),
            stage_ms=dict(stage_ms),
            removed=dict(draft.removed),
            error=_why_empty(draft),
        )


def _why_empty(draft: Draft) -> AnswerError | None:
    if draft.items:
        return None
    if draft.candidates and draft.scores is None:
        return AnswerError(code="ranking_failed", message="no ranker could score the candidates; see the worker's log")
    if draft.request.candidates is None and not draft.candidates and not draft.removed:
        message = "no recaller had anything to propose yet; are clicks coming in?"
        return AnswerError(code="no_candidates", message=message)
    removed = ", ".join(f"{reason} {count}" for reason, count in draft.removed.items()) or "nothing"
    return AnswerError(code="no_candidates", message=f"nothing is left to recommend; filters removed: {removed}")
