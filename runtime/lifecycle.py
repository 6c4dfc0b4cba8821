"""How a long-running process says that it is ready, and how it is told to stop."""

import gc
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

READY_VARIABLE = "HEADRACE_READY_FILE"


class StopSignal:
    """Set by SIGTERM, SIGINT or SIGHUP; a loop asks `stopping` once per turn and then finishes what it holds."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def listen(self) -> "StopSignal":
        """Take over SIGTERM, SIGINT and, unless it is ignored, SIGHUP; only in the main thread of a process."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
            signal.signal(signal.SIGHUP, self._on_signal)
        return self

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._event.set()

    def stop(self) -> None:
        """Ask the loop to stop, as a signal would."""
        self._event.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s`; return whether the loop should stop."""
        return self._event.wait(timeout_s)

    @property
    def stopping(self) -> bool:
        """Whether the loop should stop."""
        return self._event.is_set()


def say_ready() -> None:
    """Tell the supervisor, if there is one, that this process is up and does its work."""
    path = os.environ.get(READY_VARIABLE)
    if path:
        Path(path).write_text(str(os.getpid()), encoding="ascii")


def settle_memory() -> None:
    """Take everything that lives now out of the reach of the cyclic garbage collector.

    Call it after loading what stays: a full collection walks every object of a model and a catalogue, which stopped a
    worker for 200 ms at a time. What is dropped later is still freed, unless it is part of a reference cycle.
    """
    gc.freeze()


def log_to_stderr(level: int = logging.INFO) -> None:
    """Send all logging to stderr, one line a record; the supervisor appends it to the process's log file."""
    logging.basicConfig(
        stream=sys.stderr, level=level, format="%(asctime)s %(levelname)s %(name)s %(message)s", force=True
    )
