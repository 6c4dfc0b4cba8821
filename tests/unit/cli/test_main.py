import signal
import subprocess
import sys

PROGRAM = """
import sys, time
from cli.main import app, main

@app.command()
def wait() -> None:
    try:
        print("started", flush=True)
        time.sleep(600)
    finally:
        print("stopped everything", flush=True)

sys.argv = ["headrace", "wait"]
main()
"""


def test_a_command_that_is_terminated_still_stops_what_it_started() -> None:
    with subprocess.Popen((sys.executable, "-c", PROGRAM), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60)[0] == "stopped everything\n"
    assert process.returncode == 143
