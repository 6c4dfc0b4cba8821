"""What the user-record job keeps: size and duration of a checkpoint, on the heap and in RocksDB."""

from typing import Any

from benchmarks.feature_rows import Rows, row
from benchmarks.feature_rows.flink_rates import FlinkStack, flink_stack, zipf_clicks
from benchmarks.harness import Options
from benchmarks.running import empty, wait_for
from jobs import user_record
from schemas.topics import FEATURES_USER

USERS = 1_000_000
QUICK_USERS = 50_000
EVENTS_PER_USER = 4
ITEMS = 20_000
BACKENDS = ("hashmap", "rocksdb")
TASKMANAGER_MB = {False: 9_000, True: 1_600}
"""Total memory of the TaskManager, full and quick; RocksDB has its own besides."""
WITHIN_S = 1_200.0
SETTINGS = {
    "execution.checkpointing.interval": "20 s",
    "execution.checkpointing.timeout": "10 min",
    # With the few megabytes of managed memory that a slot has here, RocksDB gets through 500 rows a second.
    "state.backend.rocksdb.memory.fixed-per-slot": "1 gb",
}


def measure(options: Options) -> Rows:
    """Let the job read a backlog of every user's events, then look at a checkpoint taken with all of it."""
    users = QUICK_USERS if options.quick else USERS
    clicks = users * EVENTS_PER_USER
    stack_section = {"parts": ["kafka", "flink"], "taskmanager_memory_mb": TASKMANAGER_MB[options.quick]}
    results: list[dict[str, Any]] = []
    for backend in BACKENDS:
        with flink_stack(stack=stack_section) as stack:
            stack.fill(zipf_clicks(clicks, users, ITEMS, options.seed))
            settings = SETTINGS | {"state.backend.type": backend}
            checkpoint = _checkpoint_with_everything(stack, clicks, settings)
            what = f"state of {users:,} users, {clicks:,} events, {backend}"
            results += [
                row(f"{what}: checkpoint", checkpoint["state_size"] / 1e6, "MB"),
                row(f"{what}: per user", checkpoint["state_size"] / users, "bytes"),
                row(f"{what}: time", float(checkpoint["end_to_end_duration"]), "ms"),
            ]
    return Rows(results)


def _checkpoint_with_everything(stack: FlinkStack, clicks: int, settings: dict[str, str]) -> dict[str, Any]:
    """Run the job until a checkpoint has begun and ended after its last record, and return what Flink says of it."""
    empty(stack.config.kafka, FEATURES_USER)
    job_id = stack.submit(user_record.JOB_NAME, user_record.define, settings)
    wait_for(lambda: stack.records_in(FEATURES_USER) >= clicks, "all events are read", WITHIN_S)

    def completed() -> int:
        return int(stack.job(job_id, "/checkpoints")["counts"]["completed"])

    # The one that is under way may have begun before.
    before = completed()
    wait_for(lambda: completed() >= before + 2, "two more checkpoints", WITHIN_S)
    latest: dict[str, Any] = stack.job(job_id, "/checkpoints")["latest"]["completed"]
    stack.cancel(job_id)
    return latest
