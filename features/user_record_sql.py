"""The user record's write side: one keyed upsert per event, in log order, emitted at once.

The nested query keeps the lifetime counters, the outer one the last N events; two frames in one SELECT are refused by
the planner. Ordering by processing time means by arrival: the log's order, with no watermark to wait for. What a row
costs is encoding and producing it, hence one packed string instead of a JSON array (see `features/user_record.py`).
"""

from features.user_record import ACTION_CODES, FORMAT_VERSION
from schemas.click import ACTIONS

TAB = "\t"


def select_user_records(source: str, record_events: int) -> str:
    """Return the SELECT of (user_id, record) over the table `source`.

    `source` has the columns of a Click, `src_partition` and `src_offset` of the Kafka message, and `arrived`, a
    processing-time attribute.
    """
    codes = " ".join(f"WHEN '{action}' THEN '{code}'" for action, code in ACTION_CODES.items())
    counts = ", ".join(
        f"SUM(CASE `action` WHEN '{action}' THEN 1 ELSE 0 END) OVER lifetime AS n_{action}" for action in ACTIONS
    )
    head = ", ".join(
        f"CAST({column} AS STRING)"
        for column in (
            "src_partition",
            "src_offset",
            "first_ts",
            "events",
            *(f"n_{action}" for action in ACTIONS),
        )
    )
    return f"""
SELECT user_id,
  CONCAT_WS('{TAB}', '{FORMAT_VERSION}', {head}, ARRAY_JOIN(ARRAY_AGG(entry) OVER last_events, '{TAB}')) AS record
FROM (
  SELECT user_id, src_partition, src_offset, arrived,
    CONCAT_WS('{TAB}', CAST(ts AS STRING), CASE `action` {codes} END, item_id,
      COALESCE(CAST(`value` AS STRING), '')) AS entry,
    FIRST_VALUE(ts) OVER lifetime AS first_ts,
    COUNT(*) OVER lifetime AS events,
    {counts}
  FROM {source}
  WINDOW lifetime AS (
    PARTITION BY user_id ORDER BY arrived ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
)
WINDOW last_events AS (
  PARTITION BY user_id ORDER BY arrived ROWS BETWEEN {record_events - 1} PRECEDING AND CURRENT ROW)
"""
