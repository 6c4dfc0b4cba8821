"""One rule for what stands in a compacted topic, whoever reads it."""

import pytest

from features.entries import apply_entry, read_entry
from features.topic_writes import write_of
from schemas.codec import encode
from schemas.errors import MessageError, WrongKey
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
    assert raised.value.code == "wrong_key"
    with pytest.raises(WrongKey):
        write_of("items", key, encode(NEW), 0, 0)


def test_a_value_that_does_not_decode_changes_nothing() -> None:
    table = {"i": OLD}
    with pytest.raises(MessageError):
        apply_entry(table, Item, "item_id", b"i", b"{")
    assert table == {"i": OLD}


def test_a_deletion_is_an_id_without_an_entry() -> None:
    assert read_entry(Item, "item_id", b"i", None) == ("i", None)
