"""Forward decay (Cormode, Shkapenyuk, Srivastava, Xu 2009): weights that never have to be revised as time passes.

An event at `ts` weighs 2 ** ((ts - landmark) / half_life). Sums of such weights keep their order and their ratios, so
the sums of all items can be compared at any moment without touching them again, and a late event counts exactly as much
as it would have in time. No watermark is needed: a partition without traffic holds nothing back, and a timestamp ahead
of the others hides nothing.
"""

MAX_EXPONENT = 900
"""2 ** 900 leaves a double room for 2 ** 123 events: beyond it (nine hundred half-lives after the landmark) all weigh
alike."""


def weight(ts: int, landmark_ms: int, half_life_ms: int) -> float:
    """Return the weight of an event at `ts`: 1 at the landmark, 2 a half-life after it, at last 0 long before it."""
    return float(2.0 ** min((ts - landmark_ms) / half_life_ms, MAX_EXPONENT))


def weight_sql(landmark_ms: int, half_life_ms: int) -> str:
    """Return `weight` as a Flink SQL expression of type DOUBLE over the column `ts`."""
    exponent = f"(CAST(ts AS DOUBLE) - {landmark_ms}) / {half_life_ms}"
    return f"POWER(CAST(2 AS DOUBLE), LEAST({exponent}, CAST({MAX_EXPONENT} AS DOUBLE)))"
