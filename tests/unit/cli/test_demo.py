from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from runtime.errors import HeadraceError, StackError


class Reached(Exception):
    """The demo has come as far as wiping its folder."""


@pytest.fixture(autouse=True)
def _stop_at_the_wipe(monkeypatch: pytest.MonkeyPatch) -> None:
    def wipe(*_arguments: object, **_named: object) -> None:
        raise Reached

    monkeypatch.setattr("models.datasets.movielens.load", lambda _cache_dir: None)
    monkeypatch.setattr("stack.control.down", wipe)


def demo(state_dir: Path, *arguments: str) -> None:
    command = ("--set", f"state_dir={state_dir}", "demo", *arguments)
    CliRunner().invoke(app, command, catch_exceptions=False)


@pytest.mark.parametrize("exists", [True, False])
def test_a_new_folder_is_wiped_and_so_is_the_one_of_an_earlier_demo(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "new" / "folder"
    if exists:
        folder.mkdir(parents=True)
    with pytest.raises(Reached):
        demo(folder)
    (folder / "kafka").mkdir()
    with pytest.raises(Reached):
        demo(folder)


def test_a_folder_with_anything_else_in_it_is_never_wiped(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    for _ in range(2):
        with pytest.raises(StackError, match=r"no demo put there.*--set state_dir=FOLDER"):
            demo(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kafka"]


def test_a_report_that_could_not_be_written_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match=r"there is no folder .*nowhere; make it first"):
        demo(tmp_path / "state", "--json", str(tmp_path / "nowhere" / "report.json"))
    assert not (tmp_path / "state").exists()
