"""The request path: one readable function of named stages, the same for the worker and for a replay.

    accept > hydrate > route > recall > filter > rank > select > publish

The worker does the first and the last, which need Kafka; everything between is here. A stage takes the drafts of a
micro-batch, adds its part to each, and is timed and counted under its own name.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from features.store import Family, FeatureStore, Stored
from features.tables import Tables
from features.user_record import UserRecord, parse_record
from models.contract import Candidate, Ranker, RankRequest, Scores
from runtime.clock import Clock
from runtime.config import Config
from runtime.errors import StoreUnavailable
from schemas.codec import decode
from schemas.errors import MessageError
from schemas.recommendation import AnswerError, Recommendation, RecommendedItem
from schemas.request import Request
from schemas.topics import CLICKS_ACCEPTED
from schemas.user import User
from serving import router
from serving.filters import filter_candidates
from serving.recall import recall_candidates
from serving.select import select_top

_LOG = logging.getLogger("headrace.serving")


@dataclass(slots=True)
class Draft:
    """One request on its way; each stage fills in its part."""

    request: Request
    rank_request: RankRequest
    route: router.Route = router.NOWHERE
    candidates: tuple[Candidate, ...] = ()
    scores: Scores | None = None
    items: tuple[RecommendedItem, ...] = ()
    degradations: list[str] = field(default_factory=list)
    removed: Mapping[str, int] = field(default_factory=dict)

    @property
    def record(self) -> UserRecord | None:
        """The user's record as it was read, None for a stranger."""
        return self.rank_request.record


class StageTimes:
    """Milliseconds spent in each stage of one micro-batch."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.monotonic_ms()
        self.by_stage: dict[str, float] = {}

    def done(self, stage: str) -> None:
        """Book the time since the last stage ended on `stage`."""
        now = self._clock.monotonic_ms()
        self.by_stage[stage] = round(now - self._since, 3)
        self._since = now


class Pipeline:
    """Answers requests from the store, the tables and the rankers it is given.

    `rankers` maps a model's name to the one in use; the owner may replace an entry between two batches.
    """

    def __init__(
        self, config: Config, store: FeatureStore, tables: Tables, rankers: Mapping[str, Ranker], clock: Clock
    ) -> None:
        self._config = config
        self._store = store
        self._tables = tables
        self._rankers = rankers
        self._clock = clock

    def answer(self, requests: Sequence[Request], times: StageTimes) -> list[Recommendation]:
        """Return the final answer of each request, in their order; never raises for what a request holds."""
        drafts = self._hydrate(requests)
        times.done("hydrate")
        for draft in drafts:
            self._route(draft)
        times.done("route")
        for draft in drafts:
            draft.candidates = recall_candidates(
                draft.request,
                draft.rank_request,
                draft.route,
                self._rankers,
                self._tables,
                self._config.worker,
            )
        times.done("recall")
        for draft in drafts:
            self._filter(draft)
        times.done("filter")
        for model in sorted({draft.route.model for draft in drafts}):
            self._rank(model, [draft for draft in drafts if draft.route.model == model])
        times.done("rank")
        for draft in drafts:
            if draft.scores is not None:
                draft.items = select_top(draft.candidates, draft.scores, draft.request.k, draft.request.explain)
        times.done("select")
        return [self._finish(draft, times.by_stage) for draft in drafts]

    def _hydrate(self, requests: Sequence[Request]) -> list[Draft]:
        """Read all records and profiles of the batch at once; without the store everybody is a stranger."""
        keys = [key(request.user_id) for request in requests for key in (Family.USER.key, Family.PROFILE.key)]
        unavailable = False
        try:
            stored = self._store.get_many(keys)
        except StoreUnavailable as error:
            _LOG.warning("answering without the store: %s", error)
            stored = [None] * len(keys)
            unavailable = True
        drafts = []
        for request, record, profile in zip(requests, stored[::2], stored[1::2], strict=True):
            degradations = ["store_unavailable"] if unavailable else []
            rank_request = RankRequest(
                user_id=request.user_id,
                record=_record(record, degradations),
                profile=_profile(profile, degradations),
                now_ms=request.ts,
            )
            drafts.append(Draft(request=request, rank_request=rank_request, degradations=degradations))
        return drafts

    def _route(self, draft: Draft) -> None:
        chosen = None
        if draft.request.model is not None:
            chosen = router.forced(draft.request.model, self._rankers.keys())
            if chosen is None:
                draft.degradations.append("requested_model_unavailable")
        if chosen is None:
            chosen = router.route(draft.record, self._tables.items, self._config.router, self._rankers.keys())
        self._take_route(draft, chosen)

    def _take_route(self, draft: Draft, chosen: router.Route) -> None:
        draft.route = chosen
        draft.degradations += chosen.degradations

    def _filter(self, draft: Draft) -> None:
        filtered = filter_candidates(
            draft.candidates, draft.request, draft.record, self._tables.items, draft.request.ts
        )
        cap = None if draft.request.candidates is not None else self._config.worker.max_candidates
        draft.candidates, draft.removed = filtered.kept[:cap], filtered.removed

    def _rank(self, model: str, drafts: Sequence[Draft]) -> None:
        """Rank one model's drafts together; a model that fails hands them to the next cheaper tier."""
        try:
            scores = self._rankers[model].rank(
                [draft.rank_request for draft in drafts],
                [[candidate.item_id for candidate in draft.candidates] for draft in drafts],
                self._tables,
            )
        except Exception:
            _LOG.exception("model %s failed on %d requests", model, len(drafts))
            left = {name: ranker for name, ranker in self._rankers.items() if name != model}
            for draft in drafts:
                draft.degradations.append(f"{model}_failed")
                self._take_route(draft, router.fall_back_to(draft.route, left.keys()))
            cheaper = drafts[0].route.model
            if cheaper in left:
                self._rank(cheaper, drafts)
            return
        for draft, each in zip(drafts, scores, strict=True):
            draft.scores = each

    def _finish(self, draft: Draft, stage_ms: Mapping[str, float]) -> Recommendation:
        request, record, now_ms = draft.request, draft.record, self._clock.now_ms()
        if now_ms > request.deadline_ms:
            draft.degradations.append("deadline_missed")
        ranker = self._rankers.get(draft.route.model)
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
    removed = ", ".join(f"{reason} {count}" for reason, count in draft.removed.items()) or "nothing"
    return AnswerError(code="no_candidates", message=f"nothing is left to recommend; filters removed: {removed}")


def _record(stored: Stored | None, degradations: list[str]) -> UserRecord | None:
    """Read a record; one of a foreign format counts as none, and the answer says so."""
    if stored is None:
        return None
    try:
        return parse_record(stored.value)
    except ValueError as error:
        _LOG.warning("%s", error)
        degradations.append("record_unreadable")
        return None


def _profile(stored: Stored | None, degradations: list[str]) -> User | None:
    if stored is None:
        return None
    try:
        return decode(stored.value, User)
    except MessageError as error:
        _LOG.warning("profile: %s", error)
        degradations.append("profile_unreadable")
        return None
