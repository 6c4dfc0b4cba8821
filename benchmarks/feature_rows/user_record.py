"""Rows a second of the user-record job, against a pass-through of the same clicks with the same producer settings."""

import statistics

from benchmarks.feature_rows import Rows, row
from benchmarks.feature_rows.flink_rates import PASS_THROUGH, flink_stack, pass_through, zipf_clicks
from benchmarks.harness import Options
from jobs import user_record
from schemas.topics import FEATURES_USER

CLICKS = 1_000_000
QUICK_CLICKS = 200_000
USERS = 10_000
"""A hundred events each, so that most records are full."""
ITEMS = 20_000
TURNS = 3


def measure(options: Options) -> Rows:
    """Run both jobs in turns over one backlog; the rates are medians."""
    clicks = QUICK_CLICKS if options.quick else CLICKS
    passed, recorded = [], []
    with flink_stack() as stack:
        stack.fill(zipf_clicks(clicks, USERS, ITEMS, options.seed))
        # Not counted: the TaskManager's code is compiled meanwhile.
        stack.rows_per_s("warm-up", pass_through, PASS_THROUGH, clicks)
        for _ in range(TURNS):
            passed.append(stack.rows_per_s("pass-through", pass_through, PASS_THROUGH, clicks))
            recorded.append(stack.rows_per_s(user_record.JOB_NAME, user_record.define, FEATURES_USER, clicks))
    floor, rate = statistics.median(passed), statistics.median(recorded)
    return Rows(
        [
            row(f"pass-through of {clicks:,} clicks", floor, "rows/s"),
            row(f"user record, N = {stack.config.features.record_events}, of the same", rate, "rows/s"),
        ],
        {"record_vs_passthrough": rate / floor},
    )
