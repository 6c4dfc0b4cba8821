import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.recent_events import RecentEvents
from schemas.errors import DuplicateEvent


def is_new(recent: RecentEvents, partition: int, event_id: str) -> bool:
    try:
        recent.add(partition, event_id)
    except DuplicateEvent:
        return False
    return True


@given(st.integers(0, 6), st.lists(st.tuples(st.integers(0, 1), st.sampled_from("abcdefgh")), max_size=60))
def test_an_event_is_new_unless_it_is_among_the_last_accepted_of_its_partition(
    window: int, events: list[tuple[int, str]]
) -> None:
    recent = RecentEvents(window)
    accepted: dict[int, list[str]] = {0: [], 1: []}
    for partition, event_id in events:
        expected = event_id not in accepted[partition][max(0, len(accepted[partition]) - window) :]
        assert is_new(recent, partition, event_id) == expected
        if expected:
            accepted[partition].append(event_id)


def test_a_duplicate_names_itself_and_the_window() -> None:
    recent = RecentEvents(50_000)
    recent.add(0, "e1")
    with pytest.raises(DuplicateEvent, match=r"'e1'.*50,000"):
        recent.add(0, "e1")


def test_a_partition_that_was_given_up_is_forgotten() -> None:
    recent = RecentEvents(10)
    recent.add(0, "e1")
    recent.add(1, "e1")
    recent.forget([0, 7])
    assert is_new(recent, 0, "e1")
    assert not is_new(recent, 1, "e1")
