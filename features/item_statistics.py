"""Item statistics: what happened to one item, over its whole life and in the last 5 minutes, hour and day.

The write side is the Flink SQL in `features/item_statistics_sql.py`; this module is the read side.

Format (tab-separated, one line):

    version  counts  popularity  landmark_ms  (window_end_ms  counts)*

`counts` are five fields in the order of `Counts`; the repeated part stands once for each of `WINDOWS`, all zeros where
none of the item's windows has closed yet. `popularity` is the item's forward-decayed sum of interactions, in which an
event at `landmark_ms` weighs 1 and one a half-life later 2.
"""

from dataclasses import astuple, dataclass, fields
from math import log2

from features.forward_decay import MAX_EXPONENT
from features.packed import foreign_format
from features.user_record import java_double

KIND = "item statistics"
FORMAT_VERSION = "1"

CLICK_ACTIONS = frozenset({"click", "view"})
"""The actions that answer an impression: going to the item's page, whatever the producer calls it."""

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Window:
    """A hopping window of event time: one of `size_ms` ends every `slide_ms`, counted from the epoch."""

    name: str
    size_ms: int
    slide_ms: int


WINDOWS = (
    Window("5m", 5 * MINUTE_MS, MINUTE_MS),
    Window("1h", 60 * MINUTE_MS, 5 * MINUTE_MS),
    Window("24h", 24 * 60 * MINUTE_MS, 60 * MINUTE_MS),
)
"""In the order of the format. Sizes and slides are whole minutes: the job builds all of them from sums per minute."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How often each thing happened; `clicks` are `CLICK_ACTIONS`, `interactions` every positive action."""

    impressions: int = 0
    clicks: int = 0
    carts: int = 0
    purchases: int = 0
    interactions: int = 0

    def smoothed_ctr(self, prior_ctr: float, prior_impressions: float) -> float:
        """Return clicks per impression as if `prior_impressions` at the rate `prior_ctr` had come before.

        The posterior mean under a Beta prior: `prior_ctr` without any data, the plain rate with a lot of it. Above 1
        where clicks come without impressions, as from a search.
        """
        return (self.clicks + prior_ctr * prior_impressions) / (self.impressions + prior_impressions)


COUNTS = tuple(field.name for field in fields(Counts))
_LIFETIME_FIELDS = 1 + len(COUNTS) + 2
_WINDOW_FIELDS = 1 + len(COUNTS)


@dataclass(frozen=True, slots=True)
class WindowCounts:
    """The counts of the window that ended at `end_ms` (epoch milliseconds); 0 where none has closed yet."""

    end_ms: int = 0
    counts: Counts = Counts()


@dataclass(frozen=True, slots=True)
class ItemStatistics:
    """What happened to one item; `windows` are those of `WINDOWS`, each the last that closed with an event in it."""

    lifetime: Counts
    popularity: float
    landmark_ms: int
    windows: tuple[WindowCounts, ...] = (WindowCounts(),) * len(WINDOWS)

    def counts_at(self, window: Window, now_ms: int, max_lateness_ms: int) -> Counts:
        """Return the counts of `window` as of `now_ms`.

        All zero once the next window would have been published, had it held an event: a window without events is
        never published, so the last one says nothing of a later time.
        """
        last = self.windows[WINDOWS.index(window)]
        return Counts() if now_ms > last.end_ms + window.slide_ms + max_lateness_ms else last.counts

    def popularity_at(self, now_ms: int, half_life_ms: int) -> float:
        """Return the decayed number of interactions, in which one of this moment counts 1."""
        if self.popularity == 0.0:
            return 0.0
        # By logarithms, because either factor alone can be out of a double's range: the landmark may be far from now.
        exponent = log2(self.popularity) + (self.landmark_ms - now_ms) / half_life_ms
        return float(2.0 ** min(exponent, MAX_EXPONENT))


def parse_statistics(packed: bytes) -> ItemStatistics:
    """Return the statistics that `packed` holds; raise `ValueError` if it is none of this format."""
    version, *parts = packed.decode().split("\t")
    if version != FORMAT_VERSION:
        raise ValueError(foreign_format(KIND, version, FORMAT_VERSION))
    if len(parts) != _LIFETIME_FIELDS - 1 + _WINDOW_FIELDS * len(WINDOWS):
        raise ValueError(f"item statistics with {len(parts) + 1} fields are damaged")
    popularity, landmark = parts[len(COUNTS) : _LIFETIME_FIELDS - 1]
    lifetime = Counts(*map(int, parts[: len(COUNTS)]))
    windows = []
    for start in range(_LIFETIME_FIELDS - 1, len(parts), _WINDOW_FIELDS):
        end, *counts = map(int, parts[start : start + _WINDOW_FIELDS])
        windows.append(WindowCounts(end, Counts(*counts)))
    return ItemStatistics(lifetime, float(popularity), int(landmark), tuple(windows))


def pack_statistics(statistics: ItemStatistics) -> bytes:
    """Return `statistics` in the format that the Flink job writes; `parse_statistics` undoes it."""
    parts = [*astuple(statistics.lifetime), java_double(statistics.popularity), statistics.landmark_ms]
    for window in statistics.windows:
        parts += (window.end_ms, *astuple(window.counts))
    return "\t".join((FORMAT_VERSION, *map(str, parts))).encode()
