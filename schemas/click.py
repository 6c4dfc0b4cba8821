"""What people did."""

from typing import Literal, get_args

import msgspec

from schemas.fields import Count, Id, Scalars, TimestampMs

Action = Literal["impression", "view", "click", "cart", "purchase", "rating", "hide"]
ACTIONS: tuple[Action, ...] = get_args(Action)
"""Every action, in the order of the counters in a user record."""


class Click(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of one user on one item.

    `value` belongs to the action (a rating's stars, a purchase's price). `request_id` and `position` tie the
    event to the recommendation that led to it.
    """

    event_id: Id
    ts: TimestampMs
    user_id: Id
    item_id: Id
    action: Action
    value: float | None = None
    request_id: Id | None = None
    position: Count | None = None
    session_id: Id | None = None
    context: Scalars | None = None
