import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.main import main

PROGRAM = """
import sys, time
from cli.main import app, main

@app.command()
def wait() -> None:
    try:
        print("started", flush=True)
        time.sleep(600)
    finally:
        print("stopping everything", flush=True)
        sys.stdin.readline()
        print("stopped everything", flush=True)

sys.argv = ["headrace", "wait"]
main()
"""


@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_command_that_is_told_to_end_still_stops_what_it_started(name: str, status: int) -> None:
    number = signal.Signals[name]
    command = (sys.executable, "-c", PROGRAM)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(number)
        assert process.stdout.readline() == "stopping everything\n"
        # A closed terminal says so twice.
        process.send_signal(number)
        assert process.communicate("go on\n", timeout=60)[0] == "stopped everything\n"
    assert process.returncode == status


def test_a_closed_terminal_does_not_end_a_command_under_nohup() -> None:
    program = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{PROGRAM}"
    command = (sys.executable, "-c", program)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert process.communicate("go on\n", timeout=60)[0] == "stopping everything\nstopped everything\n"
    assert process.returncode == 143


@pytest.mark.parametrize("verb", [("status",), ("up",)])
def test_what_the_system_refuses_is_one_line_with_file_and_reason(
    verb: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    previous = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    monkeypatch.setattr(sys, "argv", ["headrace", "--set", f"state_dir={file}", *verb])
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    assert ended.value.code == 1
    assert re.fullmatch(rf"error: {file}\S*: (Not a directory|File exists)\n", capsys.readouterr().err)
