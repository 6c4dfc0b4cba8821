"""What Headrace answers."""

from typing import Annotated, Literal

import msgspec

from schemas.fields import Id, TimestampMs

Tier = Literal["stranger", "light", "medium", "heavy", "none"]
"""Which kind of ranker answered; `none` where no ranker ran."""

Propensity = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class RecommendedItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One item, in the slot given by its place in the list.

    `propensity` is the probability with which the policy put this item into this slot; 1.0 where the choice was
    deterministic.
    """

    item_id: Id
    score: float
    propensity: Propensity
    reasons: tuple[str, ...] = ()


class AnswerError(msgspec.Struct, frozen=True, kw_only=True):
    """Why there are no items: a stable `code` for programs, a `message` for people."""

    code: str
    message: str


class Recommendation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to one request; exactly one with `final` true for every `request_id`.

    `state_read` maps a topic to the partition and offset of the state that the answer saw; `feature_age_ms` is the
    time since the user's last event at that state; `stage_ms` the time in each stage; `removed` how many candidates
    each filter took out.
    """

    request_id: Id
    ts: TimestampMs
    user_id: Id | None
    items: tuple[RecommendedItem, ...]
    final: bool
    tier: Tier
    model: str
    model_version: str
    precision: str
    route_reason: str
    degradations: tuple[str, ...] = ()
    state_read: dict[str, tuple[int, int]] = {}
    feature_age_ms: int | None = None
    stage_ms: dict[str, float] = {}
    removed: dict[str, int] = {}
    error: AnswerError | None = None
