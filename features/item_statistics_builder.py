"""Item statistics from a log in plain Python: what the Flink job would hold, for replay and for checking it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from features.activity import POSITIVE_ACTIONS
from features.forward_decay import weight
from features.item_statistics import (
    CLICK_ACTIONS,
    MINUTE_MS,
    WINDOWS,
    Counts,
    ItemStatistics,
    Window,
    WindowCounts,
)
from schemas.click import Click

ActionCounts = Counter[str]


class ItemStatisticsBuilder:
    """Adds up clicks in log order. It keeps every minute of every item, so it is for a log that has an end.

    An event later than `max_lateness_ms` behind the newest one before it in its partition is in no window, as in the
    job, which may be more lenient for a moment: it takes the slowest partition's time, and looks at it now and then.
    """

    def __init__(self, half_life_ms: int, landmark_ms: int, max_lateness_ms: int) -> None:
        self._half_life_ms = half_life_ms
        self._landmark_ms = landmark_ms
        self._max_lateness_ms = max_lateness_ms
        self._newest: dict[int, int] = {}
        self._lifetime: dict[str, ActionCounts] = defaultdict(Counter)
        self._popularity: dict[str, float] = defaultdict(float)
        self._minutes: dict[str, dict[int, ActionCounts]] = defaultdict(lambda: defaultdict(Counter))

    def add(self, click: Click, partition: int) -> None:
        """Count `click`, the next one of `partition`."""
        self._lifetime[click.item_id][click.action] += 1
        if click.action in POSITIVE_ACTIONS:
            self._popularity[click.item_id] += weight(click.ts, self._landmark_ms, self._half_life_ms)
        minute_end = (click.ts // MINUTE_MS + 1) * MINUTE_MS
        newest = self._newest.get(partition, click.ts)
        if not _closed(minute_end, newest - self._max_lateness_ms):
            self._minutes[click.item_id][minute_end][click.action] += 1
        self._newest[partition] = max(newest, click.ts)

    @property
    def watermark_ms(self) -> int:
        """The moment before which every window has closed when the log ends here and no partition is idle."""
        return min(self._newest.values()) - self._max_lateness_ms

    def build(self, watermark_ms: int) -> dict[str, ItemStatistics]:
        """Return the statistics of every item, with the windows that have closed at `watermark_ms`."""
        return {
            item_id: ItemStatistics(
                _counts([lifetime]),
                self._popularity.get(item_id, 0.0),
                self._landmark_ms,
                tuple(_last(window, self._minutes.get(item_id, {}), watermark_ms) for window in WINDOWS),
            )
            for item_id, lifetime in self._lifetime.items()
        }


def _closed(end_ms: int, watermark_ms: int) -> bool:
    # A window holds the times before its end; the last of them is one millisecond before it.
    return watermark_ms >= end_ms - 1


def _last(window: Window, minutes: Mapping[int, ActionCounts], watermark_ms: int) -> WindowCounts:
    """Return the last window that has closed and holds one of `minutes`, which are named by their ends."""
    newest_end = (watermark_ms + 1) // window.slide_ms * window.slide_ms
    held = [minute for minute in minutes if minute <= newest_end]
    if not held:
        return WindowCounts()
    # The last window that the newest of them is in, unless that one has not closed yet.
    first_end = -(-max(held) // window.slide_ms) * window.slide_ms
    end = min(newest_end, first_end + window.size_ms - window.slide_ms)
    return WindowCounts(end, _counts(minutes[each] for each in held if end - window.size_ms < each))


def _counts(parts: Iterable[ActionCounts]) -> Counts:
    total: ActionCounts = Counter()
    for part in parts:
        total.update(part)
    return Counts(
        impressions=total["impression"],
        clicks=sum(total[action] for action in CLICK_ACTIONS),
        carts=total["cart"],
        purchases=total["purchase"],
        interactions=sum(total[action] for action in POSITIVE_ACTIONS),
    )
