"""`headrace status`: what runs, where, and whether it is ready."""

from typing import TYPE_CHECKING

import typer

from cli.context import load
from cli.plain import plain

if TYPE_CHECKING:
    from rich.table import Table

    from stack.state import StackState

_STYLES = {"ready": "green", "starting": "yellow", "restarting": "yellow", "waiting": "yellow"}


def status(context: typer.Context) -> None:
    """Show every process with its address; exit with 1 unless all are ready."""
    from rich.console import Console

    from stack.control import read_status

    config = load(context)
    state = read_status(config)
    if state.services:
        Console().print(table_of(state))
    else:
        print(f"nothing runs in {config.state_dir}; start it with `headrace up`")
    if not state.ready:
        raise typer.Exit(1)


def table_of(state: "StackState") -> "Table":
    """Return the processes of `state` as a table."""
    from rich.table import Table

    table = Table("process", "state", "address", "pid", "restarts")
    for service in state.services:
        table.add_row(
            plain(service.name),
            plain(service.condition, _STYLES.get(service.condition, "red")),
            plain(service.address),
            "" if service.pid is None else str(service.pid),
            str(service.restarts),
        )
    return table
