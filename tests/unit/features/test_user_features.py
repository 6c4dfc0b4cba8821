from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.activity import category_streak, last_items
from features.item_columns import ItemColumns
from features.record_batch import batch_of
from features.user_features import LAST_ITEMS, USER_FEATURES, context_of, user_features
from features.user_record import Event, RecordBuilder, UserRecord
from schemas.click import ACTIONS, Action, Click
from schemas.fields import Scalars
from schemas.item import Item
from tests.builders import NOW_MS, request_of

GAP_MS = 1_800_000
MINUTE_MS = 60_000
ITEMS = {
    item_id: Item(item_id=item_id, ts=NOW_MS, category=category, price=price)
    for item_id, category, price in (
        ("d1", "drama", 3.0),
        ("d2", "drama", 7.5),
        ("c1", "comedy", None),
        ("c2", "comedy", 1_000.0),
        ("bare", None, None),
    )
}
COLUMNS = ItemColumns.of(ITEMS)


def record(*steps: tuple[float, Action, str]) -> UserRecord:
    """Return a record of (minutes before now, action, item) in this order."""
    builder = RecordBuilder(32)
    for place, (minutes, action, item_id) in enumerate(steps):
        ts = NOW_MS - round(minutes * MINUTE_MS)
        made = builder.add(Click(event_id="e", ts=ts, user_id="u", item_id=item_id, action=action), (0, place))
    return made


def features(
    records: Sequence[UserRecord | None], contexts: Sequence[Scalars] | None = None, now_ms: int = NOW_MS
) -> dict[str, list[object]]:
    now = np.full(len(records), now_ms, np.int64)
    found = user_features(USER_FEATURES, batch_of(records), COLUMNS, contexts or [{}] * len(records), now, GAP_MS)
    return {name: column.tolist() for name, column in found.items()}


def one(name: str, *steps: tuple[float, Action, str]) -> object:
    return features([record(*steps)])[name][0]


def test_counts_and_shares_are_of_all_events_ever() -> None:
    builder = RecordBuilder(1)
    for item_id, action in (("a", "impression"), ("a", "click"), ("b", "impression"), ("b", "hide")):
        made = builder.add(Click(event_id="e", ts=NOW_MS, user_id="u", item_id=item_id, action=action), (0, 0))  # type: ignore[arg-type]
    found = features([made])
    assert found["activity"] == [4]
    assert found["action_counts"] == [[2, 0, 1, 0, 0, 0, 1]]
    assert found["action_shares"] == [[0.5, 0.0, 0.25, 0.0, 0.0, 0.0, 0.25]]


def test_recency_is_since_the_last_event_and_tenure_since_the_first() -> None:
    found = features([record((90, "view", "a"), (2, "view", "b"))])
    assert (found["recency_ms"], found["tenure_ms"]) == ([2 * MINUTE_MS], [90 * MINUTE_MS])


def test_an_event_ahead_of_now_is_as_fresh_as_can_be() -> None:
    found = features([record((-1, "view", "a"))])
    assert (found["recency_ms"], found["tenure_ms"], found["session_events"]) == ([0], [0], [1])


def test_short_windows_count_the_events_younger_than_them() -> None:
    found = features(
        [
            record(
                (1_440, "view", "a"), (1_439, "view", "a"), (59, "view", "b"), (5, "view", "c"), (1, "impression", "d")
            )
        ]
    )
    assert (found["events_5m"], found["events_1h"], found["events_24h"]) == ([1], [3], [4])


def test_a_session_goes_back_to_the_last_gap() -> None:
    steps: list[tuple[float, Action, str]] = [
        (100, "view", "a"),
        (65, "view", "b"),
        (35, "impression", "c"),
        (20, "view", "d"),
    ]
    found = features([record(*steps)])
    assert found["session_id"] == [NOW_MS - 65 * MINUTE_MS]
    assert found["session_events"] == [3]
    assert found["session_dwell_ms"] == [45 * MINUTE_MS]


def test_a_pause_of_exactly_the_gap_is_within_the_session() -> None:
    found = features([record((60, "view", "a"), (30, "view", "b"))])
    assert (found["session_id"], found["session_events"]) == ([NOW_MS - 60 * MINUTE_MS], [2])


def test_who_did_nothing_for_longer_than_the_gap_is_in_no_session() -> None:
    found = features([record((31, "view", "a"))])
    assert (found["session_id"], found["session_events"], found["session_dwell_ms"]) == ([0], [0], [0])


def test_an_event_from_a_slow_clock_neither_ends_a_session_nor_makes_its_dwell_negative() -> None:
    found = features([record((5, "view", "a"), (50, "view", "b"), (25, "view", "c"))])
    assert (found["session_id"], found["session_events"], found["session_dwell_ms"]) == (
        [NOW_MS - 5 * MINUTE_MS],
        [3],
        [0],
    )


def test_sessions_of_neighbours_in_a_batch_do_not_run_into_each_other() -> None:
    found = features([record((2, "view", "a")), record((1, "view", "a"), (1, "view", "b"))])
    assert found["session_events"] == [1, 2]


def test_a_streak_is_of_the_last_deliberate_events() -> None:
    steps: list[tuple[float, Action, str]] = [
        (4, "view", "c1"),
        (3, "view", "d1"),
        (2, "impression", "c1"),
        (1, "click", "d2"),
    ]
    found = features([record(*steps), record((1, "view", "d1"), (0, "view", "bare")), record((1, "view", "unknown"))])
    assert found["category_streak"] == [2, 0, 0]
    assert found["streak_category"] == ["drama", "", ""]


def test_the_top_category_is_the_most_frequent_of_those_known_and_the_latest_of_equals() -> None:
    views = [
        [(9 - place, "view", item_id) for place, item_id in enumerate(each)]
        for each in (("c1", "d1", "bare", "d2"), ("d1", "c1"), ("bare",))
    ]
    found = features([record(*each) for each in views])  # type: ignore[arg-type]
    assert found["top_category"] == ["drama", "comedy", ""]
    assert found["top_category_share"] == [pytest.approx(2 / 3), 0.5, 0.0]


def test_the_price_band_is_the_mean_of_the_log_prices_looked_at() -> None:
    # log2(1 + 3) is 2, log2(1 + 7.5) is 3.09: their mean lies in band 2, of prices from 3 to 7.
    assert one("price_band", (2, "view", "d1"), (1, "view", "d2"), (0, "view", "c1")) == 2
    assert one("price_band", (2, "view", "c2"), (1, "impression", "d1")) == 9
    assert one("price_band", (2, "view", "c1"), (1, "view", "unknown")) == -1


def test_last_items_are_distinct_deliberate_and_most_recent_first() -> None:
    assert one("last_items", (4, "view", "a"), (3, "click", "b"), (2, "impression", "c"), (1, "view", "a")) == [
        "a",
        "b",
        "",
    ]


def test_hour_and_weekday_are_those_of_now_in_utc() -> None:
    # 1970-01-01 was a Thursday (weekday 3); 2023-11-14 22:13:20 a Tuesday.
    found = features([None], now_ms=0), features([None], now_ms=1_700_000_000_000)
    assert [(each["hour"], each["weekday"]) for each in found] == [([0], [3]), ([22], [1])]


def test_device_and_surface_come_from_the_context() -> None:
    found = features([None, None], contexts=[{"device": "phone", "surface": "home"}, {"device": 7}])
    assert (found["device"], found["surface"]) == (["phone", ""], ["home", ""])


def test_the_surface_of_a_request_is_part_of_its_context() -> None:
    assert context_of(request_of(surface="cart", context={"device": "tv"})) == {"device": "tv", "surface": "cart"}
    assert context_of(request_of()) == {}


def test_an_unknown_feature_is_refused() -> None:
    with pytest.raises(KeyError, match="mood"):
        user_features(["mood"], batch_of([None]), COLUMNS, [{}], np.array([NOW_MS]), GAP_MS)


events = st.builds(
    Event,
    ts=st.integers(NOW_MS - 3 * GAP_MS, NOW_MS + MINUTE_MS),
    action=st.sampled_from(ACTIONS),
    item_id=st.sampled_from([*ITEMS, "unknown", "other"]),
)
some_records = st.none() | st.builds(
    UserRecord,
    position=st.just((0, 0)),
    first_ts=st.integers(NOW_MS - 9 * GAP_MS, NOW_MS - 3 * GAP_MS),
    counts=st.tuples(*(st.integers(0, 9) for _ in ACTIONS)),
    events=st.lists(events, min_size=1, max_size=12).map(tuple),
)


@given(st.lists(some_records, min_size=1, max_size=6))
def test_a_batch_equals_its_users_one_by_one_in_any_order(records: list[UserRecord | None]) -> None:
    together = features(records)
    backwards = features(records[::-1])
    for row, each in enumerate(records):
        alone = features([each])
        for name in USER_FEATURES:
            assert together[name][row] == alone[name][0] == backwards[name][-1 - row], name


@given(some_records)
def test_the_batch_agrees_with_what_a_single_request_asks(known: UserRecord | None) -> None:
    found = features([known])
    streak, category = category_streak(known, ITEMS)
    assert (found["category_streak"], found["streak_category"]) == ([streak], [category or ""])
    last = last_items(known, LAST_ITEMS)
    assert found["last_items"] == [[*last, *[""] * (LAST_ITEMS - len(last))]]
