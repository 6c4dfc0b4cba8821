"""What is remembered of each Flink job between two clusters: one small JSON file a job, and its compiled plan."""

import fcntl
import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from runtime.files import write_atomically

_LOG = logging.getLogger("headrace.jobs")

Wish = Literal["run", "stop", "rebuild"]
"""What the operator wants of a job; `rebuild` is `run` without the state that there is."""


class Snapshot(msgspec.Struct, frozen=True):
    """A job's state at one moment: a completed checkpoint, which Flink deletes when it has newer ones, or a savepoint,
    which is the operator's. `size_bytes` is 0 where it is not known."""

    path: str
    completed_ms: int
    size_bytes: int
    savepoint: bool = False


class JobRecord(msgspec.Struct, frozen=True):
    """What is known of one job.

    `fingerprint` and `landmark_ms` belong to the state in `snapshot` and to the compiled plan. `job_id` is that of the
    last submission, from the state at `restored_from` (empty: from the log); `ended` are earlier
    ones whose folders of checkpoints may still be there.
    """

    wish: Wish = "run"
    fingerprint: str = ""
    landmark_ms: int = 0
    job_id: str = ""
    restored_from: str = ""
    snapshot: Snapshot | None = None
    ended: tuple[str, ...] = ()


class JobRecords:
    """The records in one folder. Several processes may change them: each change is made on what is there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> JobRecord:
        """Return the record of job `name`; an empty one if there is none, or, with a log line, if it is damaged."""
        file = self._folder / f"{name}.json"
        try:
            return msgspec.json.decode(file.read_bytes(), type=JobRecord)
        except FileNotFoundError:
            return JobRecord()
        except msgspec.DecodeError as error:
            _LOG.error("%s is damaged (%s); %s starts as if it never ran", file, error, name)
            return JobRecord()

    def update(self, name: str, change: Callable[[JobRecord], JobRecord]) -> JobRecord:
        """Replace the record of `name` by `change` of it and return that; nobody else changes it meanwhile."""
        with self._alone():
            before = self.read(name)
            after = change(before)
            if after != before:
                write_atomically(self._folder / f"{name}.json", msgspec.json.format(msgspec.json.encode(after)))
        return after

    def deployment(self) -> str:
        """Return the name, made up at the first call, by which jobs of this folder are told from anybody else's."""
        file = self._folder / "deployment"
        with self._alone():
            if not file.is_file():
                write_atomically(file, uuid.uuid4().hex.encode())
            return file.read_text()

    def plan_file(self, name: str) -> Path:
        """Return where the compiled plan lies that the state of `name` belongs to."""
        return self._folder / f"{name}.plan.json"

    def write_plan(self, name: str, plan: str) -> None:
        """Keep `plan`, the JSON of a compiled plan, as that of `name`."""
        write_atomically(self.plan_file(name), plan.encode())

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def begun_anew(record: JobRecord, fingerprint: str, landmark_ms: int, *, refused: bool = False) -> JobRecord:
    """Return `record` without its state, as it is before a job that reads the log from its beginning.

    If the state was `refused`, no checkpoint that there is now will ever be removed: somebody may still be able to
    bring the state back.
    """
    return JobRecord(
        wish="run" if record.wish == "rebuild" else record.wish,
        fingerprint=fingerprint,
        landmark_ms=landmark_ms,
        ended=() if refused else _with_last(record),
    )


def submitted(record: JobRecord, job_id: str, restored_from: str) -> JobRecord:
    """Return `record` once the cluster has accepted its job as `job_id`."""
    return msgspec.structs.replace(record, job_id=job_id, restored_from=restored_from, ended=_with_last(record))


def stopped(record: JobRecord, state: Snapshot | None) -> JobRecord:
    """Return `record` once its job has ended with `state`."""
    return msgspec.structs.replace(record, job_id="", snapshot=state, ended=_with_last(record))


def _with_last(record: JobRecord) -> tuple[str, ...]:
    return (*record.ended, record.job_id) if record.job_id else record.ended
