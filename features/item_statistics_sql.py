"""The item statistics' write side: one packed row per item, whenever something about it has changed.

Two things are summed from the same clicks. Lifetime counts go by arrival: short tumbling windows of *processing* time
per item, so that they are published within a moment, whatever the watermarks do, and once per item, not once per event.
Window counts go by event time: tumbling minutes per item, from which every hopping window is built. Both only ever
append, so the last step, which keeps an item's sums and its last windows together, has nothing to take back.
"""

from features.activity import POSITIVE_ACTIONS
from features.forward_decay import weight_sql
from features.item_statistics import CLICK_ACTIONS, COUNTS, FORMAT_VERSION, MINUTE_MS, WINDOWS, Window

TAB = "\t"
MINUTES_VIEW = "item_minutes"
NEWS_VIEW = "item_news"


def _is(actions: frozenset[str]) -> str:
    return "`action` IN (" + ", ".join(f"'{action}'" for action in sorted(actions)) + ")"


_COUNTED = {
    "impressions": frozenset({"impression"}),
    "clicks": CLICK_ACTIONS,
    "carts": frozenset({"cart"}),
    "purchases": frozenset({"purchase"}),
    "interactions": POSITIVE_ACTIONS,
}
_COUNTS_OF_ACTIONS = ", ".join(f"COUNT(*) FILTER (WHERE {_is(_COUNTED[name])}) AS {name}" for name in COUNTS)
_NO_WINDOW = TAB.join("0" for _ in ("end", *COUNTS))


def select_minutes(source: str) -> str:
    """Return the SELECT of the view `MINUTES_VIEW`: an item's counts in each minute of event time.

    `source` has the columns `item_id` and `action` of a Click and `happened`, its `ts` as an event-time attribute.
    """
    return f"""
SELECT item_id, window_time AS minute_end, {_COUNTS_OF_ACTIONS}
FROM TABLE(TUMBLE(TABLE {source}, DESCRIPTOR(happened), {_interval(MINUTE_MS)}))
GROUP BY item_id, window_start, window_end, window_time
"""


def select_news(source: str) -> str:
    """Return the SELECT of the view `NEWS_VIEW`: every click of `source`, and every window that has closed.

    `source` has the columns `item_id`, `action` and `ts` of a Click and `arrived`, a processing-time attribute.
    """
    none = ", ".join(f"CAST(NULL AS STRING) AS {_column(window)}" for window in WINDOWS)
    windows = "".join(
        f"""
UNION ALL
SELECT item_id, CAST(NULL AS STRING), CAST(NULL AS BIGINT), PROCTIME(), {_packed_in_its_place(window)}
FROM TABLE(HOP(TABLE {MINUTES_VIEW}, DESCRIPTOR(minute_end), {_interval(window.slide_ms)}, {_interval(window.size_ms)}))
GROUP BY item_id, window_start, window_end"""
        for window in WINDOWS
    )
    return f"SELECT item_id, `action`, ts, arrived, {none} FROM {source}{windows}"


def select_item_statistics(half_life_ms: int, landmark_ms: int, interval_ms: int) -> str:
    """Return the SELECT of (item_id, statistics) over `NEWS_VIEW`, at most one row per item and `interval_ms`.

    `landmark_ms` is any moment (epoch milliseconds) near the events.
    """
    weight = (
        f"CASE WHEN {_is(POSITIVE_ACTIONS)} THEN {weight_sql(landmark_ms, half_life_ms)} ELSE CAST(0 AS DOUBLE) END"
    )
    last = [_column(window) for window in WINDOWS]
    # LAST_VALUE passes over NULL, so each window's text stays until the next one of its kind.
    kept = ", ".join(f"LAST_VALUE({column}) AS {column}" for column in last)
    packed = ", ".join(
        (
            *(f"CAST(SUM({name}) AS STRING)" for name in COUNTS),
            "CAST(SUM(popularity) AS STRING)",
            f"'{landmark_ms}'",
            *(f"COALESCE(LAST_VALUE({column}), '{_NO_WINDOW}')" for column in last),
        )
    )
    return f"""
SELECT item_id, CONCAT_WS('{TAB}', '{FORMAT_VERSION}', {packed}) AS statistics
FROM (
  SELECT item_id, {_COUNTS_OF_ACTIONS}, SUM({weight}) AS popularity, {kept}
  FROM TABLE(TUMBLE(TABLE {NEWS_VIEW}, DESCRIPTOR(arrived), {_interval(interval_ms)}))
  GROUP BY item_id, window_start, window_end
)
GROUP BY item_id
"""


def _interval(ms: int) -> str:
    return f"INTERVAL '{ms / 1000:.3f}' SECOND(6, 3)"


def _column(window: Window) -> str:
    return f"last_{window.name}"


def _packed_in_its_place(window: Window) -> str:
    # A window's end in minutes since the epoch is the largest number that TIMESTAMPDIFF, an INT, is asked for.
    end = "CAST(TIMESTAMPDIFF(MINUTE, TIMESTAMP '1970-01-01 00:00:00', window_end) AS BIGINT)"
    counts = ", ".join(f"CAST(SUM({name}) AS STRING)" for name in COUNTS)
    packed = f"CONCAT_WS('{TAB}', CAST({end} * {MINUTE_MS} AS STRING), {counts})"
    return ", ".join(f"{packed if each is window else 'CAST(NULL AS STRING)'} AS {_column(each)}" for each in WINDOWS)
