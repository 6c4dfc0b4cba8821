"""The checkpoints of the embedded Flink, as files: which is a job's newest, and what is left of jobs that ended.

A cluster's JobManager tells only while it runs which checkpoint was completed last; what it completed after it was last
asked is found here. Nothing of this is needed, or possible, where checkpoints lie on another file system.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from jobs.job_state import Snapshot

_METADATA = "_metadata"
"""Written last, in one step: a checkpoint that has this file is complete."""


def newest_checkpoint(folder: Path, job_id: str) -> Snapshot | None:
    """Return the last completed checkpoint of job `job_id` under `folder`, or None if there is none."""
    complete = [path.parent for path in folder.glob(f"{job_id or '-'}/chk-*/{_METADATA}")]
    if not complete:
        return None
    newest = max(complete, key=lambda path: int(path.name.removeprefix("chk-")))
    files = [path.stat() for path in newest.iterdir()]
    completed_ms = int((newest / _METADATA).stat().st_mtime * 1_000)
    return Snapshot(f"file:{newest}", completed_ms, sum(file.st_size for file in files))


def remove_checkpoints(folder: Path, job_ids: Iterable[str]) -> None:
    """Remove the folders of these ended jobs; what newer checkpoints may still point into stays."""
    for job_id in job_ids:
        ended = folder / job_id
        if not any(path.is_file() for name in ("shared", "taskowned") for path in (ended / name).rglob("*")):
            shutil.rmtree(ended, ignore_errors=True)
