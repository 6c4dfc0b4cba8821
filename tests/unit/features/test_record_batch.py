from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.record_batch import RecordBatch, batch_of, decode_records, parse_record
from features.user_record import Event, RecordBuilder, UserRecord, pack_record
from schemas.click import ACTIONS, Click
from tests.builders import NOW_MS, record_of
from tests.unit.features.records import records

GOOD = pack_record(record_of("a", "b"))


def test_a_batch_is_what_the_records_hold_as_columns() -> None:
    builder = RecordBuilder(8)
    builder.add(Click(event_id="e", ts=NOW_MS, user_id="u", item_id="i1", action="impression"), (3, 7))
    first = builder.add(
        Click(event_id="e", ts=NOW_MS + 5, user_id="u", item_id="i2", action="rating", value=4.5), (3, 9)
    )
    batch = decode_records([pack_record(first), None, pack_record(record_of("ключ"))])
    assert batch.positions.tolist() == [[3, 9], [0, 0], [0, 0]]
    assert batch.first_ts.tolist() == [NOW_MS, 0, NOW_MS]
    assert batch.counts.tolist() == [[1, 0, 0, 0, 0, 1, 0], [0] * 7, [0, 1, 0, 0, 0, 0, 0]]
    assert batch.row_splits.tolist() == [0, 2, 2, 3]
    assert batch.rows.tolist() == [0, 0, 2]
    assert batch.ts.tolist() == [NOW_MS, NOW_MS + 5, NOW_MS]
    assert [ACTIONS[action] for action in batch.actions] == ["impression", "rating", "view"]
    assert batch.item_ids == ["i1", "i2", "ключ"]
    assert np.array_equal(batch.values, [np.nan, 4.5, np.nan], equal_nan=True)
    assert batch.problems == {}
    assert batch.records() == [first, None, record_of("ключ")]


@given(st.lists(st.none() | records, max_size=6))
def test_packing_and_decoding_undo_each_other(known: list[UserRecord | None]) -> None:
    batch = decode_records([None if record is None else pack_record(record) for record in known])
    assert batch.problems == {}
    assert batch.records() == known


@given(st.lists(st.none() | records, max_size=6))
def test_records_built_here_make_the_same_batch_as_packed_ones(known: list[UserRecord | None]) -> None:
    built, decoded = batch_of(known), decode_records([None if each is None else pack_record(each) for each in known])
    for name in ("positions", "first_ts", "counts", "row_splits", "ts", "actions", "values", "rows"):
        ours, theirs = getattr(built, name), getattr(decoded, name)
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs, equal_nan=name == "values"), name
    assert built.item_ids == decoded.item_ids


def test_an_empty_batch_has_no_rows() -> None:
    for batch in (decode_records([]), decode_records([None, None]), batch_of([])):
        assert (batch.ts.tolist(), batch.item_ids, batch.row_splits[0]) == ([], [], 0)
    assert decode_records([None, None]).records() == [None, None]


@given(st.lists(st.binary(max_size=200) | st.just(GOOD), max_size=6))
def test_any_bytes_are_a_record_or_a_problem_and_touch_no_other_row(packed: list[bytes]) -> None:
    batch = decode_records(packed)
    for row, (value, record) in enumerate(zip(packed, batch.records(), strict=True)):
        assert (record is None) == (row in batch.problems)
        if value == GOOD:
            assert record == record_of("a", "b")


def _damaged(damage: Callable[[list[bytes]], list[bytes]]) -> bytes:
    return b"\t".join(damage(GOOD.split(b"\t")))


@pytest.mark.parametrize(
    ("packed", "reason"),
    [
        (b"", "format ''"),
        (b"{}", "format '{}'"),
        (b"2", "format '2'"),
        (b"1" + GOOD[1:], "format '1'; this program reads '2'"),
        (b"\xff\xfe", "format"),
        (GOOD + b"\xff", "not UTF-8"),
        (_damaged(lambda fields: fields[:11]), "11 fields is truncated"),
        (_damaged(lambda fields: [fields[0], b"zero", *fields[2:]]), "unreadable head"),
        (_damaged(lambda fields: [*fields[:2], b"", *fields[3:]]), "unreadable head"),
        (_damaged(lambda fields: [*fields[:2], b"-1", *fields[3:]]), "unreadable head"),
        (_damaged(lambda fields: [*fields[:2], b"1" * 16, *fields[3:]]), "unreadable head"),
        (_damaged(lambda fields: [*fields[:4], b"\x1f4.5", *fields[5:]]), "unreadable head"),
        (_damaged(lambda fields: [*fields, b""]), "unreadable event"),
        (_damaged(lambda fields: [*fields, b"1700000000000v"]), "unreadable event"),
        (_damaged(lambda fields: [*fields, b"1700000000000v\x1f4.5"]), "unreadable event"),
        (_damaged(lambda fields: [*fields, b"1700000000000xa"]), "unreadable event"),
        (_damaged(lambda fields: [*fields, b"170000000000va"]), "unreadable event"),
        (_damaged(lambda fields: [*fields, b"1700000000000va\x1fmuch"]), "unreadable event"),
        (_damaged(lambda fields: [*fields, b"1700000000000va\x1f"]), "unreadable event"),
        (_damaged(lambda fields: [*fields, b"1700000000000va\x1f1.0\x1f2.0"]), "unreadable event"),
    ],
)
def test_a_damaged_row_is_reported_with_its_reason_and_the_others_are_read(packed: bytes, reason: str) -> None:
    batch = decode_records([GOOD, packed, None, GOOD])
    assert list(batch.problems) == [1]
    assert reason in batch.problems[1]
    assert batch.records() == [record_of("a", "b"), None, None, record_of("a", "b")]
    with pytest.raises(ValueError, match=r"."):
        parse_record(packed)


def test_several_kinds_of_damage_are_all_reported() -> None:
    batch = decode_records([b"", GOOD + b"\xff", GOOD, GOOD[:20], GOOD + b"\tx"])
    assert sorted(batch.problems) == [0, 1, 3, 4]
    assert batch.records()[2] == record_of("a", "b")


def test_a_single_record_is_a_batch_of_one() -> None:
    assert parse_record(GOOD) == record_of("a", "b")


def test_the_events_of_a_decoded_record_are_like_a_tuple() -> None:
    events = parse_record(GOOD).events
    as_tuple = (Event(NOW_MS - 1_000, "view", "a"), Event(NOW_MS, "view", "b"))
    assert (events, tuple(events), tuple(reversed(events))) == (as_tuple, as_tuple, as_tuple[::-1])
    assert (len(events), events[-1], events[:1]) == (2, as_tuple[1], as_tuple[:1])
    assert hash(events) == hash(as_tuple)
    assert events == parse_record(GOOD).events


def test_item_ids_are_read_only_when_somebody_asks() -> None:
    asked: list[bool] = []
    batch = decode_records([GOOD])
    watched = RecordBatch(
        batch.positions,
        batch.first_ts,
        batch.counts,
        batch.row_splits,
        batch.ts,
        batch.actions,
        batch.values,
        lambda _chosen: asked.append(True) or ["a", "b"],  # type: ignore[func-returns-value]
    )
    (record,) = watched.records()
    assert record is not None
    assert not asked
    assert [event.item_id for event in record.events] == ["a", "b"]
    assert [event.item_id for event in record.events] == watched.item_ids
    assert len(asked) == 1
