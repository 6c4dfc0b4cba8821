import subprocess
import sys

PROGRAM = """
import contextlib, io, socket, sys, threading

def refuse(*_):
    raise AssertionError("the import reached for the network")

socket.socket.connect = refuse
socket.getaddrinfo = refuse
started = []
start = threading.Thread.start
threading.Thread.start = lambda self: (started.append(self), start(self))
with contextlib.redirect_stdout(io.StringIO()) as output:
    from models.deepfm.library import quiet_deepctr
    quiet_deepctr()
    from deepctr_torch.models import DeepFM
import torch
assert not started, started
assert "requests" not in sys.modules
assert output.getvalue() == ""
assert torch.get_num_threads() == 1
"""


def test_its_import_starts_no_thread_reaches_for_no_network_and_prints_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
