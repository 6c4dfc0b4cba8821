"""Item statistics: the format, the questions that readers ask, and the builder that recounts a log."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.item_statistics import (
    MINUTE_MS,
    WINDOWS,
    Counts,
    ItemStatistics,
    WindowCounts,
    pack_statistics,
    parse_statistics,
)
from features.item_statistics_builder import ItemStatisticsBuilder
from schemas.click import ACTIONS, Action, Click

MINUTES, HOUR, DAY = WINDOWS
T0 = 1_699_999_200_000
"""A full hour."""

HALF_LIFE_MS = 3_600_000
LATENESS_MS = 60_000

counts = st.builds(Counts, *[st.integers(0, 2**40)] * 5)
timestamps = st.integers(0, 253_402_300_799_999)
windows = st.tuples(*[st.builds(WindowCounts, timestamps, counts)] * len(WINDOWS))
some_statistics = st.builds(ItemStatistics, counts, st.floats(0, 1e300), timestamps, windows)


@given(some_statistics)
def test_packing_loses_nothing(statistics: ItemStatistics) -> None:
    assert parse_statistics(pack_statistics(statistics)) == statistics


def test_the_format_is_fixed() -> None:
    closed = WindowCounts(T0, Counts(4, 3, 2, 1, 6))
    statistics = ItemStatistics(Counts(40, 30, 20, 10, 60), 1.5e7, T0 - 1, (closed, WindowCounts(), WindowCounts()))
    assert pack_statistics(statistics).decode().split("\t") == [
        *("1", "40", "30", "20", "10", "60", "1.5E7", str(T0 - 1)),
        *(str(T0), "4", "3", "2", "1", "6"),
        *["0"] * 12,
    ]


@pytest.mark.parametrize(
    ("packed", "complaint"),
    [
        (b"2\t0", "format '2'"),
        (b"", "format ''"),
        (b"1\t0\t0", "3 fields"),
        (b"1" + b"\tx" * 25, "invalid literal"),
        (b"1" + b"\t0" * 26, "27 fields"),
    ],
)
def test_what_is_no_statistics_is_refused(packed: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_statistics(packed)


def test_a_smoothed_rate_lies_between_the_prior_and_the_data() -> None:
    assert Counts().smoothed_ctr(0.05, 20.0) == 0.05
    assert Counts(impressions=20, clicks=3).smoothed_ctr(0.05, 20.0) == pytest.approx(0.1)
    assert Counts(impressions=10**9, clicks=10**8).smoothed_ctr(0.05, 20.0) == pytest.approx(0.1)


def test_clicks_without_impressions_raise_the_rate_above_one_and_break_nothing() -> None:
    assert Counts(clicks=39).smoothed_ctr(0.05, 20.0) == pytest.approx(2.0)


def test_a_window_counts_nothing_once_a_later_one_would_have_been_published() -> None:
    last = WindowCounts(T0, Counts(impressions=7))
    statistics = ItemStatistics(Counts(), 0.0, T0, (last, last, WindowCounts()))
    stale_after = T0 + MINUTES.slide_ms + LATENESS_MS
    assert statistics.counts_at(MINUTES, stale_after, LATENESS_MS) == last.counts
    assert statistics.counts_at(MINUTES, stale_after + 1, LATENESS_MS) == Counts()
    assert statistics.counts_at(HOUR, stale_after + 1, LATENESS_MS) == last.counts
    assert statistics.counts_at(DAY, T0, LATENESS_MS) == Counts()


def test_popularity_halves_in_a_half_life() -> None:
    statistics = ItemStatistics(Counts(), 8.0, T0)
    assert statistics.popularity_at(T0, HALF_LIFE_MS) == 8.0
    assert statistics.popularity_at(T0 + 2 * HALF_LIFE_MS, HALF_LIFE_MS) == 2.0
    assert statistics.popularity_at(T0 + 10**6 * HALF_LIFE_MS, HALF_LIFE_MS) == 0.0


def test_popularity_far_from_the_landmark_is_no_overflow() -> None:
    long_lived = ItemStatistics(Counts(), 2.0**900, T0)
    assert long_lived.popularity_at(T0 + 899 * HALF_LIFE_MS, HALF_LIFE_MS) == 2.0
    replayed = ItemStatistics(Counts(), 2.0**-1_000, T0)
    assert replayed.popularity_at(T0 - 1_003 * HALF_LIFE_MS, HALF_LIFE_MS) == 8.0
    before_all = ItemStatistics(Counts(), 0.0, T0)
    assert before_all.popularity_at(T0 - 10**6 * HALF_LIFE_MS, HALF_LIFE_MS) == 0.0


def built(*events: tuple[int, Action], watermark_ms: int, partition: int = 0) -> ItemStatistics:
    builder = ItemStatisticsBuilder(HALF_LIFE_MS, T0, LATENESS_MS)
    for place, (ts, action) in enumerate(events):
        builder.add(Click(event_id=str(place), ts=ts, user_id="u", item_id="i", action=action), partition)
    return builder.build(watermark_ms)["i"]


def test_every_action_is_counted_where_it_belongs() -> None:
    statistics = built(*((T0, action) for action in ACTIONS), watermark_ms=T0)
    assert statistics.lifetime == Counts(impressions=1, clicks=2, carts=1, purchases=1, interactions=5)
    assert statistics.popularity == 5.0


def test_an_interaction_of_a_half_life_ago_weighs_half() -> None:
    statistics = built((T0, "click"), (T0 - HALF_LIFE_MS, "cart"), (T0 + HALF_LIFE_MS, "view"), watermark_ms=T0)
    assert statistics.popularity == 1.0 + 0.5 + 2.0


def test_a_window_closes_with_its_last_millisecond() -> None:
    assert built((T0, "impression"), watermark_ms=T0 + MINUTE_MS - 2).windows == (WindowCounts(),) * 3
    assert built((T0, "impression"), watermark_ms=T0 + MINUTE_MS - 1).windows == (
        WindowCounts(T0 + MINUTE_MS, Counts(impressions=1)),
        WindowCounts(),
        WindowCounts(),
    )


def test_the_last_window_of_each_kind_that_holds_an_event_is_kept() -> None:
    events: list[tuple[int, Action]] = [(T0, "impression"), (T0 + 4 * MINUTE_MS, "impression")]
    statistics = built(*events, watermark_ms=T0 + 10 * 24 * 60 * MINUTE_MS)
    assert statistics.windows == (
        WindowCounts(T0 + 9 * MINUTE_MS, Counts(impressions=1)),
        WindowCounts(T0 + 60 * MINUTE_MS, Counts(impressions=2)),
        WindowCounts(T0 + 24 * 60 * MINUTE_MS, Counts(impressions=2)),
    )


def test_an_event_of_a_minute_that_has_closed_counts_for_the_lifetime_alone() -> None:
    late = T0 + MINUTE_MS
    in_time: list[tuple[int, Action]] = [(late + MINUTE_MS + LATENESS_MS - 2, "hide"), (late, "impression")]
    too_late: list[tuple[int, Action]] = [(late + MINUTE_MS + LATENESS_MS - 1, "hide"), (late, "impression")]
    assert built(*in_time, watermark_ms=T0 + DAY.size_ms).windows[2].counts == Counts(impressions=1)
    assert built(*too_late, watermark_ms=T0 + DAY.size_ms).windows[2].counts == Counts()
    assert built(*too_late, watermark_ms=T0 + DAY.size_ms).lifetime == Counts(impressions=1)


def test_the_slowest_partition_is_what_windows_wait_for_and_lateness_is_each_partitions_own() -> None:
    builder = ItemStatisticsBuilder(HALF_LIFE_MS, T0, LATENESS_MS)
    for partition, ts in enumerate((T0 + DAY.size_ms, T0)):
        builder.add(Click(event_id="e", ts=ts, user_id="u", item_id="i", action="impression"), partition)
    assert builder.watermark_ms == T0 - LATENESS_MS
    assert builder.build(T0 + DAY.size_ms - 1)["i"].windows[2] == WindowCounts(T0 + DAY.size_ms, Counts(impressions=1))


@given(st.lists(st.integers(T0, T0 + 3 * HOUR.size_ms), min_size=1), st.integers(T0, T0 + 5 * HOUR.size_ms))
def test_a_window_holds_what_a_recount_of_its_time_finds(moments: list[int], watermark_ms: int) -> None:
    moments.sort()
    statistics = built(*((ts, "impression") for ts in moments), watermark_ms=watermark_ms)
    for window, last in zip(WINDOWS, statistics.windows, strict=True):
        ends = [
            end
            for end in range(math.ceil((T0 + 1) / window.slide_ms) * window.slide_ms, watermark_ms + 2, window.slide_ms)
            if any(end - window.size_ms <= ts < end for ts in moments)
        ]
        wanted = ends[-1] if ends else 0
        assert last.end_ms == wanted
        assert last.counts.impressions == sum(wanted - window.size_ms <= ts < wanted for ts in moments)
