"""Who is there."""

import msgspec

from schemas.fields import Id, Scalars, TimestampMs


class User(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One profile; the last value per `user_id` wins, a null value deletes it."""

    user_id: Id
    ts: TimestampMs
    attributes: Scalars | None = None
