"""What is remembered of a job, and how it changes."""

import threading
from pathlib import Path

import msgspec
import pytest

from jobs.job_state import JobRecord, JobRecords, Snapshot, begun_anew, stopped, submitted

SAVEPOINT = Snapshot("file:/s/1", completed_ms=9, size_bytes=0, savepoint=True)
RUNNING = JobRecord(fingerprint="f", landmark_ms=5, job_id="a", snapshot=Snapshot("file:/c/a/1", 7, 8))


def test_a_record_is_what_was_made_of_it_and_empty_before(tmp_path: Path) -> None:
    records = JobRecords(tmp_path / "jobs")
    assert records.read("user-record") == JobRecord()
    assert records.update("user-record", lambda _: RUNNING) == RUNNING
    assert JobRecords(tmp_path / "jobs").read("user-record") == RUNNING
    assert records.read("leaderboards") == JobRecord()


def test_changes_of_several_processes_are_made_one_after_the_other(tmp_path: Path) -> None:
    def count_up() -> None:
        for _ in range(50):
            JobRecords(tmp_path).update(
                "user-record", lambda record: msgspec.structs.replace(record, landmark_ms=record.landmark_ms + 1)
            )

    threads = [threading.Thread(target=count_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert JobRecords(tmp_path).read("user-record").landmark_ms == 200


@pytest.mark.parametrize("content", [b"", b"{", b'{"wish": "sleep"}'])
def test_a_damaged_record_is_said_to_be_so_and_taken_as_empty(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "user-record.json").write_bytes(content)
    assert JobRecords(tmp_path).read("user-record") == JobRecord()
    assert "user-record.json is damaged" in caplog.text


def test_a_stopped_job_keeps_its_savepoint_and_its_folder_is_to_be_tidied_away() -> None:
    after = stopped(RUNNING, SAVEPOINT)
    assert (after.snapshot, after.job_id, after.ended) == (SAVEPOINT, "", ("a",))
    assert (after.fingerprint, after.landmark_ms) == ("f", 5)


def test_a_new_submission_keeps_the_state_it_began_with_until_it_has_its_own() -> None:
    after = submitted(RUNNING, "b", restored_from="file:/c/a/1")
    assert (after.job_id, after.restored_from, after.ended) == ("b", "file:/c/a/1", ("a",))
    assert after.snapshot == RUNNING.snapshot


def test_beginning_anew_forgets_the_state_and_fulfils_the_wish_to_rebuild_but_not_the_wish_to_stop() -> None:
    rebuild = msgspec.structs.replace(RUNNING, wish="rebuild")
    assert begun_anew(rebuild, "g", 20) == JobRecord(wish="run", fingerprint="g", landmark_ms=20, ended=("a",))
    stop = msgspec.structs.replace(RUNNING, wish="stop")
    assert begun_anew(stop, "g", 20).wish == "stop"


def test_no_checkpoint_from_before_a_refusal_is_ever_tidied_away() -> None:
    restored = msgspec.structs.replace(RUNNING, job_id="b", ended=("a",))
    after = begun_anew(restored, "g", 20, refused=True)
    assert (after.snapshot, after.job_id, after.ended) == (None, "", ())
    assert submitted(after, "c", restored_from="").ended == ()


def test_a_folders_deployment_has_a_name_of_its_own_that_stays(tmp_path: Path) -> None:
    name = JobRecords(tmp_path / "one").deployment()
    assert len(name) == 32
    assert JobRecords(tmp_path / "one").deployment() == name
    assert JobRecords(tmp_path / "other").deployment() != name
