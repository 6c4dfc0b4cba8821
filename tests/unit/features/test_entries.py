"""One rule for what stands in a compacted topic, whoever reads it."""

import pytest
from confluent_kafka import Message

from features.entries import apply_entry, read_entry
from jobs.materializer import write_of
from schemas.codec import encode
from schemas.dead_letter import DeadLetter
from schemas.errors import MessageError
from schemas.item import Item
from tests.builders import NOW_MS

OLD, NEW = (Item(item_id="i", ts=NOW_MS, title=title) for title in ("old", "new"))


def test_the_last_value_counts_and_null_deletes() -> None:
    table = {"i": OLD}
    apply_entry(table, Item, "item_id", b"i", encode(NEW))
    assert table == {"i": NEW}
    apply_entry(table, Item, "item_id", b"i", None)
    apply_entry(table, Item, "item_id", b"i", None)
    assert table == {}


@pytest.mark.parametrize("key", [b"other", b"", None, b"\xff"])
def test_an_entry_under_a_key_that_is_not_its_id_changes_nothing_for_any_reader(key: bytes | None) -> None:
    table = {"i": OLD, "other": OLD}
    with pytest.raises(MessageError) as raised:
        apply_entry(table, Item, "item_id", key, encode(NEW))
    assert table == {"i": OLD, "other": OLD}
    letter = write_of(Message("items", 0, 0, key, encode(NEW)), NOW_MS)  # type: ignore[call-arg, arg-type, unused-ignore]
    assert isinstance(letter, DeadLetter)
    assert letter.code == raised.value.code == "wrong_key"


def test_a_value_that_does_not_decode_changes_nothing() -> None:
    table = {"i": OLD}
    with pytest.raises(MessageError):
        apply_entry(table, Item, "item_id", b"i", b"{")
    assert table == {"i": OLD}


def test_a_deletion_is_an_id_without_an_entry() -> None:
    assert read_entry(Item, "item_id", b"i", None) == ("i", None)
