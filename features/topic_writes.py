"""From a message of a compacted topic to the write that the store gets, for the materializer and every cache alike."""

from collections.abc import Callable, Mapping

import msgspec

from features.entries import entry_id, read_entry
from features.store import Family, Write
from features.user_record import FORMAT_VERSION as RECORD_VERSION
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


def packed_position(packed: bytes, version: str, writer: str) -> Position:
    """Return the (partition, offset) that a packed value of the job `writer` begins with, behind its format's version.

    Raises `UnreadableRecord` if it is none of this format.
    """
    found, *rest = packed.split(b"\t", 3)
    try:
        if found != version.encode():
            raise ValueError(f"a value of format {found[:20]!r}; this program reads {version!r}")
        return int(rest[0]), int(rest[1])
    except (ValueError, IndexError) as error:
        raise UnreadableRecord(f"{error}; only the job {writer} may write to this topic") from error


def _packed(version: str, writer: str) -> _Read:
    """The value's own position: a job that replays the log after a crash must not move a user backwards."""

    def read(_key: bytes | None, value: bytes | None, at: Position) -> Position:
        return (NO_PARTITION, at[1]) if value is None else packed_position(value, version, writer)

    return read


def _versioned(version: str, writer: str) -> _Read:
    def read(_key: bytes | None, value: bytes | None, at: Position) -> Position:
        if value is not None and not value.startswith(version.encode() + b"\t"):
            raise UnreadableRecord(
                f"a value of format {value[:20]!r}; this program reads {version!r}; "
                f"only the job {writer} may write to this topic"
            )
        return at

    return read


def _json(kind: type[msgspec.Struct], id_field: str) -> _Read:
    def read(key: bytes | None, value: bytes | None, at: Position) -> Position:
        read_entry(kind, id_field, key, value)
        return at

    return read


_FAMILIES: Mapping[str, tuple[Family, _Read]] = {
    FEATURES_USER.name: (Family.USER, _packed(RECORD_VERSION, "user-record")),
    EMBEDDINGS_USER.name: (Family.EMBEDDING, _packed("1", "user-embedding")),
    FEATURES_ITEM.name: (Family.ITEM_STATISTICS, _versioned("1", "item-statistics")),
    USERS.name: (Family.PROFILE, _json(User, USERS.key)),
    ITEMS.name: (Family.ITEM, _json(Item, ITEMS.key)),
    LEADERBOARDS.name: (Family.LEADERBOARD, _json(Leaderboard, LEADERBOARDS.key)),
}

STORED_TOPICS = tuple(_FAMILIES)
"""The topics that are written to the store."""
