"""`headrace jobs` without a Flink, and how it puts things."""

import re
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.jobs import described, origin
from cli.main import app
from jobs.job_state import Snapshot
from jobs.operations import Stopped
from runtime.errors import ConfigError, StackError
from stack.ports import LOOPBACK, free_port


def headrace(*arguments: str) -> str:
    nobody = f"flink.rest_url=http://{LOOPBACK}:{free_port()}"
    return CliRunner().invoke(app, ["--set", nobody, "jobs", *arguments], catch_exceptions=False).output


@pytest.mark.parametrize("arguments", [["list"], ["stop", "user-record"], ["resume", "user-record"]])
def test_without_flink_one_line_says_where_it_was_looked_for(arguments: list[str]) -> None:
    with pytest.raises(StackError, match=re.compile(r"^no answer from Flink at http://127\.0\.0\.1:\d+: [^\n]*$")):
        headrace(*arguments)


def test_each_job_is_stopped_once_and_a_savepoint_is_named_although_the_next_one_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def stop_job(_config: Any, name: str, *_arguments: Any) -> Stopped:
        asked.append(name)
        if name == "leaderboards":
            raise StackError("no savepoint")
        return Stopped(name, ran=True, state=Snapshot("file:/s/1", 1, 0, savepoint=True))

    monkeypatch.setattr("jobs.operations.stop_job", stop_job)
    result = CliRunner().invoke(app, ["jobs", "stop", "user-record", "user-record", "leaderboards"])
    assert isinstance(result.exception, StackError)
    assert "user-record is stopped, its state is the savepoint file:/s/1\n" in result.output
    assert asked == ["user-record", "leaderboards"]


@pytest.mark.parametrize("verb", ["stop", "resume", "submit"])
def test_an_unknown_job_is_refused_before_flink_is_asked(verb: str) -> None:
    with pytest.raises(ConfigError, match=r"no job is called user-records; the jobs are user-record, "):
        headrace(verb, "user-record", "user-records")


def test_state_is_described_by_kind_age_and_size() -> None:
    assert described(None, 5) == ""
    assert described(Snapshot("p", completed_ms=0, size_bytes=2_000), 5_000) == "5 s ago\n2 kB"
    assert described(Snapshot("p", 0, size_bytes=0, savepoint=True), 5_000) == "savepoint, 5 s ago\n"


@pytest.mark.parametrize(
    ("restored_from", "text"),
    [
        ("", "the log"),
        ("file:/c/0123456789/chk-7", "chk-7 of 01234567"),
        ("file:/s/savepoint-012-345", "savepoint-012-345"),
    ],
)
def test_the_origin_of_a_jobs_state_is_short(restored_from: str, text: str) -> None:
    assert origin(restored_from) == text
