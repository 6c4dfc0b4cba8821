"""Small values for tests, with every field that does not matter filled in."""

from features.user_record import RecordBuilder, UserRecord
from schemas.click import Action, Click
from schemas.request import Request

NOW_MS = 1_700_000_000_000


def click_of(user_id: str, item_id: str, ts: int = NOW_MS, action: Action = "view") -> Click:
    """Return a click of this user on this item."""
    return Click(event_id=f"{user_id}-{item_id}-{ts}", ts=ts, user_id=user_id, item_id=item_id, action=action)


def record_of(*item_ids: str, action: Action = "view", max_events: int = 32) -> UserRecord:
    """Return the record of a user who came to `item_ids`, a second apart, the last one at `NOW_MS`."""
    builder = RecordBuilder(max_events)
    for place, item_id in enumerate(item_ids):
        ts = NOW_MS - (len(item_ids) - 1 - place) * 1_000
        record = builder.add(click_of("u", item_id, ts, action), (0, place))
    return record


def request_of(user_id: str = "u", request_id: str = "r", k: int = 10, **rest: object) -> Request:
    """Return a request of this user, sent at `NOW_MS` unless `rest` says otherwise."""
    fields: dict[str, object] = {"ts": NOW_MS, "timeout_ms": 100} | rest
    return Request(request_id=request_id, user_id=user_id, k=k, **fields)  # type: ignore[arg-type]
