import json
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.click import ACTIONS, Click
from schemas.codec import MAX_MESSAGE_BYTES, check_not_in_future, decode, encode, encode_bounded
from schemas.dead_letter import DeadLetter
from schemas.errors import CODES, InvalidId, MessageError, TimestampInFuture, TooLarge
from schemas.fields import MAX_TS_MS, MIN_TS_MS
from schemas.item import Item
from schemas.request import Request
from schemas.state import Leaderboard, Neighbours
from tests.corpus import ACCEPTED_CLICKS, REJECTED_CLICKS, ClickCase

NOW_MS = 1_700_000_000_000
TOLERANCE_MS = 60_000

ids = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=64)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=64)
numbers = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | numbers | names
clicks = st.builds(
    Click,
    event_id=ids,
    ts=st.integers(MIN_TS_MS, MAX_TS_MS),
    user_id=ids,
    item_id=ids,
    action=st.sampled_from(ACTIONS),
    value=st.none() | numbers,
    request_id=st.none() | ids,
    position=st.none() | st.integers(0, 2**31 - 1),
    session_id=st.none() | ids,
    context=st.none() | st.dictionaries(names, scalars, max_size=4),
)
json_values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(names, inner), max_leaves=8)


def _read_and_written_again(value: bytes | None) -> bytes:
    click = decode(value, Click)
    check_not_in_future(click.ts, NOW_MS, TOLERANCE_MS)
    return encode_bounded(click)


@pytest.mark.parametrize("case", REJECTED_CLICKS, ids=str)
def test_every_way_to_be_wrong_has_its_own_code(case: ClickCase) -> None:
    with pytest.raises(MessageError) as raised:
        _read_and_written_again(case.make(NOW_MS))
    assert raised.value.code == case.code
    assert str(raised.value)


@pytest.mark.parametrize("case", ACCEPTED_CLICKS, ids=str)
def test_what_only_looks_wrong_is_accepted_and_encoded_as_it_was_meant(case: ClickCase) -> None:
    click = decode(case.make(NOW_MS), Click)
    assert click.user_id == case.user_id
    assert decode(encode(click), Click) == click


def test_the_corpus_covers_every_code_that_a_click_can_have() -> None:
    of_compacted_topics = {"wrong_key", "unreadable_record"}
    of_more_than_one_click = {"duplicate_event"}
    assert {case.code for case in REJECTED_CLICKS} == set(CODES) - of_compacted_topics - of_more_than_one_click


@given(clicks)
def test_any_click_survives_the_wire(click: Click) -> None:
    assert decode(encode(click), Click) == click


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_message_error(value: bytes) -> None:
    _message_or_error(value)


@given(st.dictionaries(st.sampled_from(Click.__struct_fields__), json_values))
def test_any_object_is_a_message_or_a_message_error(fields: dict[str, object]) -> None:
    _message_or_error(json.dumps(fields).encode())


@given(clicks, st.data())
def test_a_click_with_one_byte_changed_is_a_message_or_a_message_error(click: Click, data: st.DataObject) -> None:
    value = bytearray(encode(click))
    value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    _message_or_error(bytes(value))


def _message_or_error(value: bytes) -> None:
    try:
        click = decode(value, Click)
    except MessageError as error:
        assert error.code in CODES  # noqa: PT017 - either outcome is right, but not a third one
    else:
        # What the gate lets through must be readable again, by anyone.
        assert decode(encode(click), Click) == click


@given(clicks)
def test_what_is_encoded_is_plain_json_without_what_trips_other_parsers(click: Click) -> None:
    text = encode(click)
    parsed = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert isinstance(parsed, dict)
    assert b"\n" not in text


def test_unknown_fields_are_left_out() -> None:
    value = msgspec.json.encode({"item_id": "i", "ts": NOW_MS, "colour": "red"})
    assert encode(decode(value, Item)) == encode(Item(item_id="i", ts=NOW_MS))


def test_a_value_of_the_largest_size_is_read_and_one_byte_more_is_not() -> None:
    value = encode(Item(item_id="i", ts=NOW_MS, title=""))
    padded = value + b" " * (MAX_MESSAGE_BYTES - len(value))
    assert decode(padded, Item).item_id == "i"
    with pytest.raises(TooLarge):
        decode(padded + b" ", Item)


def test_what_is_encoded_within_bounds_can_be_read_again() -> None:
    rest = len(encode(Item(item_id="i", ts=NOW_MS, title="")))
    largest = Item(item_id="i", ts=NOW_MS, title="x" * (MAX_MESSAGE_BYTES - rest))
    assert decode(encode_bounded(largest), Item) == largest
    with pytest.raises(TooLarge):
        encode_bounded(msgspec.structs.replace(largest, title=f"{largest.title}x"))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Click, {"event_id": "e", "user_id": "u", "item_id": "i", "action": "view", "session_id": ...}),
        (Request, {"request_id": "r", "user_id": "u", "k": 1, "surface": ...}),
        (Request, {"request_id": "r", "user_id": "u", "k": 1, "model": ...}),
        (Request, {"request_id": "r", "user_id": "u", "k": 1, "candidates": ["a", ...]}),
        (Request, {"request_id": "r", "user_id": "u", "k": 1, "exclude": ["a", ...]}),
        (Neighbours, {"item_id": "i", "events": 1, "neighbours": [["a", 0.5], [..., 0.4]]}),
        (Leaderboard, {"board": "b", "items": [{"item_id": "a", "score": 2}, {"item_id": ..., "score": 1}]}),
    ],
    ids=str,
)
@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_an_id_is_held_to_its_bytes_wherever_it_stands(
    kind: type[msgspec.Struct], fields: dict[str, object], ensure_ascii: bool
) -> None:
    def message(id_: str) -> bytes:
        text = json.dumps({"ts": NOW_MS, **fields}, default=lambda _: id_, ensure_ascii=ensure_ascii)
        return text.encode()

    decode(message("😀" * 64), kind)
    decode(message("x" * 256), kind)
    with pytest.raises(InvalidId, match="has 260 bytes"):
        decode(message("😀" * 65), kind)


def test_the_clock_may_be_off_by_the_tolerance() -> None:
    check_not_in_future(NOW_MS + TOLERANCE_MS, NOW_MS, TOLERANCE_MS)
    with pytest.raises(TimestampInFuture, match="60001 ms ahead"):
        check_not_in_future(NOW_MS + TOLERANCE_MS + 1, NOW_MS, TOLERANCE_MS)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"k": 0}, "out_of_range"),
        ({"k": 10_000}, "out_of_range"),
        ({"k": "10"}, "wrong_type"),
        ({"candidates": ["i"] * 10_001}, "out_of_range"),
        ({"candidates": ["i", ""]}, "invalid_id"),
        ({"exclude": "i"}, "wrong_type"),
        ({"timeout_ms": 0}, "out_of_range"),
    ],
    ids=str,
)
def test_a_request_that_cannot_be_answered_says_why(changes: dict[str, object], code: str) -> None:
    fields: dict[str, object] = {"request_id": "r", "ts": NOW_MS, "user_id": "u", "k": 10}
    with pytest.raises(MessageError) as raised:
        decode(msgspec.json.encode(fields | changes), Request)
    assert raised.value.code == code


@given(st.none() | st.binary(max_size=300), st.none() | st.binary(max_size=300))
def test_a_dead_letter_carries_any_original(key: bytes | None, original: bytes | None) -> None:
    letter = DeadLetter(
        source_topic="clicks",
        source_partition=0,
        source_offset=1,
        ts=NOW_MS,
        code="not_json",
        detail="",
        key=key,
        original=original,
    )
    assert decode(encode(letter), DeadLetter) == letter


def test_codes_are_distinct_words() -> None:
    assert len(set(CODES)) == len(CODES) == len(MessageError.__subclasses__())
    assert all(code.replace("_", "").isalpha() and code.islower() for code in CODES)


def test_actions_are_those_of_the_type() -> None:
    assert get_args(msgspec.structs.fields(Click)[4].type) == ACTIONS
