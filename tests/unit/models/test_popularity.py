import pytest

from models.popularity import DecayedPopularity
from runtime.config import LeaderboardConfig
from tests.builders import NOW_MS

HALF_LIFE_MS = 1_000


def board(*events: tuple[str, int], size: int = 10) -> list[tuple[str, float]]:
    popularity = DecayedPopularity(LeaderboardConfig(half_life_ms=HALF_LIFE_MS, size=size, interval_ms=1_000))
    for item_id, after_ms in events:
        popularity.observe(item_id, NOW_MS + after_ms)
    items = popularity.board().items
    return [(entry.item_id, entry.score / items[0].score) for entry in items]


def test_an_event_counts_half_after_the_half_life() -> None:
    assert board(("old", 0), ("new", HALF_LIFE_MS)) == [("new", 1.0), ("old", 0.5)]


def test_events_of_one_item_add_up() -> None:
    assert board(("a", 0), ("b", 0), ("b", 0)) == [("b", 1.0), ("a", 0.5)]


def test_a_late_event_counts_as_much_as_it_would_have_in_time() -> None:
    assert dict(board(("new", HALF_LIFE_MS), ("old", 0))) == {"new": 1.0, "old": 0.5}


def test_only_the_best_are_kept_and_equals_are_ordered_by_id() -> None:
    assert [item_id for item_id, _ in board(("c", 0), ("b", 0), ("a", 0), size=2)] == ["a", "b"]


@pytest.mark.parametrize("half_lives", [600, 5_000])
def test_years_of_half_lives_overflow_nothing(half_lives: int) -> None:
    later = half_lives * HALF_LIFE_MS
    found = board(("ancient", 0), ("old", later), ("new", later + HALF_LIFE_MS))
    assert found[0] == ("new", 1.0)
    assert dict(found)["old"] == pytest.approx(0.5)
    assert dict(found)["ancient"] == pytest.approx(0.0)


def test_no_events_make_an_empty_board() -> None:
    assert board() == []
