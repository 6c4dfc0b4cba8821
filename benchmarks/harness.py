"""What every benchmark shares: its command line, its machine's description, its table and its JSON."""

import argparse
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psutil


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for on the command line."""

    quick: bool
    json: Path | None
    seed: int
    parts: tuple[str, ...] = ()
    """Those to measure, of a benchmark that has several."""


def parse_options(name: str, what: str, parts: Sequence[str] = ()) -> Options:
    """Read `[--quick] [--json FILE] [--seed N]`, and `[--only PART ...]` where there are `parts`."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=what)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, for a first look")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--seed", type=int, default=1)
    if parts:
        parser.add_argument("--only", nargs="+", choices=parts, default=parts, help="measure only these parts")
    given = parser.parse_args()
    return Options(given.quick, given.json, given.seed, tuple(given.only) if parts else ())


def report(
    name: str,
    options: Options,
    sizes: Mapping[str, Any],
    results: list[dict[str, Any]],
    ratios: Mapping[str, float],
) -> None:
    """Print the results as a table and write {name, machine, seed, sizes, results, ratios} if a file was given."""
    from rich.console import Console
    from rich.table import Table

    machine = {
        "cpu": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "python": platform.python_version(),
    }
    console = Console()
    console.print(f"{name}: {machine}, seed {options.seed}, {dict(sizes)}", highlight=False)
    table = Table(*results[0])
    for row in results:
        table.add_row(*(f"{value:,.2f}" if isinstance(value, float) else str(value) for value in row.values()))
    console.print(table)
    for key, ratio in ratios.items():
        console.print(f"{key}: {ratio:.2f}", highlight=False)
    if options.json is not None:
        document = {
            "name": name,
            "machine": machine,
            "seed": options.seed,
            "sizes": dict(sizes),
            "results": results,
            "ratios": dict(ratios),
        }
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2))
