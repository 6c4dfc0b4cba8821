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
from stack.layout import Layout
from stack.process import ProcessRecord, every_recorded
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
            record = ProcessRecord(stranger.pid, create_time=1_000_000_000.0)
            (layout.run / f"{name}.pid").write_bytes(msgspec.json.encode(record))
        assert down(config) == []
        assert stranger.poll() is None
        assert list(layout.run.glob("*.pid")) == []
        stranger.kill()


def test_down_is_harmless_where_nothing_ever_ran(new_config: NewConfig) -> None:
    assert down(new_config(), wipe=True) == []


def test_wipe_removes_the_data_and_keeps_the_cache_and_what_is_not_ours(new_config: NewConfig, tmp_path: Path) -> None:
    config = new_config(state_dir=tmp_path, cache_dir=tmp_path / "cache")
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
