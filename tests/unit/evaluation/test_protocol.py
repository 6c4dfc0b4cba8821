"""The demo's protocol on logs small enough to check by hand."""

import pytest

from evaluation.protocol import Audience, activity_bucket, asks_before, plan
from tests.builders import NOW_MS, click_of

LOG = [click_of("u", f"i{n}", NOW_MS - 1_000_000 + n) for n in range(10)]


def test_the_first_four_fifths_are_history_and_the_rest_is_live_in_order() -> None:
    split = plan(LOG, spacing_ms=5.0, live_from_ms=NOW_MS)
    assert [click.item_id for click in split.history] == [f"i{n}" for n in range(8)]
    assert [click.item_id for click in split.live] == ["i8", "i9"]


def test_history_is_retimed_to_end_one_step_before_the_live_part() -> None:
    split = plan(LOG, spacing_ms=5.0, live_from_ms=NOW_MS)
    assert [NOW_MS - click.ts for click in split.history] == [40, 35, 30, 25, 20, 15, 10, 5]


@pytest.mark.parametrize(("live", "requests"), [(1, 1), (2, 1), (3, 1), (4, 2), (7, 3)])
def test_every_third_live_event_has_a_request_before_it(live: int, requests: int) -> None:
    log = LOG * 4
    split = plan(log, 5.0, NOW_MS, max_live=live)
    assert len(split.live) == live
    assert split.requests == requests == sum(asks_before(place) for place in range(live))


@pytest.mark.parametrize(
    ("events", "bucket"),
    [(0, "0"), (1, "1-5"), (5, "1-5"), (6, "6-20"), (20, "6-20"), (21, "21-50"), (50, "21-50"), (51, ">50")],
)
def test_activity_buckets_meet_without_gap_or_overlap(events: int, bucket: str) -> None:
    assert activity_bucket(events) == bucket


def test_the_audience_knows_what_each_user_saw_and_what_is_popular_among_the_rest() -> None:
    audience = Audience(["a", "b", "c", "d"])
    for user, item in [("u", "b"), ("v", "b"), ("v", "c"), ("w", "c"), ("w", "c"), ("v", "d")]:
        audience.saw(user, item)
    assert audience.seen("v") == ("b", "c", "d")
    assert (audience.events("w"), audience.events("nobody")) == (2, 0)
    # c has three events, b two, d one, a none; u has seen b.
    assert audience.most_popular_unseen("u", 2) == ("c", "d")
    assert audience.most_popular_unseen("nobody", 10) == ("c", "b", "d", "a")
    assert audience.most_popular_unseen("v", 10) == ("a",)
