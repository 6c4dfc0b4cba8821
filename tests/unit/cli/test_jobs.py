"""`headrace jobs` without a Flink, and how it puts things."""

import re

import pytest
from typer.testing import CliRunner

from cli.jobs import age, described, origin, size
from cli.main import app
from jobs.job_state import Snapshot
from runtime.errors import ConfigError, StackError
from stack.ports import LOOPBACK, free_port

MINUTE_MS = 60_000


def headrace(*arguments: str) -> str:
    nobody = f"flink.rest_url=http://{LOOPBACK}:{free_port()}"
    return CliRunner().invoke(app, ["--set", nobody, "jobs", *arguments], catch_exceptions=False).output


@pytest.mark.parametrize("arguments", [["list"], ["stop", "user-record"], ["resume", "user-record"]])
def test_without_flink_one_line_says_where_it_was_looked_for(arguments: list[str]) -> None:
    with pytest.raises(StackError, match=re.compile(r"^no answer from Flink at http://127\.0\.0\.1:\d+: [^\n]*$")):
        headrace(*arguments)


@pytest.mark.parametrize("verb", ["stop", "resume", "submit"])
def test_an_unknown_job_is_refused_before_flink_is_asked(verb: str) -> None:
    with pytest.raises(ConfigError, match=r"no job is called user-records; the jobs are user-record, "):
        headrace(verb, "user-record", "user-records")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(-5, "0 s"), (999, "0 s"), (59_999, "59 s"), (MINUTE_MS, "1 min"), (60 * MINUTE_MS, "1 h"), (90_000_000, "1 d")],
)
def test_an_age_is_given_in_its_largest_whole_unit(milliseconds: int, text: str) -> None:
    assert age(milliseconds) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (999, "999 B"), (31_000, "31 kB"), (2_450_000, "2.5 MB")])
def test_a_size_is_given_in_its_largest_unit(count: int, text: str) -> None:
    assert size(count) == text


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
