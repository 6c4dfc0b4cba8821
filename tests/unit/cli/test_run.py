from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app
from runtime.lifecycle import StopSignal


@pytest.fixture(autouse=True)
def _inside_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the signals and the logging of the test run alone."""
    monkeypatch.setattr("runtime.lifecycle.log_to_stderr", lambda: None)
    monkeypatch.setattr(StopSignal, "listen", lambda stop: stop)


def headrace(*arguments: str) -> None:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("name", "process", "usual"),
    [
        ("gate", "jobs.gate.run_gate", "gate"),
        ("materializer", "jobs.materializer.run_materializer", "materializer"),
    ],
)
def test_several_on_one_group_each_get_a_name(
    name: str, process: str, usual: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []

    def record(*arguments: Any, **named: Any) -> None:
        names.append(named.get("instance", arguments[-1]))

    monkeypatch.setattr(process, record)
    headrace("run", name)
    headrace("run", name, "--instance", "second")
    assert names == [usual, "second"]


@pytest.mark.parametrize(
    ("parts", "steps"), [("['kafka']", ["fetch", "prepare", "keep"]), ("['kafka', 'flink']", ["keep"])]
)
def test_jobs_for_a_flink_elsewhere_have_their_jars(
    parts: str, steps: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    taken: list[str] = []
    for step, function in (
        ("fetch", "stack.jars.ensure_jars"),
        ("prepare", "stack.flink.prepare_flink"),
        ("keep", "jobs.keeper.keep_jobs"),
    ):
        monkeypatch.setattr(function, lambda *_arguments, step=step: taken.append(step))
    headrace("--set", f"state_dir={tmp_path}", "--set", f"stack.parts={parts}", "run", "jobs")
    assert taken == steps
