import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.config import Config
from stack.kafka import kafka_service
from stack.layout import Layout
from stack.ports import embedded_addresses
from stack.redis import redis_service

NewConfig = Callable[..., Config]


def test_kafka_listens_on_loopback_and_keeps_its_data_in_the_state_folder(new_config: NewConfig) -> None:
    config = new_config(kafka={"bootstrap_servers": "127.0.0.1:29092"}, stack={"kafka_heap_mb": 200})
    layout = Layout.of(config)
    # As after a first start, so that the folder is not formatted here.
    (layout.folder("kafka", "data") / "meta.properties").touch()
    service = kafka_service(config, layout, embedded_addresses(config)[0])
    lines = (layout.root / "kafka" / "server.properties").read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    controller = settings["controller.quorum.voters"].removeprefix("1@")
    assert settings["listeners"] == f"PLAINTEXT://127.0.0.1:29092,CONTROLLER://{controller}"
    assert controller.startswith("127.0.0.1:")
    assert settings["log.dirs"] == str(layout.root / "kafka" / "data")
    assert settings["message.max.bytes"] == str(4 * 1024**2)
    assert settings["auto.create.topics.enable"] == "false"
    assert "-Xmx200m" in service.argv


def test_redis_listens_on_loopback_and_keeps_its_data_in_the_state_folder(new_config: NewConfig) -> None:
    config = new_config(redis={"url": "redis://127.0.0.1:26379/3"})
    layout = Layout.of(config)
    service = redis_service(config, layout, embedded_addresses(config)[1])
    lines = (layout.root / "redis" / "redis.conf").read_text().splitlines()
    assert {"bind 127.0.0.1", "port 26379", f'dir "{layout.root / "redis"}"', "appendonly yes"} <= set(lines)
    assert service.argv[1] == str(layout.root / "redis" / "redis.conf")


@pytest.mark.parametrize("name", ["a b", "ü", 'a "b" \\ c#d'])
def test_a_state_folder_may_have_any_name(new_config: NewConfig, tmp_path: Path, name: str) -> None:
    config = new_config(state_dir=tmp_path / name)
    layout = Layout.of(config)
    (layout.folder("kafka", "data") / "meta.properties").touch()
    broker, store = embedded_addresses(config)[:2]
    kafka_service(config, layout, broker)
    redis_service(config, layout, store)
    folder = next(
        line.removeprefix("dir ")
        for line in (layout.root / "redis" / "redis.conf").read_text().splitlines()
        if line.startswith("dir ")
    )
    assert shlex.split(folder) == [str(layout.root / "redis")]
    properties = (layout.root / "kafka" / "server.properties").read_bytes()
    # Java reads the file as Latin-1 and then resolves the escapes.
    assert properties.isascii()
    data = next(line for line in properties.splitlines() if line.startswith(b"log.dirs="))
    assert data.removeprefix(b"log.dirs=").decode("unicode_escape") == str(layout.root / "kafka" / "data")


def test_an_address_is_shown_without_its_credentials(new_config: NewConfig) -> None:
    config = new_config(redis={"url": "redis://me:SECRET@127.0.0.1:26379/0"})
    service = redis_service(config, Layout.of(config), embedded_addresses(config)[1])
    assert service.address == "redis://127.0.0.1:26379/0"
