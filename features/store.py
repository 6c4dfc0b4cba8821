"""The feature store: one packed value per entity, read many at a time, never going backwards."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol


class Family(StrEnum):
    """What a value belongs to; the part of its key before the id."""

    USER = "user"
    PROFILE = "profile"
    EMBEDDING = "embedding"
    ITEM = "item"
    ITEM_STATISTICS = "item-statistics"
    LEADERBOARD = "leaderboard"

    def key(self, entity_id: str) -> str:
        """Return the store's key of one entity, as `redis-cli` shows it: headrace:user:u1."""
        return f"headrace:{self}:{entity_id}"


class Stored(NamedTuple):
    """A value and the position in the log, (partition, offset), of the event that made it."""

    value: bytes
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Write:
    """The absolute state of `key` after the event at (partition, offset); a `value` of None deletes it.

    A deletion is kept as a tombstone with its position until it expires, so that a late write cannot undo it.
    """

    key: str
    value: bytes | None
    partition: int
    offset: int

    def supersedes(self, held: "Write") -> bool:
        """Whether this write takes effect on a key that holds what `held` wrote."""
        return self.partition != held.partition or self.offset >= held.offset


class FeatureStore(Protocol):
    """Where serving finds the state of users and items.

    Every call raises `StoreUnavailable` when the store does not answer in time. A batch that failed may be
    written in part; writing it again is always safe.
    """

    def get_many(self, keys: Sequence[str]) -> list[Stored | None]:
        """Return what each key holds, in the order of `keys`; None where it is absent, deleted or expired."""
        ...

    def put_many(self, writes: Sequence[Write]) -> int:
        """Apply `writes` in order and return how many took effect.

        A write is left out when the key holds a greater offset of the same partition. An equal offset is
        written again and lives for a full TTL again; a write of another partition always takes effect.
        """
        ...

    def close(self) -> None:
        """Release the connections, if there are any."""
        ...
