"""From a message of a compacted topic to the write that the store gets, for the materializer and every cache alike."""

from collections.abc import Callable, Mapping

import msgspec

from features import item_statistics
from features.entries import entry_id, read_entry
from features.packed import foreign_format
from features.store import Family, Write
from features.user_record import record_position
from features.user_vector import vector_position
from schemas.errors import UnreadableRecord
from schemas.item import Item
from schemas.state import Leaderboard
from schemas.topics import EMBEDDINGS_USER, FEATURES_ITEM, FEATURES_USER, ITEMS, LEADERBOARDS, USERS
from schemas.user import User

NO_PARTITION = -1
"""The partition of a deleted user record or vector: it knows no position in `clicks.accepted`, and whatever comes after
it in its topic replaces it."""

Position = tuple[int, int]
"""Partition and offset."""

_Read = Callable[[bytes | None, bytes | None, Position], Position]
"""Checks key and value of the message at a position and returns the position that orders this entity's writes."""


def write_of(topic: str, key: bytes | None, value: bytes | None, partition: int, offset: int) -> Write:
    """Return the write that a message of one of `STORED_TOPICS` asks for; raise `MessageError` if it asks for none."""
    family, read = _FAMILIES[topic]
    position = read(key, value, (partition, offset))
    return Write(family.key(entry_id(key)), value, *position)


def _packed(position: Callable[[bytes], Position], writer: str) -> _Read:
    """The value's own position: a job that replays the log after a crash must not move a user backwards."""

    def read(_key: bytes | None, value: bytes | None, at: Position) -> Position:
        if value is None:
            return NO_PARTITION, at[1]
        try:
            return position(value)
        except ValueError as error:
            raise UnreadableRecord(_ours_alone(str(error), writer)) from error

    return read


def _statistics(_key: bytes | None, value: bytes | None, at: Position) -> Position:
    if value is not None and not value.startswith(item_statistics.FORMAT_VERSION.encode() + b"\t"):
        found = value.split(b"\t", 1)[0].decode(errors="replace")
        raise UnreadableRecord(
            _ours_alone(foreign_format(item_statistics.KIND, found, item_statistics.FORMAT_VERSION), "item-statistics")
        )
    return at


def _ours_alone(why: str, writer: str) -> str:
    return f"{why}; only the job {writer} may write to this topic"


def _json(kind: type[msgspec.Struct], id_field: str) -> _Read:
    def read(key: bytes | None, value: bytes | None, at: Position) -> Position:
        read_entry(kind, id_field, key, value)
        return at

    return read


_FAMILIES: Mapping[str, tuple[Family, _Read]] = {
    FEATURES_USER.name: (Family.USER, _packed(record_position, "user-record")),
    EMBEDDINGS_USER.name: (Family.EMBEDDING, _packed(vector_position, "user-embedding")),
    FEATURES_ITEM.name: (Family.ITEM_STATISTICS, _statistics),
    USERS.name: (Family.PROFILE, _json(User, USERS.key)),
    ITEMS.name: (Family.ITEM, _json(Item, ITEMS.key)),
    LEADERBOARDS.name: (Family.LEADERBOARD, _json(Leaderboard, LEADERBOARDS.key)),
}

STORED_TOPICS = tuple(_FAMILIES)
"""The topics that are written to the store."""
