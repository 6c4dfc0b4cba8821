"""Keeps every Flink program running: submits what the cluster does not run, and looks again every two seconds.

A standalone JobManager that is restarted has forgotten its jobs; this process gives them back. A job without state
rebuilds it from the log, and readers ignore what is older than what they hold.
"""

import logging
import subprocess
import sys
from collections.abc import Mapping
from typing import Literal

import msgspec

from jobs.submit import PROGRAMS
from runtime.addresses import without_credentials
from runtime.config import Config, FlinkConfig
from runtime.lifecycle import StopSignal, say_ready
from stack.flink import flink_overview

_LOG = logging.getLogger("headrace.jobs")

LOOK_EVERY_S = 2.0

_ENDED = frozenset({"FAILED", "CANCELED", "FINISHED"})


class Job(msgspec.Struct, frozen=True):
    """One job as the JobManager's overview shows it."""

    jid: str
    name: str
    state: str
    tasks: dict[str, int]

    @property
    def running(self) -> bool:
        """Whether every task of the job runs, so that no event waits for a restart."""
        return self.state == "RUNNING" and self.tasks["running"] == self.tasks["total"]


def list_jobs(config: FlinkConfig) -> list[Job] | None:
    """Return the jobs that the cluster holds and has not ended; None if it does not answer."""
    answer = flink_overview(config, "/jobs/overview")
    if answer is None:
        return None
    jobs = msgspec.convert(answer["jobs"], list[Job])
    return [job for job in jobs if job.state not in _ENDED]


def missing_programs(jobs: list[Job]) -> list[str]:
    """Return the names of the programs that none of `jobs` is."""
    names = {job.name for job in jobs}
    return [name for name in PROGRAMS if name not in names]


def keep_jobs(config: Config, client_environment: Mapping[str, str], stop: StopSignal) -> None:
    """Submit what is missing until `stop`; `client_environment` is what a Flink client needs to find its parts."""
    state: Literal["unknown", "away", "ready"] = "unknown"
    while not stop.stopping:
        jobs = list_jobs(config.flink)
        missing = [] if jobs is None else missing_programs(jobs)
        if jobs is None:
            if state != "away":
                _LOG.warning("no answer from Flink at %s; trying on", without_credentials(config.flink.rest_url))
            state = "away"
        elif missing:
            _submit(missing, client_environment, stop)
            state = "unknown"
        elif state != "ready" and all(job.running for job in jobs if job.name in PROGRAMS):
            _LOG.info("all jobs run: %s", ", ".join(PROGRAMS))
            say_ready()
            state = "ready"
        stop.wait(0.2 if state == "unknown" else LOOK_EVERY_S)


def _submit(names: list[str], client_environment: Mapping[str, str], stop: StopSignal) -> None:
    _LOG.info("submitting %s", ", ".join(names))
    client = subprocess.Popen(
        [sys.executable, "-m", "jobs.submit", *names], env=dict(client_environment), stdin=subprocess.DEVNULL
    )
    while client.poll() is None:
        if stop.wait(0.1):
            client.terminate()
            client.wait()
            return
    if client.returncode != 0:
        _LOG.error("submitting %s ended with status %d; trying again", ", ".join(names), client.returncode)
