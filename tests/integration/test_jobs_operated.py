"""`headrace jobs` on a real Flink: all jobs at once, stopped, resumed, rebuilt, replaced."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from cli.main import app
from jobs.cluster import list_jobs
from jobs.programs import PROGRAMS
from jobs.submit import records_of
from runtime.config import Config, write_config
from stack.control import down
from stack.layout import Layout
from tests.conftest import Eventually
from tests.integration.job_stack import JobStack, user_ids

pytestmark = pytest.mark.stack

ALL = list(PROGRAMS)
USERS = user_ids("u", 8)


@pytest.fixture(scope="module")
def jobs(new_config: Callable[..., Config], eventually: Eventually) -> Iterator[JobStack]:
    config = new_config(stack={"parts": ["kafka", "flink"]}, flink={"parallelism": 4, "checkpoint_interval_ms": 1_000})
    stack = JobStack(config, eventually)
    try:
        stack.up()
        yield stack
    finally:
        down(config, wipe=True)


def headrace(config: Config, *arguments: str) -> Result:
    file = Layout.of(config).run / "test.toml"
    write_config(config, file)
    return CliRunner().invoke(app, ["--config", str(file), "jobs", *arguments], catch_exceptions=False)


def test_all_jobs_fit_and_are_listed_stopped_resumed_and_rebuilt(jobs: JobStack) -> None:
    with jobs.kept():
        listed = headrace(jobs.config, "list").output
        assert listed.count("RUNNING") == len(ALL)
        assert all(name in listed for name in ALL)
        assert {job.tasks["total"] % 4 for job in list_jobs(jobs.config.flink) or ()} == {0}

        jobs.send(USERS, 3, partitions=[0, 1, 2, 3])
        jobs.expect_totals()
        stopped = headrace(jobs.config, "stop", *ALL).output
        assert stopped.count("is stopped, its state is the savepoint file:") == len(ALL)
        assert list_jobs(jobs.config.flink) == []
        again = headrace(jobs.config, "stop", "user-record").output
        assert again.startswith("user-record was not running; it stays stopped, its state is the savepoint file:")
        assert headrace(jobs.config, "list").output.count("STOPPED") == len(ALL)

        assert "restored from file:" in headrace(jobs.config, "resume", "user-record").output
        jobs.send(USERS, 3, partitions=[0, 1, 2, 3])
        jobs.expect_totals()

        jobs.drop_log()
        rebuilt = headrace(jobs.config, "submit", "user-record", "--from-log").output
        assert rebuilt == "user-record runs, its state built from the log\n"
        jobs.sent.clear()
        jobs.send(USERS, 1, partitions=[0, 1, 2, 3])
        jobs.expect_totals()


def test_a_changed_configuration_replaces_the_job_and_lost_state_is_rebuilt(jobs: JobStack) -> None:
    lost = jobs.remembered("leaderboards").snapshot
    assert lost is not None
    shutil.rmtree(Path(lost.path.removeprefix("file:")))
    features = jobs.config.features.model_copy(update={"record_events": 2})
    before = jobs.running("user-record")
    assert before is not None
    # Resumed while no keeper runs, so that one client submits both jobs.
    records_of(jobs.config).update("leaderboards", lambda record: msgspec.structs.replace(record, wish="run"))

    with jobs.kept(jobs.config.model_copy(update={"features": features})):
        assert f"ending user-record (job {before.jid}): its program or configuration changed" in jobs.log_of_keeper()
        jobs.send(USERS, 4, partitions=[0, 1, 2, 3])
        jobs.expect_totals()
        assert {len(record.events) for record in jobs.newest().values()} == {2}

        resumed = headrace(jobs.config, "resume", "leaderboards").output
        assert resumed == "leaderboards runs, its state built from the log\n"
        assert f"leaderboards cannot go on from {lost.path} (java.io.FileNotFoundException: " in jobs.log_of_keeper()
        running = {job.name for job in list_jobs(jobs.config.flink) or ()}
        assert running == {"user-record", "leaderboards"}  # what an operator stopped stays so
