"""The feature store in this process's memory: for tests, for replay, and for a run without Redis."""

from collections.abc import Sequence

from features.store import Stored, Write
from runtime.clock import Clock


class MemoryStore:
    """Keeps every value until it expires by `clock`; the same contract as `RedisStore`."""

    def __init__(self, ttl_s: int, clock: Clock) -> None:
        self._ttl_ms = ttl_s * 1_000
        self._clock = clock
        self._kept: dict[str, tuple[Write, int]] = {}

    def get_many(self, keys: Sequence[str]) -> list[Stored | None]:
        """Return what each key holds, None where it is absent, deleted or expired."""
        return [self._get(key) for key in keys]

    def put_many(self, writes: Sequence[Write]) -> int:
        """Apply `writes` in order and return how many took effect."""
        return sum(self._put(write) for write in writes)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _live(self, key: str) -> Write | None:
        write, expires_ms = self._kept.get(key, (None, 0))
        if write is not None and expires_ms <= self._clock.now_ms():
            del self._kept[key]
            return None
        return write

    def _get(self, key: str) -> Stored | None:
        write = self._live(key)
        if write is None or write.value is None:
            return None
        return Stored(write.value, write.partition, write.offset)

    def _put(self, write: Write) -> bool:
        held = self._live(write.key)
        if held is not None and not write.supersedes(held):
            return False
        self._kept[write.key] = (write, self._clock.now_ms() + self._ttl_ms)
        return True
