"""Jobs as the cluster's REST interface shows them, and what it can be asked to do with them."""

import http
import re
from typing import Any

import msgspec

from jobs.job_state import Snapshot
from runtime.config import FlinkConfig
from runtime.errors import StackError
from stack.flink import flink_answer, flink_overview

ASK_TIMEOUT_S = 10.0
"""For an answer that somebody waits for; a busy JobManager may take seconds."""

_ENDED = frozenset({"FAILED", "CANCELED", "FINISHED"})
_FINGERPRINT = "headrace.fingerprint"
_SETTINGS = "headrace.settings"
_DEPLOYMENT = "headrace.deployment"

_RESTORING = "StreamOperatorStateContext"
"""In the stack trace of a task that failed because it could not read the state it was to begin with."""
_RESTORE_FAILURES = 3
"""So many in a row, over some seconds."""

_LASTING = re.compile(
    r"FileNotFoundException(?!.*(?:Permission denied|Too many open files))|NoSuchFileException"  # it is gone
    r"|Unexpected magic number|java\.io\.EOFException$|StreamCorruptedException"  # it is damaged
    r"|Cannot map (?:checkpoint/savepoint state|operator)|StateMigrationException|InvalidClassException"  # another's
)
"""In the root cause of a restore that fails however often it is tried: the state is gone, damaged or another program's.

What a network, a store of objects or a full disk does passes, and a cause that nobody knows yet may."""


class Job(msgspec.Struct, frozen=True, rename={"start_ms": "start-time"}):
    """One job as the JobManager's overview shows it; `start_ms` in epoch milliseconds."""

    jid: str
    name: str
    state: str
    start_ms: int
    tasks: dict[str, int]

    @property
    def running(self) -> bool:
        """Whether every task of the job runs, so that no event waits for a restart."""
        return self.state == "RUNNING" and self.tasks["running"] == self.tasks["total"]

    @property
    def ending(self) -> bool:
        """Whether the job is about to be gone."""
        return self.state in ("CANCELLING", "FAILING")


class Identity(msgspec.Struct, frozen=True):
    """What a job carries with it: the fingerprint of its state, the digest of its settings, and whose it is.

    A job that no Headrace submitted has none of these.
    """

    fingerprint: str
    settings: str
    deployment: str
    parallelism: int = 0

    @property
    def program(self) -> str:
        """The program and its settings, in one word."""
        return f"{self.fingerprint}-{self.settings}"

    def parameters(self) -> str:
        """Return the value of `pipeline.global-job-parameters` from which `identity_of` reads this again."""
        marks = {_FINGERPRINT: self.fingerprint, _SETTINGS: self.settings, _DEPLOYMENT: self.deployment}
        return ",".join(f"{key}:{value}" for key, value in marks.items())

    def same_job(self, other: "Identity") -> bool:
        """Whether the two do the same with the same state for the same deployment, at whatever parallelism."""
        return (self.program, self.deployment) == (other.program, other.deployment)


def list_jobs(config: FlinkConfig) -> list[Job] | None:
    """Return the jobs that the cluster holds and has not ended; None if it does not answer."""
    answer = flink_overview(config, "/jobs/overview")
    if answer is None:
        return None
    return _alive(answer)


def require_jobs(config: FlinkConfig) -> list[Job]:
    """Return what `list_jobs` does; raises `StackError` if the cluster does not answer."""
    return _alive(_asked(config, "GET", "/jobs/overview", None))


def identity_of(config: FlinkConfig, job_id: str) -> Identity | None:
    """Return what job `job_id` carries; None if the cluster does not answer or does not know it."""
    answer = flink_overview(config, f"/jobs/{job_id}/config")
    return None if answer is None else _identity(answer)


def require_identity(config: FlinkConfig, job_id: str) -> Identity | None:
    """Return what `identity_of` does; raises `StackError` if the cluster does not answer."""
    status, answer = flink_answer(config, "GET", f"/jobs/{job_id}/config", timeout_s=ASK_TIMEOUT_S)
    return _identity(answer) if status == http.HTTPStatus.OK else None


def latest_checkpoint(config: FlinkConfig, job_id: str) -> Snapshot | None:
    """Return the last checkpoint that job `job_id` completed, as of some seconds ago, or None."""
    answer = flink_overview(config, f"/jobs/{job_id}/checkpoints") or {"latest": {"completed": None}}
    completed = answer["latest"]["completed"]
    if completed is None:
        return None
    return Snapshot(completed["external_path"], completed["latest_ack_timestamp"], completed["state_size"])


def cannot_restore(config: FlinkConfig, job_id: str) -> str | None:
    """Return why job `job_id` will never read its state, if that is why it failed the last few times; else None."""
    answer = flink_overview(config, f"/jobs/{job_id}/exceptions?maxExceptions={_RESTORE_FAILURES}")
    entries = [] if answer is None else answer["exceptionHistory"]["entries"][:_RESTORE_FAILURES]
    if len(entries) < _RESTORE_FAILURES or not all(_RESTORING in entry["stacktrace"] for entry in entries):
        return None
    reasons = [root_cause(entry["stacktrace"]) for entry in entries]
    return reasons[0] if all(map(is_lasting, reasons)) else None


def is_lasting(reason: str) -> bool:
    """Whether state that could not be restored for this root cause is gone, damaged or of another program."""
    return _LASTING.search(reason) is not None


def root_cause(stacktrace: str) -> str:
    """Return the innermost cause of a Java stack trace, one line."""
    lines = [line.strip() for line in stacktrace.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return causes[-1].removeprefix("Caused by: ") if causes else (lines or ["no reason given"])[0]


def cancel(config: FlinkConfig, job_id: str) -> None:
    """Ask the cluster to end job `job_id`, whose checkpoints stay; raises `StackError` if it does not answer."""
    flink_answer(config, "PATCH", f"/jobs/{job_id}?mode=cancel", timeout_s=ASK_TIMEOUT_S)


def begin_stop(config: FlinkConfig, job_id: str, folder: str) -> str:
    """Ask job `job_id` to write a savepoint under `folder` and end; return the request's id for `stop_result`.

    Raises `StackError` if the cluster does not answer or refuses.
    """
    wanted = {"targetDirectory": folder, "drain": False}
    return str(_asked(config, "POST", f"/jobs/{job_id}/stop", wanted)["request-id"])


def stop_result(config: FlinkConfig, job_id: str, request_id: str) -> str | None:
    """Return where the savepoint of a stopped job lies, or None as long as it is being written.

    Raises `StackError` if it could not be written; the job then goes on.
    """
    answer = _asked(config, "GET", f"/jobs/{job_id}/savepoints/{request_id}", None)
    if answer["status"]["id"] != "COMPLETED":
        return None
    operation = answer["operation"]
    if "location" not in operation:
        raise StackError(f"no savepoint: {root_cause(operation['failure-cause']['stack-trace'])}; the job goes on")
    return str(operation["location"])


def _alive(overview: Any) -> list[Job]:
    jobs = msgspec.convert(overview["jobs"], list[Job])
    return [job for job in jobs if job.state not in _ENDED]


def _identity(answer: Any) -> Identity | None:
    if "execution-config" not in answer:
        return None
    execution = answer["execution-config"]
    own = execution["user-config"]
    fingerprint, settings, deployment = (own.get(mark, "") for mark in (_FINGERPRINT, _SETTINGS, _DEPLOYMENT))
    return Identity(fingerprint, settings, deployment, execution["job-parallelism"])


def _asked(config: FlinkConfig, method: str, path: str, body: Any) -> Any:
    status, answer = flink_answer(config, method, path, body, timeout_s=ASK_TIMEOUT_S)
    if status not in (http.HTTPStatus.OK, http.HTTPStatus.ACCEPTED):
        errors = answer.get("errors") or ["no reason given"]
        raise StackError(f"Flink refuses {method} {path} with {status}: {root_cause(errors[-1])}")
    return answer
