"""Keeps the processes of the stack running: starts them, waits for them, restarts what dies, stops them all."""

import logging
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType

import psutil

from runtime.clock import Clock
from runtime.errors import HeadraceError, StackError
from runtime.lifecycle import StopSignal
from stack.layout import Layout
from stack.process import end, end_orphans, forget, launch, tail
from stack.service import Service
from stack.state import Condition, ServiceState, StackState, write_state

_LOG = logging.getLogger("headrace.supervisor")

TICK_S = 0.1
GRACE_S = 10.0
"""How long a process may take to end by itself: the worker publishes what it holds, Kafka closes its log."""
STEADY_MS = 30_000
"""A process that was ready this long before it died is started again at once; one that dies sooner waits longer and
longer, so that a lasting fault does not eat the machine."""
MAX_DELAY_MS = 10_000
PROBE_INTERVAL_MS = 2_000
"""Between two questions to a process that is ready."""
MISSES = 2
"""So many questions in a row without an answer: it hangs. One may be lost on a busy machine."""


def restart_delay_ms(quick_deaths: int) -> int:
    """Return how long to wait before the next start, after this many deaths in quick succession (1, 2, ...)."""
    return 0 if quick_deaths <= 1 else int(min(250 * 2 ** min(quick_deaths, 16), MAX_DELAY_MS))


@dataclass(slots=True)
class _Child:
    service: Service
    condition: Condition = "waiting"
    pid: int | None = None
    started_ms: int = 0
    since_ms: float = 0.0
    restarts: int = 0
    quick_deaths: int = 0
    was_ready: bool = False
    answer: Future[bool] | None = None
    asked_ms: float = 0.0
    misses: int = 0

    def state(self) -> ServiceState:
        pid = self.pid if self.condition in ("starting", "ready") else None
        silent = self.condition == "ready" and self.misses >= MISSES
        condition: Condition = "not answering" if silent else self.condition
        return ServiceState(self.service.name, condition, self.service.address, pid, self.restarts)


class Supervisor:
    """Runs services for as long as it is entered; leaving it ends them all, the last started first.

    Its state is published in the state folder after every change. Not thread-safe.
    """

    def __init__(self, layout: Layout, stop: StopSignal, clock: Clock, start_timeout_s: float) -> None:
        self._layout = layout
        self._stop = stop
        self._clock = clock
        self._start_timeout_ms = start_timeout_s * 1_000
        self._children: list[_Child] = []
        # A probe may take seconds, which must hold up neither the others nor a restart.
        self._probes = ThreadPoolExecutor(thread_name_prefix="probe")
        self._published = StackState()
        self._unpublished = False
        self._complete = False
        self._error: str | None = None

    def __enter__(self) -> "Supervisor":
        self._publish()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, HeadraceError):
            _LOG.error("%s", error)
        elif error is not None:
            _LOG.error("the supervisor failed", exc_info=error)
        for child in reversed(self._children):
            self._end(child)
        self._probes.shutdown()
        self._error = None if error is None else str(error)
        self._complete = False
        self._publish()

    def start(self, services: Sequence[Service]) -> None:
        """Start `services` together and return when all are ready, or once told to stop (then nothing is started).

        Raises `StackError`, with the end of the log, for the first that dies or is not ready in time.
        """
        if self._stop.stopping:
            return
        started = [_Child(service) for service in services]
        self._children.extend(started)
        for child in started:
            self._launch(child)
        while any(child.condition != "ready" for child in started):
            self._tick()
            if self._stop.wait(TICK_S):
                return

    def watch(self) -> None:
        """Everything is started: keep it running until told to stop."""
        self._complete = True
        while not self._stop.wait(TICK_S):
            self._tick()

    def _tick(self) -> None:
        for child in self._children:
            self._advance(child)
        self._publish()

    def _advance(self, child: _Child) -> None:
        now = self._clock.monotonic_ms()
        if child.condition == "restarting":
            if now >= child.since_ms + restart_delay_ms(child.quick_deaths):
                self._relaunch(child)
            return
        ending = _ending(child.pid)
        if ending is not None:
            assert child.pid is not None
            end_orphans(child.pid)
            self._died(child, ending)
        elif child.condition == "starting":
            if child.service.probe(child.started_ms):
                child.condition, child.since_ms, child.was_ready = "ready", now, True
                child.answer, child.asked_ms, child.misses = None, now, 0
                _LOG.info("%s is ready", child.service.name)
            elif now > child.since_ms + self._start_timeout_ms:
                last_words = tail(self._layout.log_of(child.service.name))  # before those of its shutdown
                self._end(child)
                self._died(child, f"was not ready within {self._start_timeout_ms / 1_000:.0f} s", last_words)
        else:
            self._ask(child, now)

    def _ask(self, child: _Child, now: float) -> None:
        """Ask a process that is ready whether it still answers, and take note of the answer at a later turn."""
        if child.answer is not None and child.answer.done():
            child.misses = 0 if child.answer.result() else child.misses + 1
            child.answer = None
            if child.misses == MISSES:
                _LOG.warning("%s (pid %s) does not answer", child.service.name, child.pid)
        if child.answer is None and now >= child.asked_ms + PROBE_INTERVAL_MS:
            child.answer, child.asked_ms = self._probes.submit(child.service.probe, child.started_ms), now

    def _died(self, child: _Child, how: str, last_words: str | None = None) -> None:
        name, now = child.service.name, self._clock.monotonic_ms()
        forget(self._layout, name)
        if not child.was_ready:
            child.condition = "failed"
            log = self._layout.log_of(name)
            raise StackError(f"{name} {how}; the end of {log}:\n{last_words or tail(log)}")
        steady = child.condition == "ready" and now - child.since_ms >= STEADY_MS
        child.quick_deaths = 1 if steady else child.quick_deaths + 1
        child.restarts += 1
        child.condition, child.since_ms = "restarting", now
        _LOG.warning("%s (pid %s) %s; restart %d", name, child.pid, how, child.restarts)

    def _launch(self, child: _Child) -> None:
        service = child.service
        if service.ready_file is not None:
            service.ready_file.unlink(missing_ok=True)
        child.started_ms = self._clock.now_ms()
        child.pid = launch(self._layout, service.name, service.argv, service.env)
        child.condition, child.since_ms = "starting", self._clock.monotonic_ms()
        _LOG.info("%s started, pid %d", service.name, child.pid)

    def _relaunch(self, child: _Child) -> None:
        try:
            self._launch(child)
        except OSError as error:
            # A full disk, say: no reason to end what still runs.
            child.quick_deaths += 1
            child.since_ms = self._clock.monotonic_ms()
            _LOG.error("%s cannot be started: %s; trying again", child.service.name, error)

    def _end(self, child: _Child) -> None:
        if child.condition not in ("starting", "ready"):
            return
        assert child.pid is not None
        if _ending(child.pid) is None:
            end(psutil.Process(child.pid), GRACE_S)
        forget(self._layout, child.service.name)
        child.condition = "stopped"
        self._publish()
        _LOG.info("%s stopped", child.service.name)

    def _publish(self) -> None:
        state = StackState(tuple(child.state() for child in self._children), self._complete, self._error)
        if state == self._published:
            return
        try:
            write_state(self._layout, state)
        except OSError as error:
            if not self._unpublished:
                _LOG.error("the state cannot be published: %s; trying again at every turn", error)
            self._unpublished = True
        else:
            self._published = state
            self._unpublished = False


def _ending(pid: int | None) -> str | None:
    """Say how our child `pid` ended, or return None if it still runs."""
    assert pid is not None
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return "is gone"
    if found == 0:
        return None
    code = os.waitstatus_to_exitcode(status)
    return f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
