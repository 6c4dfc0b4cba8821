import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest

from runtime.clock import SystemClock
from runtime.errors import StackError
from runtime.lifecycle import StopSignal
from stack.layout import Layout
from stack.process import every_recorded
from stack.service import Service, python_service
from stack.state import ServiceState, read_state
from stack.supervisor import Supervisor, restart_delay_ms

Eventually = Callable[..., None]

DUMMY = """
import os, pathlib, signal, sys
name, journal = sys.argv[1], pathlib.Path(sys.argv[2])
def stop(*_):
    with journal.open("a") as file:
        print(name, file=file)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
pathlib.Path(os.environ["HEADRACE_READY_FILE"]).write_text(str(os.getpid()))
while True:
    signal.pause()
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path)
    layout.folder("run")
    return layout


@pytest.fixture
def stop() -> StopSignal:
    return StopSignal()


def supervisor(layout: Layout, stop: StopSignal, timeout_s: float = 30) -> Supervisor:
    return Supervisor(layout, stop, SystemClock(), timeout_s)


def dummy(layout: Layout, name: str) -> Service:
    argv = (sys.executable, "-S", "-c", DUMMY, name, str(layout.root / "journal"))
    return python_service(name, argv, layout.config_file, layout.ready_file(name))


def python(name: str, code: str) -> Service:
    return Service(name, (sys.executable, "-S", "-c", code), os.environ, probe=lambda _started_ms: False)


def states(layout: Layout) -> dict[str, ServiceState]:
    return {service.name: service for service in read_state(layout).services}


@pytest.fixture
def running(layout: Layout, stop: StopSignal, eventually: Eventually) -> Iterator[None]:
    """Three dummies, started in two groups and watched by a thread."""

    def run() -> None:
        with supervisor(layout, stop) as supervisor_:
            supervisor_.start([dummy(layout, "one"), dummy(layout, "two")])
            supervisor_.start([dummy(layout, "three")])
            supervisor_.watch()

    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: read_state(layout).ready, "all dummies are ready")
    yield
    stop.stop()
    thread.join(30)
    assert not thread.is_alive()
    assert every_recorded(layout) == {}


@pytest.mark.usefixtures("running")
def test_services_are_stopped_in_reverse_order(layout: Layout, stop: StopSignal, eventually: Eventually) -> None:
    assert list(states(layout)) == ["one", "two", "three"]
    stop.stop()
    eventually(lambda: all(each.condition == "stopped" for each in states(layout).values()), "all are stopped")
    assert (layout.root / "journal").read_text().split() == ["three", "two", "one"]


@pytest.mark.usefixtures("running")
def test_a_service_that_is_killed_is_started_again(layout: Layout, eventually: Eventually) -> None:
    before = states(layout)["two"]
    assert before.pid is not None
    os.kill(before.pid, signal.SIGKILL)
    eventually(lambda: states(layout)["two"].restarts == 1 and read_state(layout).ready, "two is back")
    after = states(layout)
    assert after["two"].pid not in (None, before.pid)
    assert (after["one"].restarts, after["three"].restarts) == (0, 0)


@pytest.mark.usefixtures("running")
def test_a_full_disk_neither_ends_what_runs_nor_is_forgotten(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    before, refused = states(layout), set[str]()

    def full(step: str, *_arguments: object) -> None:
        refused.add(step)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        for step in ("write_state", "launch"):
            patched.setattr(f"stack.supervisor.{step}", partial(full, step))
        assert before["two"].pid is not None
        os.kill(before["two"].pid, signal.SIGKILL)
        eventually(lambda: refused == {"write_state", "launch"}, "the death is noticed and cannot be mended")
        assert states(layout) == before
    eventually(lambda: states(layout)["two"].restarts == 1 and read_state(layout).ready, "two is back")
    assert [states(layout)[name].pid for name in ("one", "three")] == [before[name].pid for name in ("one", "three")]


def test_one_that_dies_at_its_first_start_fails_with_the_end_of_its_log(layout: Layout, stop: StopSignal) -> None:
    code = "print('no such option: --frobnicate'); raise SystemExit(3)"
    with (
        pytest.raises(StackError, match=r"(?s)broken ended with status 3; .*no such option: --frobnicate"),
        supervisor(layout, stop) as supervisor_,
    ):
        supervisor_.start([python("broken", code), dummy(layout, "sound")])
    state = read_state(layout)
    assert [service.condition for service in state.services] == ["failed", "stopped"]
    assert state.error is not None
    assert "--frobnicate" in state.error
    assert every_recorded(layout) == {}


def test_one_that_is_never_ready_fails_when_its_time_is_up(layout: Layout, stop: StopSignal) -> None:
    with (
        pytest.raises(StackError, match="idle was not ready within 0 s"),
        supervisor(layout, stop, timeout_s=0.2) as supervisor_,
    ):
        supervisor_.start([python("idle", "import time; time.sleep(600)")])
    assert every_recorded(layout) == {}


def test_one_that_is_never_ready_fails_with_what_it_said_before_it_was_ended(
    layout: Layout, stop: StopSignal, eventually: Eventually
) -> None:
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit('shutting down nicely'))\n"
        "print('no leader yet', flush=True)\n"
        "time.sleep(600)\n"
    )
    service = python("slow", code)

    def silent(_started_ms: int) -> bool:
        eventually(lambda: "no leader" in layout.log_of("slow").read_text(), "it has said what it waits for")
        return False

    with (
        pytest.raises(StackError, match="no leader yet") as raised,
        supervisor(layout, stop, timeout_s=0.2) as supervisor_,
    ):
        supervisor_.start([replace(service, probe=silent)])
    assert "shutting down nicely" in layout.log_of("slow").read_text()
    assert "shutting down nicely" not in str(raised.value)


def test_one_that_hangs_is_shown_while_a_slow_probe_of_another_is_under_way(
    layout: Layout, stop: StopSignal, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    monkeypatch.setattr("stack.supervisor.PROBE_INTERVAL_MS", 50)
    hangs, asked_slow, go_on = threading.Event(), threading.Event(), threading.Event()

    def slow(_started_ms: int) -> bool:
        if hangs.is_set():
            asked_slow.set()
            go_on.wait(60)
        return True

    def run() -> None:
        with supervisor(layout, stop) as supervisor_:
            one = replace(dummy(layout, "one"), probe=slow)
            two = replace(dummy(layout, "two"), probe=lambda _started_ms: not hangs.is_set())
            supervisor_.start([one, two])
            supervisor_.watch()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        eventually(lambda: read_state(layout).ready, "both are ready")
        before = states(layout)["two"]
        hangs.set()
        eventually(lambda: states(layout)["two"].condition == "not answering", "the hanging one is noticed")
        assert asked_slow.wait(60)
        assert not read_state(layout).ready
        assert states(layout)["two"] == msgspec.structs.replace(before, condition="not answering")
        hangs.clear()
        eventually(lambda: read_state(layout).ready, "it answers again")
    finally:
        go_on.set()
        stop.stop()
        thread.join(60)
    assert every_recorded(layout) == {}


def test_nothing_is_started_once_told_to_stop(layout: Layout, stop: StopSignal) -> None:
    stop.stop()
    with supervisor(layout, stop) as supervisor_:
        supervisor_.start([dummy(layout, "one")])
        supervisor_.watch()
    assert read_state(layout).services == ()


def test_a_ready_file_of_an_earlier_run_does_not_count(layout: Layout, stop: StopSignal) -> None:
    layout.ready_file("idle").write_text("1")
    argv = (sys.executable, "-S", "-c", "import time; time.sleep(600)")
    service = python_service("idle", argv, layout.config_file, layout.ready_file("idle"))
    with pytest.raises(StackError, match="idle was not ready"), supervisor(layout, stop, timeout_s=0.2) as supervisor_:
        supervisor_.start([service])


def test_the_first_restart_is_immediate_and_later_ones_wait_longer_up_to_a_bound() -> None:
    assert [restart_delay_ms(deaths) for deaths in (1, 2, 3, 4, 5, 6, 7, 1_000)] == [
        0, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000,
    ]  # fmt: skip


def test_our_processes_get_the_configuration_file_and_nothing_that_contradicts_it(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_KAFKA__PARTITIONS", "7")
    env = dummy(layout, "one").env
    assert {name: value for name, value in env.items() if name.startswith("HEADRACE_")} == {
        "HEADRACE_CONFIG": str(layout.config_file),
        "HEADRACE_READY_FILE": str(layout.ready_file("one")),
    }
    assert env["OMP_NUM_THREADS"] == "1"
