"""Titles for item ids on the screen."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.config import Config


def read_titles(config: "Config", item_ids: Collection[str]) -> Mapping[str, str]:
    """Return the titles that the store knows; without the store, none: they only decorate."""
    from features.redis_store import RedisStore
    from features.store import Family
    from runtime.errors import StoreUnavailable
    from schemas.codec import decode
    from schemas.errors import MessageError
    from schemas.item import Item

    ids = sorted(item_ids)
    try:
        stored = RedisStore(config.redis).get_many([Family.ITEM.key(item_id) for item_id in ids])
        items = [decode(each.value, Item) for each in stored if each is not None]
    except (StoreUnavailable, MessageError):
        return {}
    return {item.item_id: item.title for item in items if item.title}
