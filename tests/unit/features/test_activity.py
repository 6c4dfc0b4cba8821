from features.activity import activity, category_streak, hidden_items, last_items, seen_items
from features.user_record import RecordBuilder, UserRecord
from schemas.item import Item
from tests.builders import NOW_MS, click_of, record_of

ITEMS = {
    name: Item(item_id=name, ts=NOW_MS, category=category)
    for name, category in (("d1", "drama"), ("d2", "drama"), ("d3", "drama"), ("c1", "comedy"), ("none", None))
}


def _record(*steps: tuple[str, str]) -> UserRecord:
    builder = RecordBuilder(32)
    for offset, (item_id, action) in enumerate(steps):
        record = builder.add(click_of("u", item_id, NOW_MS + offset, action), (0, offset))  # type: ignore[arg-type]
    return record


def test_a_stranger_has_no_activity_no_items_no_streak() -> None:
    assert activity(None) == 0
    assert last_items(None, 3) == ()
    assert category_streak(None, ITEMS) == (0, None)
    assert seen_items(None) == hidden_items(None) == frozenset()


def test_activity_counts_all_events_not_only_the_kept_ones() -> None:
    assert activity(record_of("a", "b", "c", max_events=2)) == 3


def test_last_items_are_the_most_recent_first() -> None:
    assert last_items(record_of("a", "b", "c", "d"), 3) == ("d", "c", "b")
    assert last_items(record_of("a"), 3) == ("a",)


def test_an_item_counts_once_at_its_most_recent_place() -> None:
    assert last_items(record_of("a", "b", "a", "c", "a"), 3) == ("a", "c", "b")


def test_impressions_and_hides_are_not_what_a_user_came_to() -> None:
    record = _record(("a", "view"), ("b", "impression"), ("c", "hide"), ("d", "purchase"))
    assert last_items(record, 3) == ("d", "a")


def test_a_streak_ends_at_another_category() -> None:
    assert category_streak(record_of("d1", "c1", "d2", "d3"), ITEMS) == (2, "drama")
    assert category_streak(record_of("d1", "d2", "c1"), ITEMS) == (1, "comedy")


def test_a_streak_ends_at_an_item_without_category_or_without_entry() -> None:
    assert category_streak(record_of("d1", "none", "d2"), ITEMS) == (1, "drama")
    assert category_streak(record_of("d1", "unknown", "d2"), ITEMS) == (1, "drama")
    assert category_streak(record_of("d1", "d2", "none"), ITEMS) == (0, None)


def test_an_impression_does_not_end_a_streak() -> None:
    record = _record(("d1", "view"), ("c1", "impression"), ("d2", "click"))
    assert category_streak(record, ITEMS) == (2, "drama")


def test_seen_is_what_was_acted_on_also_what_was_hidden() -> None:
    record = _record(("a", "view"), ("b", "impression"), ("c", "hide"), ("a", "click"))
    assert seen_items(record) == {"a", "c"}
    assert hidden_items(record) == {"c"}
