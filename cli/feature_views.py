"""What the store holds of one user or item, and the features made of it, as one document to print."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from features.record_batch import RecordBatch
    from features.store import FeatureStore, Stored
    from runtime.config import Config

Parsed = TypeVar("Parsed")

View = dict[str, Any]


def user_view(store: "FeatureStore", config: "Config", user_id: str, now_ms: int) -> View:
    """Return record, profile, vector and features of a user as of `now_ms`.

    Raises `HeadraceError` if the store holds nothing of them, or something that cannot be read.
    """
    import numpy as np

    from features.record_batch import batch_of, parse_record
    from features.store import Family
    from features.user_vector import parse_vector
    from runtime.errors import HeadraceError
    from schemas.click import ACTIONS
    from schemas.codec import decode
    from schemas.user import User

    keys = [family.key(user_id) for family in (Family.USER, Family.PROFILE, Family.EMBEDDING)]
    stored = store.get_many(keys)
    if not any(stored):
        raise HeadraceError(
            f"nothing is known of user {user_id!r}: no events, no profile, no vector; "
            "is that the right user_id, and does everything run? (headrace status)"
        )
    record = _parsed(stored[0], parse_record, f"the record of user {user_id!r}")
    profile = _parsed(stored[1], lambda value: decode(value, User), f"the profile of user {user_id!r}")
    vector = _parsed(stored[2], parse_vector, f"the vector of user {user_id!r}")
    return {
        "user_id": user_id,
        "record": record
        and {
            "partition": record.position[0],
            "offset": record.position[1],
            "first_ts": record.first_ts,
            "last_ts": record.last_ts,
            "counts": dict(zip(ACTIONS, record.counts, strict=True)),
            "events": [event._asdict() for event in record.events],
        },
        "profile": profile,
        "vector": vector
        and {
            "partition": vector.position[0],
            "offset": vector.position[1],
            "encoder_version": vector.encoder_version,
            "size": len(vector.vector),
            "norm": float(np.linalg.norm(vector.vector)),
        },
        "features": _features(store, config, batch_of([record]), now_ms),
    }


def item_view(store: "FeatureStore", config: "Config", item_id: str, now_ms: int) -> View:
    """Return catalogue entry and features of an item as of `now_ms`.

    Raises `HeadraceError` if the store holds nothing of it, or something that cannot be read.
    """
    import numpy as np

    from features.item_features import item_features
    from features.item_statistics import parse_statistics
    from features.store import Family
    from runtime.errors import HeadraceError
    from schemas.codec import decode
    from schemas.item import Item

    stored = store.get_many([Family.ITEM.key(item_id), Family.ITEM_STATISTICS.key(item_id)])
    if not any(stored):
        raise HeadraceError(
            f"nothing is known of item {item_id!r}: no catalogue entry, no statistics; "
            "is that the right item_id, and does everything run? (headrace status)"
        )
    entry = _parsed(stored[0], lambda value: decode(value, Item), f"the entry of item {item_id!r}")
    statistics = _parsed(stored[1], parse_statistics, f"the statistics of item {item_id!r}")
    features = item_features(statistics, now_ms, config.item_statistics, config.leaderboard.half_life_ms)
    return {
        "item_id": item_id,
        "entry": entry,
        "statistics": statistics,
        "features": {name: np.asarray(value).tolist() for name, value in features.items()},
    }


def _features(store: "FeatureStore", config: "Config", batch: "RecordBatch", now_ms: int) -> View:
    """Return the user features that need no request."""
    import numpy as np

    from features.item_columns import ItemColumns
    from features.registry import features_of
    from features.store import Family
    from features.user_features import USER_FEATURES, user_features
    from schemas.codec import decode
    from schemas.item import Item

    columns = ItemColumns()
    for stored in store.get_many([Family.ITEM.key(item_id) for item_id in sorted(set(batch.item_ids))]):
        entry = _parsed(stored, lambda value: decode(value, Item), "a catalogue entry")
        if entry is not None:
            columns.put(entry)
    of_requests = {feature.name for feature in features_of("user") if feature.source == "recommend.requests"}
    names = [name for name in USER_FEATURES if name not in of_requests]
    now = np.array([now_ms], np.int64)
    found = user_features(names, batch, columns, [{}], now, config.features.session_gap_ms)
    return {
        name: column[0].tolist() if isinstance(column[0], np.ndarray | np.generic) else column[0]
        for name, column in found.items()
    }


def _parsed(stored: "Stored | None", parse: Callable[[bytes], Parsed], what: str) -> Parsed | None:
    from runtime.errors import HeadraceError
    from schemas.errors import MessageError

    if stored is None:
        return None
    try:
        return parse(stored.value)
    except (ValueError, MessageError) as error:
        raise HeadraceError(
            f"{what} cannot be read: {error}; write it again with `headrace features rebuild`"
        ) from error
