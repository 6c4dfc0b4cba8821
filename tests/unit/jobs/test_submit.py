"""Which state a job goes on from."""

import msgspec

from jobs.job_state import JobRecord, Snapshot
from jobs.submit import usable_state

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
