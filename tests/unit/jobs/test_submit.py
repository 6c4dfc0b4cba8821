"""Which state a job goes on from."""

import msgspec
import pytest

from jobs.job_state import JobRecord, Snapshot
from jobs.submit import refuses_state, usable_state

REMEMBERED = Snapshot("file:/c/a/chk-4", completed_ms=4, size_bytes=1)
FOUND = Snapshot("file:/c/a/chk-5", completed_ms=5, size_bytes=1)
RECORD = JobRecord(fingerprint="f1" * 32, job_id="a", snapshot=REMEMBERED)


def test_a_job_goes_on_from_what_is_remembered_or_from_a_newer_checkpoint_that_was_found() -> None:
    assert usable_state(RECORD, RECORD.fingerprint, None) == (REMEMBERED, "")
    assert usable_state(RECORD, RECORD.fingerprint, FOUND) == (FOUND, "")


def test_a_changed_program_cannot_use_the_state_and_both_fingerprints_are_named() -> None:
    state, why = usable_state(RECORD, "f2" * 32, FOUND)
    assert state is None
    assert "f1f1f1f1 is now f2f2f2f2" in why


def test_without_state_or_when_it_is_not_wanted_the_job_begins_with_the_log() -> None:
    assert usable_state(JobRecord(), "f1", None) == (None, "it has no state yet")
    rebuild = msgspec.structs.replace(RECORD, wish="rebuild")
    assert usable_state(rebuild, RECORD.fingerprint, FOUND) == (None, "so it was asked for")


RESTORING = (
    "java.lang.Exception: it broke\n\tat a.CheckpointCoordinator.restoreSavepoint(CheckpointCoordinator.java:1)\n"
)


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        (f"{RESTORING}Caused by: java.io.FileNotFoundException: Cannot find meta data file '_metadata'", True),
        ("x: y\nCaused by: java.io.FileNotFoundException: Cannot find meta data file '_metadata'", False),
        (f"{RESTORING}Caused by: java.net.SocketTimeoutException: Read timed out", False),
    ],
)
def test_state_is_refused_for_a_lasting_cause_met_while_it_was_restored(trace: str, expected: bool) -> None:
    assert refuses_state(trace) is expected
