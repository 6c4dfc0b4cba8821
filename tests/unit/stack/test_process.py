import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from stack.layout import Layout
from stack.process import (
    ProcessRecord,
    birth_of,
    damaged_records,
    end,
    end_orphans,
    every_recorded,
    launch,
    recorded,
    tail,
)

SLEEP = (sys.executable, "-S", "-c", "import time; time.sleep(600)")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path)
    layout.folder("run")
    return layout


@pytest.fixture
def stranger() -> Iterator[psutil.Process]:
    with subprocess.Popen(SLEEP) as process:
        yield psutil.Process(process.pid)
        process.kill()


def write_record(layout: Layout, name: str, record: ProcessRecord) -> None:
    (layout.run / f"{name}.pid").write_bytes(msgspec.json.encode(record))


def test_a_launched_process_is_found_again_and_can_be_ended(layout: Layout) -> None:
    pid = launch(layout, "sleeper", SLEEP, os.environ)
    found = recorded(layout, "sleeper")
    assert found is not None
    assert found.pid == pid
    end(found, grace_s=10)
    assert recorded(layout, "sleeper") is None
    assert not psutil.pid_exists(pid)


def test_what_a_killed_process_leaves_behind_can_be_ended(layout: Layout, eventually: Callable[..., None]) -> None:
    parent = "import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', 'import time; time.sleep(600)'])"
    pid = launch(layout, "parent", (sys.executable, "-c", parent), os.environ)
    leader = psutil.Process(pid)
    eventually(lambda: len(leader.children()) == 1, "the parent has its child")
    (orphan,) = leader.children()
    leader.kill()
    leader.wait()
    assert orphan.is_running()
    end_orphans(pid)
    eventually(lambda: not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE, "the orphan has ended")
    end_orphans(pid)


def test_a_record_whose_pid_now_belongs_to_a_stranger_leads_nowhere(layout: Layout, stranger: psutil.Process) -> None:
    write_record(layout, "kafka", ProcessRecord(stranger.pid, birth_of(os.getpid())))
    assert recorded(layout, "kafka") is None
    assert every_recorded(layout) == {}


def test_a_process_is_found_again_after_the_clock_was_set(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = launch(layout, "sleeper", SLEEP, os.environ)
    with monkeypatch.context() as clock:
        # Times of creation are counted from a boot that is now said to have been at another time.
        before = psutil.Process.create_time
        clock.setattr(psutil.Process, "create_time", lambda self: before(self) + 300)
        found = recorded(layout, "sleeper")
        assert found is not None
        assert found.pid == pid
    end(found, grace_s=10)


@pytest.mark.parametrize("content", [b"", b"123", b"{}", b'{"pid": "x"}', b'{"pid": -1, "birth": "b 1"}'])
def test_a_damaged_record_leads_nowhere_and_is_named(layout: Layout, content: bytes) -> None:
    (layout.run / "kafka.pid").write_bytes(content)
    assert recorded(layout, "kafka") is None
    assert damaged_records(layout) == [layout.run / "kafka.pid"]


def test_recorded_processes_come_youngest_first(layout: Layout) -> None:
    for name in ("a-first", "z-second"):
        launch(layout, name, SLEEP, os.environ)
    found = every_recorded(layout)
    try:
        # Both may be born within the kernel's clock tick; then either order is right.
        times = [process.create_time() for process in found.values()]
        assert times == sorted(times, reverse=True)
        assert set(found) == {"a-first", "z-second"}
    finally:
        for process in found.values():
            end(process, grace_s=10)


def test_one_that_ignores_the_request_is_killed_with_its_children(
    layout: Layout, eventually: Callable[..., None]
) -> None:
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    pid = launch(layout, "stubborn", (sys.executable, "-c", code), os.environ)
    log = layout.log_of("stubborn")
    eventually(lambda: bool(log.read_text().strip()), "the child is started")
    child = psutil.Process(int(log.read_text()))
    end(psutil.Process(pid), grace_s=0.3)
    assert not psutil.pid_exists(pid)
    eventually(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "the child is gone")


@pytest.mark.parametrize("question", ["children", "terminate", "wait", "status", "kill"])
def test_one_that_vanishes_between_two_questions_counts_as_ended(
    stranger: psutil.Process, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanished(*_arguments: object, **_named: object) -> None:
        raise psutil.NoSuchProcess(stranger.pid)

    def still_there(*_arguments: object, **_named: object) -> None:
        raise psutil.TimeoutExpired(0)

    monkeypatch.setattr(stranger, "terminate", lambda: None)
    monkeypatch.setattr(stranger, "wait", still_there)
    monkeypatch.setattr(stranger, question, vanished)
    end(stranger, grace_s=0.01)


def test_one_that_cannot_be_recorded_does_not_run(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = psutil.Process().children()
    monkeypatch.setattr("stack.process.write_atomically", full)
    with pytest.raises(OSError, match="No space left"):
        launch(layout, "sleeper", SLEEP, os.environ)
    assert psutil.Process().children() == before


def test_output_and_errors_are_appended_to_the_log(layout: Layout, eventually: Callable[..., None]) -> None:
    layout.folder("log")
    layout.log_of("talker").write_text("before\n")
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr)"
    launch(layout, "talker", (sys.executable, "-S", "-c", code), os.environ)
    eventually(lambda: "err" in layout.log_of("talker").read_text(), "the process has written")
    assert tail(layout.log_of("talker")) == "before\nout\nerr"
    assert tail(layout.log_of("talker"), lines=1) == "err"


def test_the_tail_of_a_missing_log_says_so(tmp_path: Path) -> None:
    assert tail(tmp_path / "none.log") == "(no log)"
