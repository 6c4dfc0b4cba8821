"""The stages of the request path, timed and counted under their names."""

from runtime.clock import Clock


class Stages:
    """One micro-batch on its way: milliseconds spent in each stage, and how much it let through.

    What is counted is what the stage yields: requests up to `route`, candidates up to `rank`, items after `select`,
    answers after `publish`. A stage that runs again, since its batch failed as a whole, adds to what it has.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.monotonic_ms()
        self.elapsed_ms: dict[str, float] = {}
        self.let_through: dict[str, int] = {}

    def done(self, stage: str, let_through: int) -> None:
        """Book the time since the last stage ended on `stage`."""
        now = self._clock.monotonic_ms()
        self.elapsed_ms[stage] = round(self.elapsed_ms.get(stage, 0.0) + now - self._since, 3)
        self.let_through[stage] = self.let_through.get(stage, 0) + let_through
        self._since = now
