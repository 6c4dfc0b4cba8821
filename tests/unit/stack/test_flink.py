from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from runtime.config import Config
from runtime.errors import ConfigError
from stack.flink import flink_environment, flink_services
from stack.layout import Layout

NewConfig = Callable[..., Config]


def settings_of(layout: Layout) -> dict[str, Any]:
    file = Path(flink_environment(layout)["FLINK_CONF_DIR"]) / "config.yaml"
    tree: dict[str, Any] = YAML(typ="safe").load(file.read_text())
    return tree


@pytest.mark.parametrize("total_mb", [800, 1_024, 4_096])
def test_the_parts_of_the_taskmanagers_memory_add_up_to_what_was_asked_for(
    new_config: NewConfig, total_mb: int
) -> None:
    config = new_config(stack={"taskmanager_memory_mb": total_mb})
    layout = Layout.of(config)
    _, taskmanager = flink_services(config, layout)
    memory = {
        name.removeprefix("taskmanager.memory."): int(value.removesuffix("m"))
        for name, value in settings_of(layout).items()
        if name.startswith("taskmanager.memory.") and not name.endswith(".min")
    }
    assert sum(memory.values()) == total_mb
    heap = memory["task.heap.size"] + memory["framework.heap.size"]
    direct = memory["framework.off-heap.size"] + memory["task.off-heap.size"] + memory["network.max"]
    assert {f"-Xmx{heap}m", f"-XX:MaxDirectMemorySize={direct}m"} <= set(taskmanager.argv)


def test_a_parallelism_that_does_not_fit_into_the_memory_is_refused_with_what_it_takes(new_config: NewConfig) -> None:
    config = new_config(flink={"parallelism": 8}, stack={"taskmanager_memory_mb": 800})
    with pytest.raises(
        ConfigError, match=r"stack\.taskmanager_memory_mb = 800 .*flink\.parallelism = 8; set it to \d+ or more"
    ):
        flink_services(config, Layout.of(config))


def test_the_jobmanager_keeps_a_usable_heap_at_the_least_memory(new_config: NewConfig) -> None:
    config = new_config(stack={"jobmanager_memory_mb": 600})
    jobmanager, _ = flink_services(config, Layout.of(config))
    assert "-Xmx152m" in jobmanager.argv


def test_everything_listens_on_loopback_and_the_web_ui_on_the_configured_port(new_config: NewConfig) -> None:
    config = new_config(flink={"rest_url": "http://127.0.0.1:28081"})
    layout = Layout.of(config)
    flink_services(config, layout)
    settings = settings_of(layout)
    bound = {"jobmanager.bind-host", "taskmanager.bind-host", "taskmanager.host", "rest.bind-address", "rest.address"}
    assert {settings[name] for name in bound} == {"127.0.0.1"}
    assert (settings["rest.port"], settings["rest.bind-port"]) == (28_081, 28_081)
    assert settings["jobmanager.rpc.port"] != 6_123


def test_of_an_earlier_cluster_stays_what_its_jobs_go_on_from(new_config: NewConfig) -> None:
    config = new_config()
    layout = Layout.of(config)
    for name in ("web", "tmp", "blobs", "checkpoints", "savepoints", "jobs"):
        layout.folder("flink", name, "old")
    flink_services(config, layout)
    kept = {path.parent.name for path in (layout.root / "flink").glob("*/old")}
    assert kept == {"checkpoints", "savepoints", "jobs"}


@pytest.mark.parametrize(("parallelism", "expected"), [(1, 8), (2, 8), (4, 16)])
def test_there_are_slots_for_every_job(new_config: NewConfig, parallelism: int, expected: int) -> None:
    config = new_config(flink={"parallelism": parallelism})
    layout = Layout.of(config)
    flink_services(config, layout)
    assert settings_of(layout)["taskmanager.numberOfTaskSlots"] == expected


def test_the_class_path_has_the_connector_and_the_python_jar_and_nothing_of_an_earlier_version(
    new_config: NewConfig,
) -> None:
    config = new_config()
    layout = Layout.of(config)
    links = layout.folder("flink", "lib")
    (links / "flink-connector-kafka-0.1.jar").write_bytes(b"")
    flink_services(config, layout)
    names = {link.name for link in links.iterdir()}
    assert {"flink-connector-kafka-5.0.0-2.2.jar", "kafka-clients-4.2.0.jar", "flink-python-2.2.1.jar"} <= names
    assert "flink-connector-kafka-0.1.jar" not in names
