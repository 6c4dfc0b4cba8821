"""Which Flink programs are missing, and which run in full."""

import pytest

from jobs.keeper import Job, missing_programs
from jobs.submit import PROGRAMS


def job(name: str, state: str = "RUNNING", running: int = 3, total: int = 3) -> Job:
    return Job(jid=f"id-{name}", name=name, state=state, tasks={"running": running, "total": total})


def test_every_program_is_missing_from_an_empty_cluster() -> None:
    assert missing_programs([]) == list(PROGRAMS) == ["user-record", "leaderboards"]


def test_a_program_is_known_by_its_name_and_strangers_jobs_do_not_count() -> None:
    assert missing_programs([job("user-record"), job("somebody else's")]) == ["leaderboards"]
    assert missing_programs([job("user-record"), job("leaderboards", state="RESTARTING")]) == []


@pytest.mark.parametrize(
    ("state", "running", "expected"), [("RUNNING", 3, True), ("RUNNING", 2, False), ("RESTARTING", 0, False)]
)
def test_a_job_runs_when_all_its_tasks_do(state: str, running: int, expected: bool) -> None:
    assert job("user-record", state, running).running is expected
