"""The user record's write side: one keyed upsert per event, in log order, emitted at once.

Ordering by processing time means by arrival: the log's order, with no watermark to wait for.

A frame of the last N rows would be the obvious query, but Flink keeps such a frame as N whole rows of many objects each
and goes through them at every event. So the last events are kept as text, in pieces of a few entries, which rotate: a
completed piece takes the place of the oldest. At any event the record's entries are

    [oldest piece, without its first n entries] [piece] ... [newest piece] [the n entries since]

Two queries, because an aggregate cannot be the argument of another within one SELECT: the inner one keeps the lifetime
counters and the entries that are not in a piece yet, the outer one the pieces. What else was tried, and what it cost,
is in docs/adr/0006-user-record-encoding.md.
"""

from features.user_record import ACTION_CODES, FORMAT_VERSION, TS_DIGITS, VALUE_SEPARATOR
from schemas.click import ACTIONS

TAB = "\t"
LARGEST_PIECE = 4
"""Entries of a piece at most. The inner query keeps some of its entries twice, the outer one looks at every piece."""


def entries_per_piece(record_events: int) -> int:
    """Return the largest divisor of `record_events` up to `LARGEST_PIECE`: pieces have to come out even."""
    return next(size for size in range(LARGEST_PIECE, 0, -1) if record_events % size == 0)


def select_user_records(source: str, record_events: int) -> str:
    """Return the SELECT of (user_id, record) over the table `source`.

    `source` has the columns of a Click, `src_partition` and `src_offset` of the Kafka message, and `arrived`, a
    processing-time attribute.
    """
    size = entries_per_piece(record_events)
    pieces = record_events // size
    slots = ", ".join(
        f"LAST_VALUE(CASE WHEN newest = {slot} THEN completed END) OVER arrival AS piece{slot}"
        for slot in range(pieces)
    )
    return f"""
SELECT user_id, CONCAT_WS('{TAB}', head, {_pieces_in_order(pieces)}, recent) AS record
FROM (
  SELECT user_id, head, recent, since, newest, {slots}
  FROM ({_with_recent(source, size, pieces)})
  WINDOW arrival AS (PARTITION BY user_id ORDER BY arrived)
)
"""


def _pieces_in_order(pieces: int) -> str:
    """Return the pieces, oldest first, as arguments of CONCAT_WS, which leaves out those that are NULL."""
    by_slot = " ".join(f"WHEN {slot} THEN piece{slot}" for slot in range(pieces))
    oldest = f"CASE MOD(newest + 1, {pieces}) {by_slot} END"
    # `recent` has pushed out as many entries of the oldest piece. (?s): no control character is in an id, but Java
    # knows other ends of lines.
    rest = f"CONCAT('(?s)^(?:[^{TAB}]*{TAB}){{', CAST(since AS STRING), '}}(.*)$')"
    arguments = [f"CASE WHEN since = 0 THEN {oldest} ELSE REGEXP_EXTRACT({oldest}, {rest}, 1) END"]
    # The oldest stands one slot behind the newest, so what follows is the slots behind it, then those from the first.
    arguments += [f"CASE WHEN newest < {slot - 1} THEN piece{slot} END" for slot in range(2, pieces)]
    if pieces > 1:
        arguments += [f"CASE WHEN newest < {pieces - 1} THEN piece0 END"]
    arguments += [f"CASE WHEN newest >= {slot} THEN piece{slot} END" for slot in range(1, pieces)]
    return ", ".join(arguments)


def _with_recent(source: str, size: int, pieces: int) -> str:
    """Return the SELECT of each event with all that is known of its user but the pieces.

    `since` counts the entries after the newest piece and `recent` holds them; `newest` is the slot of that piece, and
    `completed` its text at the event that completes it.
    """
    total = " + ".join(f"n_{action}" for action in ACTIONS)
    numbers = ("src_partition", "src_offset", "first_ts", *(f"n_{action}" for action in ACTIONS))
    head = ", ".join(f"CAST({column} AS STRING)" for column in numbers)
    earlier = range(size - 1, 0, -1)
    recent = ", ".join([*(f"CASE WHEN since > {back} THEN entry{back} END" for back in earlier), "entry"])
    completed = ", ".join([*(f"entry{back}" for back in earlier), "entry"])
    return f"""
  SELECT user_id, arrived, since, newest,
    CONCAT_WS('{TAB}', '{FORMAT_VERSION}', {head}) AS head,
    CASE WHEN since > 0 THEN CONCAT_WS('{TAB}', {recent}) END AS recent,
    CASE WHEN since = 0 THEN CONCAT_WS('{TAB}', {completed}) END AS completed
  FROM (
    SELECT *, CAST(MOD({total}, {size}) AS INT) AS since, CAST(MOD(({total}) / {size}, {pieces}) AS INT) AS newest
    FROM ({_with_lifetime(source, size)})
  )"""


def _with_lifetime(source: str, size: int) -> str:
    """Return the SELECT of each event with its entry, the `size` - 1 entries before it, and its user's counters."""
    codes = " ".join(f"WHEN '{action}' THEN '{code}'" for action, code in ACTION_CODES.items())
    columns = [
        "FIRST_VALUE(ts) OVER arrival AS first_ts",
        *(f"COUNT(CASE `action` WHEN '{action}' THEN 1 END) OVER arrival AS n_{action}" for action in ACTIONS),
        *(f"LAG(entry, {back}) OVER arrival AS entry{back}" for back in range(1, size)),
    ]
    return f"""
      SELECT user_id, src_partition, src_offset, arrived, entry, {", ".join(columns)}
      FROM (
        SELECT *, CONCAT(LPAD(CAST(ts AS STRING), {TS_DIGITS}, '0'), CASE `action` {codes} END, item_id,
          COALESCE(CONCAT('{VALUE_SEPARATOR}', CAST(`value` AS STRING)), '')) AS entry
        FROM {source}
      )
      WINDOW arrival AS (PARTITION BY user_id ORDER BY arrived)"""
