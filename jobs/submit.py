"""Submits Flink programs, each with the state that is remembered of it.

    python -m jobs.submit NAME[=PROGRAM]...

One process, hence one client JVM, for all of them: starting it is most of what a submission costs. Ends with status 1
if one of them was not accepted, and with `CHANGED`, submitting nothing, if a program is no longer the one given with it
(`Identity.program`): its files were replaced since whoever asks has read them.
"""

import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobs.checkpoints import newest_checkpoint
from jobs.cluster import Identity, cancel, is_lasting, root_cause
from jobs.flink_environment import table_environment
from jobs.job_state import JobRecord, JobRecords, Snapshot, begun_anew, submitted
from jobs.programs import PROGRAMS, fingerprint, require_programs, settings_digest
from runtime.clock import Clock, SystemClock
from runtime.config import Config, load_config
from runtime.lifecycle import log_to_stderr
from stack.layout import Layout

if TYPE_CHECKING:
    from pyflink.table import TableEnvironment, TableResult

_LOG = logging.getLogger("headrace.jobs")

CHANGED = 3

_REFUSED = "restoreSavepoint"
"""In the stack trace of a submission that failed because its state could not be restored."""


class StateRefused(Exception):
    """The cluster will never start the job with the state it was given."""


def main(arguments: Sequence[str]) -> None:
    """Submit the programs that `arguments` name, in that order."""
    wanted = {name: meant for name, _, meant in (argument.partition("=") for argument in arguments)}
    log_to_stderr()
    logging.getLogger("py4j").setLevel(logging.WARNING)
    require_programs(list(wanted))
    config = load_config()
    if any(meant not in ("", identity(name, config).program) for name, meant in wanted.items()):
        sys.exit(CHANGED)
    accepted = [submit(name, config, SystemClock()) for name in wanted]
    if not all(accepted):
        sys.exit(1)


def submit(name: str, config: Config, clock: Clock) -> bool:
    """Start program `name` from its state, or from the log if it has none of use; return whether it was accepted."""
    records = records_of(config)
    wanted = identity(name, config)
    record = records.read(name)
    state, why = usable_state(record, wanted.fingerprint, _newest(config, record))
    if state is None:
        _LOG.info("%s starts from the beginning of the log: %s", name, why)
    try:
        try:
            job_id = _execute(name, config, records, wanted, state, clock)
        except StateRefused as refusal:
            assert state is not None
            _LOG.error(
                "%s cannot go on from %s (%s); it is rebuilt from the log, and what lies there is never removed",
                name, state.path, refusal,
            )  # fmt: skip
            state = None
            job_id = _execute(name, config, records, wanted, None, clock, refused=True)
    except _java_error() as error:
        begun = "" if state is None else f" with its state {state.path}"
        _LOG.error("%s was not accepted%s: %s", name, begun, root_cause(str(error)))
        return False
    restored_from = "" if state is None else state.path
    after = records.update(name, lambda known: submitted(known, job_id, restored_from))
    _LOG.info("%s is job %s, %s", name, job_id, f"restored from {restored_from}" if state else "from the log")
    if after.wish == "stop":  # somebody stopped it while it was being started
        cancel(config.flink, job_id)
    return True


def usable_state(record: JobRecord, wanted: str, newest: Snapshot | None) -> tuple[Snapshot | None, str]:
    """Return the state that a job of fingerprint `wanted` goes on from; if None, also why.

    `newest` is the last checkpoint of the record's job that was found as files: never older than the remembered one.
    """
    state = newest or record.snapshot
    if record.wish == "rebuild":
        return None, "so it was asked for"
    if state is None:
        return None, "it has no state yet"
    if record.fingerprint != wanted:
        return None, f"its program or configuration changed ({record.fingerprint[:8]} is now {wanted[:8]})"
    return state, ""


def identity(name: str, config: Config) -> Identity:
    """Return what a job of program `name` carries when this configuration's keeper submits it."""
    return Identity(fingerprint(name, config), settings_digest(name, config), records_of(config).deployment())


def records_of(config: Config) -> JobRecords:
    """Return what is remembered of the jobs of this configuration's state folder."""
    return JobRecords(Layout.of(config).root / "flink" / "jobs")


def _newest(config: Config, record: JobRecord) -> Snapshot | None:
    if "flink" not in config.stack.parts:
        return None
    return newest_checkpoint(Layout.of(config).root / "flink" / "checkpoints", record.job_id)


def _execute(
    name: str,
    config: Config,
    records: JobRecords,
    wanted: Identity,
    state: Snapshot | None,
    clock: Clock,
    *,
    refused: bool = False,
) -> str:
    """Run the compiled plan of `name`, compiled now unless there is state, which belongs to an earlier plan.

    `refused`: there is state, and this job begins without it because it is of no use. Raises `StateRefused` if `state`
    is, and Java's error if the cluster does not accept the job for any other reason.
    """
    if state is not None and not records.plan_file(name).is_file():
        raise StateRefused(f"its compiled plan {records.plan_file(name)} is gone")
    environment = table_environment(config, name)
    settings = environment.get_config()
    settings.set("pipeline.global-job-parameters", wanted.parameters())
    # Tables by name alone: where Kafka is may change between two starts, and its credentials belong into no file.
    settings.set("table.plan.compile.catalog-objects", "IDENTIFIER")
    settings.set("table.plan.restore.catalog-objects", "IDENTIFIER")
    if state is None:
        landmark_ms = clock.now_ms()
        statements = environment.create_statement_set()
        for insert in PROGRAMS[name](environment, config, landmark_ms):
            statements.add_insert_sql(insert)
        plan = statements.compile_plan().as_json_string()
        records.update(name, lambda record: begun_anew(record, wanted.fingerprint, landmark_ms, refused=refused))
        records.write_plan(name, plan)
    else:
        PROGRAMS[name](environment, config, records.read(name).landmark_ms)
        settings.set("execution.state-recovery.path", state.path)
        # Flink deletes a checkpoint it took over once it has newer ones; a savepoint stays the operator's.
        settings.set("execution.state-recovery.claim-mode", "NO_CLAIM" if state.savepoint else "CLAIM")
    try:
        client = _run_plan(environment, records.plan_file(name).read_text()).get_job_client()
    except _java_error() as error:
        if state is None or not refuses_state(str(error)):
            raise
        raise StateRefused(root_cause(str(error))) from error
    return str(client.get_job_id())


def refuses_state(stacktrace: str) -> bool:
    """Whether a submission with this stack trace failed because its state is gone, damaged or of another program."""
    return _REFUSED in stacktrace and is_lasting(root_cause(stacktrace))


def _run_plan(environment: "TableEnvironment", plan: str) -> "TableResult":
    from pyflink.table import PlanReference
    from pyflink.table.compiled_plan import CompiledPlan

    loaded = environment.load_plan(PlanReference.from_json_string(plan))
    # PyFlink 2.2.1 hands a loaded plan the Java environment, with which it cannot be executed. By EXECUTE PLAN it
    # could, but from a file only whose path has no character that is escaped in a URL.
    return CompiledPlan(loaded._j_compiled_plan, environment).execute()


def _java_error() -> type[Exception]:
    from pyflink.util.exceptions import JavaException

    error: type[Exception] = JavaException
    return error


if __name__ == "__main__":
    main(sys.argv[1:])
