"""Every topic, with its key, its cleanup and its retention, stated rather than left to a broker's defaults."""

from dataclasses import dataclass
from typing import Literal

import msgspec

from schemas.click import Click
from schemas.dead_letter import DeadLetter
from schemas.item import Item
from schemas.recommendation import Recommendation
from schemas.request import Request
from schemas.state import Leaderboard, ModelPointer, Neighbours
from schemas.user import User

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic: `kind` is the JSON type of its values, None where the value is a packed text."""

    name: str
    key: str
    what: str
    kind: type[msgspec.Struct] | None
    cleanup: Literal["delete", "compact"] = "delete"
    retention_ms: int = 7 * DAY_MS
    partitioned: bool = True
    """Whether it has the common partition count (all per-user topics agree on a user's partition) or just one."""
    max_message_bytes: int = 1_048_588
    segment_bytes: int = 1024**3
    """Only a closed segment is compacted: a topic that rewrites itself all the time wants small ones."""

    def settings(self) -> dict[str, str]:
        """The topic's configuration in Kafka's own names."""
        settings = {
            "cleanup.policy": self.cleanup,
            "max.message.bytes": str(self.max_message_bytes),
            "segment.bytes": str(self.segment_bytes),
        }
        if self.cleanup == "delete":
            settings["retention.ms"] = str(self.retention_ms)
        else:
            # A tombstone must outlive the longest outage of a follower, or the follower keeps what was deleted.
            settings["delete.retention.ms"] = str(DAY_MS)
        return settings


CLICKS = Topic("clicks", "user_id", "what people did, as they sent it", Click, max_message_bytes=2 * 1024**2)
CLICKS_ACCEPTED = Topic("clicks.accepted", "user_id", "the valid ones, keyed by user", Click)
ITEMS = Topic("items", "item_id", "the catalogue", Item, "compact")
USERS = Topic("users", "user_id", "profiles", User, "compact")
REQUESTS = Topic("recommend.requests", "user_id", "who wants how many, by when", Request, max_message_bytes=2 * 1024**2)
RECOMMENDATIONS = Topic("recommendations", "user_id", "the answers", Recommendation)
FEATURES_USER = Topic("features.user", "user_id", "the last events and counters of each user", None, "compact")
FEATURES_ITEM = Topic(
    "features.item",
    "item_id",
    "what happened to each item, over windows and ever",
    None,
    "compact",
    segment_bytes=64 * 1024**2,
)
EMBEDDINGS_USER = Topic("embeddings.user", "user_id", "each user's vector", None, "compact", segment_bytes=64 * 1024**2)
LEADERBOARDS = Topic("leaderboards", "board", "what is popular now", Leaderboard, "compact", partitioned=False)
NEIGHBOURS = Topic(
    "neighbours",
    "item_id",
    "each item's most similar items",
    Neighbours,
    "compact",
    # Up to one list per item and second: without compaction a new worker would read all of them.
    segment_bytes=16 * 1024**2,
)
MODELS = Topic("models", "model", "the current artifact of each model", ModelPointer, "compact", partitioned=False)
DEAD_LETTERS = Topic(
    "dead-letters",
    "source topic",
    "what was refused, and why",
    DeadLetter,
    retention_ms=30 * DAY_MS,
    partitioned=False,
    # Base64 makes four bytes of three, and the largest source message is 2 MiB.
    max_message_bytes=4 * 1024**2,
)

TOPICS = (
    CLICKS,
    CLICKS_ACCEPTED,
    ITEMS,
    USERS,
    REQUESTS,
    RECOMMENDATIONS,
    FEATURES_USER,
    FEATURES_ITEM,
    EMBEDDINGS_USER,
    LEADERBOARDS,
    NEIGHBOURS,
    MODELS,
    DEAD_LETTERS,
)
