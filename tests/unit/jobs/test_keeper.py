"""What the keeper decides about one program, given what is remembered of it and what the cluster runs."""

import re
from collections.abc import Callable

import msgspec
import pytest

from jobs.cluster import Identity, Job
from jobs.job_state import JobRecord, Snapshot, Wish
from jobs.keeper import LOOK_EVERY_S, Decision, Keeper, decide
from jobs.programs import PROGRAMS
from jobs.submit import identity as identity_for
from jobs.submit import records_of
from runtime.config import Config
from runtime.lifecycle import StopSignal
from tests.unit.jobs.conftest import Cluster, carrying, overview

WANTED = Identity(fingerprint="f1", settings="s1", deployment="d1")
SAME_AT_ANOTHER_PARALLELISM = Identity("f1", "s1", "d1", parallelism=4)
OTHER_SETTINGS = Identity("f1", "s2", "d1", parallelism=1)
OTHER_PROGRAM = Identity("f2", "s1", "d1", parallelism=1)
OTHER_HEADRACE = Identity("f1", "s1", "d2", parallelism=1)
STRANGER = Identity("", "", "", parallelism=1)


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
    [(OTHER_SETTINGS, "last checkpoint"), (OTHER_PROGRAM, "from the log")],
)
def test_a_job_of_another_program_or_settings_is_ended_first_and_the_reason_is_given(
    identity: Identity, why: str
) -> None:
    other = job()
    decision = decide(JobRecord(), WANTED, [(other, identity)])
    assert (decision.keep, decision.end, decision.start) == (None, (other,), False)
    assert decision.why.endswith(why)


@pytest.mark.parametrize("wish", ["run", "rebuild"])
@pytest.mark.parametrize("identity", [OTHER_HEADRACE, STRANGER])
def test_a_job_of_the_same_name_that_is_not_ours_is_left_alone_and_none_is_started_beside_it(
    identity: Identity, wish: Wish
) -> None:
    theirs = job()
    assert decide(JobRecord(wish=wish, job_id="b"), WANTED, [(theirs, identity)]) == Decision(
        why=decide(JobRecord(wish=wish), WANTED, []).why, foreign=(theirs,)
    )


def test_our_job_is_kept_beside_one_that_is_not_ours() -> None:
    ours, theirs = job("a"), job("b")
    decision = decide(JobRecord(), WANTED, [(theirs, OTHER_HEADRACE), (ours, WANTED)])
    assert (decision.keep, decision.end, decision.foreign) == (ours, (), (theirs,))


def test_the_job_that_is_remembered_is_ours_whatever_it_carries() -> None:
    ours = job("a")
    assert decide(JobRecord(job_id="a"), WANTED, [(ours, STRANGER)]).end == (ours,)


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


@pytest.mark.filterwarnings("ignore::DeprecationWarning:pyflink")
def test_a_job_that_is_not_ours_is_said_to_be_in_the_way_once_and_is_not_cancelled(
    cluster: Cluster, new_config: Callable[..., Config], caplog: pytest.LogCaptureFixture
) -> None:
    config = new_config(flink={"rest_url": cluster.config.rest_url})
    for name in PROGRAMS:
        if name != "user-record":
            records_of(config).update(name, lambda record: msgspec.structs.replace(record, wish="stop"))
    cluster.answers["GET", "/jobs/overview"] = 200, overview(("theirs", "user-record", "RUNNING"))
    cluster.answers["GET", "/jobs/theirs/config"] = 200, carrying(OTHER_HEADRACE)
    keeper = Keeper(config, {}, StopSignal())
    assert [keeper.look(), keeper.look()] == [LOOK_EVERY_S] * 2
    assert {method for method, _ in cluster.asked} == {"GET"}
    (error,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert error.startswith("job theirs on this Flink is called user-record and is not ours")


@pytest.mark.filterwarnings("ignore::DeprecationWarning:pyflink")
@pytest.mark.parametrize(
    ("cause", "given_up"),
    [("java.io.FileNotFoundException: /c/a/chk-4/x", True), ("java.net.SocketTimeoutException: Read timed out", False)],
)
def test_state_is_given_up_for_a_lasting_cause_and_even_then_its_files_are_not_to_be_removed(
    cause: str,
    given_up: bool,
    cluster: Cluster,
    new_config: Callable[..., Config],
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = new_config(flink={"rest_url": cluster.config.rest_url})
    name = "user-record"
    state = Snapshot("file:/c/a/chk-4", completed_ms=4, size_bytes=1)
    known = JobRecord(fingerprint="f", job_id="b", restored_from=state.path, snapshot=state, ended=("a",))
    for each in PROGRAMS:
        records_of(config).update(each, lambda _: known if each == name else JobRecord(wish="stop"))  # noqa: B023
    cluster.answers["GET", "/jobs/overview"] = 200, overview(("b", name, "RESTARTING"))
    cluster.answers["GET", "/jobs/b/config"] = 200, carrying(identity_for(name, config))
    trace = f"java.lang.Exception: Exception while creating StreamOperatorStateContext.\nCaused by: {cause}"
    history = {"exceptionHistory": {"entries": [{"stacktrace": trace}] * 3}}
    cluster.answers["GET", "/jobs/b/exceptions?maxExceptions=3"] = 200, history
    Keeper(config, {}, StopSignal()).look()
    assert records_of(config).read(name) == (JobRecord() if given_up else known)
    assert (("PATCH", "/jobs/b?mode=cancel") in cluster.asked) is given_up
    said = re.search(r"cannot read its state file:/c/a/chk-4 \(.*\); .* what lies there is never removed", caplog.text)
    assert (said is not None) is given_up
