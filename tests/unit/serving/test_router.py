"""Who gets which ranker, and why."""

import pytest

from runtime.config import RouterConfig
from schemas.item import Item
from serving.router import MODEL_OF_TIER, Route, cheaper, fall_back_to, forced, route
from tests.builders import record_of

CONFIG = RouterConfig(medium_above_events=20, heavy_above_events=50, heavy_above_streak=5, light_last_events=3)
ALL = frozenset(MODEL_OF_TIER.values())
ITEMS = {f"comedy{n}": Item(item_id=f"comedy{n}", ts=1_000_000_000_000, category="comedy") for n in range(10)}


@pytest.mark.parametrize(
    ("events", "tier"),
    [(0, "stranger"), (1, "light"), (20, "light"), (21, "medium"), (50, "medium"), (51, "heavy"), (1_000, "heavy")],
)
def test_activity_decides_the_tier(events: int, tier: str) -> None:
    record = record_of(*(f"i{n}" for n in range(events))) if events else None
    assert route(record, {}, CONFIG, ALL).tier == tier


@pytest.mark.parametrize(("streak", "tier"), [(5, "light"), (6, "heavy")])
def test_more_than_five_of_one_category_in_a_row_get_the_heavy_ranker(streak: int, tier: str) -> None:
    record = record_of("other", *(f"comedy{n}" for n in range(streak)))
    chosen = route(record, ITEMS, CONFIG, ALL)
    assert chosen.tier == tier
    if tier == "heavy":
        assert "6 events in a row of comedy" in chosen.reason


def test_every_route_says_why() -> None:
    assert route(None, {}, CONFIG, ALL).reason == "stranger: no events yet"
    assert route(record_of("a"), {}, CONFIG, ALL).reason == "light: 1 events, at most 20"


def test_a_missing_model_falls_to_the_next_cheaper_tier_and_says_so() -> None:
    record = record_of(*(f"i{n}" for n in range(60)))
    chosen = route(record, {}, CONFIG, {"cf", "popularity"})
    assert (chosen.tier, chosen.model, chosen.degradations) == (
        "light",
        "cf",
        ("deepfm_unavailable", "gbdt_lr_unavailable"),
    )
    chosen = route(record, {}, CONFIG, {"popularity"})
    assert (chosen.tier, chosen.degradations) == (
        "stranger",
        ("deepfm_unavailable", "gbdt_lr_unavailable", "cf_unavailable"),
    )


def test_falling_back_says_only_what_it_left_out_itself() -> None:
    chosen = fall_back_to(Route("heavy", "deepfm", "why", ("earlier",)), {"cf"})
    assert chosen == Route("light", "cf", "why", ("deepfm_unavailable", "gbdt_lr_unavailable"))


def test_after_a_failure_the_next_cheaper_model_that_is_there_takes_over() -> None:
    assert cheaper(Route("heavy", "deepfm", "why"), {"gbdt_lr", "cf"}) == Route("medium", "gbdt_lr", "why")
    assert cheaper(Route("medium", "gbdt_lr", "why"), {"cf", "popularity"}) == Route("light", "cf", "why")
    skipped = cheaper(Route("heavy", "deepfm", "why"), {"popularity"})
    assert skipped == Route("stranger", "popularity", "why", ("gbdt_lr_unavailable", "cf_unavailable"))
    assert cheaper(Route("light", "cf", "why"), set()) is None
    assert cheaper(Route("stranger", "popularity", "why"), {"cf"}) is None


def test_a_request_can_force_a_model_that_is_there_and_no_other() -> None:
    assert forced("cf", ALL) == Route("light", "cf", "the request asks for cf")
    assert forced("cf", {"popularity"}) is None
    assert forced("unheard-of", ALL) is None
