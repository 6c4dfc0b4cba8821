"""The embedded parts as real processes: start, crash, restart, stop."""

import os
import signal
from collections.abc import Callable, Iterator

import psutil
import pytest

from runtime.config import Config
from runtime.errors import StackError
from runtime.kafka.topics import create_topics
from schemas.topics import TOPICS
from stack.control import PARTS_ONLY, SUPERVISOR, down, read_status, up
from stack.flink import flink_overview
from stack.kafka import kafka_answers
from stack.layout import Layout
from stack.process import every_recorded, recorded
from stack.redis import redis_answers
from stack.state import ServiceState

Eventually = Callable[..., None]

pytestmark = pytest.mark.stack

IDLE_LIMIT_BYTES = 1.5 * 1024**3
"""Of the parts alone; with our own processes the stack has to stay below 2.5 GB."""


@pytest.fixture(scope="module")
def parts(new_config: Callable[..., Config], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Config]:
    # A name that configuration files, class paths and Java's idea of the locale could each stumble over.
    config = new_config(state_dir=tmp_path_factory.mktemp("the stäte"))
    up(config, PARTS_ONLY)
    yield config
    down(config, wipe=True)


def service(config: Config, name: str) -> ServiceState:
    return next(each for each in read_status(config).services if each.name == name)


def is_alive(process: psutil.Process) -> bool:
    # One that nobody has waited for yet is still listed, as a zombie.
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def kill(config: Config, name: str) -> None:
    process = recorded(Layout.of(config), name)
    assert process is not None
    process.kill()


def test_every_part_answers_where_the_configuration_says(parts: Config) -> None:
    assert kafka_answers(parts.kafka)
    assert redis_answers(parts.redis)
    overview = flink_overview(parts.flink)
    assert overview["taskmanagers"] == 1
    assert overview["slots-total"] >= 4
    assert read_status(parts).ready


def test_everything_listens_on_loopback_only(parts: Config) -> None:
    bound = {
        connection.laddr.ip
        for process in every_recorded(Layout.of(parts)).values()
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert bound
    assert bound <= {"127.0.0.1", "::ffff:127.0.0.1"}


def test_the_idle_parts_leave_room_for_our_own_processes(parts: Config) -> None:
    resident = [process.memory_info().rss for process in every_recorded(Layout.of(parts)).values()]
    assert len(resident) == 5
    assert sum(resident) < IDLE_LIMIT_BYTES


def test_up_twice_changes_nothing(parts: Config) -> None:
    before = read_status(parts)
    assert up(parts, PARTS_ONLY) == before
    assert read_status(parts) == before


def test_up_with_another_configuration_says_what_runs(parts: Config) -> None:
    other = parts.model_copy(update={"metrics_port": 12_345})
    with pytest.raises(StackError, match="another configuration"):
        up(other, PARTS_ONLY)
    assert read_status(parts).ready


def test_topics_are_created_once_and_survive_a_killed_broker(parts: Config, eventually: Eventually) -> None:
    assert set(create_topics(parts.kafka, TOPICS)) == {topic.name for topic in TOPICS}
    restarts = service(parts, "kafka").restarts
    kill(parts, "kafka")
    eventually(lambda: service(parts, "kafka").restarts == restarts + 1, "the death is noticed")
    eventually(lambda: read_status(parts).ready, "the broker is back")
    assert create_topics(parts.kafka, TOPICS) == []


@pytest.mark.parametrize("name", ["redis", "taskmanager", "jobmanager"])
def test_a_killed_part_comes_back(parts: Config, eventually: Eventually, name: str) -> None:
    restarts = service(parts, name).restarts
    kill(parts, name)
    eventually(lambda: service(parts, name).restarts == restarts + 1, "the death is noticed")
    eventually(lambda: read_status(parts).ready, f"{name} is back")
    eventually(lambda: (flink_overview(parts.flink) or {}).get("taskmanagers") == 1, "one TaskManager is registered")


def test_a_part_that_hangs_is_shown_and_left_running(parts: Config, eventually: Eventually) -> None:
    before = service(parts, "redis")
    process = recorded(Layout.of(parts), "redis")
    assert process is not None
    process.suspend()
    try:
        eventually(lambda: service(parts, "redis").condition == "not answering", "it is noticed")
        assert not read_status(parts).ready
    finally:
        process.resume()
    eventually(lambda: read_status(parts).ready, "it answers again")
    assert service(parts, "redis") == before


def test_down_ends_what_a_killed_supervisor_left_and_up_starts_anew(parts: Config) -> None:
    layout = Layout.of(parts)
    started = every_recorded(layout)
    supervisor = recorded(layout, SUPERVISOR)
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    supervisor.wait()
    orphans = {name: process for name, process in started.items() if name != SUPERVISOR}
    assert all(is_alive(process) for process in orphans.values())
    assert {each.condition for each in read_status(parts).services} == {"unsupervised"}
    # Starting over the orphans must end them first: they hold the ports.
    assert up(parts, PARTS_ONLY).ready
    assert not any(is_alive(process) for process in orphans.values())
    assert create_topics(parts.kafka, TOPICS) == []

    again = every_recorded(layout)
    kill(parts, SUPERVISOR)
    assert set(down(parts)) == {"taskmanager", "jobmanager", "redis", "kafka"}
    assert not any(is_alive(process) for process in again.values())
    assert read_status(parts).services == ()
