import msgspec
import pytest
from confluent_kafka import Message

from features.store import Write
from features.user_record import RecordBuilder, pack_record
from jobs.materializer import judge, latest
from schemas.codec import encode
from schemas.dead_letter import DeadLetter
from schemas.item import Item
from schemas.state import Leaderboard
from schemas.user import User
from tests.builders import NOW_MS, click_of

RECORD = pack_record(RecordBuilder(32).add(click_of("u1", "i1"), (2, 40)))


def _message(topic: str, key: bytes | None, value: bytes | None) -> Message:
    return Message(topic, 1, 7, key, value)  # type: ignore[call-arg, arg-type, unused-ignore]


VECTOR = b"1\t2\t40\tv1\tAAAAAA=="


@pytest.mark.parametrize(
    ("topic", "value", "family"), [("features.user", RECORD, "user"), ("embeddings.user", VECTOR, "embedding")]
)
def test_what_is_known_of_a_user_is_guarded_by_its_position_in_the_clicks(
    topic: str, value: bytes, family: str
) -> None:
    assert judge(_message(topic, b"u1", value), NOW_MS) == Write(f"headrace:{family}:u1", value, partition=2, offset=40)


@pytest.mark.parametrize(
    ("topic", "value", "key"),
    [
        ("items", encode(Item(item_id="i1", ts=NOW_MS)), "headrace:item:i1"),
        ("users", encode(User(user_id="i1", ts=NOW_MS)), "headrace:profile:i1"),
        ("leaderboards", encode(Leaderboard(board="i1", items=())), "headrace:leaderboard:i1"),
        ("features.item", b"1\t3\t1", "headrace:item-statistics:i1"),
    ],
)
def test_everything_else_is_stored_as_it_came_guarded_by_its_own_offset(topic: str, value: bytes, key: str) -> None:
    assert judge(_message(topic, b"i1", value), NOW_MS) == Write(key, value, partition=1, offset=7)


@pytest.mark.parametrize("topic", ["items", "users", "leaderboards", "features.item"])
def test_null_deletes(topic: str) -> None:
    written = judge(_message(topic, b"i1", None), NOW_MS)
    assert isinstance(written, Write)
    assert (written.value, written.partition, written.offset) == (None, 1, 7)


def test_a_deleted_user_record_is_replaced_by_whatever_comes_next() -> None:
    deleted = judge(_message("features.user", b"u1", None), NOW_MS)
    record = judge(_message("features.user", b"u1", RECORD), NOW_MS)
    assert isinstance(deleted, Write)
    assert isinstance(record, Write)
    assert deleted.value is None
    assert deleted.supersedes(record)
    assert record.supersedes(deleted)


@pytest.mark.parametrize(
    ("topic", "key", "value", "code"),
    [
        ("items", b"i1", b"{", "not_json"),
        ("items", b"i1", b"", "missing_value"),
        ("items", b"i1", msgspec.json.encode({"item_id": "i1"}), "missing_field"),
        ("items", b"i2", encode(Item(item_id="i1", ts=NOW_MS)), "wrong_key"),
        ("items", b"\xff", encode(Item(item_id="i1", ts=NOW_MS)), "wrong_key"),
        ("users", b"u1", b"[]", "not_an_object"),
        ("features.user", b"u1", b"", "unreadable_record"),
        ("features.user", b"u1", b"{}", "unreadable_record"),
        ("features.user", b"u1", RECORD[:4], "unreadable_record"),
        ("features.user", b"u1", b"9" + RECORD[1:], "unreadable_record"),
        ("features.user", b"u1", RECORD.replace(b"\t2\t", b"\ttwo\t", 1), "unreadable_record"),
        ("embeddings.user", b"u1", b"9" + VECTOR[1:], "unreadable_record"),
        ("embeddings.user", b"u1", b"1\t2", "unreadable_record"),
        ("features.item", b"i1", b"9\t1", "unreadable_record"),
        ("features.item", b"\xff", b"1\t1", "wrong_key"),
    ],
)
def test_what_cannot_be_stored_becomes_a_dead_letter(topic: str, key: bytes, value: bytes, code: str) -> None:
    letter = judge(_message(topic, key, value), NOW_MS)
    assert isinstance(letter, DeadLetter)
    assert (letter.source_topic, letter.code, letter.key, letter.original) == (topic, code, key, value)


def test_of_one_batch_only_the_write_that_wins_is_kept_for_each_key() -> None:
    old, new, replayed = Write("a", b"5", 0, 5), Write("a", b"9", 0, 9), Write("a", b"7", 0, 7)
    other = Write("b", b"1", 0, 1)
    assert latest([old, other, new, replayed]) == [new, other]
    assert latest([]) == []


def test_a_deletion_and_its_sequel_keep_their_order() -> None:
    value, deleted = Write("a", b"5", 0, 5), Write("a", None, -1, 6)
    assert latest([value, deleted]) == [deleted]
    assert latest([deleted, value]) == [value]
