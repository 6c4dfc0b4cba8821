"""The rows of `benchmarks.features`: one module per part that is measured, each with `measure(options) -> Rows`."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Rows:
    """What one part measured: rows of the table, all with the keys `what`, `value` and `unit`, and its ratios."""

    results: list[dict[str, Any]]
    ratios: dict[str, float] = field(default_factory=dict)


def row(what: str, value: float, unit: str) -> dict[str, Any]:
    """Return one row of the table."""
    return {"what": what, "value": value, "unit": unit}
