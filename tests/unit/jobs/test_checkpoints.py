"""The newest checkpoint of a job, and what may be removed of one that ended."""

from pathlib import Path

from jobs.checkpoints import newest_checkpoint, remove_checkpoints


def checkpoint(folder: Path, job_id: str, number: int, *, complete: bool = True) -> Path:
    path = folder / job_id / f"chk-{number}"
    path.mkdir(parents=True)
    for name in ("shared", "taskowned"):
        (folder / job_id / name).mkdir(exist_ok=True)
    (path / "state").write_bytes(b"12345")
    if complete:
        (path / "_metadata").write_bytes(b"123")
    return path


def test_the_newest_is_the_highest_number_that_is_complete(tmp_path: Path) -> None:
    checkpoint(tmp_path, "a", 9)
    newest = checkpoint(tmp_path, "a", 10)
    checkpoint(tmp_path, "a", 11, complete=False)
    checkpoint(tmp_path, "b", 12)
    found = newest_checkpoint(tmp_path, "a")
    assert found is not None
    assert (found.path, found.size_bytes, found.savepoint) == (f"file:{newest}", 8, False)
    assert found.completed_ms == int((newest / "_metadata").stat().st_mtime * 1_000)


def test_a_job_that_is_unknown_or_never_ran_has_none(tmp_path: Path) -> None:
    checkpoint(tmp_path, "a", 1)
    assert newest_checkpoint(tmp_path, "b") is None
    assert newest_checkpoint(tmp_path, "") is None
    assert newest_checkpoint(tmp_path / "nowhere", "a") is None


def test_only_the_ended_jobs_go_and_nothing_that_newer_checkpoints_may_point_into(tmp_path: Path) -> None:
    for job_id in ("running", "ended", "shares"):
        checkpoint(tmp_path, job_id, 1)
    (tmp_path / "shares" / "shared" / "file").write_bytes(b"")
    remove_checkpoints(tmp_path, ["ended", "shares", "never was"])
    assert {path.name for path in tmp_path.iterdir()} == {"running", "shares"}
