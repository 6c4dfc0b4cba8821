"""Stopping a job: what is wished of it, before and after an error, and which job it is."""

from collections.abc import Callable

import msgspec
import pytest

from jobs.cluster import Identity
from jobs.job_state import JobRecord, Snapshot, Wish
from jobs.operations import stop_job, view_jobs
from jobs.submit import records_of
from runtime.clock import SystemClock
from runtime.config import Config
from runtime.errors import StackError
from tests.unit.jobs.conftest import Cluster, carrying, overview

NAME = "user-record"
OVERVIEW = "GET", "/jobs/overview"
SAVED = {"status": {"id": "COMPLETED"}, "operation": {"location": "file:/s/1"}}


def silent(_what: str) -> None:
    """Nobody watches."""


@pytest.fixture
def config(cluster: Cluster, new_config: Callable[..., Config]) -> Config:
    return new_config(flink={"rest_url": cluster.config.rest_url})


def ours(config: Config) -> Identity:
    return Identity("f", "s", records_of(config).deployment(), parallelism=1)


def remember(config: Config, record: JobRecord) -> None:
    records_of(config).update(NAME, lambda _: record)


def test_a_job_is_stopped_and_its_savepoint_remembered(cluster: Cluster, config: Config) -> None:
    cluster.answers[OVERVIEW] = 200, overview(("a", NAME, "RUNNING"))
    cluster.answers["GET", "/jobs/a/config"] = 200, carrying(ours(config))
    cluster.answers["POST", "/jobs/a/stop"] = 202, {"request-id": "r"}
    cluster.answers["GET", "/jobs/a/savepoints/r"] = 200, SAVED
    stopped = stop_job(config, NAME, SystemClock(), silent)
    assert stopped.ran
    assert stopped.state is not None
    assert (stopped.state.path, stopped.state.savepoint) == ("file:/s/1", True)
    assert records_of(config).read(NAME) == JobRecord(wish="stop", snapshot=stopped.state)


def test_a_job_is_looked_for_only_once_the_wish_to_stop_it_is_written(
    cluster: Cluster, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    wishes: list[Wish] = []

    def look(_config: object) -> list[object]:
        wishes.append(records_of(config).read(NAME).wish)
        return []

    monkeypatch.setattr("jobs.operations.require_jobs", look)
    assert not stop_job(config, NAME, SystemClock(), silent).ran
    assert wishes == ["stop"]


@pytest.mark.parametrize("wish", ["run", "stop", "rebuild"])
@pytest.mark.parametrize("answer", ["none", "refused"])
def test_after_an_error_the_wish_is_what_it_was(wish: Wish, answer: str, cluster: Cluster, config: Config) -> None:
    record = JobRecord(wish=wish, job_id="a", snapshot=Snapshot("file:/c/a/chk-1", 1, 1))
    remember(config, record)
    if answer == "refused":
        cluster.answers[OVERVIEW] = 200, overview(("a", NAME, "RUNNING"))
        cluster.answers["POST", "/jobs/a/stop"] = 409, {"errors": ["busy"]}
    with pytest.raises(StackError):
        stop_job(config, NAME, SystemClock(), silent)
    assert records_of(config).read(NAME) == record


def test_after_an_error_a_wish_that_came_in_between_stays(
    cluster: Cluster, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_config: object) -> list[object]:
        records_of(config).update(NAME, lambda record: msgspec.structs.replace(record, wish="run"))
        raise StackError("no answer")

    remember(config, JobRecord(wish="rebuild"))
    monkeypatch.setattr("jobs.operations.require_jobs", refuse)
    with pytest.raises(StackError):
        stop_job(config, NAME, SystemClock(), silent)
    assert records_of(config).read(NAME).wish == "run"


def test_a_job_of_the_same_name_that_is_not_ours_is_neither_stopped_nor_shown(cluster: Cluster, config: Config) -> None:
    cluster.answers[OVERVIEW] = 200, overview(("theirs", NAME, "RUNNING"))
    cluster.answers["GET", "/jobs/theirs/config"] = 200, carrying(Identity("f", "s", "another"))
    assert not stop_job(config, NAME, SystemClock(), silent).ran
    assert {method for method, _ in cluster.asked} == {"GET"}
    view = view_jobs(config)[0]
    assert (view.name, view.job, view.state) == (NAME, None, "STOPPED")


def test_the_job_that_is_remembered_is_ours_although_another_comes_first(cluster: Cluster, config: Config) -> None:
    remember(config, JobRecord(job_id="b"))
    cluster.answers[OVERVIEW] = 200, overview(("a", NAME, "RUNNING"), ("b", NAME, "RUNNING"))
    for job_id in ("a", "b"):
        cluster.answers["GET", f"/jobs/{job_id}/config"] = 200, carrying(ours(config))
    view = view_jobs(config)[0]
    assert view.job is not None
    assert view.job.jid == "b"
