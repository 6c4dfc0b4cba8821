"""A plain Redis client, as an operator would use redis-cli."""

from typing import Any

from redis import Redis

from runtime.config import RedisConfig


def redis_client(config: RedisConfig) -> Any:
    """Return a client of the stack's Redis."""
    return Redis.from_url(config.url, socket_timeout=10)
