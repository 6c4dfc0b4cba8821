"""The cluster's REST answers, read and asked for."""

import pytest

from jobs.cluster import (
    Identity,
    begin_stop,
    cannot_restore,
    identity_of,
    is_lasting,
    latest_checkpoint,
    list_jobs,
    require_identity,
    require_jobs,
    root_cause,
    stop_result,
)
from runtime.config import FlinkConfig, load_config
from runtime.errors import StackError
from stack.ports import LOOPBACK, free_port
from tests.unit.jobs.conftest import Cluster, carrying, overview

TRACE = "a.Outer: it broke\n\tat a.B(C.java:1)\nCaused by: b.Inner: because\n\t... 5 more\nCaused by: c.Root: no file\n"
_RESTORING = "java.lang.Exception: Exception while creating StreamOperatorStateContext."
GONE = "java.io.FileNotFoundException: /c/chk-3/state (No such file or directory)"
UNREADABLE = f"{_RESTORING}\nCaused by: {GONE}"
SLOW = f"{_RESTORING}\nCaused by: java.net.SocketTimeoutException: Read timed out"


@pytest.fixture
def nobody() -> FlinkConfig:
    return load_config(overrides={"flink": {"rest_url": f"http://{LOOPBACK}:{free_port()}"}}).flink


def test_jobs_that_ended_are_not_listed(cluster: Cluster) -> None:
    states = ("RUNNING", "FAILED", "CANCELED", "FINISHED", "RESTARTING")
    cluster.answers["GET", "/jobs/overview"] = 200, overview(*(("a", "n", state) for state in states))
    jobs = list_jobs(cluster.config)
    assert jobs is not None
    assert [(job.state, job.start_ms) for job in jobs] == [("RUNNING", 5), ("RESTARTING", 5)]


def test_a_cluster_that_does_not_answer_lists_nothing_or_is_said_to_be_away(nobody: FlinkConfig) -> None:
    assert list_jobs(nobody) is None
    with pytest.raises(StackError, match=r"no answer from Flink at http://127.0.0.1:\d+: .*; start it with"):
        require_jobs(nobody)


def test_an_answer_that_is_no_list_of_jobs_is_not_taken_for_an_empty_one(cluster: Cluster) -> None:
    cluster.answers["GET", "/overview"] = 200, {}
    cluster.answers["GET", "/jobs/overview"] = 503, {"errors": ["not yet"]}
    assert list_jobs(cluster.config) is None
    with pytest.raises(StackError, match=r"Flink refuses GET /jobs/overview with 503: not yet"):
        require_jobs(cluster.config)


def test_an_answer_that_takes_longer_than_a_look_is_waited_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.answers["GET", "/jobs/overview"] = 200, overview(("a", "n", "RUNNING"))
    monkeypatch.setattr("stack.flink.flink_answer.__defaults__", (None, 0.05))
    cluster.delay_s = 0.2
    assert list_jobs(cluster.config) is None
    assert [job.jid for job in require_jobs(cluster.config)] == ["a"]


def test_a_job_carries_its_identity_and_a_strangers_none(cluster: Cluster) -> None:
    mine = Identity("f1", "s1", "d1", parallelism=2)
    unmarked = {"execution-config": {"job-parallelism": 2, "user-config": {}}}
    cluster.answers["GET", "/jobs/mine/config"] = 200, carrying(mine)
    cluster.answers["GET", "/jobs/strange/config"] = 200, unmarked
    assert identity_of(cluster.config, "mine") == mine
    assert identity_of(cluster.config, "strange") == Identity("", "", "", parallelism=2)
    assert identity_of(cluster.config, "unknown") is None
    assert [require_identity(cluster.config, job_id) for job_id in ("mine", "unknown")] == [mine, None]


def test_whose_a_job_is_has_to_be_answered_where_it_is_required(nobody: FlinkConfig) -> None:
    assert identity_of(nobody, "mine") is None
    with pytest.raises(StackError, match="no answer from Flink"):
        require_identity(nobody, "mine")


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (Identity("f", "s", "d", parallelism=9), True),
        (Identity("f2", "s", "d"), False),
        (Identity("f", "s2", "d"), False),
        (Identity("f", "s", "d2"), False),
    ],
)
def test_two_jobs_are_the_same_at_whatever_parallelism(other: Identity, same: bool) -> None:
    assert Identity("f", "s", "d").same_job(other) is same


def test_the_latest_checkpoint_is_the_completed_one(cluster: Cluster) -> None:
    completed = {"external_path": "file:/c/chk-3", "latest_ack_timestamp": 7, "state_size": 9}
    cluster.answers["GET", "/jobs/a/checkpoints"] = 200, {"latest": {"completed": completed, "savepoint": None}}
    cluster.answers["GET", "/jobs/b/checkpoints"] = 200, {"latest": {"completed": None, "savepoint": completed}}
    found = latest_checkpoint(cluster.config, "a")
    assert found is not None
    assert (found.path, found.completed_ms, found.size_bytes, found.savepoint) == ("file:/c/chk-3", 7, 9, False)
    assert latest_checkpoint(cluster.config, "b") is None
    assert latest_checkpoint(cluster.config, "unknown") is None


@pytest.mark.parametrize(
    ("traces", "reason"),
    [
        ([UNREADABLE] * 3, GONE),
        ([UNREADABLE] * 2, None),
        ([UNREADABLE, TRACE, UNREADABLE], None),
        ([UNREADABLE] * 3 + [TRACE], GONE),
        ([SLOW] * 3, None),
        ([UNREADABLE, SLOW, UNREADABLE], None),
        ([], None),
    ],
)
def test_state_is_given_up_once_it_could_not_be_read_three_times_in_a_row(
    traces: list[str], reason: str | None, cluster: Cluster
) -> None:
    entries = [{"stacktrace": trace} for trace in traces]
    cluster.answers["GET", "/jobs/a/exceptions?maxExceptions=3"] = 200, {"exceptionHistory": {"entries": entries}}
    assert cannot_restore(cluster.config, "a") == reason


@pytest.mark.parametrize(
    ("reason", "lasting"),
    [
        (GONE, True),
        ("java.nio.file.NoSuchFileException: /c/chk-3", True),
        ("java.io.IOException: Unexpected magic number. This can have multiple reasons", True),
        ("java.io.EOFException", True),
        (
            "java.lang.IllegalStateException: Failed to rollback to checkpoint/savepoint file:/c/chk-3. Cannot map "
            "checkpoint/savepoint state for operator a to the new program",
            True,
        ),
        ("org.apache.flink.util.StateMigrationException: The new state serializer must not be incompatible", True),
        ("java.io.FileNotFoundException: /c/chk-3/_metadata (Permission denied)", False),
        ("java.io.FileNotFoundException: /c/chk-3/_metadata (Too many open files)", False),
        ("java.net.SocketTimeoutException: Read timed out", False),
        ("com.amazonaws.services.s3.model.AmazonS3Exception: Slow Down (Status Code: 503)", False),
        ("java.io.EOFException: Unexpected EOF while reading from the server", False),
        ("java.io.IOException: No space left on device", False),
    ],
)
def test_state_is_given_up_only_if_it_is_gone_damaged_or_of_another_program(reason: str, lasting: bool) -> None:
    assert is_lasting(reason) is lasting


@pytest.mark.parametrize(
    ("trace", "cause"), [(TRACE, "c.Root: no file"), ("\n x: y\n z", "x: y"), ("", "no reason given")]
)
def test_the_root_cause_is_the_innermost(trace: str, cause: str) -> None:
    assert root_cause(trace) == cause


def test_a_job_is_stopped_into_the_folder_asked_for(cluster: Cluster) -> None:
    cluster.answers["POST", "/jobs/a/stop"] = 202, {"request-id": "r"}
    assert begin_stop(cluster.config, "a", "file:///s") == "r"
    assert cluster.sent == [{"targetDirectory": "file:///s", "drain": False}]

    path = "/jobs/a/savepoints/r"
    cluster.answers["GET", path] = 200, {"status": {"id": "IN_PROGRESS"}, "operation": None}
    assert stop_result(cluster.config, "a", "r") is None
    completed = {"status": {"id": "COMPLETED"}}
    cluster.answers["GET", path] = 200, completed | {"operation": {"location": "file:/s/1"}}
    assert stop_result(cluster.config, "a", "r") == "file:/s/1"
    cluster.answers["GET", path] = 200, completed | {"operation": {"failure-cause": {"stack-trace": TRACE}}}
    with pytest.raises(StackError, match=r"no savepoint: c.Root: no file; the job goes on"):
        stop_result(cluster.config, "a", "r")


def test_a_refusal_is_passed_on(cluster: Cluster) -> None:
    cluster.answers["POST", "/jobs/a/stop"] = 409, {"errors": ["Bad", TRACE]}
    with pytest.raises(StackError, match=r"Flink refuses POST /jobs/a/stop with 409: c.Root: no file"):
        begin_stop(cluster.config, "a", "file:///s")
