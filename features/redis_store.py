"""The feature store in Redis.

A value is stored as `<partition> <offset> <payload>`, a tombstone as `<partition> <offset>`: one string, so
that one MGET reads a micro-batch whole and `redis-cli get` shows where a value comes from.
"""

import logging
import re
from collections.abc import Sequence
from typing import cast

from redis import Redis
from redis.exceptions import NoScriptError, RedisError, ResponseError

from features.store import Stored, Write
from runtime.addresses import without_credentials
from runtime.config import RedisConfig
from runtime.errors import StoreUnavailable

_LOG = logging.getLogger("headrace.store")

_TOMBSTONE = re.compile(rb"-?\d+ \d+")

# 40 bytes hold both numbers at their longest (64 bits); the payload is not fetched only to be compared.
_GUARDED_SETS = """
local written = 0
for i, key in ipairs(KEYS) do
  local partition, offset = string.match(redis.call('GETRANGE', key, 0, 39), '^(%-?%d+) (%d+)')
  if partition ~= ARGV[3 * i - 1] or tonumber(offset) <= tonumber(ARGV[3 * i]) then
    redis.call('SET', key, ARGV[3 * i + 1], 'EX', ARGV[1])
    written = written + 1
  end
end
return written
"""

PATIENT_TIMEOUT_MS = 5_000
"""For those on whom no request waits: a Redis that is busy should not be asked twice."""

KEYS_PER_CALL = 100
"""One call of the script for many keys costs the client a third of one call each; no other client waits for more than
half a millisecond."""


class RedisStore:
    """Connects at the first call, and again by itself after an outage; safe to share between threads.

    A call is tried once: whoever asked decides whether waiting is worth it.
    """

    def __init__(self, config: RedisConfig, *, timeout_ms: int | None = None) -> None:
        timeout_s = (timeout_ms or config.timeout_ms) / 1_000
        # A Unix socket connects at once or not at all: its connection class knows no timeout for it.
        connect = {} if config.url.startswith("unix:") else {"socket_connect_timeout": timeout_s}
        self._redis = Redis.from_url(config.url, socket_timeout=timeout_s, **connect)
        self._shown = without_credentials(config.url)
        self._ttl_s = config.ttl_s
        self._sha: str | None = None

    def get_many(self, keys: Sequence[str]) -> list[Stored | None]:
        """Return what each key holds, None where it is absent, deleted or expired; one MGET."""
        if not keys:
            return []
        try:
            # The client takes three times as long to encode a text.
            values = cast("list[bytes | None]", self._redis.mget([key.encode() for key in keys]))
        except RedisError as error:
            raise self._unavailable(error) from error
        return [_unpacked(value) for value in values]

    def put_many(self, writes: Sequence[Write]) -> int:
        """Apply `writes` in order and return how many took effect; one round trip."""
        if not writes:
            return 0
        try:
            replies = self._run(writes)
            if any(isinstance(reply, NoScriptError) for reply in replies):
                # A restarted Redis has forgotten its scripts; what did take effect is only written again.
                self._sha = None
                replies = self._run(writes)
            for reply in replies:
                if isinstance(reply, RedisError):
                    raise reply
        except RedisError as error:
            raise self._unavailable(error) from error
        return sum(cast("list[int]", replies))

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()

    def _run(self, writes: Sequence[Write]) -> list[object]:
        sha = self._sha = self._sha or cast("str", self._redis.script_load(_GUARDED_SETS))
        # No MULTI: each key is guarded by itself, and a transaction would hold up the readers for all of it.
        pipeline = self._redis.pipeline(transaction=False)
        for start in range(0, len(writes), KEYS_PER_CALL):
            part = writes[start : start + KEYS_PER_CALL]
            arguments = [each for write in part for each in (write.partition, write.offset, _packed(write))]
            pipeline.evalsha(sha, len(part), *(write.key for write in part), self._ttl_s, *arguments)  # type: ignore[arg-type]
        return cast("list[object]", pipeline.execute(raise_on_error=False))

    def _unavailable(self, error: RedisError) -> StoreUnavailable:
        if isinstance(error, ResponseError):
            return StoreUnavailable(f"Redis at {self._shown} refuses: {error}; if it is full, raise its maxmemory")
        return StoreUnavailable(f"Redis at {self._shown} does not answer: {error}; is it up? (headrace status)")


def _packed(write: Write) -> bytes:
    head = b"%d %d" % (write.partition, write.offset)
    return head if write.value is None else head + b" " + write.value


def _unpacked(packed: bytes | None) -> Stored | None:
    if packed is None:
        return None
    try:
        partition, offset, value = packed.split(b" ", 2)
        return Stored(value, int(partition), int(offset))
    except ValueError:
        if not _TOMBSTONE.fullmatch(packed):
            _LOG.warning("a value in Redis was written by another program: %r", packed[:80])
        return None
