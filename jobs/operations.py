"""What an operator does with jobs: list, stop with a savepoint, let run again, rebuild.

Wishes are left in the jobs' records; the process `headrace run jobs` carries them out, and heeds them from then on.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from jobs.cluster import (
    Identity,
    Job,
    begin_stop,
    cancel,
    identity_of,
    latest_checkpoint,
    require_jobs,
    stop_result,
)
from jobs.job_state import JobRecord, Snapshot, Wish, stopped
from jobs.programs import PROGRAMS, require_programs
from jobs.submit import records_of
from runtime.clock import Clock
from runtime.config import Config
from runtime.errors import StackError
from stack.layout import Layout

POLL_S = 0.2
STOP_TIMEOUT_MS = 120_000
"""For a savepoint: it is written while events still flow, the state of a million users within some seconds."""
OnWait = Callable[[str], None]
"""Told, whenever it changes, what is being waited for."""


@dataclass(frozen=True, slots=True)
class JobView:
    """One program, what is remembered of it, and its job if the cluster runs one."""

    name: str
    record: JobRecord
    job: Job | None
    identity: Identity | None
    checkpoint: Snapshot | None
    """The last that the running job completed, else the state that it would go on from."""

    @property
    def state(self) -> str:
        """The job's state in Flink's words; `STOPPED` by an operator, or `MISSING`: it should run and does not."""
        if self.job is not None:
            return self.job.state
        return "STOPPED" if self.record.wish == "stop" else "MISSING"


@dataclass(frozen=True, slots=True)
class Stopped:
    """One program that does not run any more: whether it ran until now, and the state that it would go on from."""

    name: str
    ran: bool
    state: Snapshot | None


def view_jobs(config: Config) -> list[JobView]:
    """Return every program in the order of the stream; raises `StackError` if Flink does not answer."""
    running = _running(config)
    views = []
    for name in PROGRAMS:
        record, job = records_of(config).read(name), running.get(name)
        identity = None if job is None else identity_of(config.flink, job.jid)
        checkpoint = None if job is None else latest_checkpoint(config.flink, job.jid)
        views.append(JobView(name, record, job, identity, checkpoint or record.snapshot))
    return views


def stop_jobs(config: Config, names: Sequence[str], clock: Clock, on_wait: OnWait) -> list[Stopped]:
    """Stop each of `names`: with a savepoint, or, if it is not running in full, at its last checkpoint.

    From now on the keeper leaves them alone. Raises `ConfigError` for an unknown name, before anything is stopped, and
    `StackError` if Flink does not answer or cannot write the savepoint; that job goes on.
    """
    require_programs(names)
    running = _running(config)
    return [_stop(config, name, running.get(name), clock, on_wait) for name in names]


def let_run(
    config: Config, names: Sequence[str], clock: Clock, on_wait: OnWait, *, from_log: bool = False
) -> list[JobView]:
    """Have each of `names` run and return them once they do.

    They go on from their state, or, `from_log`, are replaced by jobs that rebuild it from the log. Raises `ConfigError`
    for an unknown name, and `StackError` if Flink does not answer or they do not run within `stack.start_timeout_s`.
    """
    require_programs(names)
    replaced = {job.jid for job in _running(config).values()} if from_log else set()
    wish: Wish = "rebuild" if from_log else "run"
    for name in names:
        records_of(config).update(name, lambda record: msgspec.structs.replace(record, wish=wish))

    def started(view: JobView) -> bool:
        return view.job is not None and view.job.running and view.job.jid not in replaced

    deadline_ms = clock.monotonic_ms() + config.stack.start_timeout_s * 1_000
    while True:
        views = [view for view in view_jobs(config) if view.name in names]
        waiting = [view.name for view in views if not started(view)]
        if not waiting:
            return views
        if clock.monotonic_ms() > deadline_ms:
            raise StackError(
                f"{', '.join(waiting)}: not running after {config.stack.start_timeout_s} s; see whether the process "
                f"`headrace run jobs` runs (`headrace status`) and what {Layout.of(config).log_of('jobs')} says"
            )
        on_wait(f"waiting for {', '.join(waiting)}")
        time.sleep(POLL_S)


def savepoint_folder(config: Config) -> str:
    """Return where savepoints go, as Flink is told."""
    return config.flink.savepoint_dir or f"file://{Layout.of(config).root / 'flink' / 'savepoints'}"


def _running(config: Config) -> dict[str, Job]:
    return {job.name: job for job in require_jobs(config.flink)}


def _stop(config: Config, name: str, job: Job | None, clock: Clock, on_wait: OnWait) -> Stopped:
    records = records_of(config)
    # The wish comes first: the keeper must not bring back a job that has just ended.
    before = records.update(name, lambda record: msgspec.structs.replace(record, wish="stop"))
    if job is None:
        return Stopped(name, ran=False, state=before.snapshot)
    try:
        if job.running:
            on_wait(f"{name} writes its savepoint")
            state: Snapshot | None = _savepoint(config, job, clock)
        else:
            on_wait(f"{name} is not running in full; it is ended at its last checkpoint")
            state = latest_checkpoint(config.flink, job.jid) or before.snapshot
            cancel(config.flink, job.jid)
    except BaseException:
        records.update(name, lambda record: msgspec.structs.replace(record, wish="run"))
        raise
    records.update(name, lambda record: stopped(record, state))
    return Stopped(name, ran=True, state=state)


def _savepoint(config: Config, job: Job, clock: Clock) -> Snapshot:
    request_id = begin_stop(config.flink, job.jid, savepoint_folder(config))
    deadline_ms = clock.monotonic_ms() + STOP_TIMEOUT_MS
    while (path := stop_result(config.flink, job.jid, request_id)) is None:
        if clock.monotonic_ms() > deadline_ms:
            raise StackError(f"no savepoint of {job.name} after {STOP_TIMEOUT_MS // 1_000} s; the job goes on")
        time.sleep(POLL_S)
    return Snapshot(path, clock.now_ms(), 0, savepoint=True)
