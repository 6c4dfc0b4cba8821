"""Forward decay: weights that need no revision."""

import pytest

from features.forward_decay import MAX_EXPONENT, weight

HALF_LIFE_MS = 1_000


def test_a_half_life_later_weighs_twice_as_much() -> None:
    assert [weight(ts, 5_000, HALF_LIFE_MS) for ts in (4_000, 5_000, 6_000, 7_000)] == [0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize("half_lives", [MAX_EXPONENT, MAX_EXPONENT + 1, 10**9])
def test_far_after_the_landmark_all_weigh_alike_and_stay_finite(half_lives: int) -> None:
    assert weight(half_lives * HALF_LIFE_MS, 0, HALF_LIFE_MS) == 2.0**MAX_EXPONENT


def test_long_before_the_landmark_an_event_weighs_nothing() -> None:
    assert weight(0, 2_000 * HALF_LIFE_MS, HALF_LIFE_MS) == 0.0
