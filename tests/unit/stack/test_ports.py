import socket
from collections.abc import Callable

import pytest

from runtime.config import Config
from runtime.errors import StackError
from stack.ports import INTERNAL_PORTS, embedded_addresses, free_port, is_free, require_free


def test_a_port_that_someone_listens_on_is_named_with_a_way_out(new_config: Callable[..., Config]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        config = new_config(kafka={"bootstrap_servers": f"127.0.0.1:{port}"})
        with pytest.raises(StackError, match=rf"port {port} for kafka .*--set kafka.bootstrap_servers=127.0.0.1:"):
            require_free(embedded_addresses(config))


def test_the_suggested_address_is_another_port(new_config: Callable[..., Config]) -> None:
    config = new_config(kafka={"bootstrap_servers": "localhost:9092"}, redis={"url": "redis://127.0.0.1:60000/0"})
    kafka, redis, _ = embedded_addresses(config)
    assert (kafka.port, kafka.example) == (9_092, "127.0.0.1:19092")
    assert (redis.port, redis.example) == (60_000, "redis://127.0.0.1:50000/0")


def test_two_parts_on_one_port_are_refused(new_config: Callable[..., Config]) -> None:
    port = free_port()
    config = new_config(kafka={"bootstrap_servers": f"127.0.0.1:{port}"}, redis={"url": f"redis://127.0.0.1:{port}/0"})
    with pytest.raises(StackError, match=f"kafka.bootstrap_servers and redis.url both name port {port}"):
        require_free(embedded_addresses(config))


@pytest.mark.parametrize(
    ("sections", "text"),
    [
        ({"kafka": {"bootstrap_servers": "10.0.0.5:9092"}}, "listens on 127.0.0.1 only"),
        ({"kafka": {"bootstrap_servers": "127.0.0.1:1,127.0.0.1:2"}}, "names several brokers"),
        ({"kafka": {"bootstrap_servers": "127.0.0.1:99999"}}, "is not an address"),
        ({"redis": {"url": "redis://127.0.0.1/0"}}, "has no port"),
        ({"redis": {"url": "unix:///run/redis.sock"}}, "listens on 127.0.0.1 only"),
        ({"flink": {"rest_url": "http://flink.example.org:8081"}}, "listens on 127.0.0.1 only"),
    ],
)
def test_an_address_that_the_embedded_part_cannot_have_is_refused(
    new_config: Callable[..., Config], sections: dict[str, dict[str, str]], text: str
) -> None:
    with pytest.raises(StackError, match=text):
        embedded_addresses(new_config(**sections))


def test_the_port_of_the_metrics_is_checked_too_unless_they_are_off(new_config: Callable[..., Config]) -> None:
    parts: list[str] = []
    (address,) = embedded_addresses(new_config(metrics_port=9_108, stack={"parts": parts}))
    assert (address.key, address.port, address.example) == ("metrics_port", 9_108, "19108")
    assert embedded_addresses(new_config(metrics_port=0, stack={"parts": parts})) == []


def test_parts_that_run_elsewhere_may_be_anywhere(new_config: Callable[..., Config]) -> None:
    config = new_config(kafka={"bootstrap_servers": "a:1,b:2"}, stack={"parts": ["redis"]})
    assert [address.part for address in embedded_addresses(config)] == ["redis"]


def test_free_ports_are_outside_the_range_of_outgoing_connections() -> None:
    port = free_port()
    assert port in INTERNAL_PORTS
    assert is_free(port)
