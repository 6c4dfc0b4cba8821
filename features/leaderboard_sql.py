"""The leaderboard's write side: forward-decayed popularity, published about once a second.

Forward decay (Cormode, Shkapenyuk, Srivastava, Xu 2009): an event at `ts` weighs 2 ** ((ts - landmark) / half_life), so
the sums of all items can be compared at any moment without touching them again, and a late event counts exactly as much
as it would have in time. No watermark is needed: a partition without traffic holds nothing back, and a timestamp ahead
of the others hides nothing.

Events are first summed per item over a short tumbling window of processing time, which bounds the work of the sorted
part by the number of items that changed, not by the number of events.
"""

from features.activity import POSITIVE_ACTIONS
from features.leaderboard import GLOBAL_BOARD

MAX_EXPONENT = 900
"""2 ** 900 leaves a double room for 2 ** 123 events: beyond it (nine hundred half-lives after the landmark) all weigh
alike."""


def select_leaderboard(source: str, size: int, half_life_ms: int, landmark_ms: int, interval_ms: int) -> str:
    """Return the SELECT of (board, items) over the table `source`; `items` is an array of rows (item_id, score).

    `source` has the columns `item_id`, `action` and `ts` of a Click and `arrived`, a processing-time attribute.
    `landmark_ms` is any moment (epoch milliseconds) near the events; it only keeps the numbers small.
    """
    actions = ", ".join(f"'{action}'" for action in sorted(POSITIVE_ACTIONS))
    exponent = f"(CAST(ts AS DOUBLE) - {landmark_ms}) / {half_life_ms}"
    interval = f"INTERVAL '{interval_ms / 1000:.3f}' SECOND(6, 3)"
    return f"""
SELECT board, ARRAY_AGG(CAST(ROW(item_id, score) AS ROW<item_id STRING, score DOUBLE>)) AS items
FROM (
  SELECT board, item_id, score, ROW_NUMBER() OVER (PARTITION BY board ORDER BY score DESC, item_id) AS place
  FROM (
    SELECT '{GLOBAL_BOARD}' AS board, item_id, SUM(weight) AS score
    FROM (
      SELECT item_id, SUM(POWER(CAST(2 AS DOUBLE), LEAST({exponent}, CAST({MAX_EXPONENT} AS DOUBLE)))) AS weight
      FROM TABLE(TUMBLE(TABLE {source}, DESCRIPTOR(arrived), {interval}))
      WHERE `action` IN ({actions})
      GROUP BY item_id, window_start, window_end
    )
    GROUP BY item_id
  )
)
WHERE place <= {size}
GROUP BY board
"""
