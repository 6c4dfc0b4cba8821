"""What the keeper decides about one program, given what is remembered of it and what the cluster runs."""

import msgspec
import pytest

from jobs.cluster import Identity, Job
from jobs.job_state import JobRecord, Wish
from jobs.keeper import Decision, decide

WANTED = Identity(fingerprint="f1", settings="s1")
SAME_AT_ANOTHER_PARALLELISM = Identity("f1", "s1", parallelism=4)
OTHER_SETTINGS = Identity("f1", "s2", parallelism=1)
OTHER_PROGRAM = Identity("f2", "s1", parallelism=1)
STRANGER = Identity("", "", parallelism=1)


def job(jid: str = "a", state: str = "RUNNING", running: int = 3, total: int = 3) -> Job:
    return Job(jid=jid, name="user-record", state=state, start_ms=0, tasks={"running": running, "total": total})


@pytest.mark.parametrize(
    ("state", "running", "expected"), [("RUNNING", 3, True), ("RUNNING", 2, False), ("RESTARTING", 0, False)]
)
def test_a_job_runs_when_all_its_tasks_do(state: str, running: int, expected: bool) -> None:
    assert job(state=state, running=running).running is expected


def test_what_does_not_run_is_started() -> None:
    assert decide(JobRecord(), WANTED, []).start


@pytest.mark.parametrize("state", ["RUNNING", "RESTARTING", "CREATED"])
def test_a_job_of_the_wanted_program_and_settings_is_kept(state: str) -> None:
    mine = job(state=state)
    decision = decide(JobRecord(), WANTED, [(mine, SAME_AT_ANOTHER_PARALLELISM)])
    assert (decision.keep, decision.end, decision.start) == (mine, (), False)


@pytest.mark.parametrize(
    ("identity", "why"),
    [(OTHER_SETTINGS, "last checkpoint"), (OTHER_PROGRAM, "from the log"), (STRANGER, "from the log")],
)
def test_a_job_of_another_program_or_settings_is_ended_first_and_the_reason_is_given(
    identity: Identity, why: str
) -> None:
    other = job()
    decision = decide(JobRecord(), WANTED, [(other, identity)])
    assert (decision.keep, decision.end, decision.start) == (None, (other,), False)
    assert decision.why.endswith(why)


def test_of_two_jobs_alike_one_is_ended() -> None:
    first, second = job("a"), job("b")
    decision = decide(JobRecord(), WANTED, [(first, WANTED), (second, WANTED)])
    assert (decision.keep, decision.end) == (first, (second,))


@pytest.mark.parametrize("state", ["CANCELLING", "FAILING"])
@pytest.mark.parametrize("identity", [WANTED, OTHER_PROGRAM])
@pytest.mark.parametrize("wish", ["run", "rebuild"])
def test_a_job_that_is_about_to_be_gone_is_waited_for(state: str, identity: Identity, wish: Wish) -> None:
    assert decide(JobRecord(wish=wish), WANTED, [(job(state=state), identity)]) == Decision()


def test_what_an_operator_stopped_is_left_alone_also_while_it_still_writes_its_savepoint() -> None:
    stopped = JobRecord(wish="stop")
    assert decide(stopped, WANTED, []) == Decision()
    assert decide(stopped, WANTED, [(job(), WANTED)]) == Decision()


def test_a_rebuild_ends_the_job_although_it_is_the_wanted_one_and_then_starts_it() -> None:
    rebuild = msgspec.structs.replace(JobRecord(), wish="rebuild")
    mine = job()
    assert decide(rebuild, WANTED, [(mine, WANTED)]).end == (mine,)
    assert not decide(rebuild, WANTED, [(mine, WANTED)]).start
    assert decide(rebuild, WANTED, []).start
