"""The addresses of the embedded parts: read from the configuration, checked before anything starts."""

import errno
import random
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from runtime.addresses import without_credentials
from runtime.config import Config
from runtime.errors import StackError

LOOPBACK = "127.0.0.1"
INTERNAL_PORTS = range(20_000, 32_000)
"""Below the ports that Linux hands to outgoing connections (from 32768), so that none of those takes a port of ours
while its owner is being restarted."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a process of the stack listens: `key` is the configuration key that says so, `example` another value."""

    part: str
    key: str
    port: int
    example: str


def embedded_addresses(config: Config) -> list[Address]:
    """Return where the processes that we start will listen; raise `StackError` for an address that is not loopback."""
    addresses = []
    if "kafka" in config.stack.parts:
        servers = config.kafka.bootstrap_servers
        if "," in servers:
            raise StackError(
                f"kafka.bootstrap_servers = {servers!r} names several brokers, the embedded Kafka is one; give one "
                "address, or take kafka out of stack.parts to use your own cluster"
            )
        port = _port("kafka", "kafka.bootstrap_servers", f"//{servers}")
        addresses.append(Address("kafka", "kafka.bootstrap_servers", port, f"{LOOPBACK}:{_other(port)}"))
    if "redis" in config.stack.parts:
        port = _port("redis", "redis.url", config.redis.url)
        addresses.append(Address("redis", "redis.url", port, f"redis://{LOOPBACK}:{_other(port)}/0"))
    if "flink" in config.stack.parts:
        port = _port("flink", "flink.rest_url", config.flink.rest_url)
        addresses.append(Address("flink", "flink.rest_url", port, f"http://{LOOPBACK}:{_other(port)}"))
    if config.metrics_port:
        addresses.append(Address("worker", "metrics_port", config.metrics_port, str(_other(config.metrics_port))))
    return addresses


def require_free(addresses: list[Address]) -> None:
    """Raise `StackError` for the first port that someone listens on; the text says how to choose another."""
    seen: dict[int, Address] = {}
    for address in addresses:
        if address.port in seen:
            raise StackError(
                f"{seen[address.port].key} and {address.key} both name port {address.port}; "
                f"change one, for instance with --set {address.key}={address.example}"
            )
        seen[address.port] = address
        if not is_free(address.port):
            raise StackError(
                f"port {address.port} for {address.part} is in use; end what listens there, or choose another, for "
                f"instance with --set {address.key}={address.example} (to use a Kafka, Redis or Flink of your own, "
                "take it out of stack.parts)"
            )


def is_free(port: int) -> bool:
    """Return whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: connections that are still winding down do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
        return True


def free_port() -> int:
    """Return a loopback port that is free now."""
    for port in random.sample(INTERNAL_PORTS, 100):
        if is_free(port):
            return port
    raise StackError(f"no free port between {INTERNAL_PORTS.start} and {INTERNAL_PORTS.stop} in 100 tries")


def _port(part: str, key: str, url: str) -> int:
    value = without_credentials(url).removeprefix("//")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise StackError(f"{key} = {value!r} is not an address: {error}") from error
    if host not in (LOOPBACK, "localhost"):
        raise StackError(
            f"{key} = {value!r}: the embedded {part} listens on {LOOPBACK} only; use that, or take {part} out of "
            "stack.parts to use one that runs elsewhere"
        )
    if not port:
        raise StackError(f"{key} = {value!r} has no port; write it out, as in {LOOPBACK}:9092")
    return port


def _other(port: int) -> int:
    return port + 10_000 if port < 50_000 else port - 10_000
