"""The cluster's REST answers, read and asked for."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from jobs.cluster import (
    Identity,
    begin_stop,
    cannot_restore,
    identity_of,
    latest_checkpoint,
    list_jobs,
    require_jobs,
    root_cause,
    stop_result,
)
from runtime.config import FlinkConfig, load_config
from runtime.errors import StackError
from stack.ports import LOOPBACK, free_port

TRACE = "a.Outer: it broke\n\tat a.B(C.java:1)\nCaused by: b.Inner: because\n\t... 5 more\nCaused by: c.Root: no file\n"
UNREADABLE = f"java.lang.Exception: Exception while creating StreamOperatorStateContext.\n{TRACE}"


class Cluster:
    """Answers each (method, path) with what it was given, and keeps what it was sent."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], tuple[int, Any]] = {}
        self.sent: list[Any] = []
        cluster = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                if length:
                    cluster.sent.append(json.loads(self.rfile.read(length)))
                status, answer = cluster.answers.get((self.command, self.path), (404, {"errors": ["not found"]}))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            do_GET = do_POST = do_PATCH = _answer  # noqa: N815

            def log_message(self, *_arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        rest_url = f"http://{LOOPBACK}:{self.server.server_port}"
        self.config = load_config(overrides={"flink": {"rest_url": rest_url}}).flink


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    thread = threading.Thread(target=cluster.server.serve_forever, args=(0.01,))
    thread.start()
    yield cluster
    cluster.server.shutdown()
    thread.join()
    cluster.server.server_close()


@pytest.fixture
def nobody() -> FlinkConfig:
    return load_config(overrides={"flink": {"rest_url": f"http://{LOOPBACK}:{free_port()}"}}).flink


def overview(*states: str) -> Any:
    tasks = {"running": 1, "total": 1}
    jobs = [{"jid": state, "name": "n", "state": state, "start-time": 5, "tasks": tasks} for state in states]
    return {"jobs": jobs}


def test_jobs_that_ended_are_not_listed(cluster: Cluster) -> None:
    ended = ("FAILED", "CANCELED", "FINISHED")
    cluster.answers["GET", "/jobs/overview"] = 200, overview("RUNNING", *ended, "RESTARTING")
    jobs = list_jobs(cluster.config)
    assert jobs is not None
    assert [(job.state, job.start_ms) for job in jobs] == [("RUNNING", 5), ("RESTARTING", 5)]


def test_a_cluster_that_does_not_answer_lists_nothing_or_is_said_to_be_away(nobody: FlinkConfig) -> None:
    assert list_jobs(nobody) is None
    with pytest.raises(StackError, match=r"no answer from Flink at http://127.0.0.1:\d+: .*; start it with"):
        require_jobs(nobody)


def test_a_job_carries_its_identity_and_a_strangers_none(cluster: Cluster) -> None:
    mine = Identity("f1", "s1", parallelism=2)
    carried = dict(pair.split(":") for pair in mine.parameters().split(","))
    for job_id, own in (("mine", carried), ("strange", {})):
        answer = {"execution-config": {"job-parallelism": 2, "user-config": own}}
        cluster.answers["GET", f"/jobs/{job_id}/config"] = 200, answer
    assert identity_of(cluster.config, "mine") == mine
    assert identity_of(cluster.config, "strange") == Identity("", "", parallelism=2)
    assert identity_of(cluster.config, "unknown") is None


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
        ([UNREADABLE] * 3, "c.Root: no file"),
        ([UNREADABLE] * 2, None),
        ([UNREADABLE, TRACE, UNREADABLE], None),
        ([UNREADABLE] * 3 + [TRACE], "c.Root: no file"),
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
