import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.user_record import RecordBuilder, java_double, pack_record, record_position
from schemas.click import ACTIONS, Click
from tests.builders import NOW_MS, click_of, record_of
from tests.unit.features.records import ids


def test_the_format_is_the_one_in_the_docstring() -> None:
    builder = RecordBuilder(2)
    for ts, action, item, value in ((1, "view", "a", None), (2, "rating", "b", 4.5), (3, "view", "c", None)):
        click = Click(event_id="e", ts=ts, user_id="u", item_id=item, action=action, value=value)  # type: ignore[arg-type]
        record = builder.add(click, (3, ts * 10))
    assert pack_record(record) == (
        b"2\t3\t30\t1\t" + b"0\t2\t0\t0\t0\t1\t0\t" + b"0000000000002rb\x1f4.5\t" + b"0000000000003vc"
    )


@given(st.lists(st.tuples(ids, st.sampled_from(ACTIONS)), min_size=1, max_size=20), st.integers(1, 6))
def test_the_record_keeps_the_last_events_and_counts_all(history: list[tuple[str, str]], kept: int) -> None:
    builder = RecordBuilder(kept)
    for offset, (item_id, action) in enumerate(history):
        record = builder.add(click_of("u", item_id, NOW_MS + offset, action), (1, offset))  # type: ignore[arg-type]
    assert [(event.item_id, event.action) for event in record.events] == history[-kept:]
    assert record.total_events == sum(record.counts) == len(history)
    assert record.counts == tuple(sum(each == action for _, each in history) for action in ACTIONS)
    assert (record.first_ts, record.last_ts) == (NOW_MS, NOW_MS + len(history) - 1)
    assert record.position == (1, len(history) - 1)


def test_an_earlier_record_does_not_change_when_the_next_event_comes() -> None:
    builder = RecordBuilder(2)
    first = builder.add(click_of("u", "a"), (0, 0))
    builder.add(click_of("u", "b"), (0, 1))
    assert [event.item_id for event in first.events] == ["a"]


def test_a_ts_that_the_format_cannot_hold_is_refused() -> None:
    record = RecordBuilder(2).add(click_of("u", "a", 10**13), (0, 0))
    with pytest.raises(ValueError, match="10000000000000 does not fit into 13 digits"):
        pack_record(record)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4.5, "4.5"),
        (3.0, "3.0"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-12_345_678.9, "-1.23456789E7"),
        (1e10, "1.0E10"),
        (123_456_789_012_345_680.0, "1.2345678901234568E17"),
        (0.001, "0.001"),
        (9.999e-4, "9.999E-4"),
        (1e-5, "1.0E-5"),
        (1.234e-5, "1.234E-5"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "4.9E-324"),
    ],
)
def test_a_value_is_written_as_java_writes_a_double(value: float, text: str) -> None:
    assert java_double(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_value_written_as_java_does_is_the_same_number(value: float) -> None:
    assert float(java_double(value)) == value


def test_the_position_is_read_without_the_events() -> None:
    assert record_position(pack_record(record_of("a", "b", "c"))) == (0, 2)


@pytest.mark.parametrize("packed", [b"", b"2", b"1\t3\t30\t1", b"2\tthree\t30\t1", b"\xff\t3\t30\t1"])
def test_a_position_of_another_format_is_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        record_position(packed)
