import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from runtime.config import Config
from runtime.errors import StackError
from stack.control import down, read_status, up
from stack.layout import FOLDERS, Layout
from stack.process import ProcessRecord, every_recorded, launch
from stack.state import ServiceState, StackState, write_state

NewConfig = Callable[..., Config]


def test_a_taken_port_is_reported_before_anything_starts(new_config: NewConfig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = new_config(redis={"url": f"redis://127.0.0.1:{server.getsockname()[1]}/0"})
        with pytest.raises(StackError, match="for redis is in use"):
            up(config, ("/nonexistent",))
    assert list(Layout.of(config).log.glob("*")) == []


def test_down_spares_a_stranger_that_has_the_pid_of_a_stale_record(new_config: NewConfig) -> None:
    config = new_config()
    layout = Layout.of(config)
    with subprocess.Popen((sys.executable, "-S", "-c", "import time; time.sleep(600)")) as stranger:
        for name in ("supervisor", "kafka"):
            layout.folder("run")
            record = ProcessRecord(stranger.pid, birth="another boot 1")
            (layout.run / f"{name}.pid").write_bytes(msgspec.json.encode(record))
        assert down(config) == []
        assert stranger.poll() is None
        assert list(layout.run.glob("*.pid")) == []
        stranger.kill()


def test_down_is_harmless_where_nothing_ever_ran(new_config: NewConfig) -> None:
    assert down(new_config(), wipe=True) == []


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_we_did_not_make_is_neither_wiped_nor_used(
    new_config: NewConfig, tmp_path: Path, name: str
) -> None:
    source = tmp_path / name / "source.py"
    source.parent.mkdir()
    source.touch()
    config = new_config(state_dir=tmp_path)
    for refused in (lambda: down(config, wipe=True), lambda: up(config, ("/nonexistent",))):
        with pytest.raises(StackError, match=f"holds {name} but no headrace-state"):
            refused()
    assert down(config) == []
    assert source.exists()


def test_a_state_folder_of_a_time_before_the_marker_is_marked_at_the_next_start(
    new_config: NewConfig, tmp_path: Path
) -> None:
    layout = Layout.of(new_config(state_dir=tmp_path))
    layout.run.mkdir()
    layout.config_file.touch()
    layout.folder("kafka")
    layout.require_ours()


@pytest.mark.parametrize("name", ["supervisor", "kafka"])
def test_a_damaged_record_is_reported_and_kept_and_nothing_is_wiped(new_config: NewConfig, name: str) -> None:
    config = new_config()
    record = Layout.of(config).folder("run") / f"{name}.pid"
    record.write_bytes(b"12")
    for refused in (lambda: down(config, wipe=True), lambda: up(config, ("/nonexistent",))):
        with pytest.raises(StackError, match=rf"{name}\.pid in .* cannot be read"):
            refused()
    assert record.read_bytes() == b"12"


def test_a_damaged_record_does_not_keep_the_others_from_being_ended(new_config: NewConfig) -> None:
    config = new_config()
    layout = Layout.of(config)
    (layout.folder("run") / "kafka.pid").write_bytes(b"")
    launch(layout, "redis", (sys.executable, "-S", "-c", "import time; time.sleep(600)"), os.environ)
    with pytest.raises(StackError, match=r"kafka\.pid in "):
        down(config)
    assert [file.name for file in layout.run.glob("*.pid")] == ["kafka.pid"]
    assert every_recorded(layout) == {}


def test_wipe_removes_the_data_and_keeps_the_cache_and_what_is_not_ours(new_config: NewConfig, tmp_path: Path) -> None:
    config = new_config(state_dir=tmp_path, cache_dir=tmp_path / "cache")
    Layout.of(config).claim()
    for name in ("kafka/data/log", "models/deepfm", "cache/jars/a.jar", "notes/mine"):
        (tmp_path / name).mkdir(parents=True)
    down(config, wipe=True)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"cache", "notes"}
    assert (tmp_path / "cache" / "jars" / "a.jar").exists()


def test_wipe_does_not_follow_a_link_out_of_the_state_folder(new_config: NewConfig, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "precious").mkdir(parents=True)
    config = new_config(state_dir=tmp_path / "state")
    Layout.of(config).folder()
    (config.state_dir / "kafka").symlink_to(elsewhere)
    with pytest.raises(StackError, match="is a link to elsewhere"):
        down(config, wipe=True)
    assert (elsewhere / "precious").exists()


def test_wipe_refuses_a_cache_that_lies_among_the_data(new_config: NewConfig, tmp_path: Path) -> None:
    config = new_config(state_dir=tmp_path, cache_dir=tmp_path / "kafka" / "cache")
    Layout.of(config).claim()
    config.cache_dir.mkdir(parents=True)
    with pytest.raises(StackError, match="move it with --set cache_dir"):
        down(config, wipe=True)
    assert config.cache_dir.exists()


def test_a_supervisor_that_ends_at_once_is_reported_with_its_log(
    new_config: NewConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stack.control.ensure_jars", lambda *_arguments: None)
    config = new_config(stack={"parts": []})
    code = "print('cannot find the spoon'); raise SystemExit(1)"
    with pytest.raises(StackError, match=r"(?s)the supervisor ended.*cannot find the spoon"):
        up(config, (sys.executable, "-S", "-c", code))
    assert every_recorded(Layout.of(config)) == {}


def test_an_interrupted_start_is_undone(new_config: NewConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stack.control.ensure_jars", lambda *_arguments: None)
    config = new_config(stack={"parts": []})
    running: list[str] = []

    def interrupt(_state: StackState) -> None:
        running.extend(every_recorded(Layout.of(config)))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        up(config, (sys.executable, "-S", "-c", "import time; time.sleep(600)"), interrupt)
    assert running == ["supervisor"]
    assert every_recorded(Layout.of(config)) == {}


def test_what_is_published_without_a_supervisor_counts_as_stopped(new_config: NewConfig) -> None:
    config = new_config()
    assert read_status(config) == StackState()
    write_state(Layout.of(config), StackState((ServiceState("kafka", "ready", pid=1),), complete=True))
    state = read_status(config)
    assert not state.ready
    assert [service.condition for service in state.services] == ["stopped"]
