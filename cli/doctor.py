"""`headrace doctor`: what is wrong with this machine and how to mend it."""

import typer

from cli.context import load
from cli.plain import plain


def doctor(context: typer.Context) -> None:
    """Check Python, packages, Java, ports, disk, memory and CUDA; exit with 1 if something must be mended."""
    from rich.console import Console
    from rich.table import Table

    from stack.doctor import examine

    checks = examine(load(context))
    table = Table("check", "", "found", "to mend it")
    for check in checks:
        mark = "[green]OK[/]" if check.remedy is None else "[red]problem[/]"
        table.add_row(plain(check.name), mark, plain(check.found), plain(check.remedy or ""))
    Console().print(table)
    if any(check.remedy for check in checks):
        raise typer.Exit(1)
