from hypothesis import given
from hypothesis import strategies as st

from jobs.neighbours import PublishingSchedule


def test_a_changed_item_is_due_at_once() -> None:
    assert PublishingSchedule(1_000).due(["a", "b"], 0) == ["a", "b"]


def test_within_the_interval_a_change_waits_and_is_due_at_its_end() -> None:
    schedule = PublishingSchedule(1_000)
    assert schedule.due(["a"], 0) == ["a"]
    assert schedule.due(["a"], 400) == []
    assert schedule.due([], 999) == []
    assert schedule.due([], 1_000) == ["a"]
    assert schedule.due([], 5_000) == []


def test_several_changes_within_the_interval_are_published_together() -> None:
    schedule = PublishingSchedule(1_000)
    schedule.due(["a"], 0)
    schedule.due(["a"], 100)
    schedule.due(["a"], 200)
    assert schedule.due(["a"], 1_000) == ["a"]
    assert schedule.due([], 2_000) == []


def test_items_do_not_wait_for_each_other() -> None:
    schedule = PublishingSchedule(1_000)
    assert schedule.due(["a"], 0) == ["a"]
    assert schedule.due(["a", "b"], 500) == ["b"]
    assert schedule.due(["b"], 1_000) == ["a"]
    assert schedule.due([], 1_500) == ["b"]


def test_without_an_interval_every_change_is_due() -> None:
    schedule = PublishingSchedule(0)
    assert [schedule.due(["a"], 0), schedule.due(["a"], 0), schedule.due([], 1)] == [["a"], ["a"], []]


@given(st.lists(st.tuples(st.integers(0, 400), st.sets(st.sampled_from("abc"))), max_size=40))
def test_no_change_is_lost_and_no_item_comes_more_often_than_once_an_interval(
    steps: list[tuple[int, set[str]]],
) -> None:
    schedule, now, unpublished, published = PublishingSchedule(1_000), 0, set[str](), dict[str, int]()
    for wait, changed in [*steps, (1_000, set[str]())]:
        now += wait
        unpublished |= changed
        for item_id in schedule.due(sorted(changed), now):
            assert now - published.get(item_id, -1_000) >= 1_000
            assert item_id in unpublished
            published[item_id] = now
            unpublished.remove(item_id)
    assert not unpublished
