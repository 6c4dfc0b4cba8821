"""Everything that builds, keeps and reads features, each part against a floor or a peer beside it in the same run.

Starts and stops real Kafka, Flink and Redis as the parts need them, one after the other.
"""

from importlib import import_module

from rich.console import Console

from benchmarks.feature_rows import Rows
from benchmarks.harness import parse_options, report

PARTS = (
    "user_record",
    "item_statistics",
    "vectors",
    "freshness",
    "read_side",
    "gate",
    "materializer",
    "parity",
    "state_size",
)
"""The modules of `benchmarks.feature_rows`, in the order in which they run."""


def main() -> None:
    """Measure every part and report all of them together."""
    options = parse_options("features", "Features: how fast they are built, kept and read, and whether they are right.")
    console = Console(stderr=True)
    found = Rows([], {})
    for part in PARTS:
        console.print(f"{part} ...", highlight=False)
        measured: Rows = import_module(f"benchmarks.feature_rows.{part}").measure(options)
        found.results.extend(measured.results)
        found.ratios.update(measured.ratios)
    report("features", options, {"quick": options.quick, "parts": len(PARTS)}, found.results, found.ratios)


if __name__ == "__main__":
    main()
