import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.user_record import Event, RecordBuilder, UserRecord, pack_record, parse_record, record_position
from schemas.click import ACTIONS, Click
from tests.builders import NOW_MS, click_of, record_of

ids = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
events = st.builds(
    Event,
    ts=st.integers(0, 2**53),
    action=st.sampled_from(ACTIONS),
    item_id=ids | st.sampled_from(["👩‍🚀", "a|b", "a,b;c:d", "a b", "\u2028", "1"]),
    value=st.none() | st.floats(allow_nan=False, allow_infinity=False),
)
records = st.builds(
    UserRecord,
    position=st.tuples(st.integers(0, 1_000), st.integers(0, 2**53)),
    first_ts=st.integers(0, 2**53),
    total_events=st.integers(1, 2**40),
    counts=st.tuples(*(st.integers(0, 2**40) for _ in ACTIONS)),
    events=st.lists(events, min_size=1, max_size=8).map(tuple),
)


@given(records)
def test_packing_and_parsing_undo_each_other(record: UserRecord) -> None:
    packed = pack_record(record)
    assert parse_record(packed) == record
    assert record_position(packed) == record.position


def test_the_format_is_the_one_in_the_docstring() -> None:
    builder = RecordBuilder(2)
    for ts, action, item, value in ((1, "view", "a", None), (2, "rating", "b", 4.5), (3, "view", "c", None)):
        click = Click(event_id="e", ts=ts, user_id="u", item_id=item, action=action, value=value)  # type: ignore[arg-type]
        record = builder.add(click, (3, ts * 10))
    assert pack_record(record) == (b"1\t3\t30\t1\t3\t" + b"0\t2\t0\t0\t0\t1\t0\t" + b"2\tr\tb\t4.5\t" + b"3\tv\tc\t")


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


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"{}",
        b"1",
        b"1\t0\t0\t0\t1\t0\t1\t0\t0\t0\t0\t0",
        b"2\t0\t0\t0\t1\t0\t1\t0\t0\t0\t0\t0\t5\tv\ti\t",
        b"\xff",
    ],
    ids=["empty", "JSON", "version only", "no events", "another version", "not text"],
)
def test_what_is_no_record_is_refused(packed: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - which of its kinds is of no interest to the caller
        parse_record(packed)


def test_a_truncated_record_is_refused() -> None:
    packed = pack_record(RecordBuilder(4).add(click_of("u", "item"), (0, 0)))
    fields = packed.split(b"\t")
    for length in range(len(fields)):
        with pytest.raises(ValueError):  # noqa: PT011
            parse_record(b"\t".join(fields[:length]))


@given(st.binary(max_size=400))
def test_any_bytes_are_a_record_or_a_value_error(packed: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(parse_record(packed), UserRecord)


@pytest.mark.parametrize(
    "damage",
    [
        lambda fields: [*fields[:-3], "x", *fields[-2:]],
        lambda fields: [*fields[:-1], "much"],
        lambda fields: [*fields[:-4], "soon", *fields[-3:]],
        lambda fields: fields[:-1],
        lambda fields: ["1", "zero", *fields[2:]],
    ],
    ids=["action", "value", "ts", "length", "partition"],
)
def test_a_record_that_is_damaged_in_one_field_is_a_value_error(damage: Callable[[list[str]], list[str]]) -> None:
    fields = pack_record(record_of("a", "b")).decode().split("\t")
    with pytest.raises(ValueError, match=r"."):
        parse_record("\t".join(damage(fields)).encode())
