"""Which ranker a request gets: the cheapest that is good enough for this user at this moment. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from features.activity import activity, category_streak
from features.user_record import UserRecord
from runtime.config import RouterConfig
from schemas.item import Item
from schemas.recommendation import Tier

MODEL_OF_TIER: Mapping[Tier, str] = {"stranger": "popularity", "light": "cf", "medium": "gbdt_lr", "heavy": "deepfm"}
TIER_OF_MODEL: Mapping[str, Tier] = {model: tier for tier, model in MODEL_OF_TIER.items()}

MAX_CATEGORY_CHARS = 100

CHEAPER: Mapping[Tier, Tier] = {"heavy": "medium", "medium": "light", "light": "stranger"}
"""What a tier falls back to; the last one needs nothing but the leaderboard in memory."""


@dataclass(frozen=True, slots=True)
class Route:
    """The tier and model that a request gets, why, and what was degraded on the way."""

    tier: Tier
    model: str
    reason: str
    degradations: tuple[str, ...] = ()


NOWHERE = Route("none", "none", "not routed")
"""Of a request that no ranker is to answer."""


def route(
    record: UserRecord | None, items: Mapping[str, Item], config: RouterConfig, available: Collection[str]
) -> Route:
    """Choose by activity, then fall to the next cheaper tier while the chosen model is not in `available`."""
    tier, reason = _wanted(record, items, config)
    return fall_back_to(Route(tier, MODEL_OF_TIER[tier], reason), available)


def forced(model: str, available: Collection[str]) -> Route | None:
    """Return the route to the model that the request itself names; None if there is none of that name."""
    if model not in available or model not in TIER_OF_MODEL:
        return None
    return Route(TIER_OF_MODEL[model], model, f"the request asks for {model}")


def fall_back_to(chosen: Route, available: Collection[str]) -> Route:
    """Return `chosen`, or the nearest cheaper route whose model is in `available`, saying what was left out."""
    tier, left_out = chosen.tier, []
    while MODEL_OF_TIER[tier] not in available and tier in CHEAPER:
        left_out.append(f"{MODEL_OF_TIER[tier]}_unavailable")
        tier = CHEAPER[tier]
    return Route(tier, MODEL_OF_TIER[tier], chosen.reason, tuple(left_out))


def cheaper(failed: Route, available: Collection[str]) -> Route | None:
    """Return where the requests of a failed model go; None if nothing cheaper is in `available`."""
    if failed.tier not in CHEAPER:
        return None
    tier = CHEAPER[failed.tier]
    found = fall_back_to(Route(tier, MODEL_OF_TIER[tier], failed.reason), available)
    return found if found.model in available else None


def _wanted(record: UserRecord | None, items: Mapping[str, Item], config: RouterConfig) -> tuple[Tier, str]:
    events = activity(record)
    if events == 0:
        return "stranger", "stranger: no events yet"
    if events > config.heavy_above_events:
        return "heavy", f"heavy: {events} events, above {config.heavy_above_events}"
    streak, category = category_streak(record, items)
    if streak > config.heavy_above_streak:
        named = (category or "")[:MAX_CATEGORY_CHARS]
        return (
            "heavy",
            f"heavy: {streak} events in a row of {named}, above {config.heavy_above_streak}",
        )
    if events > config.medium_above_events:
        return "medium", f"medium: {events} events, above {config.medium_above_events}"
    return "light", f"light: {events} events, at most {config.medium_above_events}"
