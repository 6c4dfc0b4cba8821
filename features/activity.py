"""Read-side functions of one user record: how active, which items last, how one-sided.

`features/user_features.py` has the features of a whole batch. What is here as well is what routing, recall and filters
ask for one request: there numpy's calls, made for a single row, would cost several times the walk over 32 events.
"""

from collections.abc import Mapping

import numpy as np

from features.user_record import UserRecord
from schemas.click import ACTIONS
from schemas.item import Item

POSITIVE_ACTIONS = frozenset({"view", "click", "cart", "purchase", "rating"})
"""What a user did of their own will; an impression was done to them, and hiding is a refusal."""

DELIBERATE = np.array([action in POSITIVE_ACTIONS for action in ACTIONS])
"""The same by the place of an action in `ACTIONS`, bool of shape (7,)."""


def activity(record: UserRecord | None) -> int:
    """How many events this user ever had; 0 for a stranger."""
    return 0 if record is None else record.total_events


def last_items(record: UserRecord | None, k: int) -> tuple[str, ...]:
    """The items of the last `k` deliberate events, most recent first; an item counts once, at its most recent."""
    if record is None:
        return ()
    recent: dict[str, None] = {}
    for event in reversed(record.events):
        if len(recent) == k:
            break
        if event.action in POSITIVE_ACTIONS:
            recent.setdefault(event.item_id)
    return tuple(recent)


def category_streak(record: UserRecord | None, items: Mapping[str, Item]) -> tuple[int, str | None]:
    """How many of the last deliberate events in a row share the last one's category; and that category.

    An item that is unknown or has no category ends the streak; (0, None) where there is none.
    """
    streak, category = 0, None
    for event in reversed(record.events) if record is not None else ():
        if event.action not in POSITIVE_ACTIONS:
            continue
        item = items.get(event.item_id)
        if item is None or item.category is None or (category is not None and item.category != category):
            break
        category = item.category
        streak += 1
    return streak, category


def seen_items(record: UserRecord | None) -> frozenset[str]:
    """Every item of the kept events that the user acted on, whatever the action but a mere impression."""
    if record is None:
        return frozenset()
    return frozenset(event.item_id for event in record.events if event.action != "impression")


def hidden_items(record: UserRecord | None) -> frozenset[str]:
    """Every item of the kept events that the user asked not to see again."""
    if record is None:
        return frozenset()
    return frozenset(event.item_id for event in record.events if event.action == "hide")
