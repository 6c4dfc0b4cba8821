"""State survives what can happen to Flink: the newest records equal a recount of the log, exactly, each time."""

import signal
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest

from features.record_batch import parse_record
from features.user_record import UserRecord
from jobs.operations import let_run, stop_job
from runtime.clock import SystemClock
from runtime.config import Config
from stack.control import down
from stack.flink import flink_overview
from tests.conftest import Eventually
from tests.integration.job_stack import JobStack, silent, user_ids

pytestmark = pytest.mark.stack

USER_RECORD = "user-record"
OTHERS = ["item-statistics", "leaderboards", "user-embedding"]
USERS = user_ids("u", 100)
LATE_USERS = user_ids("late", 4)


@pytest.fixture(scope="module")
def jobs(
    new_config: Callable[..., Config], eventually: Eventually, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JobStack]:
    """One stack for all, with the record job alone: the others were stopped before they ever ran.

    The name of its folder could trip paths, URIs and statements alike.
    """
    config = new_config(
        state_dir=tmp_path_factory.mktemp("it's the stäte"),
        stack={"parts": ["kafka", "flink"]},
        flink={"parallelism": 2, "checkpoint_interval_ms": 500},
    )
    stack = JobStack(config, eventually)
    try:
        stack.up()
        for name in OTHERS:
            stop_job(config, name, SystemClock(), silent)
        with stack.kept():
            yield stack
    finally:
        down(config, wipe=True)


def test_a_savepoint_taken_while_a_partition_is_empty_takes_up_what_comes_there_later(jobs: JobStack) -> None:
    jobs.send(USERS, 5, partitions=[0, 1, 2])
    jobs.expect_totals()
    stopped = stop_job(jobs.config, USER_RECORD, SystemClock(), silent)
    assert stopped.ran
    assert stopped.state is not None
    assert stopped.state.savepoint

    jobs.send(LATE_USERS, 3, partitions=[3])
    jobs.send(USERS, 2, partitions=[0, 1, 2])
    (resumed,) = let_run(jobs.config, [USER_RECORD], SystemClock(), silent)
    assert resumed.record.restored_from == stopped.state.path
    jobs.expect_totals()


def test_a_taskmanager_killed_in_the_middle_of_a_checkpoint_loses_nothing(
    jobs: JobStack, eventually: Eventually
) -> None:
    job_id = jobs.remembered(USER_RECORD).job_id
    jobs.send(USERS, 5, partitions=[0, 1, 2])
    jobs.signal("taskmanager", signal.SIGSTOP)  # so that a checkpoint that is triggered now cannot complete

    def begun() -> bool:
        answer = flink_overview(jobs.config.flink, f"/jobs/{job_id}/checkpoints")
        return answer is not None and answer["counts"]["in_progress"] > 0

    eventually(begun, "a checkpoint is in progress")
    jobs.send(USERS, 5, partitions=[0, 1, 2])
    jobs.signal("taskmanager", signal.SIGKILL)
    jobs.expect_totals()
    eventually(lambda: jobs.running(USER_RECORD) is not None, "the job runs again")
    assert jobs.remembered(USER_RECORD).job_id == job_id  # it was Flink that restored it, no new submission


def test_a_killed_jobmanager_gets_its_job_back_with_state_that_the_log_no_longer_holds(
    jobs: JobStack, eventually: Eventually
) -> None:
    before = jobs.remembered(USER_RECORD)
    jobs.send(USERS, 5, partitions=[0, 1, 2])
    jobs.expect_totals()
    _wait_for_checkpoint(jobs, eventually)
    jobs.drop_log()
    jobs.signal("jobmanager", signal.SIGKILL)
    eventually(lambda: jobs.remembered(USER_RECORD).job_id not in ("", before.job_id), "it is submitted again", 300)
    eventually(lambda: jobs.running(USER_RECORD) is not None, "it runs again")
    jobs.send(USERS, 5, partitions=[0, 1, 2])
    jobs.expect_totals()
    assert before.job_id in jobs.remembered(USER_RECORD).restored_from


def test_down_and_up_go_on_with_the_state_that_there_was(jobs: JobStack, eventually: Eventually) -> None:
    _wait_for_checkpoint(jobs, eventually)
    jobs.drop_log()
    before = jobs.remembered(USER_RECORD)
    down(jobs.config)
    jobs.up()
    eventually(lambda: jobs.remembered(USER_RECORD).job_id != before.job_id, "it is submitted again", within_s=300)
    jobs.send(USERS, 5, partitions=[0, 1, 2])
    jobs.expect_totals()


def test_through_all_of_that_every_user_had_one_record_per_event_in_the_order_of_the_log(jobs: JobStack) -> None:
    """What is written again after a crash is the same; a reader that drops what is not newer sees 1, 2, 3 and so on."""
    records: dict[str, dict[tuple[int, int], bytes]] = defaultdict(dict)
    seen: dict[str, list[UserRecord]] = defaultdict(list)
    for user_id, packed in jobs.records():
        record = parse_record(packed)
        assert records[user_id].setdefault(record.position, packed) == packed
        if not seen[user_id] or record.position > seen[user_id][-1].position:
            seen[user_id].append(record)
    assert {user_id: [record.total_events for record in own] for user_id, own in seen.items()} == {
        user_id: list(range(1, sent + 1)) for user_id, sent in jobs.sent.items()
    }


def _wait_for_checkpoint(jobs: JobStack, eventually: Eventually) -> None:
    """Wait for two more completed checkpoints: the first may have begun before the last event was read."""

    def completed() -> int:
        job = jobs.running(USER_RECORD)
        answer = None if job is None else flink_overview(jobs.config.flink, f"/jobs/{job.jid}/checkpoints")
        return 0 if answer is None else int(answer["counts"]["completed"])

    before = completed()
    eventually(lambda: completed() >= before + 2, "two more checkpoints")
