"""The fingerprint of a program's state: what changes it and what must not."""

from collections.abc import Callable
from typing import Any

import pytest

from jobs import programs
from jobs.programs import PROGRAMS, fingerprint, require_programs, settings_digest
from runtime.config import Config
from runtime.errors import ConfigError
from stack.flink import JOBS

# PyFlink warns of classes of its own when it is imported, which the user-embedding program does.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pyflink")

NewConfig = Callable[..., Config]

HERE = {"bootstrap_servers": "here:9092"}


def test_the_jobs_are_these_in_the_order_of_the_stream() -> None:
    assert list(PROGRAMS) == ["user-record", "item-statistics", "leaderboards", "user-embedding"]
    assert len(PROGRAMS) == JOBS  # for which the embedded Flink has slots


@pytest.mark.parametrize("name", PROGRAMS)
def test_where_kafka_is_and_how_the_job_runs_leave_the_state_alone(name: str, new_config: NewConfig) -> None:
    one = new_config(kafka={"java_client": {"security.protocol": "PLAINTEXT"}})
    other = new_config(
        kafka={"bootstrap_servers": "elsewhere:9092", "java_client": {"sasl.jaas.config": "it's; 'quoted'"}},
        flink={"parallelism": 3, "state_ttl_s": 5},
    )
    assert fingerprint(name, one) == fingerprint(name, other)
    assert settings_digest(name, one) != settings_digest(name, other)


@pytest.mark.parametrize(
    ("name", "section", "change"),
    [
        ("user-record", "features", {"record_events": 33}),
        ("item-statistics", "item_statistics", {"max_lateness_ms": 1}),
        ("leaderboards", "leaderboard", {"half_life_ms": 1}),
    ],
)
def test_what_the_program_computes_is_part_of_it(
    name: str, section: str, change: dict[str, Any], new_config: NewConfig
) -> None:
    assert fingerprint(name, new_config()) != fingerprint(name, new_config(**{section: change}))


def test_how_long_a_watermark_waits_is_a_setting_and_how_late_an_event_may_be_is_part_of_the_program(
    new_config: NewConfig,
) -> None:
    name, usual = "item-statistics", new_config(kafka=HERE)
    patient = new_config(kafka=HERE, item_statistics={"idle_after_ms": 1})
    assert fingerprint(name, usual) == fingerprint(name, patient)
    assert settings_digest(name, usual) != settings_digest(name, patient)
    assert settings_digest("user-record", usual) == settings_digest("user-record", patient)
    assert fingerprint(name, usual) != fingerprint(name, new_config(item_statistics={"max_lateness_ms": 1}))


def test_how_long_a_sink_collects_is_a_setting(new_config: NewConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    name, config = "item-statistics", new_config()

    def define(interval: str) -> programs.Define:
        def define(environment: Any, _config: Config, _landmark_ms: int) -> list[str]:
            environment.execute_sql(f"CREATE TABLE a (b STRING) WITH ('sink.buffer-flush.interval' = '{interval}')")
            return ["INSERT INTO a SELECT b FROM c"]

        return define

    monkeypatch.setitem(programs.PROGRAMS, name, define("1 s"))
    before = fingerprint(name, config), settings_digest(name, config)
    monkeypatch.setitem(programs.PROGRAMS, name, define("2 s"))
    assert fingerprint(name, config) == before[0]
    assert settings_digest(name, config) != before[1]


def test_what_the_python_function_is_given_and_does_concerns_its_own_program_alone(
    new_config: NewConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, tuned = new_config(kafka=HERE), new_config(kafka=HERE | {"client": {"socket.nagle.disable": True}})
    before = {name: settings_digest(name, usual) for name in PROGRAMS}
    assert [name for name in PROGRAMS if settings_digest(name, tuned) != before[name]] == ["user-embedding"]
    monkeypatch.setattr(programs, "_FUNCTION_CODE", programs._FUNCTION_CODE[1:])
    assert [name for name in PROGRAMS if settings_digest(name, usual) != before[name]] == ["user-embedding"]
    assert fingerprint("user-embedding", usual) == fingerprint("user-embedding", tuned)


def test_the_landmark_and_the_layout_of_a_statement_have_no_part_in_it(
    new_config: NewConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments: list[int] = []

    def define(environment: Any, _config: Config, landmark_ms: int) -> list[str]:
        moments.append(landmark_ms)
        environment.execute_sql("CREATE TABLE a (b STRING)" if len(moments) == 1 else "CREATE  TABLE a\n(b STRING)")
        return [f"INSERT INTO a SELECT {landmark_ms}"]

    monkeypatch.setitem(programs.PROGRAMS, "user-record", define)
    assert fingerprint("user-record", new_config()) == fingerprint("user-record", new_config())
    assert moments == [0, 0]


def test_an_unknown_name_is_refused_with_the_names_that_there_are() -> None:
    require_programs(["leaderboards", "user-record"])
    with pytest.raises(ConfigError, match=r"no job is called user-records, x; the jobs are user-record, item-stat"):
        require_programs(["user-records", "leaderboards", "x"])
