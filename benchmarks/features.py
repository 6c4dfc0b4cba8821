"""Everything that builds, keeps and reads features, each part against a floor or a peer beside it in the same run.

Starts and stops real Kafka, Flink and Redis as the parts need them, one after the other.
"""

import sys
from importlib import import_module

from rich.console import Console

from benchmarks.feature_rows import Rows
from benchmarks.harness import parse_options, report
from benchmarks.running import Failed

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
    """Measure part by part and report all of them together; what one part could not do takes nothing from the rest."""
    what = "Features: how fast they are built, kept and read, and whether they are right."
    options = parse_options("features", what, PARTS)
    console = Console(stderr=True)
    found, failed = Rows([], {}), list[str]()
    for part in options.parts:
        console.print(f"{part} ...", highlight=False)
        try:
            measured: Rows = import_module(f"benchmarks.feature_rows.{part}").measure(options)
        except Failed as failure:
            console.print(f"{part} failed: {failure}", highlight=False)
            failed.append(part)
        else:
            found.results.extend(measured.results)
            found.ratios.update(measured.ratios)
    if found.results:
        report("features", options, {"quick": options.quick, "parts": options.parts}, found.results, found.ratios)
    if failed:
        sys.exit(f"not measured: {', '.join(failed)}")


if __name__ == "__main__":
    main()
