import importlib.metadata
import socket
from collections.abc import Callable

import pytest

import stack.doctor
from runtime.config import Config
from stack.doctor import Check, examine
from stack.ports import free_port

NewConfig = Callable[..., Config]


@pytest.fixture(autouse=True)
def _programs_that_print(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither Java nor torch is run here: the one is quick enough for integration tests only, the other for none."""
    monkeypatch.setattr(stack.doctor, "_output", lambda _command: "seen")


def by_name(config: Config) -> dict[str, Check]:
    return {check.name: check for check in examine(config)}


def test_a_machine_in_order_needs_no_mending(new_config: NewConfig) -> None:
    checks = by_name(new_config())
    assert {"Python", "packages", "Java", "jars", "memory", "disk", "state folder", "CUDA"} <= set(checks)
    assert {name: check for name, check in checks.items() if check.remedy and name not in ("memory", "disk")} == {}


def test_a_taken_port_is_named_with_the_setting_that_moves_it(new_config: NewConfig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check = by_name(new_config(redis={"url": f"redis://127.0.0.1:{port}/0"}))[f"port {port} (redis)"]
    assert check.found == "in use"
    assert check.remedy is not None
    assert "--set redis.url=redis://127.0.0.1:" in check.remedy


def test_a_part_that_runs_elsewhere_must_answer(new_config: NewConfig) -> None:
    address = f"127.0.0.1:{free_port()}"
    check = by_name(new_config(kafka={"bootstrap_servers": address}, stack={"parts": []}))["your kafka"]
    assert check.found == f"{address} is silent"
    assert check.remedy == "start it, correct its address, or add kafka to stack.parts"


def test_the_address_of_an_external_part_is_shown_without_its_credentials(new_config: NewConfig) -> None:
    port = free_port()
    config = new_config(
        redis={"url": f"redis://:SECRET@127.0.0.1:{port}/0"},
        flink={"rest_url": f"http://me:SECRET@127.0.0.1:{port}"},
        stack={"parts": []},
    )
    checks = by_name(config)
    assert checks["your redis"].found == f"redis://127.0.0.1:{port}/0 is silent"
    assert checks["your flink"].found == f"http://127.0.0.1:{port} is silent"


def test_an_address_that_the_embedded_part_cannot_have_is_reported(new_config: NewConfig) -> None:
    check = by_name(new_config(kafka={"bootstrap_servers": "10.1.2.3:9092"}))["addresses"]
    assert "listens on 127.0.0.1 only" in check.found
    assert check.remedy is not None


def test_java_that_does_not_run_is_a_problem_and_a_missing_gpu_is_none(
    new_config: NewConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack.doctor, "_output", lambda _command: "")
    checks = by_name(new_config())
    assert checks["Java"].remedy is not None
    assert checks["CUDA"] == Check("CUDA", "not seen; models run on the CPU")


def test_a_package_of_another_version_than_needed_is_named(
    new_config: NewConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.metadata.distribution

    class Old:
        version = "5.0"
        requires = ()

    monkeypatch.setattr("stack.doctor.distribution", lambda name: Old if name == "redis" else real(name))
    check = by_name(new_config())["packages"]
    assert "redis is 5.0, headrace needs >=5.2" in check.found
    assert check.remedy is not None
