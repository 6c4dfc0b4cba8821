"""Keeps every Flink program running: submits what the cluster does not run, and looks again every two seconds.

A standalone JobManager that is restarted has forgotten its jobs; this process gives them back, with their state
(`jobs/submit.py`). For that it remembers each job's last completed checkpoint. A job that runs with another program or
other settings than ours is replaced; one that an operator stopped is left alone (`headrace jobs stop`), and so is a job
of one of our names that somebody else submitted to the same cluster.
"""

import logging
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from jobs.checkpoints import remove_checkpoints
from jobs.cluster import Identity, Job, cancel, cannot_restore, identity_of, latest_checkpoint, list_jobs
from jobs.job_state import JobRecord, begun_anew
from jobs.programs import PROGRAMS
from jobs.submit import CHANGED, identity, records_of
from runtime.addresses import without_credentials
from runtime.config import CONFIG_VARIABLE, Config, write_config
from runtime.errors import StackError
from runtime.lifecycle import StopSignal, say_ready
from stack.layout import Layout

_LOG = logging.getLogger("headrace.jobs")

LOOK_EVERY_S = 2.0
HURRY_S = 0.2
"""Between two looks as long as something is on its way."""
RETRY_EVERY_S = 5.0
"""Between two submissions of which the first was not accepted: each costs a JVM."""


class Decision(NamedTuple):
    """What to do about one program: keep a job of it, end others of it, start it; `foreign` jobs have its name."""

    keep: Job | None = None
    end: tuple[Job, ...] = ()
    why: str = ""
    start: bool = False
    foreign: tuple[Job, ...] = ()


def decide(record: JobRecord, wanted: Identity, jobs: Sequence[tuple[Job, Identity]]) -> Decision:
    """Return what to do about the program `wanted`, of whose name the cluster runs `jobs`.

    Ours are the jobs of our deployment, and the one that the record is about. A program is started only once no job of
    its name is left, ours or not, so that two never write the same topic for long.
    """
    ours = [
        (job, carried) for job, carried in jobs if carried.deployment == wanted.deployment or job.jid == record.job_id
    ]
    every = tuple(job for job, _ in ours)
    foreign = tuple(job for job, _ in jobs if job not in every)
    if record.wish == "stop" or any(job.ending for job, _ in jobs):
        return Decision()
    if record.wish == "rebuild":
        return Decision(end=every, why="it is to be rebuilt from the log", start=not jobs, foreign=foreign)
    right = [job for job, carried in ours if carried.same_job(wanted)]
    if right:
        others = tuple(job for job in every if job is not right[0])
        return Decision(keep=right[0], end=others, why="another of its name runs", foreign=foreign)
    if any(carried.fingerprint == wanted.fingerprint for _, carried in ours):
        why = "its settings changed; it goes on from its last checkpoint"
    else:
        why = "its program or configuration changed; it is rebuilt from the log"
    return Decision(end=every, why=why, start=not jobs, foreign=foreign)


class Keeper:
    """Looks at the cluster, once per `look`, and acts; `client_environment` is what a Flink client needs to run."""

    def __init__(self, config: Config, client_environment: Mapping[str, str], stop: StopSignal) -> None:
        self._config = config
        # The client loads exactly our configuration, wherever ours came from.
        config_file = Layout.of(config).run / "jobs.toml"
        write_config(config, config_file)
        self._client_environment = dict(client_environment) | {CONFIG_VARIABLE: str(config_file)}
        self._stop = stop
        self._records = records_of(config)
        self._wanted = {name: identity(name, config) for name in PROGRAMS}
        self._identities: dict[str, Identity] = {}
        self._foreign: set[str] = set()
        self._state: Literal["unknown", "away", "ready"] = "unknown"

    def look(self) -> float:
        """Do what is to be done now; return how many seconds to wait before the next look.

        Raises `StackError` if the programs are no longer those that this process has read.
        """
        jobs = list_jobs(self._config.flink)
        if jobs is None:
            if self._state != "away":
                rest_url = without_credentials(self._config.flink.rest_url)
                _LOG.warning("no answer from Flink at %s; trying on", rest_url)
            self._state = "away"
            return LOOK_EVERY_S
        if self._state == "away":
            self._state = "unknown"
        known = self._identify([job for job in jobs if job.name in PROGRAMS])
        if known is None:
            return HURRY_S
        missing, kept = [], []
        waiting = blocked = False
        for name, wanted in self._wanted.items():
            record = self._records.read(name)
            decision = decide(record, wanted, [pair for pair in known if pair[0].name == name])
            self._end(decision.end, decision.why)
            self._complain(decision.foreign)
            if decision.keep is not None:
                self._note(decision.keep, wanted)
                kept.append(decision.keep)
            elif decision.start:
                missing.append(name)
            elif decision.foreign and not decision.end:
                blocked = True  # for as long as somebody lets it be; the other programs do not wait for that
            else:
                waiting = waiting or record.wish != "stop"
        if missing and not waiting:  # together: what a submission costs is the client
            self._state = "unknown"
            return HURRY_S if self._submit(missing) else RETRY_EVERY_S
        if not (missing or waiting or blocked) and all(job.running for job in kept):
            self._say_ready([job.name for job in kept])
        return HURRY_S if self._state == "unknown" and not blocked else LOOK_EVERY_S

    def _identify(self, jobs: list[Job]) -> list[tuple[Job, Identity]] | None:
        """Return what each of `jobs` carries, asking once per job; None if one of them does not say yet."""
        for job in jobs:
            if job.jid in self._identities:
                continue
            # As long as a job is being initialized the cluster says that it carries nothing.
            carried = None if job.state == "INITIALIZING" else identity_of(self._config.flink, job.jid)
            if carried is None:
                return None
            self._identities[job.jid] = carried
        return [(job, self._identities[job.jid]) for job in jobs]

    def _end(self, jobs: Sequence[Job], why: str) -> None:
        for job in jobs:
            _LOG.warning("ending %s (job %s): %s", job.name, job.jid, why)
            self._cancel(job)

    def _complain(self, foreign: Sequence[Job]) -> None:
        for job in foreign:
            if job.jid not in self._foreign:
                _LOG.error(
                    "job %s on this Flink is called %s and is not ours: it is left alone, and ours is not started"
                    " beside it; cancel it in Flink's web UI if nobody needs it, or give each Headrace a Flink of its"
                    " own (flink.rest_url)",
                    job.jid, job.name,
                )  # fmt: skip
        self._foreign.update(job.jid for job in foreign)

    def _cancel(self, job: Job) -> None:
        try:
            cancel(self._config.flink, job.jid)
        except StackError as error:
            _LOG.warning("%s; trying again", error)

    def _note(self, job: Job, wanted: Identity) -> None:
        """Remember the job and its last checkpoint, tidy up after earlier ones; give up state that cannot be read."""
        flink = self._config.flink
        if not job.running and (reason := cannot_restore(flink, job.jid)) is not None:
            known = self._records.read(job.name)
            path = known.restored_from if known.snapshot is None else known.snapshot.path
            _LOG.error(
                "%s cannot read its state %s (%s); it is rebuilt from the log, and what lies there is never removed",
                job.name, path, reason,
            )  # fmt: skip
            self._records.update(job.name, lambda record: begun_anew(record, "", 0, refused=True))
            self._cancel(job)
            return
        latest = latest_checkpoint(flink, job.jid)

        def noted(record: JobRecord) -> JobRecord:
            if record.wish != "run":  # an operator came in between
                return record
            if record.job_id != job.jid:
                record = msgspec.structs.replace(record, fingerprint=wanted.fingerprint, job_id=job.jid)
            return record if latest is None else msgspec.structs.replace(record, snapshot=latest, ended=())

        before = self._records.read(job.name)
        after = self._records.update(job.name, noted)
        if before.ended and not after.ended and "flink" in self._config.stack.parts:
            remove_checkpoints(Layout.of(self._config).root / "flink" / "checkpoints", before.ended)

    def _say_ready(self, names: list[str]) -> None:
        if self._state != "ready":
            stopped = [name for name in PROGRAMS if name not in names]
            _LOG.info("all jobs run: %s%s", ", ".join(names), f"; stopped: {', '.join(stopped)}" if stopped else "")
            say_ready()
        self._state = "ready"

    def _submit(self, names: list[str]) -> bool:
        _LOG.info("submitting %s", ", ".join(names))
        wanted = [f"{name}={self._wanted[name].program}" for name in names]
        client = subprocess.Popen(
            [sys.executable, "-m", "jobs.submit", *wanted], env=self._client_environment, stdin=subprocess.DEVNULL
        )
        while client.poll() is None:
            if self._stop.wait(0.1):
                client.terminate()
                client.wait()
                return False
        if client.returncode == CHANGED:
            # Without this the client's new program and our old one would replace each other for ever.
            raise StackError("the programs were replaced since this process was started; start it again")
        if client.returncode != 0:
            _LOG.error("submitting %s ended with status %d; trying again", ", ".join(names), client.returncode)
        return client.returncode == 0


def keep_jobs(config: Config, client_environment: Mapping[str, str], stop: StopSignal) -> None:
    """Keep all programs running until `stop`; `client_environment` is what a Flink client needs to find its parts.

    Raises `StackError` if the programs are replaced meanwhile; the supervisor starts it again, with the new ones.
    """
    keeper = Keeper(config, client_environment, stop)
    while not stop.stopping:
        stop.wait(keeper.look())
