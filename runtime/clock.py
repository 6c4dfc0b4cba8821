"""The clock, passed by hand so that a test or a replay can turn it."""

import time
from typing import Protocol


class Clock(Protocol):
    """Where the current time comes from."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def monotonic_ms(self) -> float:
        """Milliseconds that never run backwards, for durations."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        """Milliseconds that never run backwards, for durations."""
        return time.perf_counter_ns() / 1e6


class ManualClock:
    """A clock that stands still until it is turned; real code, for tests and for replay."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """The time it was last turned to."""
        return self._now_ms

    def monotonic_ms(self) -> float:
        """The same time, as a duration's end point."""
        return float(self._now_ms)

    def advance(self, by_ms: int) -> None:
        """Turn it forward."""
        self._now_ms += by_ms
