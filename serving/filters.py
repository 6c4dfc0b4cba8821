"""What must not be recommended; every filter says what it kept and what it removed, and why. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from features.activity import hidden_items, seen_items
from features.user_record import UserRecord
from models.contract import Candidate
from schemas.item import Item
from schemas.request import Request


@dataclass(frozen=True, slots=True)
class Filtered:
    """The candidates that are left, in their order, and how many each reason took out."""

    kept: tuple[Candidate, ...]
    removed: Mapping[str, int]


def filter_candidates(
    candidates: Iterable[Candidate],
    request: Request,
    record: UserRecord | None,
    items: Mapping[str, Item],
    now_ms: int,
) -> Filtered:
    """Remove what the request excludes, what the user has seen or hidden, and what cannot be had any more.

    Candidates that the request names itself are not removed for having been seen: the application knows better. An item
    without a catalogue entry counts as available, so that clicks alone are enough to start with.
    """
    excluded = frozenset(request.exclude)
    hidden = hidden_items(record)
    seen = seen_items(record) if request.candidates is None else frozenset()
    kept: list[Candidate] = []
    removed: Counter[str] = Counter()
    for candidate in candidates:
        item_id = candidate.item_id
        if item_id in excluded:
            removed["excluded"] += 1
        elif item_id in hidden:
            removed["hidden"] += 1
        elif item_id in seen:
            removed["seen"] += 1
        elif reason := _not_to_be_had(items.get(item_id), now_ms):
            removed[reason] += 1
        else:
            kept.append(candidate)
    return Filtered(tuple(kept), removed)


def _not_to_be_had(item: Item | None, now_ms: int) -> str | None:
    if item is None:
        return None
    if not item.available:
        return "unavailable"
    if item.expires_at is not None and item.expires_at <= now_ms:
        return "expired"
    return None
