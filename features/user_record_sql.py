"""The user record's write side: one keyed upsert per event, in log order, emitted at once.

Ordering by processing time means by arrival: the log's order, with no watermark to wait for. A frame of the last N rows
would do, but Flink keeps it as N whole rows and goes through them for every event. So the events are kept as text, in
`record_events / chunk` pieces of `chunk` entries, which rotate: a full piece takes the place of the oldest.

    last events:  [oldest, without its first p] [piece] [piece] [newest full piece] [the p entries since]

Two queries, since `OVER` cannot be nested within one SELECT: the inner one keeps the lifetime counters and the last
`chunk` entries, the outer one the full pieces. See docs/adr/0006-user-record-encoding.md for what else was measured.
"""

from features.user_record import ACTION_CODES, FORMAT_VERSION, TS_DIGITS, VALUE_SEPARATOR
from schemas.click import ACTIONS

TAB = "\t"
LARGEST_CHUNK = 8
"""Entries of a piece at most: more would make the inner state large, fewer the outer query long."""


def chunk_of(record_events: int) -> int:
    """Return how many entries make a piece: the largest divisor up to `LARGEST_CHUNK`, so that pieces come out even."""
    return next(size for size in range(LARGEST_CHUNK, 0, -1) if record_events % size == 0)


def select_user_records(source: str, record_events: int) -> str:
    """Return the SELECT of (user_id, record) over the table `source`.

    `source` has the columns of a Click, `src_partition` and `src_offset` of the Kafka message, and `arrived`, a
    processing-time attribute.
    """
    chunk = chunk_of(record_events)
    pieces = record_events // chunk
    slots = ", ".join(
        f"LAST_VALUE(CASE WHEN since = 0 AND newest = {slot} THEN completed END) OVER arrival AS piece{slot}"
        for slot in range(pieces)
    )
    return f"""
SELECT user_id, CONCAT_WS('{TAB}', head, {_in_order(pieces)}, recent) AS record
FROM (
  SELECT user_id, head, recent, since, newest, {slots}
  FROM ({_last_chunk(source, chunk, pieces)})
  WINDOW arrival AS (PARTITION BY user_id ORDER BY arrived)
)
"""


def _in_order(pieces: int) -> str:
    """Return the full pieces, oldest first, as arguments of a CONCAT_WS, which leaves out those that are NULL."""
    oldest = " ".join(f"WHEN {slot} THEN piece{slot}" for slot in range(pieces))
    # The first `since` entries of the oldest piece are those that `recent` has pushed out. (?s): an id may hold any
    # line separator that is no control character.
    skipped = f"CONCAT('(?s)^(?:[^{TAB}]*{TAB}){{', CAST(since AS STRING), '}}(.*)$')"
    first = f"CASE MOD(newest + 1, {pieces}) {oldest} END"
    trimmed = f"CASE WHEN since = 0 THEN {first} ELSE REGEXP_EXTRACT({first}, {skipped}, 1) END"
    older = [f"CASE WHEN newest + 1 < {slot} THEN piece{slot} END" for slot in range(2, pieces)]
    newer = [
        f"CASE WHEN newest >= {slot}{f' AND newest < {pieces - 1}' if slot == 0 else ''} THEN piece{slot} END"
        for slot in range(pieces)
        if pieces > 1
    ]
    return ", ".join([trimmed, *older, *newer])


def _last_chunk(source: str, chunk: int, pieces: int) -> str:
    """Return the SELECT of each event with what is known of its user, but for the full pieces.

    `since` is the number of entries since the last full piece, `newest` the slot of that piece, `recent` those
    entries, `completed` the piece that this event completes.
    """
    earlier = range(chunk - 1, 0, -1)
    recent = ", ".join([*(f"CASE WHEN since > {back} THEN entry{back} END" for back in earlier), "entry"])
    full = ", ".join([*(f"entry{back}" for back in earlier), "entry"])
    numbers = ("src_partition", "src_offset", "first_ts", *(f"n_{action}" for action in ACTIONS))
    head = ", ".join(f"CAST({column} AS STRING)" for column in numbers)
    total = " + ".join(f"n_{action}" for action in ACTIONS)
    return f"""
  SELECT user_id, arrived, since, newest,
    CONCAT_WS('{TAB}', '{FORMAT_VERSION}', {head}) AS head,
    CASE WHEN since > 0 THEN CONCAT_WS('{TAB}', {recent}) END AS recent,
    CASE WHEN since = 0 THEN CONCAT_WS('{TAB}', {full}) END AS completed
  FROM (
    SELECT *, CAST(MOD({total}, {chunk}) AS INT) AS since, CAST(MOD(({total}) / {chunk}, {pieces}) AS INT) AS newest
    FROM ({_lifetime(source, chunk)})
  )"""


def _lifetime(source: str, chunk: int) -> str:
    """Return the SELECT of each event with its user's counters and the entries of the `chunk` - 1 events before it."""
    counts = [f"COUNT(CASE `action` WHEN '{action}' THEN 1 END) OVER arrival AS n_{action}" for action in ACTIONS]
    entries = [f"LAG(entry, {back}) OVER arrival AS entry{back}" for back in range(1, chunk)]
    codes = " ".join(f"WHEN '{action}' THEN '{code}'" for action, code in ACTION_CODES.items())
    return f"""
      SELECT user_id, src_partition, src_offset, arrived, entry,
        FIRST_VALUE(ts) OVER arrival AS first_ts,
        {", ".join([*counts, *entries])}
      FROM (
        SELECT *, CONCAT(LPAD(CAST(ts AS STRING), {TS_DIGITS}, '0'), CASE `action` {codes} END, item_id,
          COALESCE(CONCAT('{VALUE_SEPARATOR}', CAST(`value` AS STRING)), '')) AS entry
        FROM {source}
      )
      WINDOW arrival AS (PARTITION BY user_id ORDER BY arrived)"""
