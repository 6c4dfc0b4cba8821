"""What can be recommended."""

import msgspec

from schemas.fields import Id, Scalars, TimestampMs


class Item(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One catalogue entry; the last value per `item_id` wins, a null value deletes it.

    `tags` are further categories, `vector` an embedding of any fixed length; an item that is not `available`
    or past `expires_at` (epoch milliseconds) is never recommended.
    """

    item_id: Id
    ts: TimestampMs
    title: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    price: float | None = None
    attributes: Scalars | None = None
    vector: tuple[float, ...] | None = None
    available: bool = True
    expires_at: TimestampMs | None = None
