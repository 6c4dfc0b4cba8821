"""What an operator does with jobs: list, stop with a savepoint, let run again, rebuild.

Wishes are left in the jobs' records; the process `headrace run jobs` carries them out, and heeds them from then on.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from jobs.cluster import (
    Identity,
    Job,
    begin_stop,
    cancel,
    identity_of,
    latest_checkpoint,
    require_identity,
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
    jobs = require_jobs(config.flink)
    views = []
    for name in PROGRAMS:
        record = records_of(config).read(name)
        job = _own(config, name, record, jobs)
        identity = None if job is None else identity_of(config.flink, job.jid)
        checkpoint = None if job is None else latest_checkpoint(config.flink, job.jid)
        views.append(JobView(name, record, job, identity, checkpoint or record.snapshot))
    return views


def stop_job(config: Config, name: str, clock: Clock, on_wait: OnWait) -> Stopped:
    """Stop program `name`: with a savepoint, or, if it is not running in full, at its last checkpoint.

    From now on the keeper leaves it alone. Raises `ConfigError` for an unknown name, and `StackError` if Flink does not
    answer or cannot write the savepoint; the job then goes on, and what was wished of it before still is.
    """
    require_programs([name])
    records = records_of(config)
    wished: list[Wish] = []

    def stopping(record: JobRecord) -> JobRecord:
        wished.append(record.wish)
        return msgspec.structs.replace(record, wish="stop")

    def as_before(record: JobRecord) -> JobRecord:
        # Unless somebody has changed their mind meanwhile.
        return msgspec.structs.replace(record, wish=wished[0]) if record.wish == "stop" else record

    # The wish comes first: the keeper must neither bring back a job that has just ended nor start one that is not seen.
    record = records.update(name, stopping)
    try:
        job = _own(config, name, record, require_jobs(config.flink))
        if job is None:
            return Stopped(name, ran=False, state=record.snapshot)
        state = _ended(config, job, record, clock, on_wait)
    except BaseException:
        records.update(name, as_before)
        raise
    records.update(name, lambda record: stopped(record, state))
    return Stopped(name, ran=True, state=state)


def let_run(
    config: Config, names: Sequence[str], clock: Clock, on_wait: OnWait, *, from_log: bool = False
) -> list[JobView]:
    """Have each of `names` run and return them once they do.

    They go on from their state, or, `from_log`, are replaced by jobs that rebuild it from the log. Raises `ConfigError`
    for an unknown name, and `StackError` if Flink does not answer or they do not run within `stack.start_timeout_s`.
    """
    require_programs(names)
    replaced = {job.jid for job in require_jobs(config.flink)} if from_log else set()
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


def _own(config: Config, name: str, record: JobRecord, jobs: Iterable[Job]) -> Job | None:
    """Return that of `jobs` which runs program `name` for us: the one remembered, else one with our mark."""
    named = [job for job in jobs if job.name == name]
    for job in named:
        if job.jid == record.job_id:
            return job
    deployment = records_of(config).deployment()
    for job in named:
        identity = require_identity(config.flink, job.jid)
        if identity is not None and identity.deployment == deployment:
            return job
    return None


def _ended(config: Config, job: Job, record: JobRecord, clock: Clock, on_wait: OnWait) -> Snapshot | None:
    """End `job` and return its state."""
    if job.running:
        on_wait(f"{job.name} writes its savepoint")
        return _savepoint(config, job, clock)
    on_wait(f"{job.name} is not running in full; it is ended at its last checkpoint")
    state = latest_checkpoint(config.flink, job.jid) or record.snapshot
    cancel(config.flink, job.jid)
    return state


def _savepoint(config: Config, job: Job, clock: Clock) -> Snapshot:
    request_id = begin_stop(config.flink, job.jid, savepoint_folder(config))
    deadline_ms = clock.monotonic_ms() + STOP_TIMEOUT_MS
    while (path := stop_result(config.flink, job.jid, request_id)) is None:
        if clock.monotonic_ms() > deadline_ms:
            raise StackError(f"no savepoint of {job.name} after {STOP_TIMEOUT_MS // 1_000} s; the job goes on")
        time.sleep(POLL_S)
    return Snapshot(path, clock.now_ms(), 0, savepoint=True)
