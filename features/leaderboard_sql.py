"""The leaderboards' write side: forward-decayed popularity per board, published every `leaderboard.interval_ms`.

Clicks are first summed per item and surface over a short tumbling window of processing time, which bounds the work of
everything behind it by the number of items that changed, not by the number of events. Only then do items meet the
catalogue, boards and order. No sum is ever given anything to take back, and nothing waits for a watermark
(`features/forward_decay.py`).

What trends is what owes much of its popularity to the last hours: `short / long ** DAMPING`, where `short` decays with
a `TRENDING_SHARE`th of the half-life. With a plain ratio the first click on any item would beat everything; the power
below 1 asks for more evidence. Like every product of powers of forward-decayed sums the score keeps its order as time
passes, which a prior added to a ratio would not.

The short sum would leave a double's range after some hundred short half-lives. So it is kept per epoch of
`EPOCH_HALF_LIVES`, each with its own landmark, and compared by its binary logarithm.
"""

from features.activity import POSITIVE_ACTIONS
from features.forward_decay import weight_sql
from features.leaderboard import CATEGORY_BOARD, GLOBAL_BOARD, SURFACE_BOARD, TRENDING_BOARD

CHANGES_VIEW = "item_changes"
SCORES_VIEW = "item_scores"
CATALOGUE_VIEW = "catalogue"
LISTED_VIEW = "listed_scores"

TRENDING_SHARE = 24
"""At a half-life of a week the short one is seven hours, at one of a day it is one."""

DAMPING = 0.75
"""At 1 one click on a new item is unbeatable, at 0.5 (the deviation of a count) what is big stays on top whatever
happens. In between a burst on a small item beats a big one that goes on as ever."""

EPOCH_HALF_LIVES = 512
"""A sum of 2 ** 512 has room for 2 ** 511 events in a double, and one of 2 ** -512 still has all its digits."""

CARRIED_HALF_LIVES = 64
"""What happened earlier than this many half-lives before an epoch changes no digit of that epoch's sum."""

MAX_SURFACE_CHARACTERS = 64
"""A surface is one of a few names; a longer text is something else that was put in its place."""

_SMALLEST = "CAST(1E-300 AS DOUBLE)"


def select_changes(source: str, half_life_ms: int, landmark_ms: int, interval_ms: int) -> str:
    """Return the SELECT of the view `CHANGES_VIEW`: what came to each item within an interval, and where.

    There is one row for an item (`surface` NULL), and one more for each of its surfaces. `source` has the columns
    `item_id`, `action`, `ts` and `context` of a Click and `arrived`, a processing-time attribute. `landmark_ms` is any
    moment (epoch milliseconds) near the events; it only keeps the numbers small.
    """
    actions = ", ".join(f"'{action}'" for action in sorted(POSITIVE_ACTIONS))
    age = f"((CAST(ts AS DOUBLE) - {landmark_ms}) / {half_life_ms / TRENDING_SHARE})"
    epoch = f"FLOOR({age} / {EPOCH_HALF_LIVES})"
    return f"""
SELECT item_id, surface, epoch,
  SUM({weight_sql(landmark_ms, half_life_ms)}) AS weight,
  SUM(POWER(CAST(2 AS DOUBLE), {age} - {EPOCH_HALF_LIVES} * epoch)) AS burst
FROM TABLE(TUMBLE(
  (SELECT item_id, ts, arrived, {epoch} AS epoch,
     CASE WHEN CHAR_LENGTH(context['surface']) BETWEEN 1 AND {MAX_SURFACE_CHARACTERS} THEN context['surface'] END
       AS surface
   FROM {source} WHERE `action` IN ({actions})),
  DESCRIPTOR(arrived), INTERVAL '{interval_ms / 1000:.3f}' SECOND(6, 3)))
GROUP BY window_start, window_end, GROUPING SETS ((item_id, epoch), (item_id, epoch, surface))
HAVING GROUPING(surface) = 1 OR surface IS NOT NULL
"""


def select_scores() -> str:
    """Return the SELECT of the view `SCORES_VIEW`: an item's popularity on each surface, and on all (surface NULL).

    `trend` is the binary logarithm of the trending score. What came near the end of an epoch is also put into the next
    one, where it is as much smaller as its landmark is later.
    """
    return f"""
SELECT item_id, surface, SUM(weight) AS popularity,
  MAX(log_burst) - LOG2(GREATEST(SUM(weight), {_SMALLEST})) * {DAMPING} AS trend
FROM (
  SELECT item_id, surface, weight, {EPOCH_HALF_LIVES} * epoch + LOG2(SUM(burst) OVER (
    PARTITION BY item_id, surface, epoch ORDER BY arrived ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
  )) AS log_burst
  FROM (
    SELECT item_id, surface, part.epoch, part.weight, part.burst, PROCTIME() AS arrived
    FROM {CHANGES_VIEW} AS changed CROSS JOIN UNNEST(ARRAY[
      ROW(changed.epoch, changed.weight, changed.burst),
      ROW(changed.epoch + 1, CAST(0 AS DOUBLE), changed.burst / POWER(CAST(2 AS DOUBLE), {EPOCH_HALF_LIVES}))
    ]) AS part(epoch, weight, burst)
    WHERE part.burst >= POWER(CAST(2 AS DOUBLE), -{CARRIED_HALF_LIVES})
  )
)
GROUP BY item_id, surface
"""


def select_catalogue(source: str) -> str:
    """Return the SELECT of the view `CATALOGUE_VIEW`: the category of each item, and whether it may be shown.

    `source` has the columns `item_id` and `body`, key and value of the messages of `items` as they are, and
    `arrived`. A value of null means that the item is gone: such an item is known, and not to be shown. What is no
    JSON of an item with this id changes nothing; further the entry is not judged here.
    """
    return f"""
SELECT item_id, category, shown
FROM (
  SELECT item_id, JSON_VALUE(body, '$.category') AS category,
    body IS NOT NULL AND COALESCE(JSON_VALUE(body, '$.available'), 'true') <> 'false' AS shown,
    ROW_NUMBER() OVER (PARTITION BY item_id ORDER BY arrived DESC) AS place
  FROM {source}
  WHERE body IS NULL OR JSON_VALUE(body, '$.item_id') = item_id
)
WHERE place = 1
"""


def select_listed() -> str:
    """Return the SELECT of the view `LISTED_VIEW`: the scores of what may be shown, with the item's category."""
    return f"""
SELECT scored.item_id, surface, popularity, trend, category
FROM {SCORES_VIEW} AS scored LEFT JOIN {CATALOGUE_VIEW} AS known ON scored.item_id = known.item_id
WHERE shown IS NOT FALSE
"""


def select_leaderboards(size: int) -> str:
    """Return the SELECT of (board, items) over `LISTED_VIEW`; `items` is an array of rows (item_id, score)."""
    return f"""
SELECT board, ARRAY_AGG(CAST(ROW(item_id, score) AS ROW<item_id STRING, score DOUBLE>)) AS items
FROM (
  SELECT board, item_id, score, ROW_NUMBER() OVER (PARTITION BY board ORDER BY score DESC, item_id) AS place
  FROM (
    SELECT entry.board, item_id, entry.score
    FROM {LISTED_VIEW} CROSS JOIN UNNEST(ARRAY[
      ROW(CASE WHEN surface IS NULL THEN CAST('{GLOBAL_BOARD}' AS STRING) END, popularity),
      ROW(CASE WHEN surface IS NULL THEN CAST('{TRENDING_BOARD}' AS STRING) END, trend),
      ROW(CASE WHEN surface IS NULL THEN CONCAT('{CATEGORY_BOARD}', category) END, popularity),
      ROW(CONCAT('{SURFACE_BOARD}', surface), popularity)
    ]) AS entry(board, score)
    WHERE entry.board IS NOT NULL
  )
)
WHERE place <= {size}
GROUP BY board
"""
